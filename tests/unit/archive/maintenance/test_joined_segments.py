"""Segments that are put together from row groups of others: to every reader the same as if all had been encoded."""

import io
import itertools
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats import parquet_copying
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.archive.formats.parquet_layout import FileEnd, MovedGroup, moved_groups
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.registry import PARQUET, open_segment
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merging import GroupMerge, Merged, prove_by_reading
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_archived_content, read_archived_range
from mirrorlake.clock import ManualClock
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.page_compression import Compression
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.memory import MemoryStagedObject, MemoryStore
from mirrorlake.stores.object_store import ObjectStore
from unit.archive.sample_records import Record, columns_of, envelope, records_in

LARGE = 2000
"""Bytes of a row group, from which on these tests have it copied."""

NEVER = 1 << 40


@dataclass(frozen=True)
class Held:
    """What one segment is to hold: so many offsets, of which some have records."""

    offsets: int
    records: tuple[int, ...]
    value_bytes: int = 10
    compression: Compression = Compression.ZSTD_1
    truncated: int = 0


def put(archived: ArchivedPartition, held: Sequence[Held]) -> list[Record]:
    """Publishes such segments and a newest one behind them, and returns all records but that one's."""
    start, all_records = 0, []
    for each in held:
        records = [Record(start + at, b"k%d" % at, bytes([at % 256]) * each.value_bytes) for at in each.records]
        gap = OffsetRange(start_offset=start, end_offset=start + each.truncated)
        gaps = (Gap(offsets=gap, kind=GapKind.TRUNCATED),) if each.truncated else ()
        put_one(archived, records, start, start + each.offsets, each.compression, gaps)
        all_records += records
        start += each.offsets
    put_one(archived, [Record(start, b"", b"newest")], start, start + 1, Compression.ZSTD_1, ())
    return all_records


def put_one(
    archived: ArchivedPartition,
    records: Sequence[Record],
    start: int,
    end: int,
    compression: Compression,
    gaps: tuple[Gap, ...],
) -> None:
    file = io.BytesIO()
    writer = ParquetSegmentWriter(file, envelope(start_offset=start), compression=compression)
    if records:
        writer.write(columns_of(records))
    writer.close(end_offset=end, gaps=gaps)
    archived.store.create(key_of(archived, start, end), file.getvalue())


def key_of(archived: ArchivedPartition, start: int, end: int) -> str:
    return f"{archived.prefix}/{SegmentName(from_offset=start, to_offset=end - 1, extension=PARQUET)}"


def archive_in(store: ObjectStore) -> ArchivedPartition:
    return ArchivedPartition(store, destination_name="orders", partition=3, extension=PARQUET)


def merge(
    archived: ArchivedPartition,
    inputs: Sequence[Segment] | None = None,
    *,
    bytes_min: int = LARGE,
    compression: str = "zstd-1",
    token: str = "token",
    deletes: bool = True,
) -> Merged:
    return GroupMerge(
        archived,
        look_at(archived).chain[:-1] if inputs is None else inputs,
        compression=compression,
        writer="merger",
        token=token,
        clock=ManualClock(),
        copied_bytes_min=bytes_min,
    ).run(deletes_inputs=deletes)


def footer_of(archived: ArchivedPartition, number: int = 0) -> SegmentFooter:
    with open_segment(archived.store, f"{archived.prefix}/{look_at(archived).chain[number].name}") as reader:
        assert reader.footer is not None
        return reader.footer


def records_of(archived: ArchivedPartition) -> list[Record]:
    chain = archived.read_chain()
    within = OffsetRange(start_offset=0, end_offset=chain.position - 1)
    return [record for columns in read_archived_range(archived, within) for record in records_in(columns)]


def ends(footer: SegmentFooter) -> list[int]:
    return [part.end_offset for part in footer.parts]


BIG = Held(10, tuple(range(10)), value_bytes=500)
SMALL = Held(10, (1, 4, 5))
EMPTY = Held(10, ())


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ([BIG, BIG], [10, 20]),
        ([BIG, BIG, SMALL], [10, 20, 30]),
        # Neighbours that are small are joined to one.
        ([SMALL, SMALL, BIG, SMALL, SMALL, BIG], [20, 30, 50, 60]),
        ([SMALL, SMALL], []),
        # Without records there is nothing to copy, and no part.
        ([EMPTY, BIG, EMPTY, BIG, EMPTY], [30, 50]),
        ([EMPTY, BIG], []),
        ([EMPTY, EMPTY], []),
    ],
)
def test_what_is_large_is_copied_and_what_is_small_is_joined(held: list[Held], wanted: list[int]) -> None:
    archived = archive_in(MemoryStore())
    records = put(archived, held)
    merge(archived)
    footer = footer_of(archived)
    assert ends(footer) == wanted
    assert footer.algorithm == ("xxh3-128-parts" if wanted else "xxh3-128-columns")
    assert footer.compression == "zstd-1"
    assert records_of(archived) == records
    assert check_archived_content(archived) == 2


