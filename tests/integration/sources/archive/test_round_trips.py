"""Kafka to an archive, and back into Kafka at the same offsets: every field and offset equal, whatever the format."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.offsets import GapFill, TopicPartition
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.stores.settings import StoreSettings
from support.archived_source import settings_at, source_at
from support.copies import assert_equal_in_kafka, assert_same_records, create_topic, log_end, source_end
from support.leases import archive_work, kafka_work, lease_plan, map_work, run_lease
from support.records import consume, every_kind, simple_records
from support.topics import append, delete_before, make_topic
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

FORMATS = ("log", "parquet", "ndjson")
LOG_START = 13


def awkward(servers: str, topic: str) -> None:
    """A topic with every kind of record, a log start above 0, committed and aborted transactions, and a marker last."""
    now = int(time.time() * 1000)
    make_topic(servers, topic, every_kind(1, timestamp=now))
    # What writes transactions here takes no record that is null altogether.
    append_in_transaction(servers, topic, [each for each in every_kind(2, timestamp=now) if each.key is not None][:15])
    append_in_transaction(servers, topic, simple_records(5, timestamp=now), committed=False)
    append(servers, topic, 0, simple_records(300, size=2000, timestamp=now), batch_records=50)
    append_in_transaction(servers, topic, [each for each in every_kind(3, timestamp=now) if each.key is not None])
    delete_before(servers, topic, LOG_START)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def from_archive(work: ArchiveSourceWork, where: TopicPartition, to: DestinationWork, *, end: int) -> LeasePlan:
    plan = lease_plan("nobody:1", [(where, [to])], end=end)
    return replace(plan, partitions=(replace(plan.partitions[0], source_work=work),))


def run(plan: LeasePlan) -> LeaseRow:
    (row,) = run_lease(plan).values()
    return row


def archived(servers: str, where: TopicPartition, lake: Path | StoreSettings, format_name: str) -> int:
    """Archives a topic in several segments; returns where it ends."""
    end = source_end(servers, where.topic)
    row = run(
        lease_plan(
            servers,
            [(where, [archive_work(lake, where, end=end, records_max=70, format_name=format_name)])],
            end=end,
        )
    )
    assert (row.error, row.position) == (None, end)
    return end


@pytest.mark.parametrize("format_name", FORMATS)
def test_what_was_archived_comes_back_equal_at_equal_offsets_with_its_log_start(
    format_name: str, topic_name: str, tmp_path: Path, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    where = TopicPartition(topic_name, 0)
    awkward(source, topic_name)
    end = archived(source, where, tmp_path, format_name)
    create_topic(destination, topic_name)

    row = run(
        from_archive(
            source_at(settings_at(tmp_path)),
            where,
            kafka_work(destination, where, gap_fill=GapFill.FILLER, needs_tail_check=True),
            end=end,
        )
    )

    assert (row.error, row.position, row.source_start, row.source_end) == (None, end, LOG_START, end)
    assert assert_equal_in_kafka(source, destination, topic_name) > 300
    # It goes on where it stands: a new owner compares the tail with the archive, and finds nothing left to do.
    again = run(
        from_archive(
            source_at(settings_at(tmp_path)),
            where,
            kafka_work(destination, where, gap_fill=GapFill.FILLER, needs_tail_check=True),
            end=end,
        )
    )
    assert (again.error, again.position, again.records) == (None, end, 0)
    assert log_end(destination, topic_name) == end


@pytest.mark.parametrize("format_name", ["log", "parquet"])
def test_what_was_archived_comes_back_in_order_with_mapped_offsets(
    format_name: str, topic_name: str, tmp_path: Path, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    where = TopicPartition(topic_name, 0)
    awkward(source, topic_name)
    end = archived(source, where, tmp_path, format_name)
    create_topic(destination, topic_name)

    row = run(from_archive(source_at(settings_at(tmp_path)), where, map_work(destination, where), end=end))

    assert (row.error, row.position) == (None, end)
    found = consume(destination, topic_name, 0)
    assert list(found.values()) == list(consume(source, topic_name, 0).values())


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("format_name", ["log", "parquet"])
def test_an_archive_goes_into_an_archive_of_another_format_and_back(
    format_name: str,
    to: str,
    topic_name: str,
    tmp_path: Path,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    where = TopicPartition(topic_name, 0)
    awkward(source, topic_name)
    end = archived(source, where, made(tmp_path / "one"), format_name)
    work = archive_work(made(tmp_path / "other"), where, end=end, records_max=90, format_name=to)
    row = run(from_archive(source_at(settings_at(tmp_path / "one")), where, work, end=end))
    assert (row.error, row.position) == (None, end)
    create_topic(destination, topic_name)

    back = run(
        from_archive(
            source_at(settings_at(tmp_path / "other")),
            where,
            kafka_work(destination, where, gap_fill=GapFill.FILLER),
            end=end,
        )
    )

    assert (back.error, back.position) == (None, end)
    assert_same_records(consume(source, topic_name, 0), consume(destination, topic_name, 0))


def test_a_copy_that_holds_something_else_is_told_by_its_tail(
    topic_name: str, tmp_path: Path, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    where = TopicPartition(topic_name, 0)
    make_topic(source, topic_name, simple_records(60))
    make_topic(destination, topic_name, [*simple_records(29), simple_records(1, start=99)[0]])
    end = archived(source, where, tmp_path, "parquet")

    row = run(
        from_archive(
            source_at(settings_at(tmp_path)), where, kafka_work(destination, where, needs_tail_check=True), end=end
        )
    )

    assert row.error is not None
    assert row.error.facts["differing_offset"] == 29
    assert log_end(destination, topic_name) == 30
