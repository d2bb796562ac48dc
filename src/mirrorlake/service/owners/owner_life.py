"""Whether the owner of a mirror is alive: somebody knocks, and a living owner answers with its next look.

An idle owner writes nothing, so nothing tells it from a dead one. It does look every few seconds whether it still is
the owner, by DescribeTransactions, and the same question tells it the epoch of one more transactional id, which is
there to be knocked at: InitProducerId on that id supersedes nobody. A living owner that finds another epoch there
writes its state record anew, and that is the answer. So a sign of life costs nothing while nobody asks for it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import structlog

from mirrorlake.clock import Clock
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import OwnerState, find_states, knock_id
from mirrorlake.errors import MirrorlakeError, TransientError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.together import all_of
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")

CHECK_SECONDS = 5.0
"""How often the owners are compared: a superseded process ends, and a knock is heard, within about a lease."""

ANSWER_SECONDS_MAX = CHECK_SECONDS + 3.0
"""A look begins every ``CHECK_SECONDS`` and takes a moment, as does the record. Spark starts meanwhile."""

ASK_AGAIN_SECONDS = 0.5
KNOCK_TIMEOUT_MS = 10_000
KNOCKS_AT_ONCE = 8


async def living_by_cluster(
    clients: WorkerCache, targets: Sequence[Target], *, clock: Clock
) -> dict[str, list[OwnerState]]:
    """Returns the mirrors of ``targets`` that somebody is alive to serve, by destination cluster; see `living_at`."""
    wanted = mirrors_by_cluster(targets)
    found = await all_of(living_at(clients, *each, clock=clock) for each in wanted.values())
    return {name: living for name, living in zip(wanted, found, strict=True) if living}


def mirrors_by_cluster(targets: Iterable[Target]) -> dict[str, tuple[ClusterSettings, set[str]]]:
    """Returns the mirrors of targets by the name of their destination cluster, with its settings."""
    found: dict[str, tuple[ClusterSettings, set[str]]] = {}
    for target in targets:
        if target.is_topic:
            settings = target.destination_cluster
            found.setdefault(settings.name, (settings, set()))[1].add(target.mirror.name)
    return found


async def living_at(
    clients: WorkerCache, settings: ClusterSettings, mirrors: set[str], *, clock: Clock
) -> list[OwnerState]:
    """Returns what `find_living` finds; nothing where it cannot find out, which is logged: never raises."""
    try:
        return await find_living(clients.client(settings), mirrors, clock=clock)
    except MirrorlakeError as error:
        _log.warning("not known who else serves the mirrors", cluster=settings.name, error=str(error))
        return []


async def find_living(client: ClusterClient, mirrors: Iterable[str], *, clock: Clock) -> list[OwnerState]:
    """Returns the state records of those mirrors whose owners give a sign of life. Supersedes nobody.

    An owner that has let go is not asked, and one that says nothing for ``ANSWER_SECONDS_MAX`` is taken for dead: its
    process, its network or this cluster is not well enough for it to go on. Versions that know of no knock say nothing.

    Args:
        client: of the destination cluster.
        mirrors: by name.
        clock: bounds the waiting.

    Raises:
        MirrorlakeError: the state records could not be read, or this user may not knock; nothing is known then.
    """
    before = await find_states(client)
    asked = {name: before[name] for name in mirrors if name in before and not before[name].is_released}
    if not asked:
        return []
    give_up_at = clock.elapsed_seconds() + ANSWER_SECONDS_MAX
    await _knock(client, sorted(asked), clock=clock, give_up_at=give_up_at)
    answered: dict[str, OwnerState] = {}
    while clock.elapsed_seconds() < give_up_at and len(answered) < len(asked):
        await asyncio.sleep(ASK_AGAIN_SECONDS)
        answered |= _answered(asked, await find_states(client))
    return list(answered.values())


def _answered(asked: Mapping[str, OwnerState], now: Mapping[str, OwnerState]) -> dict[str, OwnerState]:
    """Returns the records that were written since, and say that their owner goes on."""
    return {
        name: now[name]
        for name, state in asked.items()
        if name in now and now[name].written_at_ms != state.written_at_ms and not now[name].is_released
    }


async def _knock(client: ClusterClient, mirrors: Sequence[str], *, clock: Clock, give_up_at: float) -> None:
    limit = asyncio.Semaphore(KNOCKS_AT_ONCE)

    async def knock(mirror: str) -> None:
        async with limit:
            while True:
                try:
                    await client.init_producer_id(knock_id(mirror), transaction_timeout_ms=KNOCK_TIMEOUT_MS)
                except TransientError:  # such as a coordinator that moves
                    if clock.elapsed_seconds() > give_up_at:
                        raise
                    await asyncio.sleep(ASK_AGAIN_SECONDS)
                else:
                    return

    await all_of(knock(mirror) for mirror in mirrors)