HELDS = st.builds(
    lambda records, after, size, compression, truncated: Held(
        offsets=truncated + max([0, *(number + 1 for number in records)]) + after,
        records=tuple(sorted(truncated + number for number in records)),
        value_bytes=size,
        compression=compression,
        truncated=truncated,
    ),
    st.sets(st.integers(0, 25), max_size=15),
    st.integers(1, 5),
    st.sampled_from([0, 10, 400]),
    st.sampled_from([Compression.ZSTD_1, Compression.ZSTD_1, Compression.ZSTD_3, Compression.SNAPPY]),
    st.sampled_from([0, 0, 0, 3]),
)


def without_checksum(footer: SegmentFooter) -> SegmentFooter:
    return replace(footer, checksum="", parts=(), algorithm="")


@settings(max_examples=60)
@given(st.lists(HELDS, min_size=3, max_size=8), st.data())
def test_joined_segments_say_and_hold_what_encoded_ones_do(held: list[Held], data: st.DataObject) -> None:
    """In one step, and in two of which the second one takes what the first one made."""
    joined, encoded = archive_in(MemoryStore()), archive_in(MemoryStore())
    records = put(joined, held)
    assert put(encoded, held) == records
    chain = look_at(joined).chain[:-1]
    first = data.draw(st.integers(0, len(chain) - 2))
    last = data.draw(st.integers(first + 2, len(chain)))
    if (first, last) != (0, len(chain)):
        merge(joined, chain[first:last], token="first")
    merge(joined, compression=data.draw(st.sampled_from(["zstd-1", "zstd-3", "snappy"])), token="second")
    merge(encoded, bytes_min=NEVER)
    assert records_of(joined) == records_of(encoded) == records
    assert without_checksum(footer_of(joined)) == without_checksum(footer_of(encoded))
    assert check_archived_content(joined) == 2
    key = f"{joined.prefix}/{look_at(joined).chain[0].name}"
    table = pq.read_table(io.BytesIO(joined.store.read(key)))
    assert table.equals(pq.read_table(io.BytesIO(encoded.store.read(key))))


def test_a_medium_segment_with_parts_is_copied_with_them_into_a_large_one() -> None:
    archived = archive_in(MemoryStore())
    records = put(archived, [BIG, BIG, SMALL, BIG, BIG, BIG])
    chain = look_at(archived).chain
    merge(archived, chain[:3], bytes_min=1000)
    merge(archived, chain[3:5], token="other")
    inside = footer_of(archived).parts
    assert ends(footer_of(archived)) == [10, 20, 30]
    merge(archived, token="large", bytes_min=1000)
    assert footer_of(archived).parts[:3] == inside
    assert ends(footer_of(archived)) == [10, 20, 30, 40, 50, 60]
    assert records_of(archived) == records
    assert check_archived_content(archived) == 2


