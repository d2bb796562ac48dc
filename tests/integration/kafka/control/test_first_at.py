"""The first record of a time is found, also where a leader says that there is none and is wrong."""

import asyncio
from collections.abc import Sequence

import pytest
from aiokafka import AIOKafkaProducer

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.range_reader import first_at
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic, wait_until
from support.records import Record, settings_of
from support.topics import append

pytestmark = pytest.mark.kafka

NOON = 1_700_000_000_000
SEGMENT_BYTES = 1 << 20  # the smallest that Kafka 4 takes
HALF = SEGMENT_BYTES * 6 // 10


def records(*times: int, size: int = 10) -> list[Record]:
    return [Record(NOON + time, b"k", b"v" * size) for time in times]


def answers(servers: str, partition: TopicPartition, times: Sequence[int]) -> list[tuple[int, object]]:
    """What the leader says, and what is true, of each time."""

    async def ask() -> list[tuple[int, object]]:
        async with ClusterClient(settings_of(servers)) as client:
            return [
                (
                    await client.offset_at(partition, NOON + time),
                    (await first_at(client, [partition], NOON + time))[partition],
                )
                for time in times
            ]

    return asyncio.run(ask())


def delete_before(servers: str, partition: TopicPartition, offset: int) -> None:
    async def delete() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            assert (await client.delete_records({partition: offset}))[partition] == offset

    asyncio.run(delete())


def test_a_late_record_that_was_deleted_hides_no_later_one(source_kafka: EmbeddedKafka, topic_name: str) -> None:
    servers, partition = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    create_topic(servers, topic_name, 1, segment_bytes=str(SEGMENT_BYTES))
    append(servers, topic_name, 0, records(90))  # offset 0, by a clock that is wrong
    for time in (-20, -10, 0):  # the first segment is full with offset 1
        append(servers, topic_name, 0, records(time, size=HALF))
    append(servers, topic_name, 0, records(5, 7, 3))
    assert answers(servers, partition, [5, 91]) == [(0, 0), (-1, None)]
    delete_before(servers, partition, 1)
    assert answers(servers, partition, [-20, 5, 6, 8, 90, 91]) == [
        (1, 1),
        (-1, 4),
        (-1, 5),
        (-1, None),
        (-1, None),
        (-1, None),
    ]


def test_what_is_not_decided_yet_is_not_found_and_the_log_is_not_read_for_it(
    source_kafka: EmbeddedKafka, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, partition = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    create_topic(servers, topic_name)
    monkeypatch.delattr("mirrorlake.kafka.control.range_reader.read_range")
    assert answers(servers, partition, [0]) == [(-1, None)]
    append(servers, topic_name, 0, records(-1, -1))

    async def ask_while_open() -> int | MirrorlakeError | None:
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"tx-{topic_name}")
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic_name, b"v", b"k", 0, NOON + 5)
                async with ClusterClient(settings_of(servers)) as client:
                    return (await first_at(client, [partition], NOON + 4))[partition]
        finally:
            await producer.stop()

    assert asyncio.run(ask_while_open()) is None
    wait_until(lambda: answers(servers, partition, [4]) == [(2, 2)], "what is decided")
