"""What ``plan`` says before the first byte, of real topics with settings that would delete or refuse what is copied."""

import asyncio
import time
from dataclasses import dataclass

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import SourceGapError, SourceTruncatedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import Action, PlanRow, read_plan
from mirrorlake.service.states import state_of
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.topic_creation import create_topics
from support.copies import create_topic
from support.leases import lease_plan, run_lease
from support.records import settings_of, simple_records
from support.topics import append, make_topic, topics_of
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

YEAR_2023_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Pair:
    """Two clusters and a topic name."""

    east: str
    west: str
    topic: str

    def plan(self, destination: str = "", mirror: str = "") -> PlanRow:
        (row,) = asyncio.run(read_plan(self.config(destination, mirror)))
        return row

    def config(self, destination: str = "", mirror: str = "") -> Configuration:
        text = f"""
clusters: {{east: {{bootstrap-servers: "{self.east}"}}, west: {{bootstrap-servers: "{self.west}"}}}}
mirrors:
  - name: {self.topic}
    source: {{cluster: east, topics: [{self.topic}]}}
    destinations: [{{type: kafka, cluster: west{destination}}}]
    {mirror}
"""
        return parse_configuration(text.encode(), file="mirror.yaml", environ={})

    def delete_before(self, offset: int) -> None:
        async def delete() -> None:
            async with ClusterClient(settings_of(self.east)) as client:
                await client.delete_records({TopicPartition(self.topic, 0): offset})

        asyncio.run(delete())


@pytest.fixture
def pair(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str) -> Pair:
    return Pair(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)


def test_a_topic_like_the_source_is_nothing_to_warn_of(pair: Pair) -> None:
    records = simple_records(5, timestamp=int(time.time() * 1000))
    make_topic(pair.east, pair.topic, records)
    create_topic(pair.west, pair.topic)
    row = pair.plan()
    assert (row.action, row.note, row.warnings) == (Action.COPY, "", ())


def test_limits_of_the_destination_that_the_source_has_not_are_said_with_both_numbers(pair: Pair) -> None:
    old = simple_records(5, timestamp=YEAR_2023_MS)
    make_topic(pair.east, pair.topic, old, retention_ms="-1", retention_bytes="-1", max_message_bytes="2000000")
    create_topic(
        pair.west,
        pair.topic,
        retention_ms="604800000",
        retention_bytes="1000000",
        max_message_bytes="500000",
        message_timestamp_before_max_ms="3600000",
        message_timestamp_after_max_ms="60000",
        cleanup_policy="compact,delete",
    )
    where = f"west/{pair.topic}: "
    assert pair.plan().warnings == (
        where
        + "retention.ms deletes records older than 7 d; the source keeps them for ever, and its oldest record is of "
        "2023-11-14",
        where + "retention.bytes keeps 1,000,000 bytes of each partition, the source without a bound",
        where + "cleanup.policy=compact keeps the newest record of a key only and refuses records without a key; the "
        "source keeps all and takes them",
        where
        + "max.message.bytes is 500,000, at the source 2,000,000: larger batches are split, a larger record stops "
        "its partition as too-large",
        where + "message.timestamp.before.max.ms refuses records older than 1 h, and the oldest at the source is of "
        "2023-11-14: it stops as record-refused",
        where + "message.timestamp.after.max.ms refuses records dated more than 1 min ahead, which the source takes",
    )


def test_the_settings_of_a_topic_yet_to_be_made_are_known_and_none_is_made(pair: Pair) -> None:
    make_topic(pair.east, pair.topic, simple_records(5, timestamp=YEAR_2023_MS), retention_ms="-1")
    row = pair.plan()
    assert (row.action, row.note) == (Action.CREATE_AND_COPY, "topic with 1 partition(s), retention.ms=-1")
    assert row.warnings == (), "it gets the source's retention"
    assert row.status.target.destination_configs["retention.ms"] == "-1"
    assert row.status.target.destination_configs["max.message.bytes"] == "1048588", "the cluster's default"
    assert pair.topic not in topics_of(pair.west)
    assert row.as_row()["note"] == row.as_json()["note"] == row.note


def test_many_settings_of_a_topic_yet_to_be_made_are_counted_in_the_table_and_all_named_in_json(pair: Pair) -> None:
    make_topic(
        pair.east,
        pair.topic,
        simple_records(5, timestamp=int(time.time() * 1000)),
        retention_ms="-1",
        retention_bytes="2000000",
        segment_bytes="20000000",
        segment_ms="3600000",
        index_interval_bytes="8192",
        max_message_bytes="2000000",
        flush_messages="1000",
    )
    row = pair.plan()
    assert row.as_row()["note"] == "topic with 1 partition(s), 7 settings (`--format json` has them)"
    note = str(row.as_json()["note"])
    assert "retention.ms=-1, " in note
    assert note.count("=") == 7


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        ("", "how many is not known until they are read, markers fill them, about 4 ms each. A coordinator that fails"),
        (", gap-fill: filler", "filler fill them, about 4 ms for each run of them, and read_uncommitted consumers see"),
        (", gap-fill: refuse", "as it is written in transactions; `gap-fill: refuse` stops at the first one"),
    ],
)
def test_a_topic_written_in_transactions_is_told_from_a_dense_one(pair: Pair, destination: str, expected: str) -> None:
    make_topic(pair.east, pair.topic, simple_records(5))
    create_topic(pair.west, pair.topic)
    append_in_transaction(pair.east, pair.topic, simple_records(3))
    (warning,) = pair.plan(destination).warnings
    assert "the source has offsets without a record, as it is written in transactions" in warning
    assert expected in warning


