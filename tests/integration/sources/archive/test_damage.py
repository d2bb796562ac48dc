"""A damaged segment stops its partition by its name, wherever reading begins, in every format and kind of store.

What was handed out before is right: a record that is missing in a file is never taken for one that never was.
"""

import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from conftest import RunAsync
from integration.sources.archive.test_reading import RECORDS, WHERE, fails, in_tens, read_all, reading, values
from mirrorlake.archive.envelope import SegmentFooter, decode_footer
from mirrorlake.archive.formats import parquet_reader
from mirrorlake.archive.sidecar import sidecar_key
from mirrorlake.clock import SystemClock
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.batches import walk
from mirrorlake.offsets import OffsetRange
from mirrorlake.sources.archive import opened_segment
from mirrorlake.sources.archive.folder import SourceFolder
from mirrorlake.sources.archive.planned import PlannedReading
from mirrorlake.sources.archive.selection import ArchivedRange
from mirrorlake.sources.source import SourceContext
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from support.archived_source import (
    BARE_NDJSON,
    BLOCKLESS_LOG,
    SMALL_BLOCKS_LOG,
    archive,
    extension_of,
    held_records,
    mark,
    settings_at,
    source_at,
    without_blocks,
    write_segment,
)
from support.records import build_batch, simple_records

START, END = 30, 60
Damage = Callable[[bytes], bytes]


def lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def without_last_lines(data: bytes) -> bytes:
    return b"".join(lines(data)[:-8])


def without_inner_lines(data: bytes) -> bytes:
    return b"".join([*lines(data)[:12], *lines(data)[24:]])


def one_line_for_another(data: bytes) -> bytes:
    """The same length, so that only the bytes tell."""
    found = lines(data)
    assert len(found[25]) == len(found[26])
    found[25] = found[26].replace(b'"offset":56', b'"offset":55')
    return b"".join(found)


def without_last_batch(data: bytes) -> bytes:
    return b"".join(bytes(batch.view) for batch in [*walk(memoryview(data))][:-1])


def without_inner_batch(data: bytes) -> bytes:
    first, _, last = (bytes(batch.view) for batch in walk(memoryview(data)))
    return first + last


def flipped_batch(data: bytes) -> bytes:
    middle = [*walk(memoryview(data))][1]
    return data.replace(bytes(middle.view), bytes(middle.view[:-3]) + bytes(b ^ 0x40 for b in middle.view[-3:]))


