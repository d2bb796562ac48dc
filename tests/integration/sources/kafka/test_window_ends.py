"""Ends by time are what a consumer would call so: leaders name markers and aborted records too."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError, RangeUnknownError
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.client import Bounds
from mirrorlake.sources.kafka import window_ends
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.window import Window
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import wait_until
from support.records import Record, settings_of
from support.topics import append, make_topic
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

NOON = 1_700_000_000_000


def records(*times: int) -> list[Record]:
    return [Record(NOON + time, b"k", b"v", ()) for time in times]


def bounds_of(work: KafkaSourceWork, partition: TopicPartition, *, looks: int = 1) -> list[Bounds | MirrorlakeError]:
    """What so many looks by one driver tell."""

    async def ask() -> list[Bounds | MirrorlakeError]:
        clients = WorkerCache()
        try:
            return [(await work.client(clients).bounds([partition]))[partition] for _ in range(looks)]
        finally:
            await clients.close()

    return asyncio.run(ask())


def log_end_of(work: KafkaSourceWork, partition: TopicPartition) -> int:
    """Where destinations are told, in a lease, that the log ends: what no claim may pass."""

    async def ask() -> int:
        clients = WorkerCache()
        try:
            return await work.log(partition, clients).end()
        finally:
            await clients.close()

    return asyncio.run(ask())


def test_an_end_by_time_is_the_first_record_that_a_consumer_is_shown(
    source_kafka: EmbeddedKafka, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, partition = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    work = KafkaSourceWork(cluster=settings_of(servers), mirror="m", window=Window(until_ms=NOON))
    make_topic(servers, topic_name, records(-1, -1))
    assert bounds_of(work, partition) == [Bounds(0, 2)]
    append_in_transaction(servers, topic_name, records(5, 5), committed=False)  # offsets 2 and 3, its marker is 4
    append(servers, topic_name, 0, records(-2, -2, -2))
    assert bounds_of(work, partition) == [Bounds(0, 8)], "the leader names 2, which no consumer is shown"
    append(servers, topic_name, 0, records(0, 0, 1, 0))
    assert bounds_of(work, partition, looks=2) == [Bounds(0, 12, limit=10)] * 2
    assert log_end_of(work, partition) == 10

    # What a look has no time to read is not known, and the next one goes on where it stopped.
    monkeypatch.setattr(window_ends, "READ_SECONDS_MAX", -1.0)
    monkeypatch.setattr("mirrorlake.kafka.control.range_reader.PART_BYTES_MAX", 1)
    first, *_, last = bounds_of(work, partition, looks=4)
    assert isinstance(first, RangeUnknownError)
    assert last == Bounds(0, 12, limit=10)
    earlier = KafkaSourceWork(
        cluster=settings_of(servers), mirror="m", window=Window(until_ms=NOON, until_offsets={topic_name: {0: 1}})
    )
    assert bounds_of(earlier, partition, looks=4)[-1] == Bounds(0, 12, limit=1)


def test_a_late_record_of_an_open_transaction_ends_nothing_before_it_is_committed(
    source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    servers, partition = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    work = KafkaSourceWork(cluster=settings_of(servers), mirror="m", window=Window(until_ms=NOON))
    make_topic(servers, topic_name, records(-1, -1))

    async def look() -> Bounds | MirrorlakeError:
        clients = WorkerCache()
        try:
            return (await work.client(clients).bounds([partition]))[partition]
        finally:
            await clients.close()

    async def write() -> Bounds | MirrorlakeError:
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"tx-{topic_name}")
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait(topic_name, b"v", b"k", 0, NOON + 1)
            open_bounds = await look()
            await producer.commit_transaction()
        finally:
            await producer.stop()
        return open_bounds

    assert asyncio.run(write()) == Bounds(0, 2), "what is not decided is neither copied nor an end"
    wait_until(lambda: bounds_of(work, partition) == [Bounds(0, 4, limit=2)], "the marker")


def test_an_end_is_found_anew_where_the_cleaner_has_taken_the_record_it_was_before(
    source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    servers, partition = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    work = KafkaSourceWork(cluster=settings_of(servers), mirror="m", window=Window(until_ms=NOON + 2000))
    create_compacted(servers, topic_name)
    # Offset 3 is the first late one; its key comes again at offset 6, which is late as well.
    append(servers, topic_name, 0, keyed_records(6, 3, timestamp=NOON))
    assert bounds_of(work, partition) == [Bounds(0, 6, limit=3)]
    append_and_compact(servers, topic_name, keyed_records(3, 3, start=6, timestamp=NOON), left={6, 7, 8, 9})
    (found,) = bounds_of(work, partition)
    assert isinstance(found, Bounds)
    assert found.limit == 6