def test_what_lies_inside_of_a_joined_segment_is_proven_by_reading() -> None:
    """Also a segment with parts of its own inside of a larger one."""
    archived = archive_in(MemoryStore())
    put(archived, [BIG, SMALL, BIG, BIG])
    chain = look_at(archived).chain
    merge(archived, chain[:3], deletes=False)
    merge(archived, token="all", deletes=False)
    look = look_at(archived)
    cover, covered = look.chain[0], [each.segment for each in look.covered]
    assert len(covered) == 5
    prove_by_reading(archived, cover, covered)
    key = f"{archived.prefix}/{covered[0].name}"
    data = bytearray(archived.store.read(key))
    data[len(data) // 4] ^= 1
    other = archive_in(MemoryStore())
    put(other, [replace(BIG, value_bytes=501), SMALL, BIG, BIG])
    archived.store.delete(f"{archived.prefix}/{look_at(archived).covered[0].segment.name}")
    archived.store.create(key_of(archived, 0, 10), other.store.read(key_of(other, 0, 10)))
    with pytest.raises(ChainBrokenError, match="the segment inside of it"):
        prove_by_reading(archived, cover, covered)


@pytest.mark.parametrize(
    ("there", "asked", "is_copied"),
    [
        *((same, same.value, True) for same in Compression),
        # Level 3 of zstd is as good where level 1 is asked for, and not the other way round.
        (Compression.ZSTD_3, "zstd-1", True),
        (Compression.ZSTD_1, "zstd-3", False),
        (Compression.ZSTD_1, "snappy", False),
        (Compression.SNAPPY, "zstd-1", False),
        (Compression.UNCOMPRESSED, "lz4", False),
        (Compression.LZ4, "uncompressed", False),
    ],
)
def test_only_what_is_compressed_as_it_is_asked_for_is_copied(there: Compression, asked: str, is_copied: bool) -> None:
    archived = archive_in(MemoryStore())
    records = put(archived, [replace(BIG, compression=there)] * 2)
    merge(archived, compression=asked)
    assert bool(footer_of(archived).parts) is is_copied
    assert footer_of(archived).compression == asked
    assert records_of(archived) == records


def test_zstd_of_a_segment_that_does_not_say_its_level_is_copied_for_level_1_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As versions before wrote it."""
    for asked, is_copied in (("zstd-1", True), ("zstd-3", False)):
        archived = archive_in(MemoryStore())
        with monkeypatch.context() as patch:
            patch.setattr("mirrorlake.archive.formats.parquet_rows.replace", _replace_without_compression)
            put(archived, [replace(BIG, compression=Compression.ZSTD_3)] * 2)
        assert footer_of(archived).compression == ""
        merge(archived, compression=asked)
        assert bool(footer_of(archived).parts) is is_copied


def _replace_without_compression(footer: SegmentFooter, **changes: object) -> SegmentFooter:
    return replace(footer, **{name: value for name, value in changes.items() if name != "compression"})  # type: ignore[arg-type]


def test_segments_without_a_seal_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no seal is about has nothing that proves its bytes."""
    archived = archive_in(MemoryStore())
    records = put(archived, [BIG, BIG])

    class Unsealed(ParquetSegmentReader):
        def _read_footer(self) -> SegmentFooter | None:
            footer = super()._read_footer()
            return replace(footer, seal=None) if footer is not None else None

    with monkeypatch.context() as patch:
        patch.setattr("mirrorlake.archive.formats.registry.ParquetSegmentReader", Unsealed)
        merge(archived)
    assert footer_of(archived).parts == ()
    assert records_of(archived) == records


def test_more_gaps_than_are_listed_are_found_by_the_offsets() -> None:
    """Of a segment that does not list them all."""
    joined, encoded = archive_in(MemoryStore()), archive_in(MemoryStore())
    held = [Held(6000, tuple(range(0, 6000, 4)), value_bytes=10), BIG]
    records = put(joined, held)
    put(encoded, held)
    merge(joined)
    merge(encoded, bytes_min=NEVER)
    assert not footer_of(joined).gaps_complete
    assert ends(footer_of(joined)) == [6000, 6010]
    assert without_checksum(footer_of(joined)) == without_checksum(footer_of(encoded))
    assert records_of(joined) == records


def test_any_changed_byte_of_what_would_be_copied_stops_the_merge_or_does_not_come_along() -> None:
    """In pages, indexes, footer: 149 different changes, one at each byte.

    A change that makes row groups look as if they had another size or codec has them decoded and compared with the
    checksum of their records; what it was about is written anew.
    """
    archived = archive_in(MemoryStore())
    records = put(archived, [replace(BIG, value_bytes=100), BIG])
    assert isinstance(archived.store, MemoryStore)
    good = dict(archived.store.objects)
    key = key_of(archived, 0, 10)
    sound, refused = archive_in(MemoryStore(good)), 0
    merge(sound, bytes_min=1)
    for at, byte in enumerate(good[key]):
        changed = good[key][:at] + bytes([byte ^ (1 + at % 149)]) + good[key][at + 1 :]
        store = MemoryStore({**good, key: changed})
        try:
            merge(archive_in(store), bytes_min=1)
        except MirrorlakeError:
            assert {name for name in store.objects if name.endswith(PARQUET)} == {*good}, f"byte {at}"
            refused += 1
            continue
        assert footer_of(archive_in(store)).parts == footer_of(sound).parts
        assert ends(footer_of(archive_in(store))) == [10, 20]
        assert records_of(archive_in(store)) == records, f"byte {at}"
        assert check_archived_content(archive_in(store)) == 2
    assert refused > 0.9 * len(good[key])


def test_a_changed_digit_of_what_a_decoded_segment_says_stops_the_merge() -> None:
    """A gap that was truncated would be absent in a segment with a seal of its own, and nobody could tell any more."""
    archived = archive_in(MemoryStore())
    records = put(archived, [SMALL, replace(SMALL, truncated=1)])
    assert isinstance(archived.store, MemoryStore)
    good, key = dict(archived.store.objects), key_of(archived, 10, 20)
    assert good[key].count(b"[[10, 11, ") == 1
    store = MemoryStore({**good, key: good[key].replace(b"[[10, 11, ", b"[[10, 10, ")})
    with pytest.raises(ChainBrokenError, match="sealed with"):
        merge(archive_in(store), bytes_min=NEVER)
    assert {name for name in store.objects if name.endswith(PARQUET)} == {*good}
    merge(archived, bytes_min=NEVER)
    assert records_of(archived) == records


class DamagingStore(MemoryStore):
    """Changes what is read back before it is published."""

    change: Callable[[bytes], bytes] = staticmethod(lambda data: data)

    def stage(self, prefix: str, name: str) -> MemoryStagedObject:
        staged = super().stage(prefix, name)
        real, change = staged.reread, self.change

        def reread() -> BinaryIO:
            return io.BytesIO(change(real().read()))

        staged.reread = reread  # type: ignore[method-assign]
        return staged


def damaged(at: Callable[[bytes], int]) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        place = at(data)
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]

    return change


