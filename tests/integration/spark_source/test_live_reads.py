"""Live topics read as Spark reads them: what a ``read_committed`` consumer sees, and nothing else."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import (
    ConfigurationError,
    SourceTruncatedError,
    TopicMissingError,
    TopicRecreatedError,
)
from mirrorlake.spark_source import streams
from mirrorlake.spark_source.columns import SCHEMA
from mirrorlake.spark_source.options import read_options
from mirrorlake.spark_source.stream_offsets import StreamOffsets
from mirrorlake.spark_source.streams import MirrorlakeStreamReader
from support.admin import admin_client
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import create_topic, wait_until
from support.records import Record, consume, every_kind, simple_records
from support.spark_reads import Read, offsets_in
from support.topics import append, delete_before
from support.transactions import append_in_transaction

TIME_MS = 1_700_000_000_000


def options(servers: str, topics: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "topics": topics, **more}


def as_records(rows: list[dict[str, Any]]) -> dict[int, Record]:
    """Rows in the form in which another client's consumer gives them."""
    return {
        row["offset"]: Record(
            (row["timestamp"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1),
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"]),
        )
        for row in rows
    }


def assert_reads_what_a_consumer_reads(servers: str, topic: str) -> Mapping[int, Record]:
    read = Read(options(servers, topic))
    assert read.table().schema == SCHEMA
    rows = read.rows()
    assert offsets_in(rows) == sorted(set(offsets_in(rows)))
    found = as_records(rows)
    assert found == consume(servers, topic, 0)
    return found


def test_every_kind_of_record_is_read_as_a_consumer_reads_it(source_kafka: EmbeddedKafka, topic_name: str) -> None:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name, 1)
    append(servers, topic_name, 0, every_kind(1), batch_records=7)

    assert len(assert_reads_what_a_consumer_reads(servers, topic_name)) == 36


def test_what_was_aborted_or_cleaned_away_is_not_there(source_kafka: EmbeddedKafka, topic_name: str) -> None:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name, 1)
    append_in_transaction(servers, topic_name, simple_records(5))
    append_in_transaction(servers, topic_name, simple_records(5, start=5), committed=False)
    append(servers, topic_name, 0, simple_records(2, start=10))
    append_in_transaction(servers, topic_name, simple_records(1, start=12), committed=False)

    assert set(assert_reads_what_a_consumer_reads(servers, topic_name)) == {0, 1, 2, 3, 4, 12, 13}

    compacted = f"{topic_name}-compacted"
    create_compacted(servers, compacted)
    append_and_compact(servers, compacted, keyed_records(40, 4), left={36, 37, 38, 39, 40})

    assert set(assert_reads_what_a_consumer_reads(servers, compacted)) == {36, 37, 38, 39, 40}


def test_an_empty_topic_has_no_rows_and_one_whose_start_moved_those_that_are_left(
    source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name, 2)

    assert Read(options(servers, topic_name)).rows() == []

    append(servers, topic_name, 1, simple_records(20))
    delete_before(servers, topic_name, 15, 1)

    assert offsets_in(Read(options(servers, topic_name)).rows()) == [15, 16, 17, 18, 19]
    with pytest.raises(SourceTruncatedError, match="startingOffsets says 3"):
        Read(options(servers, topic_name, startingOffsets=f'{{"{topic_name}": {{"1": 3}}}}'))

    planned = Read(options(servers, topic_name))
    delete_before(servers, topic_name, 18, 1)
    with pytest.raises(SourceTruncatedError, match="offset 15"):
        planned.table()


def test_offsets_times_and_filters_bound_what_is_fetched(source_kafka: EmbeddedKafka, topic_name: str) -> None:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name, 2)
    # One record a second.
    append(servers, topic_name, 0, keyed_records(50, 5, timestamp=TIME_MS), batch_records=5)
    append(servers, topic_name, 1, simple_records(5))

    def planned(*filters: Any, **more: str) -> list[tuple[int, str]]:
        return [
            (piece.partition, str(piece.offsets))
            for piece in Read(options(servers, topic_name, **more), *filters).pieces
        ]

    assert planned() == [(0, "[0, 50)"), (1, "[0, 5)")]
    assert planned(EqualTo(("partition",), 0), LessThan(("offset",), 7)) == [(0, "[0, 7)")]
    moment = datetime.fromtimestamp(TIME_MS / 1000, UTC) + timedelta(seconds=42)
    assert planned(GreaterThanOrEqual(("timestamp",), moment)) == [(0, "[42, 50)")]
    assert planned(startingTimestamp=str(TIME_MS + 42_000)) == [(0, "[42, 50)")]
    assert planned(EqualTo(("partition",), 0), endingTimestamp="2023-11-14T22:13:30Z") == [(0, "[0, 10)")]
    assert planned(startingOffsets="latest") == []
    both = f'{{"{topic_name}": {{"0": 45, "1": -1}}}}'
    assert planned(startingOffsets=both) == [(0, "[45, 50)")]
    with pytest.raises(ConfigurationError, match="no such partition is read"):
        planned(startingOffsets=f'{{"{topic_name}": {{"7": 1}}}}')


