"""Values straight from pages: the same as Arrow reads, and never more than there is, whatever the bytes are."""

import io
from collections.abc import Sequence
from types import SimpleNamespace

import cramjam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.archive.formats.pages import plain_pages
from mirrorlake.archive.formats.pages.plain_kernels import copy_raw_frame, read_plain
from mirrorlake.archive.formats.pages.plain_pages import PlainColumn
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange
from mirrorlake.page_compression import Compression
from unit.archive.sample_records import AWKWARD, Record, columns_of, envelope

COMPRESSIONS = list(Compression)


def sealed_file(records: Sequence[Record], *, compression: Compression) -> bytes:
    file = io.BytesIO()
    start = records[0].offset
    writer = ParquetSegmentWriter(file, envelope(start_offset=start), compression=compression)
    writer.write(columns_of(records))
    writer.close(end_offset=records[-1].offset + 1)
    return file.getvalue()


def mixed_records(count: int, *, seed: int, size: int) -> list[Record]:
    """Random values, text that compresses, nulls and empty values, in runs of each."""
    made = np.random.default_rng(seed)

    def value(number: int) -> bytes | None:
        kind = (number // 50 + seed) % 5
        if kind == 0:
            return None
        if kind == 1:
            return b""
        if kind == 2:
            return b"the same text " * (size // 14 + 1)
        return bytes(made.bytes(int(made.integers(0, 2 * size))))

    return [
        Record(
            offset=10 + number + number // 7,
            timestamp_ms=1000 + number,
            timestamp_type=0,
            key=None if number % 3 else b"k%d" % number,
            value=value(number),
            headers=((b"h", b"%d" % number),) if number % 11 == 0 else (),
        )
        for number in range(count)
    ]


def both_ways(data: bytes, within: OffsetRange) -> tuple[RecordColumns, RecordColumns]:
    with ParquetSegmentReader(io.BytesIO(data), where="the file") as reader:
        by_arrow = RecordColumns.concat(list(reader.records(within=within)))
        return by_arrow, RecordColumns.concat(list(reader.intact_records(within)))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(("count", "size"), [(3000, 10), (3000, 1000), (20, 400_000), (40_000, 600)])
def test_the_same_records_come_as_arrow_reads(
    compression: Compression, count: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_pages, "PART_BYTES", 1 << 20)
    data = sealed_file(mixed_records(count, seed=size, size=size), compression=compression)

    by_arrow, found = both_ways(data, OffsetRange(start_offset=0, end_offset=1 << 40))
    assert len(found) == count
    assert found.equals(by_arrow)

    part, found_part = both_ways(data, OffsetRange(start_offset=10 + count // 3, end_offset=10 + count // 2))
    assert found_part.equals(part)
    assert len(found_part)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_awkward_records_are_the_same(compression: Compression) -> None:
    by_arrow, found = both_ways(
        sealed_file(AWKWARD, compression=compression), OffsetRange(start_offset=0, end_offset=1 << 40)
    )
    assert found.equals(by_arrow)


def column_of(data: bytes) -> PlainColumn:
    file = pq.ParquetFile(io.BytesIO(data))
    return PlainColumn(io.BytesIO(data), file.metadata, file.schema, 0, "value")


def test_pages_of_zstd_are_read_by_this_way() -> None:
    """That the tests above compare two ways, not one with itself."""
    data = sealed_file(mixed_records(100, seed=3, size=100), compression=Compression.ZSTD_1)
    assert column_of(data).is_familiar()


@pytest.mark.parametrize(
    "options",
    [{"use_dictionary": True}, {"compression": "gzip"}, {"column_encoding": {"value": "DELTA_BYTE_ARRAY"}}],
)
def test_what_is_laid_out_in_another_way_is_not_familiar(options: dict[str, object]) -> None:
    file = io.BytesIO()
    table = pa.table({"value": pa.array([b"a", None, b"bb"] * 100, pa.large_binary())})
    pq.write_table(table, file, **{"use_dictionary": False, **options})
    assert not column_of(file.getvalue()).is_familiar()


def test_a_page_of_another_version_is_not_familiar() -> None:
    file = io.BytesIO()
    table = pa.table({"value": pa.array([b"a", None, b"bb"] * 100, pa.large_binary())})
    pq.write_table(table, file, use_dictionary=False, data_page_version="2.0", compression="zstd")
    assert not column_of(file.getvalue()).is_familiar()


def test_pages_whose_headers_name_values_are_not_familiar() -> None:
    """Their headers may be of any length, also behind a first page with a short one."""
    file = io.BytesIO()
    table = pa.table({"value": pa.array([b"a"] * 1000 + [b"z" * 3000] * 1000, pa.large_binary())})
    pq.write_table(table, file, use_dictionary=False, compression="zstd", data_page_size=1000, write_batch_size=100)
    assert not column_of(file.getvalue()).is_familiar()


def test_a_page_of_snappy_that_makes_less_than_it_says_is_refused() -> None:
    """Arrow leaves what is behind it in the memory it gives."""
    data = memoryview(bytearray(pa.Codec("snappy").compress(b"x" * 1000)))
    assert plain_pages._decompressed(pa.Codec("snappy"), data, 1000).tobytes() == b"x" * 1000
    for size in (999, 1001, 0):
        with pytest.raises(ValueError, match="another size"):
            plain_pages._decompressed(pa.Codec("snappy"), data, size)


def test_a_column_that_lies_before_its_file_is_not_familiar() -> None:
    """A footer that was changed once its file was found intact: Arrow says what is wrong with it."""
    data = sealed_file(mixed_records(100, seed=3, size=100), compression=Compression.ZSTD_1)
    file = pq.ParquetFile(io.BytesIO(data))
    group = SimpleNamespace(column=lambda number: _Moved(file.metadata.row_group(0).column(number)))
    metadata = SimpleNamespace(num_columns=file.metadata.num_columns, row_group=lambda _: group)
    assert not PlainColumn(io.BytesIO(data), metadata, file.schema, 0, "value").is_familiar()


class _Moved:
    data_page_offset = -1

    def __init__(self, chunk: pq.ColumnChunkMetaData) -> None:
        self._chunk = chunk

    def __getattr__(self, name: str) -> object:
        return getattr(self._chunk, name)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_file_that_was_changed_anywhere_is_refused_or_read_within_its_bounds(data: st.DataObject) -> None:
    compression = data.draw(st.sampled_from([Compression.ZSTD_1, Compression.UNCOMPRESSED, Compression.SNAPPY]))
    good = sealed_file(mixed_records(120, seed=data.draw(st.integers(0, 4)), size=40), compression=compression)
    changed = bytearray(good)
    footer = len(good) - int.from_bytes(good[-8:-4], "little") - 8
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(4, footer - 1))] = data.draw(st.integers(0, 255))
    with ParquetSegmentReader(io.BytesIO(bytes(changed)), where="the file") as reader:
        try:
            for columns in reader.intact_records(OffsetRange(start_offset=0, end_offset=1 << 40)):
                assert int(columns.values.buffers()[2].size) >= int(columns.sizes.sum()) - 10_000
                columns.values.validate(full=True)
        except ChainBrokenError:
            pass


@settings(max_examples=300, deadline=None)
@given(page=st.binary(max_size=200), rows=st.integers(0, 40), is_nullable=st.booleans())
def test_any_bytes_make_values_within_them_or_none(page: bytes, rows: int, is_nullable: bool) -> None:
    array = np.frombuffer(page, np.uint8).copy()
    lengths, offsets, out = np.zeros(rows, np.int64), np.zeros(rows + 1, np.int64), np.zeros(len(page), np.uint8)
    end = read_plain(array, int(is_nullable), 0, rows, lengths, out, offsets)
    if end >= 0:
        assert end <= len(page)
        assert int(lengths[lengths > 0].sum()) == end
        assert (np.diff(offsets) >= 0).all()


@pytest.mark.parametrize("size", [1, 200, 300, 70_000, 128 << 10, 300_000])
def test_a_frame_of_what_does_not_compress_is_copied(size: int) -> None:
    plain = np.random.default_rng(size).bytes(size)
    frame = bytes(pa.Codec("zstd", 1).compress(plain))
    page = np.zeros(size, np.uint8)
    assert copy_raw_frame(np.frombuffer(frame, np.uint8).copy(), page) == 0
    assert page.tobytes() == plain


@pytest.mark.parametrize("plain", [b"", b"the same " * 1000, bytes(300_000)])
def test_any_other_frame_is_left_to_zstd(plain: bytes) -> None:
    page = np.full(len(plain), 7, np.uint8)
    frame = np.frombuffer(bytes(pa.Codec("zstd").compress(plain)), np.uint8).copy()
    assert copy_raw_frame(frame, page) == (0 if not plain else -1)
    assert (page == 7).all()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_frame_that_was_changed_is_refused_or_holds_the_same_as_zstd_says(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 400))
    plain = np.random.default_rng(size).bytes(size)
    frame = bytearray(bytes(pa.Codec("zstd").compress(plain)))
    for _ in range(data.draw(st.integers(0, 3))):
        frame[data.draw(st.integers(0, min(30, len(frame) - 1)))] = data.draw(st.integers(0, 255))
    del frame[len(frame) - data.draw(st.integers(0, 3)) :]
    page = np.zeros(data.draw(st.sampled_from([size, max(0, size - 1), size + 1])), np.uint8)
    if copy_raw_frame(np.frombuffer(bytes(frame), np.uint8).copy(), page) == 0:
        out = bytearray(len(page) + 100)
        try:
            there = int(cramjam.zstd.decompress_into(bytes(frame), out))
        except cramjam.DecompressionError:
            return  # its header promises another size, which is compared with the page's elsewhere
        assert bytes(out[:there]) == page.tobytes()
