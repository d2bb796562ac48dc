"""What `select` makes of records, copied on real brokers: every record once, made right, whatever dies when."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirrorlake.archive.formats.registry import extension_of, open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.publish import Step as PublishStep
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.filtering import PartitionFilter, PartitionProjection
from mirrorlake.destinations.map.marks.select_mark import SelectMark
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import SelectFailedError, SourceDivergedError
from mirrorlake.filters.parsing import parse_filter
from mirrorlake.filters.projection import Projection, parse_value
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import assert_same_records, create_topic, source_end, store_of
from support.lease_processes import Death, LeaseProcesses
from support.leases import archive_work, lease_plan, map_work, run_lease
from support.map_copies import assert_nothing_open, held_through_map, progress_of
from support.records import LZ4, Record, consume, in_batches, produce
from support.segments import records_of
from support.topics import delete_topic
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

WANTED = Projection(
    key=parse_value("coalesce(headers['id'], key)"),
    value=parse_value("CASE WHEN value IS NOT NULL THEN CAST(offset AS STRING) || ':' || CAST(value AS STRING) END"),
    headers=(("kind", parse_value("CASE WHEN value IS NULL THEN NULL ELSE 'order' END")),),
    dropped=("trace",),
)
"""Of text values: each with its offset before it; null stays null."""

BY_NUMBER = Projection(
    value=parse_value("CAST(CAST(CAST(value AS STRING) AS BIGINT) AS STRING)"),
)
"""Fails for values that are no number."""

BY_OFFSET = Projection(value=parse_value("CAST(offset AS STRING)"))


def expected_of(offset: int, record: Record) -> Record:
    ids = [value for key, value in record.headers if key == "id"]
    kind = None if record.value is None else b"order"
    stays = tuple(each for each in record.headers if each[0] not in ("trace", "kind"))
    return replace(
        record,
        key=ids[-1] if ids and ids[-1] is not None else record.key,
        value=None if record.value is None else b"%d:%s" % (offset, record.value),
        headers=(*stays, ("kind", kind)),
    )


@dataclass(frozen=True, kw_only=True)
class Source:
    """A partition, its records, and where it ends."""

    servers: str
    where: TopicPartition
    records: dict[int, Record]
    end: int

    @property
    def made(self) -> dict[int, Record]:
        return {offset: expected_of(offset, record) for offset, record in self.records.items()}


def record(number: int, value: bytes | None = b"v" * 300) -> Record:
    headers = [("id", b"i%d" % number), ("trace", b"t"), ("n", None), ("trace", b"u"), ("n", b"2")]
    if number % 3 == 0:
        headers.append(("id", None))
    if number % 4 == 0:
        headers.append(("kind", b"old"))
    return Record(int(time.time() * 1000), b"%d" % number, value, tuple(headers))


def filled(servers: str, topic: str, *, value: bytes = b"v" * 300) -> Source:
    create_topic(servers, topic)
    first = [record(n, value) for n in range(60)]
    bare = [Record(1, None, None), Record(1, b"", b""), Record(1, b"k", b"v"), *(record(n, None) for n in range(5))]
    asyncio.run(produce(servers, topic, 0, [*in_batches(first, 10), *in_batches(first, 20, LZ4), *in_batches(bare, 4)]))
    append_in_transaction(servers, topic, [record(n) for n in range(3)], committed=False)
    asyncio.run(produce(servers, topic, 0, list(in_batches([record(n, value) for n in range(60)], 10))))
    records, end = consume(servers, topic, 0), source_end(servers, topic)
    return Source(servers=servers, where=TopicPartition(topic, 0), records=records, end=end)


@pytest.fixture
def source(source_kafka: EmbeddedKafka, topic_name: str) -> Source:
    """Batches of two codecs, nulls, repeated headers; aborted records between."""
    return filled(source_kafka.bootstrap_servers, topic_name)


def by(wanted: Projection | None, where: TopicPartition) -> PartitionProjection | None:
    return PartitionProjection(wanted=wanted, source=where) if wanted is not None else None


def mapped(where: TopicPartition, destination: str, wanted: Projection | None = WANTED) -> MapWork:
    work = map_work(destination, where)
    return replace(work, settings=replace(work.settings, projects=by(wanted, where)))


def archiving(
    where: TopicPartition, lake: Path, end: int, format_name: str = "parquet", wanted: Projection | None = WANTED
) -> ArchiveWork:
    work = archive_work(lake, where, end=end, records_max=37, format_name=format_name)
    settings = replace(work.settings, projects=by(wanted, where))
    return replace(work, settings=settings, orders=replace(work.orders, needs_tail_check=True))


@pytest.mark.parametrize(
    ("step", "occurrence"),
    [
        (Step.SEND_BATCH, 4),
        (Step.TAKE_ANSWER, 3),
        (Step.SEND_PROGRESS, 2),
        (Step.COMMIT, 2),
        (Step.TAKE_COMMIT, 2),
    ],
)
def test_a_mapped_copy_killed_at_any_step_has_every_record_once_as_it_is_made(
    step: str, occurrence: int, source: Source, destination_kafka: EmbeddedKafka, lease_processes: LeaseProcesses
) -> None:
    destination = destination_kafka.bootstrap_servers
    create_topic(destination, source.where.topic)
    plan = lease_plan(source.servers, [(source.where, [mapped(source.where, destination)])], end=source.end)
    lease_processes.die_in_lease(plan, Death(step=step, occurrence=occurrence))

    first, second = run_lease(plan)[0, "west"], run_lease(plan)[0, "west"]

    assert (first.error, first.position) == (None, source.end)
    assert (second.error, second.records, second.start_offset) == (None, 0, source.end)
    assert_same_records(source.made, held_through_map(destination, source.where))
    assert len(consume(destination, source.where.topic, 0)) == len(source.made)
    assert_nothing_open(destination, source.where.topic, source.where)
    progress = progress_of(destination, source.where)
    assert progress is not None
    assert progress.select == SelectMark(fingerprint=WANTED.fingerprint)


def held_in(where: TopicPartition, lake: Path, format_name: str) -> tuple[dict[int, Record], set[str], int]:
    """Every record of an archive, by which `select` its files say they were made, and where it ends."""
    archive = ArchivedPartition(
        store_of(lake), destination_name=where.topic, partition=where.partition, extension=extension_of(format_name)
    )
    records: dict[int, Record] = {}
    selects: set[str] = set()
    for info in archive.store.list(archive.prefix):
        if info.name.startswith("_"):
            continue
        with open_segment(archive.store, info.key) as segment:
            segment.check_content()
            assert segment.footer is not None
            selects.add(segment.footer.envelope.select)
            for columns in segment.records():
                records |= records_of(columns)
    return records, selects, archive.read_chain().position


@pytest.mark.parametrize("format_name", ["parquet", "ndjson", "log"])
@pytest.mark.parametrize("step", [PublishStep.CREATE_CLAIM, PublishStep.PUBLISH_SEGMENT, PublishStep.DELETE_CLAIM])
def test_an_archive_killed_at_any_step_of_a_publication_has_every_record_once_as_it_is_made(
    step: str, format_name: str, source: Source, tmp_path: Path, lease_processes: LeaseProcesses
) -> None:
    # A machine that has not compiled the loops of NDJSON yet does so in this lease.
    works = [(source.where, [archiving(source.where, tmp_path, source.end, format_name)])]
    plan = lease_plan(source.servers, works, end=None, seconds=110.0)
    lease_processes.die_in_lease(plan, Death(step=step, occurrence=2))

    first, second = run_lease(plan)[0, "lake"], run_lease(plan)[0, "lake"]

    assert (first.error, first.position, second.error, second.position) == (None, source.end, None, source.end)
    records, selects, end = held_in(source.where, tmp_path, format_name)
    assert_same_records(source.made, records)
    assert (selects, end) == ({WANTED.fingerprint}, source.end)


@pytest.mark.slow
def test_a_record_without_a_value_stops_its_partition_before_it_and_no_other(
    source: Source, topic_name: str, tmp_path: Path, destination_kafka: EmbeddedKafka
) -> None:
    destination = destination_kafka.bootstrap_servers
    numbers = f"{topic_name}-numbers"
    for servers in (source.servers, destination):
        create_topic(servers, numbers, partitions=2)
    create_topic(destination, source.where.topic)
    values = [b"%d" % n for n in range(25)]
    values[13] = b"thirteen"
    asyncio.run(produce(source.servers, numbers, 1, list(in_batches([Record(5, b"k", v) for v in values], 10))))
    where = TopicPartition(numbers, 1)

    def run(keeps: str | None) -> Mapping[tuple[int, str], LeaseRow]:
        kept = PartitionFilter(wanted=parse_filter(keeps), partition=1) if keeps else None
        to_map, to_lake = mapped(where, destination, BY_NUMBER), archiving(where, tmp_path, 25, wanted=BY_NUMBER)
        to_map = replace(to_map, settings=replace(to_map.settings, keeps=kept))
        to_lake = replace(to_lake, settings=replace(to_lake.settings, keeps=kept))
        works: list[tuple[TopicPartition, list[DestinationWork]]] = [
            (where, [to_map, to_lake]),
            (source.where, [mapped(source.where, destination)]),
        ]
        return run_lease(lease_plan(source.servers, works, end=None, seconds=8.0))

    stopped = run(None)
    for name, position in (("west", 13), ("lake", 0)):
        row = stopped[1, name]
        assert isinstance(row.error, SelectFailedError)
        assert f"the record at offset 13 of source {numbers}-1" in row.error.message
        assert (row.position, row.error.facts["offset"]) == (position, 13)
    assert (stopped[0, "west"].error, stopped[0, "west"].position) == (None, source.end)
    assert len(consume(destination, numbers, 1)) == 13

    goes_on = run("value <> 'thirteen'")
    assert [(goes_on[1, name].error, goes_on[1, name].position) for name in ("west", "lake")] == [(None, 25)] * 2
    made = {n: Record(5, b"k", b"%d" % n) for n in range(25) if n != 13}
    assert_same_records(made, held_through_map(destination, where))
    assert_same_records(made, held_in(where, tmp_path, "parquet")[0])


@pytest.mark.slow
def test_a_copy_goes_on_by_another_select_and_is_not_called_diverged(
    source: Source, tmp_path: Path, destination_kafka: EmbeddedKafka
) -> None:
    destination, middle = destination_kafka.bootstrap_servers, source.end - 40
    create_topic(destination, source.where.topic)
    changed: dict[str, int] = {}
    for wanted, end in ((WANTED, middle), (None, source.end - 20), (BY_OFFSET, source.end), (BY_OFFSET, source.end)):
        to_lake = archiving(source.where, tmp_path, end, wanted=wanted)
        for work, name in ((mapped(source.where, destination, wanted), "west"), (to_lake, "lake")):
            plan = lease_plan(source.servers, [(source.where, [work])], end=end if name == "west" else None)
            row = run_lease(plan)[0, name]
            assert row.error is None
            assert row.position is not None
            assert row.position >= end
            changed.setdefault(f"{name} {wanted}", row.position)

    progress = progress_of(destination, source.where)
    assert progress is not None
    assert progress.select == SelectMark(fingerprint=BY_OFFSET.fingerprint, start_offset=changed["west None"])
    for name, held in (
        ("west", held_through_map(destination, source.where)),
        ("lake", held_in(source.where, tmp_path, "parquet")[0]),
    ):
        first, second = changed[f"{name} {WANTED}"], changed[f"{name} None"]
        expected = {
            o: expected_of(o, r) if o < first else r if o < second else replace(r, value=b"%d" % o)
            for o, r in source.records.items()
        }
        assert_same_records(expected, held)


def test_a_source_that_was_rewritten_is_seen_behind_what_select_made(
    source: Source, tmp_path: Path, destination_kafka: EmbeddedKafka
) -> None:
    destination = destination_kafka.bootstrap_servers
    create_topic(destination, source.where.topic)
    plans = {
        "west": lease_plan(source.servers, [(source.where, [mapped(source.where, destination)])], end=source.end),
        "lake": lease_plan(source.servers, [(source.where, [archiving(source.where, tmp_path, source.end)])], end=None),
    }
    assert [run_lease(plan)[0, name].error for name, plan in plans.items()] == [None, None]

    # As from a backup: a log of the same name and length with other records, and nobody compares topic ids here.
    delete_topic(source.servers, source.where.topic)
    assert filled(source.servers, source.where.topic, value=b"w" * 300).end == source.end

    for name, plan in plans.items():
        assert isinstance(run_lease(plan)[0, name].error, SourceDivergedError), name