def flipped_values(data: bytes) -> bytes:
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    (values,) = (group.column(n) for n in range(group.num_columns) if group.column(n).path_in_schema == "value")
    changed = bytearray(data)
    changed[values.data_page_offset + values.total_compressed_size // 2] ^= 0x40
    return bytes(changed)


def without_last_rows(data: bytes) -> bytes:
    table, written = pq.read_table(io.BytesIO(data)), io.BytesIO()
    pq.write_table(table.slice(0, len(table) - 8), written, compression="zstd")
    return written.getvalue()


def other_values(data: bytes) -> bytes:
    """A file that is right as far as Parquet can tell."""
    table, written = pq.read_table(io.BytesIO(data)), io.BytesIO()
    at = table.column_names.index("value")
    rolled = np.roll(np.arange(len(table)), 1)
    pq.write_table(table.set_column(at, table.schema.field(at), table["value"].take(rolled)), written)
    return written.getvalue()


def cut_short(data: bytes) -> bytes:
    return data[:-20]


def foreign(_: bytes) -> bytes:
    return b"this was never a segment\n" * 40


def empty(_: bytes) -> bytes:
    return b""


ANY: list[Damage] = [cut_short, foreign, empty]
DAMAGES: dict[str, list[Damage]] = {
    "log": [*ANY, without_last_batch, without_inner_batch, flipped_batch],
    BLOCKLESS_LOG: [*ANY, without_last_batch, without_inner_batch, flipped_batch],
    SMALL_BLOCKS_LOG: [*ANY, without_last_batch, flipped_batch],
    "ndjson": [*ANY, without_last_lines, without_inner_lines, one_line_for_another],
    BARE_NDJSON: [*ANY, without_last_lines],
    "parquet": [*ANY, without_last_rows, flipped_values, other_values],
    "parquet without a seal": [*ANY, without_last_rows, other_values],
    "parquet without blocks": [*ANY, without_last_rows, flipped_values, other_values],
    "ndjson without blocks": [*ANY, without_last_lines, without_inner_lines],
    "mirror-v3": [*ANY, without_last_rows],
}
CASES = [(form, damage) for form, damages in DAMAGES.items() for damage in damages]
PLACES = ["a folder", "a bucket", "a bucket, too large to be held"]


def damaged(where: StoreSettings, name: str, damage: Damage) -> None:
    store, key = open_store(where), f"orders/0/{name}"
    data = store.read(key)
    assert damage(data) != data
    store.delete(key)
    store.create(key, damage(data))


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoreSettings:
    if request.param == "a folder":
        (tmp_path / "lake").mkdir()
        return settings_at(tmp_path / "lake")
    if request.param == PLACES[-1]:
        monkeypatch.setattr(opened_segment, "HELD_BYTES_MAX", 0)
    settings: StoreSettings = request.getfixturevalue("moto").settings()
    return settings


def without_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    """As earlier versions wrote them."""

    def unsealed(data: bytes, *, where: str) -> SegmentFooter:
        return replace(decode_footer(data, where=where), seal=None)

    monkeypatch.setattr(parquet_reader, "decode_footer", unsealed)


def as_read(form: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns the form that is to be written; what earlier versions did not write of it is not seen in it."""
    if form == "parquet without a seal":
        without_seals(monkeypatch)
        return "parquet"
    if form in {"parquet without blocks", "ndjson without blocks"}:
        without_blocks(monkeypatch)
        return form.partition(" ")[0]
    return form


def shows_nothing_wrong(where: StoreSettings, name: str, run_async: RunAsync) -> None:
    """Reads from the segment's start, from inside of it and from its last record on, each in a worker of its own."""

    async def body(context: SourceContext, start: int) -> None:
        taking = await fails(source_at(where), context, start)
        (error,) = taking.errors
        assert isinstance(error, ChainBrokenError)
        assert name in error.message
        assert error.hint
        assert start <= taking.next_offset < END
        assert values(taking.records()) == [record.value for record in RECORDS[start : taking.next_offset]]

    for start in (START, START + 15, END - 10, END - 1):
        reading(run_async, partial(body, start=start))


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize(("form", "damage"), CASES, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_damage_stops_the_partition_by_the_segments_name_wherever_reading_begins(
    form: str, damage: Damage, place: StoreSettings, run_async: RunAsync, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = as_read(form, monkeypatch)
    archive(place, WHERE, in_tens(), [START, END, 100], form=form)
    name = f"{START:020}-{END - 1:020}.{extension_of(form)}"
    damaged(place, name, damage)

    shows_nothing_wrong(place, name, run_async)


def undescribed(where: StoreSettings, name: str) -> None:
    open_store(where).delete(sidecar_key(f"orders/0/{name}"))


@pytest.mark.parametrize("place", PLACES[:2], indirect=True)
def test_nothing_is_read_of_a_segment_that_the_next_one_says_was_described_and_is_not(
    place: StoreSettings, run_async: RunAsync
) -> None:
    """Its first and last line are right, so nothing else tells that records between them are gone."""
    archive(place, WHERE, in_tens(), [START, END, 100], form="ndjson")
    name = f"{START:020}-{END - 1:020}.ndjson"
    undescribed(place, name)
    damaged(place, name, without_inner_lines)

    shows_nothing_wrong(place, name, run_async)

    async def body(context: SourceContext) -> None:
        taking = await fails(source_at(place), context, 0)
        assert taking.next_offset == START
        assert "has no description" in taking.errors[0].message

    reading(run_async, body)


@pytest.mark.parametrize("segments", [slice(0, 2), slice(1, 2), slice(1, 3)])
def test_nothing_of_it_comes_into_a_snapshot_either_whichever_segments_are_read(
    tmp_path: Path, segments: slice
) -> None:
    (tmp_path / "lake").mkdir()
    place = settings_at(tmp_path / "lake")
    archive(place, WHERE, in_tens(), [START, END, 100], form="ndjson")
    name = f"{START:020}-{END - 1:020}.ndjson"
    undescribed(place, name)
    damaged(place, name, without_inner_lines)
    folder = SourceFolder(open_store(place), "orders/0", clock=SystemClock())
    view = folder.look(holds_snapshots=False, reached=100)
    planned = [*view.chain.overlapping(OffsetRange(start_offset=0, end_offset=100))][segments]
    offsets = OffsetRange(start_offset=planned[0].name.from_offset, end_offset=planned[-1].name.end_offset)
    read: list[int] = []

    def follow() -> None:
        for part in PlannedReading(folder, planned, offsets).records():
            read.extend(part.offsets.tolist())

    with pytest.raises(ChainBrokenError, match=f"{name} has no description"):
        follow()
    assert [offset for offset in read if offset >= START] == []


def test_a_segment_that_no_other_one_speaks_of_is_mirror_v3s_and_read(tmp_path: Path, run_async: RunAsync) -> None:
    """What follows says that mirror-v3 wrote the last one without a description; the newest one nobody speaks of."""
    (tmp_path / "lake").mkdir()
    place = settings_at(tmp_path / "lake")
    store = open_store(place)
    write_segment(store, WHERE, in_tens(), 0, START, form=BARE_NDJSON)
    write_segment(store, WHERE, in_tens(), START, END, form=BARE_NDJSON)
    write_segment(store, WHERE, in_tens(), END, 80, form="ndjson", follows_mirror_v3=True)
    write_segment(store, WHERE, in_tens(), 80, 100, form=BARE_NDJSON)
    mark(store, WHERE, 100, form="ndjson")

    async def body(context: SourceContext) -> None:
        assert values((await read_all(source_at(place), context, 0, 100)).records()) == [r.value for r in RECORDS]

    reading(run_async, body)


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize(
    "damage", [*ANY, without_last_rows, other_values, flipped_values], ids=lambda each: each.__name__
)
def test_nothing_of_a_damaged_snapshot_is_handed_out(damage: Damage, place: StoreSettings, run_async: RunAsync) -> None:
    archive(place, WHERE, in_tens(), [100], form="snapshot")
    name = f"{0:020}-{99:020}.parquet"
    damaged(place, name, damage)

    async def body(context: SourceContext, start: int) -> None:
        taking = await fails(source_at(place), context, start)
        assert isinstance(taking.errors[0], ChainBrokenError)
        assert name in taking.errors[0].message
        assert taking.taken == []

    for start in (0, 45, 99):
        reading(run_async, partial(body, start=start))


@pytest.mark.parametrize("form", ["log", BLOCKLESS_LOG, SMALL_BLOCKS_LOG])
@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_batch_of_a_log_that_was_moved_into_a_hole_is_damage_although_its_own_checksum_is_right(
    place: StoreSettings, run_async: RunAsync, form: str
) -> None:
    """The offset at which a batch lies is no part of its checksum."""
    records = simple_records(20)
    content = held_records([(0, build_batch(records[:10])), (20, build_batch(records[10:]))])
    archive(place, WHERE, content, [40], form=form)
    name = f"{0:020}-{39:020}.log"

    def moved(data: bytes) -> bytes:
        first, last = (bytes(batch.view) for batch in walk(memoryview(data)))
        return first + (25).to_bytes(8, "big") + last[8:]

    damaged(place, name, moved)

    async def body(context: SourceContext, start: int) -> None:
        taking = await fails(source_at(place), context, start, 40)
        assert name in taking.errors[0].message
        assert [int(offset) for offset in taking.records().offsets if offset >= 10] == []

    for start in (0, 5, 15):
        reading(run_async, partial(body, start=start))


@pytest.mark.parametrize("form", ["log", "ndjson", "parquet"])
def test_a_file_that_is_cut_after_it_was_found_intact_stops_the_partition_too(
    tmp_path: Path, run_async: RunAsync, form: str
) -> None:
    (tmp_path / "lake").mkdir()
    place = settings_at(tmp_path / "lake")
    archive(place, WHERE, in_tens(), [START, END, 100], form=form)
    name = f"{START:020}-{END - 1:020}.{form}"
    damage = {"log": without_last_batch, "ndjson": without_last_lines, "parquet": without_last_rows}[form]

    async def body(context: SourceContext) -> None:
        assert (await read_all(source_at(place), context, 0, 100)).next_offset == 100
        damaged(place, name, damage)
        taking = await fails(source_at(place), context, START + 15)
        assert isinstance(taking.errors[0], ChainBrokenError)
        assert name in taking.errors[0].message
        assert values(taking.records()) == [record.value for record in RECORDS[START + 15 : taking.next_offset]]

    reading(run_async, body)


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("form", [*DAMAGES, "snapshot"])
def test_what_is_intact_is_read_from_anywhere(
    form: str, place: StoreSettings, run_async: RunAsync, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = as_read(form, monkeypatch)
    ends = [100] if form == "snapshot" else [START, END, 100]
    archive(place, WHERE, in_tens(), ends, form=form)

    async def body(context: SourceContext, start: int, end: int) -> None:
        work = source_at(place, ranges={WHERE: ArchivedRange(end_offset=end)})
        assert values((await read_all(work, context, start, end)).records()) == [
            record.value for record in RECORDS[start:end]
        ]
        tail = await work.log(WHERE, context.connections).read_tail(OffsetRange(start_offset=start, end_offset=end))
        assert tail.records.offsets.tolist() == list(range(start, end))

    for start, end in ((0, 100), (START, END), (START + 15, END), (END - 1, END + 1), (START + 3, END - 7)):
        reading(run_async, partial(body, start=start, end=end))
