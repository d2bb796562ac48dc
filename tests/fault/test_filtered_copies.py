"""What a filter keeps, copied on real brokers: every wanted record once, every other offset a gap that says so."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mirrorlake.archive.formats.registry import extension_of, open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.publish import Step as PublishStep
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.filtering import PartitionFilter
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.filters.parsing import parse_filter
from mirrorlake.groups.translation import Placed, translate_mapped
from mirrorlake.offsets import GapKind, OffsetRange, TopicPartition
from support.copies import assert_same_records, create_topic, source_end, store_of
from support.lease_processes import Death, LeaseProcesses
from support.leases import archive_work, lease_plan, map_work, run_lease
from support.map_copies import assert_nothing_open, held_through_map, offset_map_of, progress_of
from support.records import LZ4, Record, consume, in_batches, produce
from support.segments import records_of
from support.transactions import append_in_transaction

pytestmark = pytest.mark.kafka

WANTED = "headers['type'] = 'order' AND value IS NOT NULL"
OTHERS = "headers['type'] <> 'order'"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A partition, all its records, and those that ``WANTED`` keeps."""

    servers: str
    where: TopicPartition
    records: dict[int, Record]
    end: int

    @property
    def wanted(self) -> dict[int, Record]:
        return {offset: record for offset, record in self.records.items() if is_wanted(record)}

    @property
    def filtered(self) -> int:
        return len(self.records) - len(self.wanted)


def is_wanted(record: Record) -> bool:
    return record.headers[-1:] == (("type", b"order"),) and record.value is not None


def record(number: int, kind: bytes) -> Record:
    return Record(int(time.time() * 1000), b"%d" % number, b"v" * 300, (("type", kind),))


@pytest.fixture
def source(source_kafka: EmbeddedKafka, topic_name: str) -> Source:
    """Batches of which all, some and none are wanted, compressed ones too; aborted records; at the end none are."""
    servers = source_kafka.bootstrap_servers
    create_topic(servers, topic_name)
    whole = [record(n, b"order") for n in range(40)]
    mixed = [record(n, b"order" if n % 3 else b"bill") for n in range(40)]
    none = [record(n, b"bill") for n in range(40)]
    tombstones = [Record(1, b"%d" % n, None, (("type", b"order"),)) for n in range(5)]
    nothing_said = [Record(1, None, b"v") for _ in range(5)]
    batches = [
        *in_batches([*whole, *mixed], 10),
        *in_batches(mixed, 20, LZ4),
        *in_batches([*tombstones, *nothing_said], 4),
    ]
    asyncio.run(produce(servers, topic_name, 0, batches))
    append_in_transaction(servers, topic_name, [record(n, b"order") for n in range(3)], committed=False)
    asyncio.run(produce(servers, topic_name, 0, list(in_batches([*mixed, *none], 10))))
    return Source(
        servers=servers,
        where=TopicPartition(topic_name, 0),
        records=consume(servers, topic_name, 0),
        end=source_end(servers, topic_name),
    )


def keeping(condition: str) -> PartitionFilter:
    return PartitionFilter(wanted=parse_filter(condition), partition=0)


def mapped(source: Source, destination: str, condition: str = WANTED) -> MapWork:
    work = map_work(destination, source.where)
    return replace(work, settings=replace(work.settings, keeps=keeping(condition)))


def archiving(
    source: Source, lake: Path, format_name: str, *, condition: str | None = WANTED, end: int | None = None
) -> ArchiveWork:
    work = archive_work(lake, source.where, end=end or source.end, records_max=37, format_name=format_name)
    keeps = keeping(condition) if condition else None
    return replace(
        work, settings=replace(work.settings, keeps=keeps), orders=replace(work.orders, needs_tail_check=True)
    )


def test_a_mapped_copy_has_what_is_wanted_and_its_position_passes_all_of_the_rest(
    source: Source, destination_kafka: EmbeddedKafka
) -> None:
    destination = destination_kafka.bootstrap_servers
    create_topic(destination, source.where.topic)
    plan = lease_plan(source.servers, [(source.where, [mapped(source, destination)])], end=source.end)

    first, second = run_lease(plan)[0, "west"], run_lease(plan)[0, "west"]

    assert (first.error, first.position, first.records) == (None, source.end, len(source.wanted))
    assert first.gap_offsets == {"filtered": source.filtered, "absent": 4}
    assert first.batches["raw:dense"] + first.batches.get("records:coalesced", 0) >= 1
    assert (second.error, second.position, second.records, second.start_offset) == (None, source.end, 0, source.end)
    assert_same_records(source.wanted, held_through_map(destination, source.where))
    assert len(consume(destination, source.where.topic, 0)) == len(source.wanted)
    progress = progress_of(destination, source.where)
    assert progress is not None
    assert progress.position == source.end


def test_a_group_at_a_record_that_was_left_out_goes_on_at_the_next_one_that_was_copied(
    source: Source, destination_kafka: EmbeddedKafka
) -> None:
    destination = destination_kafka.bootstrap_servers
    create_topic(destination, source.where.topic)
    plan = lease_plan(source.servers, [(source.where, [mapped(source, destination)])], end=source.end)
    assert run_lease(plan)[0, "west"].error is None
    mapping = offset_map_of(destination, source.where)
    places = {offset: mapping.destination_of(offset) for offset in source.wanted}
    held = OffsetRange(start_offset=0, end_offset=source_end(destination, source.where.topic))
    last = max(source.wanted)
    for offset in range(source.end + 1):
        found = translate_mapped(offset, mapping, held)
        assert isinstance(found, Placed)
        following = [places[each] for each in sorted(source.wanted) if each >= offset]
        after_all = places[last]
        assert after_all is not None
        assert found.offset == (following[0] if following else after_all + 1)


