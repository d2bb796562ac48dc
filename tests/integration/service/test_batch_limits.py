"""Batches that a destination topic refuses for their size, whatever was known of its settings."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.destinations.size_limit import SizeLimit
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import RecordTooLargeError, SizeRefusedError
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import read_plan
from mirrorlake.service.states import state_of
from support.admin import alter_topic
from support.copies import assert_equal_in_kafka, create_topic, wait_until
from support.leases import lease_plan, run_lease
from support.mirrors import copying
from support.records import build_batch, consume, produce, simple_records
from support.running_service import RunningService
from support.topics import append

pytestmark = pytest.mark.kafka

SIX_MEGABYTES = str(6 << 20)
SEGMENT_BYTES = 1 << 20
"""The smallest there is."""

LEASES_MAX = 12
"""More than it takes to halve any batch until it fits."""


def planned_work(source: str, destination: str, topic: str, *, offsets: str = "preserve") -> DestinationWork:
    """The work that a service would make of what it finds now."""
    (planned,) = asyncio.run(read_plan(copying(source, destination, topic, offsets=offsets)))
    return state_of(planned.status.target, writer="test").work


def lease_of(source: str, topic: str, work: DestinationWork, *, end: int) -> LeaseRow:
    """The last of the leases that a service would run, each told what the one before has learnt of the limit."""
    limit = None
    for _ in range(LEASES_MAX):
        told = work.with_orders(replace(work.orders, size_limit=limit))
        (row,) = run_lease(lease_plan(source, [(TopicPartition(topic, 0), [told])], end=end)).values()
        limit = row.size_limit or limit
        if not isinstance(row.error, SizeRefusedError):
            break
    return replace(row, size_limit=limit)


def copied(source: str, destination: str, topic: str, *, end: int, offsets: str = "preserve") -> LeaseRow:
    """One lease, of the work that a service would make of what it finds."""
    return lease_of(source, topic, planned_work(source, destination, topic, offsets=offsets), end=end)


def records_in_order(source: str, destination: str, topic: str, *, offsets: str) -> bool:
    """Tells whether every offset is the source's, where they are to be kept."""
    return offsets == "map" or list(consume(source, topic, 0)) == list(consume(destination, topic, 0))


def test_a_batch_larger_than_a_log_segment_of_the_destination_is_split(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name, max_message_bytes=SIX_MEGABYTES)
    create_topic(destination, topic_name, max_message_bytes=SIX_MEGABYTES, segment_bytes=str(SEGMENT_BYTES))
    records = simple_records(3000, size=1000, timestamp=int(time.time() * 1000))
    batch = build_batch(records)
    assert len(batch) > 2 * SEGMENT_BYTES
    asyncio.run(produce(source, topic_name, 0, [batch]))
    row = copied(source, destination, topic_name, end=3000)
    assert (row.error, row.position) == (None, 3000)
    assert assert_equal_in_kafka(source, destination, topic_name) == 3000


@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_batches_that_grow_at_the_destination_are_split_further_until_they_fit(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, offsets: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name)
    create_topic(destination, topic_name, max_message_bytes="100000", compression_type="uncompressed")
    batch = build_batch(simple_records(900, size=1000, timestamp=int(time.time() * 1000)), codec=Codec.GZIP)
    assert len(batch) < 100_000
    asyncio.run(produce(source, topic_name, 0, [batch]))
    row = copied(source, destination, topic_name, end=900, offsets=offsets)
    assert (row.error, row.position) == (None, 900)
    assert list(consume(source, topic_name, 0).values()) == list(consume(destination, topic_name, 0).values())


@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_a_single_record_that_grows_at_the_destination_stops_its_partition_with_both_sizes(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, offsets: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name)
    create_topic(destination, topic_name, max_message_bytes="100000", compression_type="uncompressed")
    now_ms = int(time.time() * 1000)
    small, large = simple_records(3, timestamp=now_ms), simple_records(1, size=200_000, start=3, timestamp=now_ms)
    batch = build_batch([*small, *large], codec=Codec.GZIP)
    alone = build_batch(large, codec=Codec.GZIP)
    assert len(batch) < 100_000
    asyncio.run(produce(source, topic_name, 0, [batch]))
    row = copied(source, destination, topic_name, end=4, offsets=offsets)
    assert isinstance(row.error, RecordTooLargeError), row.error
    # A transaction is all or nothing: what was in one with the refused record is not there.
    assert len(consume(destination, topic_name, 0)) == (3 if offsets == "preserve" else 0)
    assert "(1 records) to destination" in row.error.message
    assert abs(int(row.error.facts["bytes"] or 0) - len(alone)) < 100
    assert "its limit, read again, is 100000 bytes" in row.error.message
    assert "compression.type=producer" in row.error.hint


