"""Archives that change, break or end while they are read: over real files, and in a bucket."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import RunAsync
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats import registry
from mirrorlake.archive.names import floor_name
from mirrorlake.archive.root_marker import ROOT_MARKER
from mirrorlake.archive.sidecar import find_sidecar, sidecar_key
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import (
    ChainBrokenError,
    DestinationAheadError,
    MirrorlakeError,
    SourceAbsentError,
    SourceTruncatedError,
    TopicMissingError,
    TopicRecreatedError,
    TransientError,
)
from mirrorlake.kafka.records.codec import RecordColumns
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.offsets import GapKind, OffsetRange, TopicPartition
from mirrorlake.sources.archive import content as content_module
from mirrorlake.sources.archive import opened_segment
from mirrorlake.sources.archive.opened_segment import OpenSegment
from mirrorlake.sources.archive.selection import ArchivedRange
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.sources.client import Bounds, concerns, seen_from
from mirrorlake.sources.source import SourceContext
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings
from support.archived_source import (
    BLOCKLESS_LOG,
    FORMS,
    SMALL_BLOCKS_LOG,
    archive,
    held_records,
    settings_at,
    source_at,
    write_segment,
)
from support.held_source import HeldPartition
from support.reading import Taking, source_context
from support.records import build_batch, every_kind, simple_records

WHERE = TopicPartition("orders", 0)
RECORDS = simple_records(100, size=200)
DECODED = ("parquet", "ndjson", "mirror-v3")
SEGMENTS = ("log", *DECODED)


def in_tens(count: int = 100) -> HeldPartition:
    """Records at offsets from 0 on, ten a batch."""
    return held_records([(base, build_batch(RECORDS[base : base + 10])) for base in range(0, count, 10)])


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemSettings:
    (tmp_path / "lake").mkdir()
    return settings_at(tmp_path / "lake")


def reading(run_async: RunAsync, body: Callable[[SourceContext], Awaitable[None]], **more: int) -> None:
    """Runs ``body`` with a lease's context."""

    async def run() -> None:
        cache = WorkerCache()
        async with source_context(cache, **more) as context:
            try:
                await body(context)
            finally:
                await context.stop()
        await cache.close()

    run_async(run())


async def read_all(work: ArchiveSourceWork, context: SourceContext, start: int, end: int, topic_id: str = "") -> Taking:
    taking = Taking(start, enough=end)
    await taking.until_over(await work.open(WHERE, topic_id, context).reader(is_live=False))
    return taking


async def fails(work: ArchiveSourceWork, context: SourceContext, start: int = 0, end: int = 100) -> Taking:
    """Reads until it cannot go on."""
    taking = Taking(start, enough=end)
    reader = await work.open(WHERE, "", context).reader(is_live=False)
    reader.begin(taking)
    while not taking.errors:
        taking.something.clear()
        reader.changed()
        await asyncio.wait_for(taking.something.wait(), 10)
    return taking


def values(records: RecordColumns) -> list[bytes | None]:
    return [None if each is None else bytes(each) for each in records.values.to_pylist()]


# --- every field, every form ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4], ids=["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_field_of_every_kind_of_record_comes_back_at_its_own_offset(
    lake: FilesystemSettings, run_async: RunAsync, form: str, codec: int
) -> None:
    if form == "snapshot":  # a record without a key cannot be in one
        kinds = [record for record in every_kind(1) if record.key is not None]
        kinds = [replace(record, key=b"%d" % n, value=record.value or b"") for n, record in enumerate(kinds)]
    else:
        kinds = every_kind(1)
    # A hole inside of a segment, one at its end, and a batch that reaches over a cut.
    content = held_records([(0, build_batch(kinds[:20], codec)), (25, build_batch(kinds[20:], codec))])
    end = content.end
    ends = [end] if form == "snapshot" else [10, 22, end]
    if form == "mirror-v3":
        ends = [10, 20, end]
    archive(lake, WHERE, content, ends, form=form)

    async def body(context: SourceContext) -> None:
        found = (await read_all(source_at(lake), context, 0, end)).records()
        assert found.equals(content.records(OffsetRange(start_offset=0, end_offset=end)))

    reading(run_async, body)


