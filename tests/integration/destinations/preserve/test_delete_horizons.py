"""Batches whose base timestamp is a delete horizon (KIP-534): what the cleaner has written there is nobody's time."""

import time
from collections.abc import Sequence

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.records.batches import BatchHeader, walk
from mirrorlake.kafka.wire.fetch import READ_UNCOMMITTED
from mirrorlake.offsets import GapFill, TopicPartition
from support.compaction import create_compacted
from support.copies import assert_equal_in_kafka, create_topic, wait_until
from support.gaps import unseen_offsets
from support.leases import kafka_work, lease_plan, run_lease
from support.records import Record, consume, settings_of
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

DAY_MS = 86_400_000
DELETE_HORIZON = 0x40


def headers_of(servers: str, topic: str, run_async: RunAsync) -> Sequence[BatchHeader]:
    """The first data batches of a topic's partition."""

    async def read() -> Sequence[BatchHeader]:
        async with ClusterClient(settings_of(servers)) as client:
            frame, answer = await client.fetch_once(
                TopicPartition(topic, 0), 0, max_bytes=1 << 20, isolation_level=READ_UNCOMMITTED
            )
            with frame:
                return [batch.header for batch in walk(answer.records) if not batch.header.is_control]

    return run_async(read())


@pytest.fixture
def cleaned(source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> int:
    """A source whose first batch, of tombstones at offsets 2 and 3, waits a day to be removed; their time."""
    servers = source_kafka.bootstrap_servers
    create_compacted(servers, topic_name, delete_retention_ms=str(DAY_MS))
    now = int(time.time() * 1000) - 10_000
    append(servers, topic_name, 0, [Record(now, b"k0", b"v"), Record(now, b"k1", b"v")])
    append(servers, topic_name, 0, [Record(now + 1, b"k0", None), Record(now + 1, b"k1", None)])
    time.sleep(0.5)  # the segment is rolled at the next append
    append(servers, topic_name, 0, [Record(now + 5000, b"last", b"v")])

    def has_horizon() -> bool:
        first = headers_of(servers, topic_name, run_async)[0]
        return first.base_offset == 2 and bool(first.attributes & DELETE_HORIZON)

    wait_until(has_horizon, "the cleaner to set a delete horizon")
    assert sorted(consume(servers, topic_name, 0)) == [2, 3, 4]
    return now + 1


@pytest.mark.parametrize("gap_fill", [GapFill.MARKERS, GapFill.FILLER])
def test_a_gap_before_a_batch_with_a_delete_horizon_is_filled_at_the_time_of_its_records(
    cleaned: int,
    gap_fill: GapFill,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    run_async: RunAsync,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(destination, topic_name)
    where = TopicPartition(topic_name, 0)
    work = kafka_work(destination, where, gap_fill=gap_fill, source_is_compacted=True)
    row = run_lease(lease_plan(source, [(where, [work])], end=5))[0, "west"]
    assert (row.error, row.position, row.records) == (None, 5, 3)
    assert (row.first_timestamp_ms, row.last_timestamp_ms) == (cleaned, cleaned + 4999)
    assert assert_equal_in_kafka(source, destination, topic_name) == 3
    assert sorted(unseen_offsets(destination, topic_name)) == [0, 1]
    for header in headers_of(destination, topic_name, run_async):
        assert not header.attributes & DELETE_HORIZON, "a horizon is the source's cleaner's, not the copy's"
        if header.is_transactional:
            assert (header.base_timestamp, header.max_timestamp) == (cleaned, cleaned)


def test_a_filler_is_never_dated_ahead_of_the_clock(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    year_ahead = int(time.time() * 1000) + 365 * DAY_MS
    create_topic(source, topic_name, message_timestamp_after_max_ms=str(1000 * DAY_MS))
    create_topic(destination, topic_name, message_timestamp_after_max_ms=str(1000 * DAY_MS))
    append(source, topic_name, 0, [Record(year_ahead, b"k", b"v")])
    append_in_transaction(source, topic_name, [Record(year_ahead, b"k", b"v")] * 3, committed=False)
    append(source, topic_name, 0, [Record(year_ahead, b"k", b"v")])
    where = TopicPartition(topic_name, 0)
    plan = lease_plan(source, [(where, [kafka_work(destination, where, gap_fill=GapFill.FILLER)])], end=6)
    row = run_lease(plan)[0, "west"]
    assert (row.error, row.position) == (None, 6)
    assert assert_equal_in_kafka(source, destination, topic_name) == 2
    (filler,) = [header for header in headers_of(destination, topic_name, run_async) if header.is_transactional]
    assert filler.max_timestamp <= time.time() * 1000
