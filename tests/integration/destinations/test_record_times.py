"""Whose time a record carries at a Kafka destination, on real brokers: CreateTime and LogAppendTime on either side."""

from dataclasses import replace

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import DestinationForeignError, RecordRefusedError
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic
from support.leases import kafka_work, lease_plan, run_lease
from support.records import Record, consume, simple_records
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka

BY_BROKER = "LogAppendTime"
SENT_MS = 1_700_000_000_000  # what producers said; the brokers of this test run later
FAR_FUTURE_MS = 253_402_300_799_999  # the last millisecond of the year 9999
NO_LIMIT = str(2**63 - 1)


def copy(
    source: EmbeddedKafka, destination: EmbeddedKafka, topic: str, *, end: int, keeps_log_append_time: bool = True
) -> LeaseRow:
    where = TopicPartition(topic, 0)
    work = kafka_work(destination.bootstrap_servers, where, keeps_log_append_time=keeps_log_append_time)
    return run_lease(lease_plan(source.bootstrap_servers, [(where, [work])], end=end))[0, "west"]


def without_times(records: dict[int, Record]) -> dict[int, Record]:
    return {offset: replace(record, timestamp=0) for offset, record in records.items()}


@pytest.mark.parametrize("source_type", ["CreateTime", BY_BROKER])
def test_a_destination_that_keeps_times_shows_those_the_sources_readers_saw(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, source_type: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(30), message_timestamp_type=source_type)
    create_topic(west, topic_name)
    row = copy(source_kafka, destination_kafka, topic_name, end=30)
    assert row.error is None
    assert row.batches == ({"raw:dense": 3} if source_type == "CreateTime" else {"records:log-append-time": 3})
    expected = consume(east, topic_name, 0)
    assert (expected[0].timestamp == SENT_MS) == (source_type == "CreateTime")
    assert consume(west, topic_name, 0) == expected


@pytest.mark.parametrize("source_type", ["CreateTime", BY_BROKER])
def test_a_destination_that_sets_times_takes_every_batch_as_its_bytes_and_shows_its_own(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, source_type: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(30), message_timestamp_type=source_type)
    create_topic(west, topic_name, message_timestamp_type=BY_BROKER)
    row = copy(source_kafka, destination_kafka, topic_name, end=30, keeps_log_append_time=False)
    assert (row.error, row.batches) == (None, {"raw:dense": 3})
    expected, held = consume(east, topic_name, 0), consume(west, topic_name, 0)
    assert without_times(held) == without_times(expected)
    assert min(each.timestamp for each in held.values()) >= max(each.timestamp for each in expected.values())
    assert held[0].timestamp > SENT_MS


def test_a_take_over_compares_everything_but_the_times_where_the_destination_sets_them(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(30))
    create_topic(west, topic_name, message_timestamp_type=BY_BROKER)
    assert copy(source_kafka, destination_kafka, topic_name, end=20, keeps_log_append_time=False).position == 20

    refused = copy(source_kafka, destination_kafka, topic_name, end=30)
    assert isinstance(refused.error, DestinationForeignError), "with times compared the copy is another's"
    assert copy(source_kafka, destination_kafka, topic_name, end=30, keeps_log_append_time=False).position == 30

    append(west, topic_name, 0, [Record(SENT_MS, b"not", b"ours")])
    append(east, topic_name, 0, simple_records(2, start=30))
    foreign = copy(source_kafka, destination_kafka, topic_name, end=32, keeps_log_append_time=False)
    assert isinstance(foreign.error, DestinationForeignError)
    assert foreign.error.facts["differing_offset"] == 30


def test_no_time_the_epoch_and_the_far_future_are_copied_where_the_destination_allows_them(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    records = [Record(stamp, b"k", b"v") for stamp in (-1, 0, 1, FAR_FUTURE_MS)]
    make_topic(east, topic_name, records, batch_records=1, message_timestamp_after_max_ms=NO_LIMIT)
    create_topic(west, topic_name, message_timestamp_after_max_ms=NO_LIMIT)
    row = copy(source_kafka, destination_kafka, topic_name, end=4)
    assert (row.error, row.position) == (None, 4)
    assert consume(west, topic_name, 0) == dict(enumerate(records))


@pytest.mark.parametrize(
    ("timestamp", "limit", "setting"),
    [
        (FAR_FUTURE_MS, "message.timestamp.after.max.ms", "3600000"),
        (SENT_MS, "message.timestamp.before.max.ms", "86400000"),
    ],
)
def test_a_time_beyond_the_destinations_limit_is_refused_by_offset_with_the_limit_and_the_remedy(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    timestamp: int,
    limit: str,
    setting: str,
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    records = [Record(-1, b"fine", None), Record(timestamp, b"k", b"v")]
    make_topic(east, topic_name, records, batch_records=1, message_timestamp_after_max_ms=NO_LIMIT)
    create_topic(west, topic_name, 1, **{limit.replace(".", "_"): setting})
    row = copy(source_kafka, destination_kafka, topic_name, end=2)
    assert isinstance(row.error, RecordRefusedError)
    assert row.position == 1, "what comes before it is copied"
    assert "offset 1" in row.error.message
    assert str(timestamp) in row.error.message, "the broker's own words name the time and the bounds"
    assert limit in row.error.hint
    assert "timestamp-mode: destination" in row.error.hint