@pytest.mark.parametrize("form", FORMS)
def test_a_range_is_what_the_source_holds_to_the_offset(
    lake: FilesystemSettings, run_async: RunAsync, form: str
) -> None:
    archive(lake, WHERE, in_tens(), [100] if form == "snapshot" else [37, 70, 100], form=form)
    work = source_at(lake, ranges={WHERE: ArchivedRange(start_offset=13, end_offset=58)})

    async def body(context: SourceContext) -> None:
        assert await work.client(context.connections).bounds([WHERE]) == {WHERE: Bounds(start=13, end=58)}
        taking = await read_all(work, context, 13, 58)
        assert taking.next_offset == 58
        assert taking.records().offsets.tolist() == list(range(13, 58))
        # Who stands below is told where it begins; who is past the end, that it is.
        reader = await work.open(WHERE, "", context).reader(is_live=False)
        assert isinstance(await reader.explain_out_of_range(12), SourceTruncatedError)

    reading(run_async, body)


def test_a_segment_that_holds_gaps_alone_is_covered_without_a_batch(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    content = held_records([(0, build_batch(RECORDS[:10])), (30, build_batch(RECORDS[30:40]))])
    for form in ("parquet", "ndjson", "log"):
        work = source_at(settings_at(lake.root / form))
        (lake.root / form).mkdir()
        archive(work.store, WHERE, content, [10, 20, 30, 40], form=form)

        async def body(context: SourceContext, work: ArchiveSourceWork = work) -> None:
            taking = await read_all(work, context, 0, 40)
            assert taking.records().offsets.tolist() == [*range(10), *range(30, 40)]
            empty = [each for each in taking.taken if not each.batches]
            assert [str(each.covered) for each in empty] == ["[10, 20)", "[20, 30)"]

        reading(run_async, body)


def test_a_record_larger_than_a_batch_is_asked_for_comes_alone(lake: FilesystemSettings, run_async: RunAsync) -> None:
    large = replace(RECORDS[1], value=b"x" * 300_000)
    archive(lake, WHERE, held_records([(0, build_batch([RECORDS[0], large, RECORDS[2]]))]), [3], form="parquet")

    async def body(context: SourceContext) -> None:
        taking = await read_all(source_at(lake, batch_bytes_max=1000), context, 0, 3)
        assert [item.batch.header.base_offset for each in taking.taken for item in each.batches] == [0, 1, 2]
        assert values(taking.records())[1] == large.value

    reading(run_async, body)


def test_a_log_segments_batches_pass_as_their_bytes(lake: FilesystemSettings, run_async: RunAsync) -> None:
    content = in_tens()
    archive(lake, WHERE, content, [40, 100], form="log")

    async def body(context: SourceContext) -> None:
        taking = await read_all(source_at(lake), context, 0, 100)
        found = [bytes(item.batch.view) for each in taking.taken for item in each.batches]
        assert found == list(content.batches.values())

    reading(run_async, body)


@pytest.mark.parametrize("form", [SMALL_BLOCKS_LOG, BLOCKLESS_LOG, *(form for form in FORMS if form != "log")])
def test_pieces_are_bounded_whatever_a_segment_holds(
    lake: FilesystemSettings, run_async: RunAsync, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_module, "PIECE_BYTES", 5000)
    monkeypatch.setattr(content_module, "VIEW_BYTES_MAX", 7000)
    archive(lake, WHERE, in_tens(), [100], form=form)

    async def body(context: SourceContext) -> None:
        taking = await read_all(source_at(lake), context, 0, 100)
        assert values(taking.records()) == [record.value for record in RECORDS]
        sizes = [sum(len(item.batch.view) for item in each.batches) for each in taking.taken]
        assert len(sizes) >= 4
        assert max(sizes) < 8000

    reading(run_async, body)


def test_many_partitions_are_read_with_few_segments_open(lake: FilesystemSettings, run_async: RunAsync) -> None:
    partitions = [TopicPartition("orders", number) for number in range(12)]
    for each in partitions:
        archive(lake, each, in_tens(40), [20, 40], form="parquet")

    async def body(context: SourceContext) -> None:
        work, takings = source_at(lake), [Taking(0, enough=40) for _ in partitions]
        readers = [await work.open(each, "", context).reader(is_live=False) for each in partitions]
        await asyncio.gather(*(t.until_over(r) for t, r in zip(takings, readers, strict=True)))
        assert [t.records().offsets.tolist() for t in takings] == [list(range(40))] * 12

    reading(run_async, body, memory_bytes_max=10 << 20)


# --- an archive that changes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", SEGMENTS)
def test_what_arrives_while_it_is_read_is_read_on(lake: FilesystemSettings, run_async: RunAsync, form: str) -> None:
    content = in_tens()
    archive(lake, WHERE, content, [30], form=form)

    async def body(context: SourceContext) -> None:
        taking, reader = Taking(0, enough=100), await source_at(lake).open(WHERE, "", context).reader(is_live=True)
        reading_on = asyncio.create_task(taking.until_over(reader))
        while taking.next_offset < 30:
            await asyncio.sleep(0.01)
        write_segment(open_store(lake), WHERE, content, 30, 60, form=form)
        write_segment(open_store(lake), WHERE, content, 60, 100, form=form)
        await asyncio.wait_for(reading_on, 15)
        assert values(taking.records()) == [record.value for record in RECORDS]

    reading(run_async, body)


@pytest.mark.parametrize("place", ["folder", "bucket"])
@pytest.mark.parametrize("form", ["log", "parquet"])
def test_a_segment_that_is_merged_away_is_read_on_in_the_one_that_covers_it(
    request: pytest.FixtureRequest, lake: FilesystemSettings, run_async: RunAsync, form: str, place: str
) -> None:
    where = lake if place == "folder" else request.getfixturevalue("moto").settings()
    content = in_tens()
    archive(where, WHERE, content, [10, 20, 30, 40, 100], form=form)
    store = open_store(where)

    async def body(context: SourceContext) -> None:
        taking, reader = Taking(0, enough=100), await source_at(where).open(WHERE, "", context).reader(is_live=True)
        taking.end_offset = 10  # and waits there
        taking.enough = 100
        reading_on = asyncio.create_task(taking.until_over(reader))
        while taking.next_offset < 10:
            await asyncio.sleep(0.01)
        taking.is_willing = False
        write_segment(store, WHERE, content, 0, 40, form="parquet")
        for start in range(0, 40, 10):
            for extension in ("log", "parquet"):
                store.delete(f"orders/0/{start:020}-{start + 9:020}.{extension}")
        taking.end_offset, taking.is_willing = 1 << 62, True
        reader.changed()
        await asyncio.wait_for(reading_on, 15)
        assert taking.records().offsets.tolist() == list(range(100))
        assert values(taking.records()) == [record.value for record in RECORDS]

    reading(run_async, body)


@pytest.mark.parametrize("start", [0, 15], ids=["from its start", "from inside of it"])
@pytest.mark.parametrize("place", ["folder", "bucket"])
@pytest.mark.parametrize("form", ["log", "ndjson"])
def test_a_segment_whose_description_goes_with_it_while_it_is_opened_is_read_on_in_the_one_that_covers_it(
    request: pytest.FixtureRequest,
    lake: FilesystemSettings,
    run_async: RunAsync,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    place: str,
    start: int,
) -> None:
    """A merge deletes a segment and then its description: whoever opened it in between is told of no description."""
    where = lake if place == "folder" else request.getfixturevalue("moto").settings()
    content = in_tens()
    archive(where, WHERE, content, [30, 60, 100], form=form)
    store = open_store(where)
    key = f"orders/0/{0:020}-{29:020}.{form}"

    def late(*given: Any) -> SegmentFooter | None:
        if given[1] == key:
            write_segment(store, WHERE, content, 0, 60, form="parquet")
            for each in (key, f"orders/0/{30:020}-{59:020}.{form}"):
                store.delete(each)
                store.delete(sidecar_key(each))
        return find_sidecar(*given)

    async def body(context: SourceContext) -> None:
        work = source_at(where)
        assert (await work.client(context.connections).bounds([WHERE]))[WHERE] == Bounds(start=0, end=100)
        monkeypatch.setattr(registry, "find_sidecar", late)
        taking = await read_all(work, context, start, 100)
        assert values(taking.records()) == [record.value for record in RECORDS[start:]]

    reading(run_async, body)


def test_what_was_looked_for_in_a_segment_is_not_read_again(
    lake: FilesystemSettings, run_async: RunAsync, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mirror with `from` or `until` looks every few seconds."""
    records = [replace(record, timestamp=1000 + n) for n, record in enumerate(RECORDS)]
    content = held_records([(base, build_batch(records[base : base + 10])) for base in range(0, 100, 10)])
    archive(lake, WHERE, content, [20, 40, 60], form="mirror-v3")
    opened = list[str]()
    begin = OpenSegment.__init__

    def counted(*given: Any, **named: Any) -> None:
        opened.append(given[2])
        begin(*given, **named)

    monkeypatch.setattr(OpenSegment, "__init__", counted)

    async def body(context: SourceContext) -> None:
        work = source_at(lake)

        async def looked(time_ms: int) -> tuple[object, int]:
            opened.clear()
            found = (await work.client(context.connections).offsets_at([WHERE], time_ms))[WHERE]
            return found, len(opened)

        assert [await looked(1030) for _ in range(3)] == [(30, 2), (30, 0), (30, 0)]
        assert [await looked(1070) for _ in range(3)] == [(None, 3), (None, 0), (None, 0)]
        # What comes is looked at, and nothing else; so is what a merge has made of the last one looked at, and of it.
        write_segment(open_store(lake), WHERE, content, 60, 70, form="mirror-v3")
        assert [await looked(1070) for _ in range(2)] == [(None, 1), (None, 0)]
        write_segment(open_store(lake), WHERE, content, 60, 80, form="parquet")
        assert [await looked(1070) for _ in range(2)] == [(70, 1), (70, 0)]
        # Retention moves the start; what lies behind it was looked at.
        open_store(lake).create(f"orders/0/{floor_name(20)}", b"")
        assert [await looked(1070), await looked(1030)] == [(70, 0), (30, 0)]
        open_store(lake).create(f"orders/0/{floor_name(40)}", b"")
        assert await looked(1030) == (40, 1)

    reading(run_async, body)


def test_what_was_found_in_one_archive_is_not_told_of_another_in_its_place(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    async def body(context: SourceContext) -> None:
        for first_ms, expected in ((1000, 30), (1010, 20)):
            records = [replace(record, timestamp=first_ms + n) for n, record in enumerate(RECORDS)]
            content = held_records([(base, build_batch(records[base : base + 10])) for base in range(0, 60, 10)])
            archive(lake, WHERE, content, [20, 40, 60], form="parquet")
            found = await source_at(lake).client(context.connections).offsets_at([WHERE], 1030)
            assert found == {WHERE: expected}
            lake.root.rename(lake.root.with_name(f"exchanged-{first_ms}"))
            lake.root.mkdir()

    reading(run_async, body)


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "too large to be held"])
@pytest.mark.parametrize("end", [51, 57, 60])
def test_a_log_is_read_on_behind_a_batch_that_was_cut_by_what_was_wanted(
    request: pytest.FixtureRequest,
    run_async: RunAsync,
    monkeypatch: pytest.MonkeyPatch,
    end: int,
    is_held: bool,
) -> None:
    """Where the reading of a log stopped is remembered; a batch of which a part was wanted is read again."""
    where = request.getfixturevalue("moto").settings()
    if not is_held:
        monkeypatch.setattr(opened_segment, "HELD_BYTES_MAX", 0)
    monkeypatch.setattr(content_module, "PIECE_BYTES", 5000)
    archive(where, WHERE, in_tens(), [100], form="log")

    async def body(context: SourceContext) -> None:
        chosen = source_at(where, ranges={WHERE: ArchivedRange(end_offset=end)})
        assert values((await read_all(chosen, context, 0, end)).records()) == [each.value for each in RECORDS[:end]]
        for start in (end, end - 1, 50, 0):
            # A taker whose end lies inside of a batch is given it whole, and goes on behind it or inside of it.
            taking = Taking(start, enough=end + 5, end=end + 5)
            await taking.until_over(await source_at(where).open(WHERE, "", context).reader(is_live=False))
            shown = [each.value for each in RECORDS[start : taking.next_offset]]
            assert values(taking.records()) == shown
            rest = await read_all(source_at(where), context, end + 5, 100)
            assert values(rest.records()) == [each.value for each in RECORDS[end + 5 :]]

    reading(run_async, body)


def test_a_hole_is_waited_for_and_said_and_read_on_when_it_is_closed(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    content, store = in_tens(), open_store(lake)
    archive(lake, WHERE, content, [20], form="parquet")
    write_segment(store, WHERE, content, 50, 100, form="parquet")

    async def body(context: SourceContext) -> None:
        work = source_at(lake)
        client = work.client(context.connections)
        assert await client.bounds([WHERE]) == {WHERE: Bounds(start=0, end=20)}
        hole = (await client.holes([WHERE]))[WHERE]
        assert hole is not None
        assert str(hole.offsets) == "[20, 50)"
        taking, reader = Taking(0, enough=100), await work.open(WHERE, "", context).reader(is_live=True)
        reading_on = asyncio.create_task(taking.until_over(reader))
        while reader.refusal is None:
            await asyncio.sleep(0.01)
        assert taking.next_offset == 20
        assert isinstance(reader.refusal, TransientError)
        assert reader.refusal.facts["start_offset"] == 20
        assert reader.refusal.facts["end_offset"] == 50
        assert reader.refusal.facts["age_seconds"] is not None
        write_segment(store, WHERE, content, 20, 50, form="parquet")
        await asyncio.wait_for(reading_on, 15)
        assert taking.records().offsets.tolist() == list(range(100))
        assert reader.refusal is None

    reading(run_async, body)


PASSED = ArchivedRange(passed=(OffsetRange(start_offset=20, end_offset=50),))


def with_hole(lake: FilesystemSettings, form: str = "parquet") -> HeldPartition:
    """An archive without its offsets from 20 to 50."""
    content = in_tens()
    archive(lake, WHERE, content, [20], form=form)
    write_segment(open_store(lake), WHERE, content, 50, 100, form=form)
    return content


@pytest.mark.parametrize("form", SEGMENTS)
def test_a_hole_that_is_passed_over_is_delivered_as_a_gap_of_its_own_kind(
    lake: FilesystemSettings, run_async: RunAsync, form: str
) -> None:
    with_hole(lake, form)

    async def body(context: SourceContext) -> None:
        work = source_at(lake, skip_after_seconds=1.0, ranges={WHERE: PASSED})
        taking = Taking(0, enough=100)
        await asyncio.wait_for(taking.until_over(await work.open(WHERE, "", context).reader(is_live=True)), 15)
        assert taking.records().offsets.tolist() == [*range(20), *range(50, 100)]
        gaps = [(gap.offsets, gap.kind) for each in taking.taken for gap in each.gaps]
        assert gaps == [(PASSED.passed[0], GapKind.MISSING)]
        assert {(each.log_start_offset, each.end_offset) for each in taking.taken} == {(0, 100)}

    reading(run_async, body)


@pytest.mark.parametrize(
    "passed",
    [(), (OffsetRange(start_offset=20, end_offset=49),), (OffsetRange(start_offset=21, end_offset=60),)],
    ids=["nothing", "less at the end", "less at the beginning"],
)
def test_a_hole_is_waited_for_until_all_of_it_is_passed_over(
    lake: FilesystemSettings, run_async: RunAsync, passed: tuple[OffsetRange, ...]
) -> None:
    with_hole(lake)

    async def body(context: SourceContext) -> None:
        work = source_at(lake, skip_after_seconds=1.0, ranges={WHERE: ArchivedRange(passed=passed)})
        bounds = (await work.client(context.connections).bounds([WHERE]))[WHERE]
        assert bounds == Bounds(start=0, end=100, holes=PASSED.passed)
        assert isinstance(bounds, Bounds)
        assert [seen_from(bounds, at)[1] for at in (None, 0, 20, 30, 50, 70)] == [20, 20, 20, 30, 100, 100]
        taking, reader = Taking(0, enough=100), await work.open(WHERE, "", context).reader(is_live=True)
        reading_on = asyncio.create_task(taking.until_over(reader))
        while reader.refusal is None:
            await asyncio.sleep(0.01)
        assert taking.next_offset == 20
        assert reader.refusal.facts["end_offset"] == 50
        assert reader.source_end == 20
        reading_on.cancel()

    reading(run_async, body)


def test_what_came_in_time_is_read_although_it_was_to_be_passed_over(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    content = with_hole(lake)
    write_segment(open_store(lake), WHERE, content, 20, 40, form="log")

    async def body(context: SourceContext) -> None:
        work = source_at(lake, skip_after_seconds=1.0, ranges={WHERE: PASSED})
        taking = Taking(0, enough=100)
        await asyncio.wait_for(taking.until_over(await work.open(WHERE, "", context).reader(is_live=True)), 15)
        assert taking.records().offsets.tolist() == [*range(40), *range(50, 100)]
        (gap,) = [gap for each in taking.taken for gap in each.gaps]
        assert str(gap.offsets) == "[40, 50)"

    reading(run_async, body)


@pytest.mark.parametrize("position", [30, 50, 70])
def test_who_stands_in_a_hole_or_behind_it_reads_on_from_there(
    lake: FilesystemSettings, run_async: RunAsync, position: int
) -> None:
    """After a restart nobody knows how old the hole is; who is past it need not wait for that."""
    with_hole(lake)

    async def body(context: SourceContext) -> None:
        ranges = {WHERE: PASSED} if position < 50 else {}
        work = source_at(lake, skip_after_seconds=3600.0, ranges=ranges)
        taking = Taking(position, enough=100)
        await asyncio.wait_for(taking.until_over(await work.open(WHERE, "", context).reader(is_live=True)), 15)
        assert taking.records().offsets.tolist() == list(range(max(position, 50), 100))
        log = work.log(WHERE, context.connections)
        assert (await log.start(), await log.end()) == (0, 100)
        tail = await log.read_tail(OffsetRange(start_offset=15, end_offset=60))
        assert tail.records.offsets.tolist() == [*range(15, 20), *range(50, 60)]
        assert [at for at in range(15, 60) if tail.is_unknown(at)] == list(range(20, 50))
        parts = [part async for part in log.read_range(OffsetRange(start_offset=0, end_offset=100))]
        assert RecordColumns.concat(parts).offsets.tolist() == [*range(20), *range(50, 100)]

    reading(run_async, body)


def test_a_mirror_that_waits_and_one_that_passes_over_see_the_same_folder_each_in_its_way(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    with_hole(lake)

    async def body(context: SourceContext) -> None:
        for _ in range(2):
            waiting, skipping = source_at(lake), source_at(lake, skip_after_seconds=1.0)
            bounds = [(await each.client(context.connections).bounds([WHERE]))[WHERE] for each in (waiting, skipping)]
            assert bounds == [Bounds(start=0, end=20), Bounds(start=0, end=100, holes=PASSED.passed)]
        missing = (await skipping.client(context.connections).missing([WHERE]))[WHERE]
        kept_up = [concerns(missing, at, 100) for at in (None, 0, 20, 49, 50, 100)]
        assert kept_up == [True, True, True, True, False, False]
        # Where the source is not read behind it, who stands there waits for it too.
        assert [concerns(missing, at, 20) for at in (20, 50, 100)] == [True, True, True]

    reading(run_async, body)


@pytest.mark.parametrize("form", ["log", "parquet", "ndjson"])
def test_the_kinds_of_gaps_that_a_segment_records_are_delivered(
    lake: FilesystemSettings, run_async: RunAsync, form: str
) -> None:
    later = in_tens()
    later.batches = {at: batch for at, batch in later.batches.items() if at >= 60}
    later.start = 60
    archive(lake, WHERE, in_tens(20), [20], form=form)
    write_segment(open_store(lake), WHERE, later, 20, 100, form=form)

    async def body(context: SourceContext) -> None:
        taking = Taking(0, enough=100)
        reader = await source_at(lake).open(WHERE, "", context).reader(is_live=True)
        await asyncio.wait_for(taking.until_over(reader), 15)
        gaps = [(str(gap.offsets), gap.kind) for each in taking.taken for gap in each.gaps]
        assert gaps == [("[20, 60)", GapKind.TRUNCATED)]

    reading(run_async, body)


@pytest.mark.parametrize("behind", [True, False], ids=["with more behind it", "at the end"])
def test_a_hole_below_a_position_is_waited_for_with_its_offsets_and_cured_when_the_segment_is_back(
    lake: FilesystemSettings, run_async: RunAsync, behind: bool
) -> None:
    archive(lake, WHERE, in_tens(), [20, 40, 100], form="parquet")
    store = open_store(lake)
    lost = [f"orders/0/{20:020}-{39:020}.parquet"] if behind else [f"orders/0/{40:020}-{99:020}.parquet"]
    content = {key: store.read(key) for key in lost}
    for key in lost:
        store.delete(key)
    missing = "[20, 40)" if behind else "[40, 100)"

    async def body(context: SourceContext) -> None:
        reader = await source_at(lake).open(WHERE, "", context).reader(is_live=False)
        log = source_at(lake).log(WHERE, context.connections)
        for position in (45, 100):
            error = await reader.explain_out_of_range(position)
            assert isinstance(error, TransientError)
            assert f"offsets {missing} are missing" in error.message
            with pytest.raises(TransientError, match="are missing"):
                await log.read_tail(OffsetRange(start_offset=position - 5, end_offset=position))
        for key, data in content.items():
            store.create(key, data)
        assert "refused offset 100" in (await reader.explain_out_of_range(100)).message
        assert len((await log.read_tail(OffsetRange(start_offset=95, end_offset=100))).records) == 5
        # Who is past all that ever was is still told so.
        assert isinstance(await reader.explain_out_of_range(101), DestinationAheadError)

    reading(run_async, body)


def test_what_was_recorded_and_is_missing_at_the_end_is_a_hole(lake: FilesystemSettings, run_async: RunAsync) -> None:
    archive(lake, WHERE, in_tens(), [20, 100], form="parquet")
    open_store(lake).delete(f"orders/0/{20:020}-{99:020}.parquet")

    async def body(context: SourceContext) -> None:
        hole = (await source_at(lake).client(context.connections).holes([WHERE]))[WHERE]
        assert hole is not None
        assert str(hole.offsets) == "[20, 100)"

    reading(run_async, body)


def test_a_log_begins_where_retention_left_it(lake: FilesystemSettings, run_async: RunAsync) -> None:
    archive(lake, WHERE, in_tens(), [20, 60, 100], form="parquet")
    store = open_store(lake)
    store.create(f"orders/0/{floor_name(20)}", b"")

    async def body(context: SourceContext) -> None:
        client = source_at(lake).client(context.connections)
        assert await client.bounds([WHERE]) == {WHERE: Bounds(start=20, end=100)}
        store.delete(f"orders/0/{0:020}-{19:020}.parquet")
        assert await client.bounds([WHERE]) == {WHERE: Bounds(start=20, end=100)}
        assert (await read_all(source_at(lake), context, 20, 100)).records().offsets.tolist() == list(range(20, 100))

    reading(run_async, body)


# --- what is damaged, missing or another one's ----------------------------------------------------------------


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x40
    path.write_bytes(bytes(data))


def foreign(path: Path) -> None:
    path.write_bytes(b"this was never a segment\n" * 40)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("form", ["log", "parquet", "ndjson"])
@pytest.mark.parametrize("damage", [cut_short, flip, foreign, empty], ids=lambda damage: damage.__name__)
def test_a_damaged_segment_stops_the_partition_by_name_and_all_before_it_is_right(
    lake: FilesystemSettings, run_async: RunAsync, form: str, damage: Callable[[Path], None]
) -> None:
    archive(lake, WHERE, in_tens(), [30, 60, 100], form=form)
    name = f"{30:020}-{59:020}.{form}"
    damage(lake.root / "orders" / "0" / name)

    async def body(context: SourceContext) -> None:
        taking = await fails(source_at(lake), context)
        (error,) = taking.errors
        assert isinstance(error, ChainBrokenError)
        assert name in error.message
        assert error.hint
        shown = taking.records()
        assert 30 <= taking.next_offset < 60
        assert values(shown) == [record.value for record in RECORDS[: taking.next_offset]]

    reading(run_async, body)


@pytest.mark.parametrize("damage", [cut_short, foreign, empty], ids=lambda damage: damage.__name__)
def test_a_damaged_file_of_mirror_v3_stops_the_partition_by_name(
    lake: FilesystemSettings, run_async: RunAsync, damage: Callable[[Path], None]
) -> None:
    archive(lake, WHERE, in_tens(), [30, 60, 100], form="mirror-v3")
    name = f"{30:020}-{59:020}.parquet"
    damage(lake.root / "orders" / "0" / name)

    async def body(context: SourceContext) -> None:
        taking = await fails(source_at(lake), context)
        assert isinstance(taking.errors[0], ChainBrokenError)
        assert name in taking.errors[0].message
        assert taking.next_offset == 30

    reading(run_async, body)


def test_a_segment_that_was_renamed_or_swapped_is_refused(lake: FilesystemSettings, run_async: RunAsync) -> None:
    archive(lake, WHERE, in_tens(), [30, 60, 100], form="parquet")
    folder = lake.root / "orders" / "0"
    (folder / f"{30:020}-{59:020}.parquet").write_bytes((folder / f"{0:020}-{29:020}.parquet").read_bytes())

    async def body(context: SourceContext) -> None:
        taking = await fails(source_at(lake), context)
        assert "says of itself that it covers [0, 30)" in taking.errors[0].message
        assert taking.next_offset == 30

    reading(run_async, body)


def test_a_segment_of_another_topic_id_is_refused(lake: FilesystemSettings, run_async: RunAsync) -> None:
    archive(lake, WHERE, in_tens(), [30], form="parquet")
    write_segment(open_store(lake), WHERE, in_tens(), 30, 100, form="parquet", topic_id="another")

    async def body(context: SourceContext) -> None:
        taking = await fails(source_at(lake), context)
        assert isinstance(taking.errors[0], ChainBrokenError)
        assert taking.next_offset == 30

    reading(run_async, body)


def test_a_name_that_is_none_of_ours_is_named(lake: FilesystemSettings, run_async: RunAsync) -> None:
    archive(lake, WHERE, in_tens(), [100], form="parquet")
    (lake.root / "orders" / "0" / "copy of segment.parquet").write_bytes(b"")

    async def body(context: SourceContext) -> None:
        with pytest.raises(ChainBrokenError, match="copy of segment"):
            await source_at(lake).open(WHERE, "", context).find()

    reading(run_async, body)


def test_an_archive_that_was_exchanged_or_is_not_mounted_is_refused(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    archive(lake, WHERE, in_tens(), [100], form="parquet")

    async def found(context: SourceContext, error: type[MirrorlakeError], **more: object) -> None:
        with pytest.raises(error) as refused:
            await source_at(lake, **more).open(WHERE, "", context).find()
        # A mount may come back by itself, as a broker may: a lease that finds it away does not park the partition.
        assert (between_leases(refused.value) is Decision.BACK_OFF) is (error is SourceAbsentError)

    async def body(context: SourceContext) -> None:
        await found(context, SourceAbsentError, archive_id="another")
        await found(context, TopicMissingError, generation=2)
        (lake.root / ROOT_MARKER).rename(lake.root / "gone")
        await found(context, SourceAbsentError, archive_id="the one there was")

    reading(run_async, body)


def test_a_partition_without_a_file_is_empty_and_one_that_lost_all_is_refused(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    archive(lake, TopicPartition("orders", 2), in_tens(), [100], form="parquet")
    beside = TopicPartition("orders", 1)

    async def body(context: SourceContext) -> None:
        client = source_at(lake).client(context.connections)
        assert (await client.bounds([beside]))[beside] == Bounds(start=0, end=0)
        for each in (lake.root / "orders" / "2").iterdir():
            each.unlink()
        with pytest.raises(ChainBrokenError, match="had reached offset 100"):
            await source_at(lake).open(TopicPartition("orders", 2), "", context).find()

    reading(run_async, body)


def test_generations_are_one_topic_of_which_the_newest_is_read_unless_another_is_named(
    lake: FilesystemSettings, run_async: RunAsync
) -> None:
    archive(lake, WHERE, in_tens(40), [40], form="parquet", topic_id="first")
    second = TopicPartition("orders.2", 0)
    archive(lake, second, in_tens(70), [70], form="parquet", topic_id="second", topic="orders")

    async def body(context: SourceContext) -> None:
        newest, first = source_at(lake), source_at(lake, generation=1)
        topics = await newest.client(context.connections).topics(None)
        assert {name: each.topic_id for name, each in topics.topics.items()} == {"orders": "second"}
        bounds = [(await work.client(context.connections).bounds([WHERE]))[WHERE] for work in (newest, first)]
        assert bounds == [Bounds(start=0, end=70), Bounds(start=0, end=40)]
        with pytest.raises(TopicRecreatedError):
            await newest.open(WHERE, "first", context).find()
        named = source_at(lake, folders={"payments": "orders.2"})
        payments = TopicPartition("payments", 0)
        assert (await named.client(context.connections).bounds([payments]))[payments] == Bounds(start=0, end=70)

    reading(run_async, body)


def test_a_copy_of_another_snapshot_is_told_by_its_tail(lake: FilesystemSettings, run_async: RunAsync) -> None:
    content = in_tens(40)
    archive(lake, WHERE, content, [40], form="snapshot")

    async def body(context: SourceContext) -> None:
        content.add(40, build_batch([replace(RECORDS[7], value=b"newer")]))
        write_segment(open_store(lake), WHERE, content, 40, 41, form="snapshot")
        tail = (
            await source_at(lake).log(WHERE, context.connections).read_tail(OffsetRange(start_offset=0, end_offset=30))
        )
        # The record at 7 was superseded: a copy that has it was begun from an older snapshot.
        assert [offset for offset in range(30) if tail.is_unseen(offset)] == [7]

    reading(run_async, body)
