"""kafka-replicator's files as a source: late, lost, overlapping, doubled, out of order and compacted while read."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import ChainBrokenError, TopicMissingError, TransientError
from mirrorlake.foreign_layout import BeginsAt, KafkaReplicatorLayout
from mirrorlake.offsets import GapKind, OffsetRange, TopicPartition
from mirrorlake.sources.archive.selection import ArchivedRange
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.sources.client import Bounds
from mirrorlake.sources.source import SourceContext
from support.archived_source import settings_at, source_at
from support.copies import assert_same_records
from support.reading import Taking, source_context
from support.records import Record, simple_records
from support.replicator_archive import REGION, encode_file, key_of, write_file
from support.segments import records_of

WHERE = TopicPartition("orders", 0)
RECORDS = dict(enumerate(simple_records(100, size=50)))
LAYOUT = KafkaReplicatorLayout(region=REGION)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (folder := tmp_path / "lake").mkdir()
    return folder


def source(lake: Path, **more: object) -> ArchiveSourceWork:
    return source_at(settings_at(lake), **{"layout": LAYOUT, **more})


def write(lake: Path, *ranges: tuple[int, int], level: int = 0) -> list[Path]:
    return [write_file(lake, RECORDS, first, last, level=level) for first, last in ranges]


def reading(run_async: RunAsync, body: Callable[[SourceContext], Awaitable[None]]) -> None:
    async def run() -> None:
        cache = WorkerCache()
        async with source_context(cache) as context:
            try:
                await body(context)
            finally:
                await context.stop()
        await cache.close()

    run_async(run())


async def taken(work: ArchiveSourceWork, context: SourceContext, start: int, end: int) -> Taking:
    taking = Taking(start, enough=end)
    reader = await work.open(WHERE, "", context).reader(is_live=False)
    await asyncio.wait_for(taking.until_over(reader), 20)
    return taking


def at(offsets: Iterable[int]) -> dict[int, Record]:
    return {offset: RECORDS[offset] for offset in offsets}


@pytest.mark.parametrize(
    "files",
    [
        pytest.param([(0, 0, 49), (0, 50, 99)], id="one after the other"),
        pytest.param([(0, 0, 49), (0, 0, 49), (1, 0, 49), (0, 50, 99)], id="doubled"),
        pytest.param([(0, 0, 49), (0, 20, 69), (0, 40, 99)], id="overlapping"),
        pytest.param([(0, 0, 9), (0, 10, 19), (1, 0, 19), (2, 0, 59), (0, 60, 99)], id="compacted, inputs left"),
        pytest.param([(0, 50, 99), (0, 20, 69), (0, 0, 20)], id="out of order"),
        pytest.param([(0, 0, 99), (0, 0, 9), (0, 90, 99)], id="covered"),
    ],
)
def test_every_offset_is_delivered_once_whatever_the_files(
    lake: Path, run_async: RunAsync, files: list[tuple[int, int, int]]
) -> None:
    for level, first, last in files:
        write(lake, (first, last), level=level)

    async def body(context: SourceContext) -> None:
        assert await source(lake).client(context.connections).bounds([WHERE]) == {WHERE: Bounds(start=0, end=100)}
        assert_same_records(RECORDS, records_of((await taken(source(lake), context, 0, 100)).records()))
        # Begun in the middle of whatever file serves it.
        assert_same_records(at(range(37, 100)), records_of((await taken(source(lake), context, 37, 100)).records()))

    reading(run_async, body)


def test_what_arrives_while_it_is_read_is_read_on_also_where_it_begins_below_what_was_read(
    lake: Path, run_async: RunAsync
) -> None:
    write(lake, (0, 9), (10, 29))

    async def body(context: SourceContext) -> None:
        taking, reader = Taking(0, enough=100), await source(lake).open(WHERE, "", context).reader(is_live=True)
        reading_on = asyncio.create_task(taking.until_over(reader))
        while taking.next_offset < 30:
            await asyncio.sleep(0.01)
        write(lake, (5, 59))  # a second writer, from an older commit on
        while taking.next_offset < 60:
            await asyncio.sleep(0.01)
        write(lake, (0, 99), level=1)
        await asyncio.wait_for(reading_on, 20)
        assert_same_records(RECORDS, records_of(taking.records()))

    reading(run_async, body)


def test_a_file_that_compaction_deletes_while_it_is_read_is_read_on_in_the_one_that_covers_it(
    lake: Path, run_async: RunAsync
) -> None:
    inputs = write(lake, *((start, start + 9) for start in range(0, 100, 10)))

    async def body(context: SourceContext) -> None:
        taking, reader = Taking(0, enough=100), await source(lake).open(WHERE, "", context).reader(is_live=True)
        taking.end_offset, taking.enough = 10, 100
        reading_on = asyncio.create_task(taking.until_over(reader))
        while taking.next_offset < 10:
            await asyncio.sleep(0.01)
        taking.is_willing = False
        write(lake, (0, 79), level=1)
        for path in inputs[:8]:
            path.unlink()
        taking.end_offset, taking.is_willing = 1 << 62, True
        reader.changed()
        await asyncio.wait_for(reading_on, 20)
        assert_same_records(RECORDS, records_of(taking.records()))

    reading(run_async, body)


def test_a_late_file_is_waited_for_and_said_and_read_on_with_when_it_comes(lake: Path, run_async: RunAsync) -> None:
    write(lake, (0, 19), (50, 99))

    async def body(context: SourceContext) -> None:
        work = source(lake)
        client = work.client(context.connections)
        assert await client.bounds([WHERE]) == {WHERE: Bounds(start=0, end=20)}
        taking, reader = Taking(0, enough=100), await work.open(WHERE, "", context).reader(is_live=True)
        reading_on = asyncio.create_task(taking.until_over(reader))
        while reader.refusal is None:
            await asyncio.sleep(0.01)
        assert isinstance(reader.refusal, TransientError)
        assert (reader.refusal.facts["start_offset"], reader.refusal.facts["end_offset"]) == (20, 50)
        assert taking.next_offset == 20
        write(lake, (15, 55))
        await asyncio.wait_for(reading_on, 20)
        assert_same_records(RECORDS, records_of(taking.records()))

    reading(run_async, body)


def test_a_lost_file_is_passed_over_as_a_gap_of_its_own_kind(lake: Path, run_async: RunAsync) -> None:
    write(lake, (0, 19), (50, 99))
    hole = OffsetRange(start_offset=20, end_offset=50)

    async def body(context: SourceContext) -> None:
        ranges = {WHERE: ArchivedRange(passed=(hole,))}
        taking = await taken(source(lake, skip_after_seconds=1.0, ranges=ranges), context, 0, 100)
        assert_same_records(at([*range(20), *range(50, 100)]), records_of(taking.records()))
        assert [(gap.offsets, gap.kind) for each in taking.taken for gap in each.gaps] == [(hole, GapKind.MISSING)]

    reading(run_async, body)


def test_offsets_without_a_record_inside_of_a_file_are_covered(lake: Path, run_async: RunAsync) -> None:
    records = at([0, 3, 4, 17, 18, 29])
    path = lake / key_of(0, 29)
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_file(records, row_group_rows=2))

    async def body(context: SourceContext) -> None:
        taking = await taken(source(lake), context, 0, 30)
        assert taking.next_offset == 30
        assert_same_records(records, records_of(taking.records()))

    reading(run_async, body)


def test_a_partition_begins_with_its_first_file_only_where_that_is_said(lake: Path, run_async: RunAsync) -> None:
    write(lake, (40, 69), (70, 99))

    async def body(context: SourceContext) -> None:
        client = source(lake).client(context.connections)
        assert await client.bounds([WHERE]) == {WHERE: Bounds(start=0, end=0)}
        missing = (await client.missing([WHERE]))[WHERE]
        assert (missing.facts["start_offset"], missing.facts["end_offset"]) == (0, 40)

        begun = source(lake, layout=KafkaReplicatorLayout(region=REGION, begins_at=BeginsAt.FIRST_SEGMENT))
        assert await begun.client(context.connections).bounds([WHERE]) == {WHERE: Bounds(start=40, end=100)}
        taking = await taken(begun, context, 40, 100)
        assert_same_records(at(range(40, 100)), records_of(taking.records()))
        assert {each.log_start_offset for each in taking.taken} == {40}

    reading(run_async, body)


def test_two_mirrors_that_see_one_bucket_in_different_ways_see_it_each_in_its_own(
    lake: Path, run_async: RunAsync
) -> None:
    write(lake, (0, 99))
    write_file(lake, at(range(60)), 0, 59, region="eu-1")

    async def body(context: SourceContext) -> None:
        for region, end in ((REGION, 100), ("eu-1", 60)):
            work = source(lake, layout=KafkaReplicatorLayout(region=region))
            assert await work.client(context.connections).bounds([WHERE]) == {WHERE: Bounds(start=0, end=end)}
            assert len((await taken(work, context, 0, end)).records()) == end

    reading(run_async, body)


@pytest.mark.parametrize("damage", ["cut", "renamed", "foreign name"])
def test_a_file_that_is_not_right_stops_the_partition_by_its_own_name_and_all_before_it_is_right(
    lake: Path, run_async: RunAsync, damage: str
) -> None:
    write(lake, (0, 29))
    (path,) = write(lake, (30, 99))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-50])
    elif damage == "renamed":
        path = path.rename(path.with_name(path.name.replace("99", "98")))
    else:
        path = path.rename(path.with_name(f"{path.name}.crc"))

    async def body(context: SourceContext) -> None:
        if damage == "foreign name":
            with pytest.raises(ChainBrokenError, match=path.name):
                await source(lake).open(WHERE, "", context).reader(is_live=False)
            return
        taking = Taking(0, enough=100)
        reader = await source(lake).open(WHERE, "", context).reader(is_live=False)
        reader.begin(taking)
        while not taking.errors:
            taking.something.clear()
            reader.changed()
            await asyncio.wait_for(taking.something.wait(), 20)
        assert isinstance(taking.errors[0], ChainBrokenError)
        assert str(path.relative_to(lake)) in str(taking.errors[0])
        assert_same_records(at(range(30)), records_of(taking.records()))

    reading(run_async, body)


def test_topics_and_partitions_are_the_folders_of_the_region(lake: Path, run_async: RunAsync) -> None:
    for topic, partition in (("orders", 0), ("orders", 3), ("orders.2", 0), ("123", 0)):
        write_file(lake, RECORDS, 0, 99, topic=topic, partition=partition)
    write_file(lake, RECORDS, 0, 99, region="eu-1", topic="elsewhere")

    async def body(context: SourceContext) -> None:
        client = source(lake).client(context.connections)
        found = (await client.topics(None)).topics
        assert {name: sorted(each.partitions) for name, each in found.items()} == {
            "orders": [0, 3],
            "orders.2": [0],
            "123": [0],
        }
        assert (await client.topics(["elsewhere"])).topics == {}
        with pytest.raises(TopicMissingError):
            await source(lake).open(TopicPartition("elsewhere", 0), "", context).find()

    reading(run_async, body)
