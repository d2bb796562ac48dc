"""Many small batches reach a Kafka destination as a few, record by record equal, where offsets are kept and mapped."""

import asyncio
from dataclasses import replace

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.records.batches import walk
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import create_topic, source_end
from support.leases import kafka_work, lease_plan, map_work, run_lease
from support.map_copies import assert_equal_through_map, assert_nothing_open, held_through_map, offset_map_of
from support.records import CODECS, consume, every_kind, in_batches, produce, settings_of, simple_records
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka


def preserved(source: EmbeddedKafka, destination: EmbeddedKafka, topic: str, *, end: int) -> LeaseRow:
    where = TopicPartition(topic, 0)
    work = kafka_work(destination.bootstrap_servers, where)
    return run_lease(lease_plan(source.bootstrap_servers, [(where, [work])], end=end))[0, "west"]


def mapped(source: EmbeddedKafka, destination: EmbeddedKafka, topic: str) -> LeaseRow:
    where, end = TopicPartition(topic, 0), source_end(source.bootstrap_servers, topic)
    work = map_work(destination.bootstrap_servers, where)
    row = run_lease(lease_plan(source.bootstrap_servers, [(where, [work])], end=end))[0, "west"]
    assert (row.error, row.position) == (None, end)
    assert_nothing_open(destination.bootstrap_servers, topic, where)
    return row


def stored(servers: str, topic: str) -> list[tuple[int, int, int]]:
    """Base offset, records and compression of each batch that the broker keeps."""

    async def read() -> list[tuple[int, int, int]]:
        async with ClusterClient(settings_of(servers)) as client:
            frame, answer = await client.fetch_once(TopicPartition(topic, 0), 0, max_bytes=1 << 20)
            with frame:
                headers = [batch.header for batch in walk(answer.records)]
                return [(each.base_offset, each.record_count, each.codec) for each in headers]

    return asyncio.run(read())


@pytest.mark.parametrize("codec", CODECS)
def test_small_batches_keep_their_offsets_and_compression_in_one_and_a_large_one_stays_itself(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, codec: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    create_topic(west, topic_name)
    small = [*every_kind(1), *every_kind(2)]
    large = [replace(each, value=each.key * 100 if each.key else None) for each in simple_records(900)]
    batches = [*in_batches(small, 3, CODECS[codec]), *in_batches(large, 900), *in_batches(small, 3, CODECS[codec])]
    asyncio.run(produce(east, topic_name, 0, batches))
    row = preserved(source_kafka, destination_kafka, topic_name, end=2 * len(small) + 900)
    assert (row.error, row.batches) == (None, {"records:coalesced": 2, "raw:dense": 1})
    assert consume(west, topic_name, 0) == dict(enumerate([*small, *large, *small]))
    assert stored(west, topic_name)[0] == (0, len(small), CODECS[codec])


def test_small_batches_between_markers_become_a_few_and_every_record_is_where_the_map_says(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name)
    create_topic(west, topic_name)
    append_in_transaction(east, topic_name, simple_records(7))  # a batch for each record
    append_in_transaction(east, topic_name, simple_records(8, start=7), committed=False)
    asyncio.run(produce(east, topic_name, 0, in_batches(simple_records(40, start=15), 5)))
    row = mapped(source_kafka, destination_kafka, topic_name)
    assert (row.records, row.batches) == (47, {"records:coalesced": 2, "skip:aborted": 8, "skip:control": 2})
    assert row.gap_offsets == {"absent": 10}
    assert assert_equal_through_map(east, west, TopicPartition(topic_name, 0)) == 47


def test_small_batches_the_cleaner_was_at_are_packed_into_one_with_an_exact_map(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_compacted(east, topic_name)
    create_topic(west, topic_name)
    records = [replace(each, key=b"again") if n % 2 else each for n, each in enumerate(keyed_records(40, 40))]
    left = {*range(0, 40, 2), 39, 40}
    clean = append_and_compact(east, topic_name, records, left=left, batch_records=5)
    row = mapped(source_kafka, destination_kafka, topic_name)
    assert (row.records, row.gap_offsets) == (22, {"absent": 19})
    # The segment that is written to comes in a fetch of its own.
    assert row.batches == {"records:coalesced": 1, "raw:dense": 1}
    where = TopicPartition(topic_name, 0)
    assert held_through_map(west, where) == clean
    assert [offset_map_of(west, where).destination_of(each) for each in sorted(left)] == list(range(22))
