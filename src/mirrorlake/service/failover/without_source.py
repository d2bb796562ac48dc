"""What is known of copies whose source cannot be asked: read from the destination, where all state is. Reads only.

The mirror's state record there says which topics it fills, and from which source.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.resolved import Mirror
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.tail import TAIL_OFFSETS, read_tail
from mirrorlake.destinations.transactions.owner_states import OwnerState, find_states
from mirrorlake.errors import MirrorlakeError, TopicMissingError
from mirrorlake.kafka.control.cluster import EARLIEST
from mirrorlake.kafka.control.descriptions import ClusterMetadata
from mirrorlake.kinds.registry import read_positions
from mirrorlake.kinds.standing import Position
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.service.failover.copies import CopyRow, CopyState
from mirrorlake.service.status import StatusRow
from mirrorlake.together import all_of
from mirrorlake.topics.map_topics import NOT_MAPPED, find_mapped
from mirrorlake.topics.sources import cluster_source, source_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target, shard_of, transactional_id_of

LOOKS_AT_ONCE = 16


async def read_without_source(mirror: Mirror, cause: MirrorlakeError, clients: WorkerCache) -> list[CopyRow]:
    """Returns a row for each partition that the mirror is known to fill, at each of its Kafka destinations.

    Args:
        mirror: of which nothing can be read at its source.
        cause: why not; it stands in the rows of destinations that cannot be read either.
        clients: of the destinations.
    """
    found = await all_of(_of_destination(mirror, each, cause, clients) for each in mirror.kafka_destinations)
    return [row for rows in found for row in rows]


async def _of_destination(
    mirror: Mirror, destination: KafkaDestination, cause: MirrorlakeError, clients: WorkerCache
) -> list[CopyRow]:
    client = clients.client(destination.cluster.settings)
    try:
        state = (await find_states(client)).get(mirror.name)
        chosen = [(to, topic) for to, topic in _filled(state) if mirror.source.topics.selects(topic)]
        if state is None or not chosen:
            return [_unknown(mirror, destination, _nothing_copied(mirror, destination, cause))]
        names = {to for to, _ in chosen}
        there = await client.metadata(sorted(names), refresh=True)
        mapped = NOT_MAPPED
        if names & {*state.mapped_topics}:
            mapped = await find_mapped(client, mirror.name, state, names)
    except MirrorlakeError as error:
        return [_unknown(mirror, destination, error)]
    targets = [
        mapped.added_to(target)
        for to, topic in sorted(chosen)
        for target in _targets(mirror, destination, state, to, topic, there)
    ]
    positions = await read_positions(targets, clients)
    limit = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def row(number: int, target: Target) -> CopyRow:
        async with limit:
            return await _row(target, positions.get(number), cause, clients)

    return list(await all_of(row(number, target) for number, target in enumerate(targets)))


def _filled(state: OwnerState | None) -> Iterable[tuple[str, str]]:
    return () if state is None else [(to, topic) for to in state.destinations for topic in state.sources_of(to)]


def _nothing_copied(mirror: Mirror, destination: KafkaDestination, cause: MirrorlakeError) -> MirrorlakeError:
    return TopicMissingError(
        f"cluster {destination.cluster.name} has no record that mirror {mirror.name} copied any of its topics there, "
        f"and nothing is known of the source: {cause}",
        hint="check the mirror's name, and that this user may read the topic mirrorlake.state",
    )


def _unknown(mirror: Mirror, destination: KafkaDestination, error: MirrorlakeError) -> CopyRow:
    name = next(iter(mirror.source.topics.names), "(by pattern)")
    target = Target(
        mirror=mirror,
        destination=destination,
        source_work=source_of(mirror),
        source=TopicPartition(name, UNKNOWN_PARTITION),
        error=error,
    )
    return CopyRow(row=StatusRow(target=target, error=error), state=CopyState.UNKNOWN)


def _targets(
    mirror: Mirror, destination: KafkaDestination, state: OwnerState, to: str, topic: str, there: ClusterMetadata
) -> Sequence[Target]:
    metadata = there.topics.get(to)
    error = there.errors.get(to) if metadata is None else None
    count = 0 if metadata is None else len(metadata.partitions)
    target = Target(
        mirror=mirror,
        destination=destination,
        source_work=source_of(mirror),
        source=TopicPartition(topic, UNKNOWN_PARTITION),
        source_cluster_id=state.source_cluster_id,
        topic_id=state.topic_ids.get(topic, ""),
        destination_topic=to,
        destination_topic_id="" if metadata is None else metadata.topic_id,
        destination_cluster_id=there.cluster_id or "",
        destination_partitions=count,
        owner=state,
    )
    if metadata is None:
        gone = TopicMissingError(f"topic {to} is not in cluster {destination.cluster.name} any more", topic=to)
        return [replace(target, error=error or gone)]
    numbers = state.partitions.get(to, tuple(range(count)))
    if topic in (sources := state.mapped_sources.get(to, {})):
        numbers = tuple(sorted({*sources[topic]} & {*numbers}))
    return [replace(target, source=TopicPartition(topic, number)) for number in numbers]


async def _row(
    target: Target, found: Position | MirrorlakeError | None, cause: MirrorlakeError, clients: WorkerCache
) -> CopyRow:
    error = target.error or (found if isinstance(found, MirrorlakeError) else None)
    if error is not None or not isinstance(found, Position):
        return CopyRow(row=StatusRow(target=target, error=error or cause), state=CopyState.UNKNOWN)
    row = StatusRow(target=target, position=found.offset, mapped=found.mapped, error=cause)
    try:
        is_others = await is_ended_by_others(target, found, clients)
        newest_ms = None if is_others else await newest_of(target, found, clients)
    except MirrorlakeError:
        # Where the log ends is known. Whether the copy does is not.
        is_others, newest_ms = None, None
    return CopyRow(row=row, state=CopyState.SOURCE_GONE, newest_ms=newest_ms, is_others=is_others)


async def is_ended_by_others(target: Target, found: Position, clients: WorkerCache) -> bool | None:
    """Tells whether somebody else wrote the newest record of a copy with equal offsets; None where that is not known.

    Then its log ends behind the copy. Producers that were moved there write behind all that was copied, so the newest
    record alone says it.

    Raises:
        MirrorlakeError: it could not be read.
    """
    if target.is_mapped or found.offset == 0:
        return False
    here, place = clients.client(target.kafka.cluster.settings), target.destination_partition
    start = max(found.offset - TAIL_OFFSETS, await here.offset_at(place, EARLIEST))
    if start >= found.offset:
        return False
    offsets = OffsetRange(start_offset=start, end_offset=found.offset)
    tail = await read_tail(here, place, offsets, whose="destination")
    shard, state = shard_of(target.source), target.owner
    # Not those of others that were accepted: they may write again.
    own = {*(() if state is None else state.producer_ids.get(shard, ()))}
    if not tail.written or tail.written[-1].producer_id in own:
        return False
    name = transactional_id_of(target.mirror.name, shard)
    described = (await here.describe_transactions([name])).get(name)
    if isinstance(described, MirrorlakeError):
        raise described
    own |= set() if described is None else {described.producer_id}
    return tail.written[-1].producer_id not in own if own else None


async def newest_of(target: Target, found: Position, clients: WorkerCache) -> int | None:
    """Returns the time of the newest batch of a copy with equal offsets; None of any other, and where there is none.

    With mapped offsets the newest batch may be somebody else's.

    Raises:
        MirrorlakeError: it could not be read.
    """
    if target.is_mapped or found.offset == 0:
        return None
    here = cluster_source(target.destination_cluster).client(clients)
    batch = await here.batch_at(target.destination_partition, found.offset - 1)
    return None if batch is None else batch.oldest_ms
