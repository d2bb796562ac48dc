"""The inputs of the comparison, read back by an independent client."""

import hashlib

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.brokers import create_topics
from bench.inputs import Filled, Input, fill
from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_filled_topic_holds_what_was_asked_for(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync, codec: str
) -> None:
    wanted = Input(name=topic_name, records=4_000, record_bytes=100, codec=codec, batch_bytes=20_000, partitions=2)

    async def fill_and_read() -> tuple[Filled, dict[int, list[tuple[int, bytes]]]]:
        await create_topics(source_kafka, {topic_name: 2})
        filled = fill(source_kafka.port, wanted)
        consumer = AIOKafkaConsumer(bootstrap_servers=source_kafka.bootstrap_servers)
        await consumer.start()
        partitions = [TopicPartition(topic_name, number) for number in range(2)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        read: dict[int, list[tuple[int, bytes]]] = {0: [], 1: []}
        while sum(len(records) for records in read.values()) < filled.records:
            for partition, records in (await consumer.getmany(timeout_ms=1000)).items():
                read[partition.partition].extend((record.offset, record.value) for record in records)
        await consumer.stop()
        return filled, read

    filled, read = run_async(fill_and_read())

    assert filled.records >= 4_000
    assert filled.wire_bytes > filled.records * 100
    for partition, records in read.items():
        assert [offset for offset, _ in records] == list(range(filled.end_offsets[partition]))
        assert {len(value) for _, value in records} == {100}
    # 64 different batches, and random values in each.
    digests = {hashlib.sha256(value).digest() for _, value in read[0]}
    assert len(digests) == len(read[0])
