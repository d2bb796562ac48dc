"""Keys, values and headers of every kind reach a Kafka destination byte by byte, passed through or in new batches."""

import asyncio
import struct
from dataclasses import replace

import pytest
from crc32c import crc32c

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.records.batches import walk
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic
from support.leases import kafka_work, lease_plan, run_lease
from support.records import CODECS, GZIP, NONE, Record, build_batch, consume, every_kind, produce, settings_of

pytestmark = pytest.mark.kafka

HUGE = bytes(range(256)) * 20_000  # 5 MB
HUGE_BATCH = str(16 << 20)
NOT_UTF8 = b"\xff\xfe\x00"
STANDS_FOR_IT = "abc"  # aiokafka writes text only


def copy(
    source: EmbeddedKafka, destination: EmbeddedKafka, topic: str, *, end: int, batch_bytes_max: int = 1_048_588
) -> LeaseRow:
    where = TopicPartition(topic, 0)
    work = kafka_work(destination.bootstrap_servers, where, batch_bytes_max=batch_bytes_max)
    return run_lease(lease_plan(source.bootstrap_servers, [(where, [work])], end=end))[0, "west"]


def payloads(servers: str, topic: str, offset: int) -> list[bytes]:
    """What follows the header of each batch from an offset on, as the broker stores it."""

    async def read() -> list[bytes]:
        async with ClusterClient(settings_of(servers)) as client:
            frame, answer = await client.fetch_once(TopicPartition(topic, 0), offset, max_bytes=1 << 20)
            with frame:
                return [bytes(batch.view[61:]) for batch in walk(answer.records)]

    return asyncio.run(read())


def with_odd_header_keys(batch: bytes) -> bytes:
    """The batch with header keys that are no text; its checksum is right again."""
    changed = bytearray(batch.replace(STANDS_FOR_IT.encode(), NOT_UTF8))
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


@pytest.mark.parametrize("codec", CODECS)
def test_every_kind_of_record_survives_where_the_position_is_inside_a_batch(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, codec: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    create_topic(west, topic_name)
    records = every_kind(1)
    asyncio.run(produce(east, topic_name, 0, [build_batch(records, CODECS[codec])]))
    asyncio.run(produce(west, topic_name, 0, [build_batch(records[:5])]))
    row = copy(source_kafka, destination_kafka, topic_name, end=len(records))
    assert (row.error, row.batches) == (None, {"records:overlap": 1})
    assert consume(west, topic_name, 0) == dict(enumerate(records))


def test_header_keys_that_are_no_text_survive_on_both_paths(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    create_topic(west, topic_name)
    headers = ((STANDS_FOR_IT, b"1"), (STANDS_FOR_IT, None), ("again", b""), ("again", b"2"))
    records = [replace(each, headers=headers) for each in every_kind(2)[:10]]
    asyncio.run(produce(east, topic_name, 0, [with_odd_header_keys(build_batch(records))] * 2))
    asyncio.run(produce(west, topic_name, 0, [with_odd_header_keys(build_batch(records[:4]))]))
    row = copy(source_kafka, destination_kafka, topic_name, end=20)
    assert (row.error, row.batches) == (None, {"records:overlap": 1, "raw:dense": 1})
    assert payloads(west, topic_name, 4) == [
        with_odd_header_keys(build_batch(records[4:]))[61:],
        with_odd_header_keys(build_batch(records))[61:],
    ]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_keys_values_and_headers_of_many_megabytes_survive_on_both_paths(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, codec: int
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name, max_message_bytes=HUGE_BATCH)
    create_topic(west, topic_name, max_message_bytes=HUGE_BATCH)
    small = Record(1_700_000_000_000, b"k", b"v")
    huge = [
        replace(small, value=HUGE),
        replace(small, key=HUGE, value=None),
        replace(small, key=None, value=b"", headers=(("h", HUGE), ("h", None))),
    ]
    asyncio.run(produce(east, topic_name, 0, [build_batch([small, huge[0]], codec)]))
    asyncio.run(produce(east, topic_name, 0, [build_batch([each], codec) for each in huge[1:]]))
    asyncio.run(produce(west, topic_name, 0, [build_batch([small])]))
    row = copy(source_kafka, destination_kafka, topic_name, end=4, batch_bytes_max=int(HUGE_BATCH))
    assert (row.error, row.batches) == (None, {"records:overlap": 1, "raw:dense": 2})
    assert consume(west, topic_name, 0) == dict(enumerate([small, *huge]))