@pytest.mark.parametrize(
    "change",
    [
        damaged(lambda _: 0),
        damaged(lambda _: 200),
        damaged(lambda data: len(data) // 3),
        damaged(lambda data: data.index(b"k4")),
        damaged(lambda data: len(data) - 600),
        damaged(lambda data: data.rindex(b'"seal": "') + 12),
        lambda data: data + b"x",
        lambda data: data[:-1],
    ],
)
def test_what_the_store_does_not_give_back_as_it_was_written_is_not_published(
    change: Callable[[bytes], bytes],
) -> None:
    store = DamagingStore()
    archived = archive_in(store)
    held = [replace(BIG, compression=Compression.UNCOMPRESSED)] * 2 + [SMALL]
    records = put(archived, held)
    DamagingStore.change = staticmethod(change)
    try:
        with pytest.raises(ChainBrokenError):
            merge(archived, compression="uncompressed")
    finally:
        DamagingStore.change = staticmethod(lambda data: data)
    assert len(look_at(archived).chain) == 4
    assert records_of(archived) == records


@pytest.mark.parametrize("wrong", [-1, 1, 100])
def test_row_groups_described_in_the_wrong_place_are_found_by_arrow(
    monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    """A mistake of ours in the footer, whose bytes are sealed all the same."""

    def shifted(end: FileEnd, shift: int) -> list[MovedGroup]:
        return moved_groups(end, shift + (wrong if shift else 0))

    archived = archive_in(MemoryStore())
    put(archived, [BIG, BIG])
    monkeypatch.setattr(parquet_copying, "moved_groups", shifted)
    with pytest.raises(ChainBrokenError, match="describes the row groups"):
        merge(archived)
    assert len(look_at(archived).chain) == 3


def test_row_groups_in_the_wrong_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(end: FileEnd, shift: int) -> list[MovedGroup]:
        return list(reversed(moved_groups(end, shift)))

    archived = archive_in(MemoryStore())
    put(archived, [Held(40_000, tuple(range(40_000)), value_bytes=900), BIG])
    monkeypatch.setattr(parquet_copying, "moved_groups", swapped)
    with pytest.raises(ChainBrokenError, match="describes the row groups"):
        merge(archived)


def test_plain_readers_find_every_range_of_a_joined_segment(tmp_path: Path) -> None:
    """By statistics and page indexes, over the edges of what was copied."""
    archived = archive_in(FilesystemStore(tmp_path))
    held = [Held(30_000, tuple(range(30_000)), value_bytes=size) for size in (20, 1, 700)]
    put(archived, [*held, SMALL])
    merge(archived)
    assert ends(footer_of(archived)) == [30_000, 60_000, 90_000, 90_010]
    path = tmp_path / key_of(archived, 0, 90_010)
    with duckdb.connect() as database:
        for low, high in itertools.combinations((0, 19_999, 29_999, 30_000, 50_001, 60_000, 89_999, 90_001), 2):
            count, total = database.execute(
                f'select count(*), sum("offset") from read_parquet(\'{path}\') where "offset" between ? and ?',
                [low, high],
            ).fetchall()[0]
            offsets = pq.read_table(path, columns=["offset"], filters=[("offset", ">=", low), ("offset", "<=", high)])
            found = offsets.column("offset").to_pylist()
            wanted = [offset for offset in [*range(90_000), 90_001, 90_004, 90_005] if low <= offset <= high]
            assert (count, total) == (len(wanted), sum(wanted))
            assert found == wanted


@pytest.mark.parametrize(
    "settings",
    [
        {"data_page_version": "2.0", "data_page_size": 100, "write_batch_size": 3},
        {"use_dictionary": True, "column_encoding": None, "write_statistics": True},
        {"use_dictionary": False, "column_encoding": {"value": "DELTA_BYTE_ARRAY", "offset": "BYTE_STREAM_SPLIT"}},
        {"write_statistics": False, "write_page_index": False},
    ],
    ids=lambda each: ", ".join(each),
)
def test_what_a_version_with_other_settings_of_arrow_wrote_is_copied_and_read_as_if_encoded(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between segments of this version: readers filter over row groups that are encoded in two ways."""
    as_it_is = pq.ParquetWriter
    written: list[BinaryIO] = []

    def other(file: BinaryIO, schema: pa.Schema, **given: object) -> pq.ParquetWriter:
        asked = {name: value for name, value in {**given, **settings}.items() if value is not None}
        written.append(file)
        return as_it_is(file, schema, **asked)

    for name in ("copied", "encoded"):
        (tmp_path / name).mkdir()
    copied, encoded = (archive_in(FilesystemStore(tmp_path / name)) for name in ("copied", "encoded"))
    for archived in (copied, encoded):
        for start in range(0, 200, 50):
            with monkeypatch.context() as patched:
                if start in (50, 150):
                    patched.setattr(pq, "ParquetWriter", other)
                records = [Record(at, b"k%d" % (at % 4), b"%d" % at * 40) for at in range(start, start + 50, 2)]
                put_one(archived, records, start, start + 50, Compression.ZSTD_1, ())
        put_one(archived, [Record(200, b"", b"newest")], 200, 201, Compression.ZSTD_1, ())
        merge(archived, bytes_min=100 if archived is copied else NEVER)
    assert len(written) == 4
    assert ends(footer_of(copied)) == [50, 100, 150, 200]
    assert check_archived_content(copied) == 2
    paths = [tmp_path / name / key_of(copied, 0, 200) for name in ("copied", "encoded")]
    assert pq.read_table(paths[0]).equals(pq.read_table(paths[1]))
    with duckdb.connect() as database:
        for low, high in itertools.combinations((0, 48, 50, 99, 120, 149, 150, 198), 2):
            wanted = [at for at in range(0, 200, 2) if low <= at <= high]
            where = f'"offset" between {low} and {high}'
            found = database.sql(f"select \"offset\" from read_parquet('{paths[0]}') where {where} order by 1")
            assert [offset for (offset,) in found.fetchall()] == wanted
            filters = [("offset", ">=", low), ("offset", "<=", high)]
            assert pq.read_table(paths[0], filters=filters)["offset"].to_pylist() == wanted


def test_a_reader_that_a_merge_overtakes_reads_every_record_all_the_same(tmp_path: Path) -> None:
    """All that stood behind its place went while it read: it ended there, without a word."""
    archived = archive_in(FilesystemStore(tmp_path))
    records = put(archived, [BIG] * 5)
    reading = read_archived_range(archived, OffsetRange(start_offset=0, end_offset=50))
    found = list(records_in(next(reading)))
    put_one(archived, [Record(51, b"", b"newer")], 51, 52, Compression.ZSTD_1, ())
    merge(archived, look_at(archived).chain[2:-1])
    assert [each.name.from_offset for each in look_at(archived).chain] == [0, 10, 20, 51]
    found += [record for columns in reading for record in records_in(columns)]
    assert found == records


def test_copying_holds_some_pieces_of_a_file_and_not_all_of_it(tmp_path: Path) -> None:
    archived = archive_in(FilesystemStore(tmp_path))
    put(archived, [Held(4000, tuple(range(4000)), 20_000, Compression.UNCOMPRESSED)] * 2)
    tracemalloc.start()
    try:
        merged = merge(archived, compression="uncompressed")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert merged.output_bytes > 150 << 20
    assert peak < 24 << 20