@pytest.mark.slow
@pytest.mark.parametrize("batches", [1, 30], ids=["the first batch", "with others in flight"])
@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_batches_above_a_limit_that_was_lowered_since_are_split_by_the_new_one(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, offsets: str, batches: int
) -> None:
    """The work is that of before: a service looks at limits only now and then."""
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name)
    create_topic(destination, topic_name)
    now_ms = int(time.time() * 1000)
    for number in range(batches):
        # Now and then one that still fits, so that what comes behind a refused one is tried too.
        size = 100 if batches > 1 and number % 3 == 0 else 8000
        append(source, topic_name, 0, simple_records(50, size=size, start=50 * number, timestamp=now_ms))
    work = planned_work(source, destination, topic_name, offsets=offsets)
    alter_topic(destination, topic_name, **{"max.message.bytes": "20000"})
    row = lease_of(source, topic_name, work, end=50 * batches)
    assert (row.error, row.position) == (None, 50 * batches)
    assert row.size_limit == SizeLimit.of(20000)
    assert list(consume(source, topic_name, 0).values()) == list(consume(destination, topic_name, 0).values())
    assert records_in_order(source, destination, topic_name, offsets=offsets)


@pytest.mark.slow
@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_a_record_above_a_limit_that_was_lowered_since_stops_its_partition_with_both_sizes(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, offsets: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name)
    create_topic(destination, topic_name)
    now_ms = int(time.time() * 1000)
    records = [*simple_records(3, timestamp=now_ms), *simple_records(1, size=8000, start=3, timestamp=now_ms)]
    asyncio.run(produce(source, topic_name, 0, [build_batch(records)]))
    work = planned_work(source, destination, topic_name, offsets=offsets)
    alter_topic(destination, topic_name, **{"max.message.bytes": "5000"})
    row = lease_of(source, topic_name, work, end=4)
    assert isinstance(row.error, RecordTooLargeError), row.error
    assert row.position == 3
    assert int(row.error.facts["bytes"] or 0) > 8000
    assert row.error.facts["limit"] == 5000
    assert f"the record at source offset 3 makes a batch of {row.error.facts['bytes']} bytes" in row.error.message
    assert "takes 5000" in row.error.message
    assert "1048588" not in row.error.message


@pytest.mark.slow
def test_a_limit_lowered_under_a_running_service_splits_and_a_raised_one_is_found_though_it_is_the_first(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    mapped = f"mapped.{topic_name}"
    for servers, topic in ((source, topic_name), (destination, topic_name), (destination, mapped)):
        create_topic(servers, topic)
    append(source, topic_name, 0, simple_records(10, timestamp=int(time.time() * 1000)))
    config = tmp_path / "mirror.yaml"
    config.write_text(
        f"""
clusters: {{east: {{bootstrap-servers: "{source}"}}, west: {{bootstrap-servers: "{destination}"}}}}
mirrors:
  - {{name: "{topic_name}", source: {{cluster: east, topics: [{topic_name}]}},
     destinations: [{{type: kafka, cluster: west}}]}}
  - {{name: "{mapped}", source: {{cluster: east, topics: [{topic_name}]}},
     destinations: [{{type: kafka, cluster: west, topic: "mapped.{{topic}}", offsets: map}}]}}
engine: {{lanes: 1, lease: 1s, discovery: 1s, memory: 512MiB}}
"""
    )

    def limit(bytes_max: int) -> None:
        for topic in (topic_name, mapped):
            alter_topic(destination, topic, **{"max.message.bytes": str(bytes_max)})

    with RunningService(config) as running:
        running.await_states("caught-up", partitions=2)
        limit(20_000)
        append(source, topic_name, 0, simple_records(50, size=8000, start=10, timestamp=int(time.time() * 1000)))
        wait_until(
            lambda: [row["dest_next"] for row in running.rows()] == [60, 60],
            "both copies to take the large batch",
            log=lambda: str(running.rows()),
        )
        assert running.states() <= {"caught-up", "running"}
        limit(5_000)
        append(source, topic_name, 0, simple_records(1, size=8000, start=60, timestamp=int(time.time() * 1000)))
        running.await_states("parked", partitions=2)
        assert {row["reason"] for row in running.rows()} == {"too-large"}
        limit(1_048_588)
        running.await_states("caught-up", partitions=2)
    assert list(consume(source, topic_name, 0).values()) == list(consume(destination, mapped, 0).values())
    assert assert_equal_in_kafka(source, destination, topic_name) == 61
