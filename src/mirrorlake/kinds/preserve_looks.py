"""What `plan` reads of copies with the source's own offsets: what a lease looks at before it appends or deletes."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence

from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.preserve.look import Seen, look
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.destinations.transactions.owner_states import find_states
from mirrorlake.destinations.transform import AS_IT_IS
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import AppendState, TransactionState
from mirrorlake.kinds.equal_tails import Copy, equal_copies
from mirrorlake.kinds.kind import Look
from mirrorlake.kinds.standing import Standing
from mirrorlake.offsets import TopicPartition
from mirrorlake.together import all_of
from mirrorlake.topics.handover import States, known_writers, with_configured_partitions

Works = Mapping[int, tuple[Standing, PreserveWork]]
"""Rows and what their leases are told, by the rows' numbers."""


async def look_at_copies(works: Works, clients: WorkerCache, *, at_once: int) -> Mapping[int, Look]:
    """Returns what a lease would find at each copy, by number; what can be asked for a whole cluster is asked once."""
    by_cluster: dict[str, dict[int, tuple[Standing, PreserveWork]]] = defaultdict(dict)
    for number, (row, work) in works.items():
        by_cluster[work.cluster.name][number] = (row, work)
    limit = asyncio.Semaphore(at_once)
    parts = await all_of(_look_at_cluster(group, clients, limit) for group in by_cluster.values())
    return {number: look for part in parts for number, look in part.items()}


async def _look_at_cluster(works: Works, clients: WorkerCache, limit: asyncio.Semaphore) -> Mapping[int, Look]:
    client = clients.client(next(iter(works.values()))[1].cluster)
    try:
        states = await _states(client, [row for row, _ in works.values()])
        writers = {number: known_writers(row.target, states) for number, (row, _) in works.items()}
        names = {work.settings.transactional_id for _, work in works.values()}
        names |= {name for _, former in writers.values() for name in former}
        described = await client.describe_transactions(sorted(names))
        ends = await client.append_states([work.settings.destination for _, work in works.values()])
    except MirrorlakeError as error:
        return dict.fromkeys(works, Look(error=error))

    positions = {
        number: position
        for number, (row, work) in works.items()
        if (position := _plain_position(row, work, *writers[number], described, ends)) is not None
    }
    equal = await _equal(works, positions, clients, client)

    async def read(number: int) -> Look:
        (row, work), (ids, former) = works[number], writers[number]
        settings = work.settings
        if number in equal:
            return Look(is_new=False)
        async with limit:
            try:
                looked = await look(
                    settings,
                    Seen(
                        shard=described.get(settings.transactional_id),
                        former=tuple(described.get(name) for name in former),
                        state=ends[settings.destination],
                    ),
                    source_log=row.target.source_work.log(row.target.source, clients),
                    destination_client=client,
                    own_producer_ids=ids,
                    asks_whether_new=_asks_whether_new(row),
                )
            except MirrorlakeError as error:
                return Look(error=error)
        return Look(is_new=looked.is_new, held_until_ms=looked.held_until_ms)

    return dict(zip(works, await all_of(read(number) for number in works), strict=True))


def _asks_whether_new(row: Standing) -> bool:
    return (row.source_start or 0) > (row.position or 0)


def _plain_position(
    row: Standing,
    work: PreserveWork,
    ids: frozenset[int],
    former: Sequence[str],
    described: Mapping[str, TransactionState | MirrorlakeError | None],
    ends: Mapping[TopicPartition, AppendState | MirrorlakeError],
) -> int | None:
    """Returns where a copy ends about whose writers `look` would find nothing to say; None where it has to be asked."""
    settings = work.settings
    state, shard = ends[settings.destination], described.get(settings.transactional_id)
    if _asks_whether_new(row) or settings.transform != AS_IT_IS or not isinstance(state, AppendState):
        return None
    if isinstance(shard, MirrorlakeError) or not isinstance(row.target.mirror.source, KafkaSource):
        return None
    if row.target.source_retention.tombstones_seconds is not None and row.position != row.source_end:
        return None  # how new it is has to be read
    states = (shard, *(described.get(name) for name in former))
    own = ids | {each.producer_id for each in states if isinstance(each, TransactionState)}
    is_ours = all(each.producer_id in own and each.transaction_start_offset is None for each in state.producers)
    return state.log_end.end_offset or None if is_ours else None


async def _equal(
    works: Works, positions: Mapping[int, int], clients: WorkerCache, client: ClusterClient
) -> frozenset[int]:
    """Returns the numbers of the copies in one cluster whose newest records are plainly those of their sources."""
    by_source: dict[str, dict[int, Copy]] = defaultdict(dict)
    sources: dict[str, ClusterClient] = {}
    for number, position in positions.items():
        row, work = works[number]
        source = row.target.mirror.source
        assert isinstance(source, KafkaSource)
        sources[source.cluster.name] = clients.client(source.cluster.settings)
        settings = work.settings
        copy = Copy(source=settings.source, destination=settings.destination, position=position)
        by_source[source.cluster.name][number] = copy
    found = await all_of(
        equal_copies([*copies.values()], source=sources[name], destination=client) for name, copies in by_source.items()
    )
    return frozenset(
        number
        for equal, copies in zip(found, by_source.values(), strict=True)
        for number, copy in copies.items()
        if copy in equal
    )


async def _states(client: ClusterClient, rows: Sequence[Standing]) -> States:
    mirrors = {row.target.mirror.name: row.target.mirror for row in rows}
    return with_configured_partitions(await find_states(client), mirrors.values())
