"""Looking at copies whose offsets are mapped: through the map, around it, and for transactions left open."""

import asyncio

from mirrorlake.destinations.map.offset_map import OffsetMap
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_store import ProgressTopics, read_offset_map, read_progress
from mirrorlake.destinations.map.settings import map_transactional_id
from mirrorlake.destinations.transactions.session import IS_OVER
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import TransactionState
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.targets import shard_of
from support.copies import assert_same_records, wait_until
from support.records import Record, consume, settings_of


def progress_of(
    servers: str, source: TopicPartition, *, topic: str | None = None, mirror: str | None = None, shards: int = 1
) -> MapProgress | None:
    """The committed progress of a source partition; a mirror is named after its source topic unless told."""
    key = ProgressKey(destination_topic=topic or source.topic, source=source)

    async def ask() -> MapProgress | None:
        topics = ProgressTopics(mirror=mirror or source.topic, shards=shards)
        async with ClusterClient(settings_of(servers)) as client:
            if topics.progress not in (await client.metadata([topics.progress])).topics:
                return None
            return (await read_progress(client, topics.progress_of(shard_of(source, shards)))).get(key)

    return asyncio.run(ask())


def offset_map_of(
    servers: str, source: TopicPartition, *, topic: str | None = None, mirror: str | None = None, shards: int = 1
) -> OffsetMap:
    """The committed offset map of a source partition."""
    key = ProgressKey(destination_topic=topic or source.topic, source=source)

    async def ask() -> OffsetMap | None:
        async with ClusterClient(settings_of(servers)) as client:
            topics = ProgressTopics(mirror=mirror or source.topic, shards=shards)
            return await read_offset_map(client, topics, shard_of(source, shards), key)

    found = asyncio.run(ask())
    assert found is not None, f"{source} has no progress"
    return found


def held_through_map(
    servers: str,
    source: TopicPartition,
    *,
    topic: str | None = None,
    partition: int | None = None,
    mirror: str | None = None,
    shards: int = 1,
) -> dict[int, Record]:
    """What a consumer of the destination sees of ours, by source offset, each found at exactly the mapped offset."""
    where = source.partition if partition is None else partition
    records = consume(servers, topic or source.topic, where)
    offset_map = offset_map_of(servers, source, topic=topic, mirror=mirror, shards=shards)
    found: dict[int, Record] = {}
    for run in offset_map.runs:
        for n in range(run.length):
            assert run.destination_offset + n in records, f"nothing at {run.destination_offset + n}, {run}"
            found[run.start_offset + n] = records[run.destination_offset + n]
    return found


def assert_equal_through_map(
    source_servers: str,
    servers: str,
    source: TopicPartition,
    *,
    topic: str | None = None,
    mirror: str | None = None,
    start: int = 0,
) -> int:
    """Every record of the source from ``start`` on, at its mapped offset, and nothing else; returns how many."""
    expected = {o: r for o, r in consume(source_servers, source.topic, source.partition).items() if o >= start}
    assert_same_records(expected, held_through_map(servers, source, topic=topic, mirror=mirror))
    if topic is None:
        held = consume(servers, source.topic, source.partition)
        assert len(held) == len(expected), f"{len(held)} records at the destination, {len(expected)} at the source"
    return len(expected)


def assert_nothing_open(servers: str, mirror: str, *partitions: TopicPartition) -> None:
    """The coordinator calls the mirror's transactions complete, and no leader holds one of ours open."""
    name = map_transactional_id(mirror, 0)
    topics = ProgressTopics(mirror=mirror, shards=1)
    looked_at = [topics.progress_of(0), topics.pages_of(0), *partitions]

    async def open_ones() -> str:
        async with ClusterClient(settings_of(servers)) as client:
            state = (await client.describe_transactions([name]))[name]
            if state is None:
                return ""  # never used
            assert isinstance(state, TransactionState)
            if state.state not in IS_OVER:
                return f"{name} is {state.state}"
            for at, found in (await client.append_states(looked_at)).items():
                assert not isinstance(found, MirrorlakeError), found
                for producer in found.producers:
                    if producer.transaction_start_offset is not None:
                        return f"{at} has one open from {producer.transaction_start_offset}"
        return ""

    wait_until(lambda: not asyncio.run(open_ones()), "no open transaction", patience_seconds=10.0)
