"""Compacted sources on real brokers, cleaned by Kafka's own cleaner: equal offsets, and a tail without a batch."""

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import GapFill, TopicPartition
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import create_topic, log_end
from support.gaps import open_transactions
from support.leases import kafka_work, lease_plan, run_lease
from support.records import Record, consume

pytestmark = pytest.mark.kafka

TOMBSTONE = Record(1_700_000_009_000, b"key-0", None)


def lease(source: str, destination: str, topic: str, gap_fill: GapFill, *, end: int) -> LeaseRow:
    where = TopicPartition(topic, 0)
    work = kafka_work(
        destination, where, mirror=topic, gap_fill=gap_fill, source_is_compacted=True, destination_is_compacted=True
    )
    return run_lease(lease_plan(source, [(where, [work])], end=end, seconds=30.0))[0, "west"]


@pytest.mark.parametrize("gap_fill", [GapFill.MARKERS, GapFill.FILLER])
def test_a_compacted_source_is_copied_before_between_and_after_cleaning(
    gap_fill: GapFill, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_compacted(source, topic_name)
    # The copy is compacted too, so fillers need keys, but not at once: what it holds can be compared.
    create_topic(destination, topic_name, cleanup_policy="compact")
    clean = append_and_compact(source, topic_name, keyed_records(60, 7), left={*range(53, 60), 60})
    row = lease(source, destination, topic_name, gap_fill, end=61)
    assert (row.error, row.position, row.records) == (None, 61, 8)
    assert consume(destination, topic_name, 0) == clean

    # What was copied is cleaned away at the source meanwhile; the tail check does not mind.
    clean = append_and_compact(source, topic_name, keyed_records(10, 7, start=60), left={60, *range(64, 72)})
    row = lease(source, destination, topic_name, gap_fill, end=72)
    assert (row.error, row.position, row.records) == (None, 72, 8)
    held = consume(destination, topic_name, 0)
    assert {offset: record for offset, record in held.items() if offset >= 60} == clean
    assert open_transactions(destination, [topic_name]) == []


def test_a_tombstone_is_copied_and_what_it_buried_is_a_gap(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_compacted(source, topic_name, delete_retention_ms="86400000")
    create_topic(destination, topic_name, cleanup_policy="compact")
    records = [*keyed_records(9, 3), TOMBSTONE, *keyed_records(2, 3, start=10)]
    clean = append_and_compact(source, topic_name, records, left={9, 10, 11, 12}, batch_records=10)
    assert clean[9] == TOMBSTONE
    row = lease(source, destination, topic_name, GapFill.MARKERS, end=13)
    assert (row.error, row.position, row.gap_offsets) == (None, 13, {"absent": 9})
    assert log_end(destination, topic_name) == 13
    assert consume(destination, topic_name, 0) == clean