def test_a_compacted_source_may_have_gaps_too(pair: Pair) -> None:
    make_topic(pair.east, pair.topic, simple_records(5), cleanup_policy="compact")
    (warning,) = pair.plan().warnings
    assert "the source has offsets without a record, as it is compacted" in warning


def test_a_source_that_starts_late_is_filled_and_the_cost_is_said(pair: Pair) -> None:
    make_topic(pair.east, pair.topic, simple_records(50))
    pair.delete_before(20)
    row = pair.plan()
    assert (row.action, row.start, row.end) == (Action.CREATE_AND_COPY, 0, 50)
    assert (
        "offsets 0…19 are gone at the source: filled, in about 4 ms, and deleted, so that the copy begins" in row.note
    )


@pytest.mark.parametrize(
    ("destination", "hint"),
    [
        (", gap-fill-max-offsets: 19", "gap-fill-max-offsets: 20"),
        (", gap-fill: refuse", "gap-fill: markers"),
    ],
)
def test_a_source_that_starts_too_late_is_refused_with_both_offsets(pair: Pair, destination: str, hint: str) -> None:
    make_topic(pair.east, pair.topic, simple_records(50))
    pair.delete_before(20)
    row = pair.plan(destination)
    assert isinstance(row.error, SourceGapError)
    assert (row.error.facts["position"], row.error.facts["log_start"]) == (0, 20)
    assert hint in row.error.hint
    assert row.as_json()["reason"] == "gap"


def test_a_source_truncated_past_the_position_is_refused_or_skipped_as_the_policy_says(pair: Pair) -> None:
    make_topic(pair.east, pair.topic, simple_records(50))
    create_topic(pair.west, pair.topic)
    state = state_of(pair.plan().status.target, writer="test")
    (copied,) = run_lease(lease_plan(pair.east, [(state.source, [state.work])], end=10)).values()
    assert (copied.error, copied.position) == (None, 10), "by this mirror: records of nobody it knows are foreign"
    pair.delete_before(20)
    row = pair.plan()
    assert isinstance(row.error, SourceTruncatedError)
    assert (row.error.facts["position"], row.error.facts["log_start"]) == (10, 20)
    assert row.as_json()["reason"] == "truncated"
    assert "on-truncation: skip" in row.error.hint

    skipped = pair.plan(mirror="on-truncation: skip")
    assert (skipped.action, skipped.error) == (Action.COPY, None)
    assert skipped.note == "offsets 10…19 are gone at the source and filled by markers, in about 40 ms"


def test_partitions_the_destination_lacks_are_added_where_topics_may_be_made_and_refused_where_not(pair: Pair) -> None:
    make_topic(pair.east, pair.topic, simple_records(5), simple_records(5))
    create_topic(pair.west, pair.topic)
    first, second = asyncio.run(read_plan(pair.config()))
    assert (first.action, second.action, second.note) == (Action.COPY, Action.GROW_AND_COPY, "from 1 to 2 partitions")
    for row in asyncio.run(read_plan(pair.config(", create-topics: false"))):
        assert row.as_json()["reason"] == "partition-count"

    async def grow_twice() -> None:
        clients = WorkerCache()
        try:
            targets = await find_targets(pair.config(), clients)
            assert await create_topics(targets, clients) == {}
            assert await create_topics(targets, clients) == {}, "what another process has added is enough"
        finally:
            await clients.close()

    asyncio.run(grow_twice())
    append(pair.west, pair.topic, 1, simple_records(1))


def test_a_destination_with_more_partitions_than_the_source_is_refused(pair: Pair) -> None:
    make_topic(pair.east, pair.topic, simple_records(5))
    create_topic(pair.west, pair.topic, 3)
    row = pair.plan()
    assert row.as_json()["reason"] == "partition-count"
    assert "has 1 partition(s), destination topic" in str(row.error)


def test_a_topic_whose_brokers_compress_anew_is_named_as_batches_may_grow_there(pair: Pair) -> None:
    make_topic(pair.east, pair.topic, simple_records(5, timestamp=int(time.time() * 1000)))
    create_topic(pair.west, pair.topic, compression_type="uncompressed")
    (warning,) = pair.plan().warnings
    assert warning.startswith(f"west/{pair.topic}: compression.type=uncompressed has its brokers compress batches anew")


def test_a_compacted_topic_is_not_said_to_begin_where_a_source_does_whose_records_were_deleted(pair: Pair) -> None:
    make_topic(pair.east, pair.topic, simple_records(50, timestamp=int(time.time() * 1000)))
    pair.delete_before(20)
    create_topic(pair.west, pair.topic, cleanup_policy="compact")
    note = pair.plan().note
    assert note.startswith("offsets 0…19 are gone at the source: filled, in about ")
    assert note.endswith(
        "; DeleteRecords is refused for a topic that is compacted only: its cleaner takes them, in time"
    )