def test_an_unknown_topic_is_an_error_and_one_made_anew_since_the_plan_too(
    source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name, 1)
    append(servers, topic_name, 0, simple_records(3))

    with pytest.raises(TopicMissingError, match="has no topic"):
        Read(options(servers, f"{topic_name}-not"))
    with pytest.raises(TopicMissingError, match="matches"):
        Read(options(servers, "/nothing-like-[it]/"))

    planned = Read(options(servers, topic_name))
    with admin_client(servers) as admin:
        admin.delete_topics([topic_name])
    wait_until(lambda: _is_made_again(servers, topic_name), "the topic to be deleted and made anew")
    append(servers, topic_name, 0, simple_records(3))

    with pytest.raises(TopicRecreatedError, match="deleted and made anew"):
        planned.table()


def _is_made_again(servers: str, topic: str) -> bool:
    try:
        create_topic(servers, topic, 1)
    except Exception:  # noqa: BLE001  of the client under it: still being deleted
        return False
    return True


def test_a_reader_that_wants_no_more_ends_the_fetching(source_kafka: EmbeddedKafka, topic_name: str) -> None:
    import threading

    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name, 1)
    append(servers, topic_name, 0, simple_records(50))
    read = Read(options(servers, topic_name))

    batches: Any = read._reader.read(read.tasks[0])
    next(batches)
    batches.close()

    assert "live-read" not in {thread.name for thread in threading.enumerate()}


def test_a_stream_gives_each_offset_in_one_batch_and_the_same_batch_again(
    source_kafka: EmbeddedKafka, topic_name: str
) -> None:
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name, 2)
    append(servers, topic_name, 0, simple_records(20))
    names = ("topic", "partition", "offset")
    reader = MirrorlakeStreamReader(read_options(options(servers, topic_name, maxOffsetsPerTrigger="15")), names)

    def rows(begin: Any, end: Any) -> list[tuple[int, int]]:
        return [
            (row["partition"], row["offset"])
            for task in reader.partitions(begin, end)
            for batch in reader.read(task)
            for row in batch.to_pylist()
        ]

    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    first = reader.latestOffset(start, limit)
    append(servers, topic_name, 1, simple_records(5))
    wait_until(lambda: reader.latestOffset(first, ReadAllAvailable())[topic_name]["1"] == 5, "the end to be seen")
    second = reader.latestOffset(first, ReadAllAvailable())

    assert start[topic_name]["0"] == 0
    assert rows(start, start) == []
    assert rows(start, first) == [(0, offset) for offset in range(15)]
    assert rows(first, second) == [(0, offset) for offset in range(15, 20)] + [(1, offset) for offset in range(5)]
    assert rows(start, first) == [(0, offset) for offset in range(15)], "as Spark runs it again after a crash"
    reader.stop()


@pytest.mark.slow
def test_a_topic_that_came_and_lost_its_beginning_or_was_deleted_ends_a_stream_by_expression(
    source_kafka: EmbeddedKafka, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, other = source_kafka.bootstrap_servers, f"{topic_name}-other"
    monkeypatch.setattr(streams, "GONE_PAUSES_SECONDS", (0.01,))
    create_topic(servers, topic_name, 1)

    with closing_readers(servers) as read:
        every = f"/{topic_name}.*/"
        start = read(every).initialOffset()
        create_topic(servers, other, 1)
        append(servers, other, 0, simple_records(10))

        def seen() -> StreamOffsets:
            return read(every).latestOffset(start, ReadAllAvailable())

        wait_until(lambda: seen().get(other, {}).get("0") == 10, "the topic to be seen")
        end = seen()
        delete_before(servers, other, 4, 0)

        reader = read(every)
        with pytest.raises(SourceTruncatedError, match="offset 0"):
            [list(reader.read(task)) for task in reader.partitions(start, end)]

        append(servers, other, 0, simple_records(5, start=10))
        with admin_client(servers) as admin:
            admin.delete_topics([other])

        def is_told() -> bool:
            try:
                read(every).latestOffset(end, ReadAllAvailable())
            except TopicMissingError as error:
                return f"{other}-0, of which the query has read up to offset 10, is gone" in error.message
            return False

        wait_until(is_told, "the topic to be missed")
        assert read(topic_name).latestOffset(end, ReadAllAvailable()) == end


@contextmanager
def closing_readers(servers: str) -> Iterator[Callable[[str], MirrorlakeStreamReader]]:
    """Makes readers of topics, as Spark does at each start of a query."""
    with ExitStack() as stack:

        def read(topics: str) -> MirrorlakeStreamReader:
            reader = MirrorlakeStreamReader(read_options(options(servers, topics)), ("topic", "offset"))
            stack.callback(reader.stop)
            return reader

        yield read