@pytest.mark.parametrize(
    ("step", "occurrence"), [(Step.SEND_BATCH, 4), (Step.SEND_PROGRESS, 2), (Step.COMMIT, 2), (Step.TAKE_COMMIT, 2)]
)
def test_a_filtered_copy_killed_in_a_transaction_is_completed_by_the_next_worker(
    step: str,
    occurrence: int,
    source: Source,
    destination_kafka: EmbeddedKafka,
    lease_processes: LeaseProcesses,
) -> None:
    destination = destination_kafka.bootstrap_servers
    create_topic(destination, source.where.topic)
    plan = lease_plan(source.servers, [(source.where, [mapped(source, destination)])], end=source.end)
    lease_processes.die_in_lease(plan, Death(step=step, occurrence=occurrence))

    row = run_lease(plan)[0, "west"]

    assert (row.error, row.position) == (None, source.end)
    assert_same_records(source.wanted, held_through_map(destination, source.where))
    assert len(consume(destination, source.where.topic, 0)) == len(source.wanted)
    assert_nothing_open(destination, source.where.topic, source.where)


def test_a_mapped_copy_goes_on_under_another_filter_and_is_not_called_foreign(
    source: Source, destination_kafka: EmbeddedKafka
) -> None:
    destination = destination_kafka.bootstrap_servers
    create_topic(destination, source.where.topic)
    middle = source.end - 60

    def run(condition: str, end: int) -> None:
        works = [(source.where, [mapped(source, destination, condition)])]
        row = run_lease(lease_plan(source.servers, works, end=end))[0, "west"]
        assert row.error is None
        assert row.position is not None
        assert row.position >= end

    run(WANTED, middle)
    changed_at = progress_of(destination, source.where)
    run(OTHERS, source.end)

    assert changed_at is not None
    expected = {o: r for o, r in source.wanted.items() if o < changed_at.position}
    expected |= {o: r for o, r in source.records.items() if o >= changed_at.position and r.headers[0][1] == b"bill"}
    assert_same_records(expected, held_through_map(destination, source.where))


def held_in(archive: ArchivedPartition) -> tuple[dict[int, Record], dict[GapKind, int]]:
    """Every record of an archive, and the gaps its segments count; each is compared with what it says of itself."""
    records: dict[int, Record] = {}
    gaps: dict[GapKind, int] = {}
    for info in archive.store.list(archive.prefix):
        if info.name.startswith("_"):
            continue
        with open_segment(archive.store, info.key) as segment:
            segment.check_content()
            assert segment.footer is not None
            for columns in segment.records():
                records |= records_of(columns)
            for kind, offsets in segment.footer.gap_offsets.items():
                gaps[kind] = gaps.get(kind, 0) + offsets
            for gap in segment.footer.gaps:
                assert not any(offset in records for offset in range(gap.offsets.start_offset, gap.offsets.end_offset))
    return records, gaps


def archive_of(source: Source, lake: Path, format_name: str) -> ArchivedPartition:
    return ArchivedPartition(
        store_of(lake), destination_name=source.where.topic, partition=0, extension=extension_of(format_name)
    )


@pytest.mark.parametrize("format_name", ["parquet", "ndjson", "log"])
def test_an_archive_has_what_is_wanted_in_an_unbroken_chain_and_counts_the_rest_as_filtered(
    format_name: str, source: Source, tmp_path: Path, lease_processes: LeaseProcesses
) -> None:
    # A machine that has not compiled the loops of NDJSON yet does so in this lease.
    works = [(source.where, [archiving(source, tmp_path, format_name)])]
    plan = lease_plan(source.servers, works, end=None, seconds=110.0)
    lease_processes.die_in_lease(plan, Death(step=PublishStep.PUBLISH_SEGMENT, occurrence=2))

    first, second = run_lease(plan)[0, "lake"], run_lease(plan)[0, "lake"]

    archive = archive_of(source, tmp_path, format_name)
    records, gaps = held_in(archive)
    assert (first.error, first.position, second.error, second.position) == (None, source.end, None, source.end)
    assert archive.read_chain().position == source.end
    assert_same_records(source.wanted, records)
    assert gaps == {GapKind.FILTERED: source.filtered, GapKind.ABSENT: 4}


@pytest.mark.parametrize("format_name", ["parquet", "log"])
def test_an_archive_goes_on_under_another_filter_and_is_not_called_diverged(
    format_name: str, source: Source, tmp_path: Path
) -> None:
    middle, changed_at = source.end - 60, 0
    for condition, end in ((WANTED, middle), (OTHERS, source.end), (None, source.end)):
        work = archiving(source, tmp_path, format_name, condition=condition, end=end)
        row = run_lease(lease_plan(source.servers, [(source.where, [work])], end=None))[0, "lake"]
        assert row.error is None
        assert row.position is not None
        assert row.position >= end
        changed_at = row.position if end == middle else changed_at

    records, _ = held_in(archive_of(source, tmp_path, format_name))
    expected = {o: r for o, r in source.wanted.items() if o < changed_at}
    expected |= {o: r for o, r in source.records.items() if o >= changed_at and r.headers[0][1] == b"bill"}
    assert_same_records(expected, records)
