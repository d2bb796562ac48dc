"""What ``plan`` reads of destinations: what a lease looks at before it appends, publishes or deletes."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.config.resolved import KafkaDestination
from mirrorlake.destinations.archive.archived_tail import ArchivedTailCheck
from mirrorlake.destinations.map.mapped_tail import MappedTailCheck
from mirrorlake.destinations.map.progress import ProgressKey
from mirrorlake.destinations.preserve.look import Seen, look
from mirrorlake.destinations.transactions.owner_states import find_states
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.mirror.work import KafkaWork
from mirrorlake.service.states import archived_partition, state_of
from mirrorlake.service.status import StatusRow
from mirrorlake.topics.handover import States, predecessors, with_configured_partitions
from mirrorlake.topics.targets import Target, shard_of, transactional_id_of

LOOKS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a look at a destination partition has found.

    ``is_new`` is True where it holds nothing of a copy yet: it is empty, or being filled up to the source's log start.
    ``error`` is why a lease would append nothing, None where it would.
    """

    is_new: bool = False
    error: MirrorlakeError | None = None


async def look_at_destinations(rows: Sequence[StatusRow], clients: WorkerCache) -> list[Look]:
    """Returns a look for each row: one of its own where a destination holds something that can be compared."""
    looks = [Look(is_new=row.position == 0 and row.mapped is None) for row in rows]
    by_cluster: dict[str, list[_Wanted]] = defaultdict(list)
    for index, row in enumerate(rows):
        if row.error is None and row.position and not row.target.is_to_be_made:
            work = state_of(row.target, writer="").work
            if isinstance(work, KafkaWork):
                by_cluster[work.cluster.name].append(_Wanted(index, row, work))
    limit = asyncio.Semaphore(LOOKS_AT_ONCE)
    for part in await asyncio.gather(
        *(_look_at_cluster(wanted, clients, limit) for wanted in by_cluster.values()),
        *(_look_at_archive(index, row, clients, limit) for index, row in enumerate(rows)),
        *(_look_at_mapped(index, row, clients, limit) for index, row in enumerate(rows)),
    ):
        for index, found in part:
            looks[index] = found
    return looks


async def _look_at_archive(
    number: int, row: StatusRow, clients: WorkerCache, limit: asyncio.Semaphore
) -> list[tuple[int, Look]]:
    """Returns a look by the number of the row, none where it is no archive of records or holds nothing."""
    if not row.target.is_archive or row.error is not None or not row.position:
        return []
    archived = archived_partition(row.target)
    if not isinstance(archived, ArchivedPartition):
        return []
    check = ArchivedTailCheck(
        clients.client(row.target.source_cluster),
        row.target.source,
        archived,
        source_is_compacted=row.target.source_is_compacted,
        in_thread=asyncio.to_thread,
    )
    async with limit:
        try:
            tail = (await asyncio.to_thread(archived.find_end)).tail
            if tail is not None:
                await check.check(tail)
        except MirrorlakeError as error:
            return [(number, Look(error=error))]
    return []


async def _look_at_mapped(
    number: int, row: StatusRow, clients: WorkerCache, limit: asyncio.Semaphore
) -> list[tuple[int, Look]]:
    """Returns a look by the number of the row, none where it has no mapped offsets or nothing was copied."""
    target, mapped = row.target, row.mapped
    if row.error is not None or mapped is None or mapped.progress is None:
        return []
    assert isinstance(target.destination, KafkaDestination)
    check = MappedTailCheck(
        clients.client(target.source_cluster),
        clients.client(target.destination.cluster.settings),
        source_is_compacted=target.source_is_compacted,
    )
    key = ProgressKey(destination_topic=target.destination_topic, source=target.source)
    async with limit:
        try:
            await check.check(key, mapped.progress)
        except MirrorlakeError as error:
            return [(number, Look(error=error))]
    return []


class _Wanted(NamedTuple):
    number: int
    row: StatusRow
    work: KafkaWork


async def _look_at_cluster(
    wanted: Sequence[_Wanted], clients: WorkerCache, limit: asyncio.Semaphore
) -> list[tuple[int, Look]]:
    """Returns looks by the number of the row. What can be asked for all partitions at once is."""
    client = clients.client(wanted[0].work.cluster)
    try:
        states = await _states(client, [each.row for each in wanted])
        writers = [known_writers(each.row.target, states) for each in wanted]
        names = {each.work.settings.transactional_id for each in wanted} | {n for _, former in writers for n in former}
        described = await client.describe_transactions(sorted(names))
        ends = await client.append_states([each.work.settings.destination for each in wanted])
    except MirrorlakeError as error:
        return [(each.number, Look(error=error)) for each in wanted]

    async def read(each: _Wanted, ids: frozenset[int], former: Sequence[str]) -> tuple[int, Look]:
        settings = replace(each.work.settings, own_producer_ids=ids)
        async with limit:
            try:
                is_new = await look(
                    settings,
                    Seen(
                        shard=described.get(settings.transactional_id),
                        former=tuple(described.get(name) for name in former),
                        state=ends[settings.destination],
                    ),
                    source_client=clients.client(each.row.target.source_cluster),
                    destination_client=client,
                    asks_whether_new=(each.row.source_start or 0) > (each.row.position or 0),
                )
            except MirrorlakeError as error:
                return each.number, Look(error=error)
        return each.number, Look(is_new=is_new)

    return await asyncio.gather(*(read(each, ids, former) for each, (ids, former) in zip(wanted, writers, strict=True)))


async def _states(client: ClusterClient, rows: Sequence[StatusRow]) -> States:
    mirrors = {row.target.mirror.name: row.target.mirror for row in rows}
    return with_configured_partitions(await find_states(client), mirrors.values())


def known_writers(target: Target, states: States) -> tuple[frozenset[int], tuple[str, ...]]:
    """Returns who wrote to a target's destination before, as the state records say it. Pure.

    Returns:
        The producer ids of the mirror's shard, and of mirrors whose copy goes on under it; and the transactional ids of
        the latter, which may stand for further ones by now.
    """
    shard, where = shard_of(target.source), target.destination_partition
    own = states.get(target.mirror.name)
    before = predecessors(target, states)
    ids: set[int] = set()
    for state in [*([own] if own else []), *before]:
        ids.update(state.producer_ids.get(shard, ()), state.former_ids.get(where.topic, {}).get(where.partition, ()))
    return frozenset(ids), tuple(transactional_id_of(state.mirror, shard) for state in before)
