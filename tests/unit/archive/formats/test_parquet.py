import io
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter, SnapshotState
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.parquet_rows import ROW_GROUP_BYTES_MAX
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.formats.same_range import confirm_same_range
from mirrorlake.errors import (
    ChainBrokenError,
    OtherSourceError,
    StoreUnavailableError,
    TopicRecreatedError,
    UnsupportedError,
)
from mirrorlake.kafka.java_text import as_java_shows
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.page_compression import Compression
from mirrorlake.stores.memory import MemoryStore
from unit.archive.sample_records import AWKWARD, Record, columns_of, envelope, records_in

KEY = "orders/3/00000000000000000010-00000000000000000020.parquet"
CUT_KEY = "orders/4/00000000000000000010-00000000000000000020.parquet"


def written(
    *pieces: list[Record],
    about: SegmentEnvelope | None = None,
    end_offset: int = 21,
    compression: Compression = Compression.ZSTD_1,
    gaps: tuple[Gap, ...] = (),
) -> tuple[bytes, SegmentFooter]:
    file = io.BytesIO()
    writer = ParquetSegmentWriter(file, about or envelope(start_offset=10), compression=compression)
    for piece in pieces:
        writer.write(columns_of(piece))
    footer = writer.close(end_offset=end_offset, gaps=gaps)
    return file.getvalue(), footer


def reader_of(data: bytes) -> ParquetSegmentReader:
    return ParquetSegmentReader(io.BytesIO(data), where="the file")


def read_back(data: bytes, within: OffsetRange | None = None) -> list[Record]:
    with reader_of(data) as segment:
        return [record for columns in segment.records(within=within) for record in records_in(columns)]


@pytest.mark.parametrize("compression", list(Compression))
def test_records_come_back_as_they_were_written(compression: Compression) -> None:
    data, footer = written(list(AWKWARD), compression=compression)
    assert read_back(data) == list(AWKWARD)
    with reader_of(data) as segment:
        assert segment.footer == footer
        segment.check_content()


@pytest.mark.parametrize("cut", range(len(AWKWARD) + 1))
def test_records_may_arrive_in_any_pieces(cut: int) -> None:
    _, whole = written(list(AWKWARD))
    data, footer = written(list(AWKWARD[:cut]), list(AWKWARD[cut:]))
    assert read_back(data) == list(AWKWARD)
    assert footer == whole


@pytest.mark.parametrize(("column", "found"), [("topic", b"orders"), ("partition", None)])
def test_a_file_whose_rows_name_another_source_is_told(column: str, found: bytes | None) -> None:
    data, _ = written(list(AWKWARD), compression=Compression.UNCOMPRESSED)
    chunk = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0 if column == "topic" else 1)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    if found:
        changed = data.replace(found, b"others", 1)
        assert changed[:start] == data[:start]
    else:
        # Delta encoding: the page ends with the first value, as a zigzag varint, and the deltas that follow.
        body = data[start : start + chunk.total_compressed_size]
        at = start + body.rindex(bytes([2 * 3]))
        changed = data[:at] + bytes([2 * 4]) + data[at + 1 :]
    assert changed != data
    with pytest.raises(ChainBrokenError, match=f"has {column} "):
        reader_of(changed).check_content()


def test_any_reader_sees_the_documented_columns() -> None:
    data, _ = written(list(AWKWARD))
    table = pq.read_table(io.BytesIO(data))
    assert [(field.name, str(field.type), field.nullable) for field in table.schema] == [
        ("topic", "string", False),
        ("partition", "int32", False),
        ("offset", "int64", False),
        ("timestamp_ms", "int64", True),
        ("timestamp_type", "string", False),
        ("key", "large_binary", True),
        ("value", "large_binary", True),
        ("headers", "list<element: struct<key: string not null, value: large_binary>>", False),
        ("header_keys", "list<element: large_binary not null>", True),
    ]
    rows = table.to_pylist()
    assert rows[0] == {
        "topic": "orders",
        "partition": 3,
        "offset": 10,
        "timestamp_ms": 1_700_000_000_000,
        "timestamp_type": "create_time",
        "key": b"key",
        "value": b"value",
        "headers": [],
        "header_keys": None,
    }
    assert (rows[1]["key"], rows[1]["value"], rows[2]["key"], rows[2]["value"]) == (None, None, b"", b"")
    assert [row["timestamp_ms"] for row in rows[4:]] == [1_700_000_000_000, None, 5, 0]
    assert [row["timestamp_type"] for row in rows[4:7]] == ["create_time", "not_available", "log_append_time"]


def test_header_keys_that_are_not_utf8_are_kept_beside_what_java_shows() -> None:
    data, _ = written(list(AWKWARD))
    rows = pq.read_table(io.BytesIO(data)).to_pylist()
    assert [row["header_keys"] for row in rows] == [
        *(None, None, None, None),
        [b"\xff\xfe", b"ok"],
        *(None, None),
        [b"\xed\xa0\x80"],
    ]
    assert [header["key"] for header in rows[4]["headers"]] == ["\ufffd\ufffd", "ok"]
    assert [header["key"] for header in rows[7]["headers"]] == ["\ufffd"]


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        # Seen from `new String(bytes, UTF_8)` of OpenJDK 17.
        (b"plain", "plain"),
        (b"\xc3\xa9", "é"),
        (b"a\xffb", "a\ufffdb"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xe2\x82a", "\ufffda"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xf5\x80", "\ufffd\ufffd"),
        (b"\xed\xa0\x80\xed\xb0\x80", "\ufffd\ufffd"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xa0a", "\ufffda"),
        (b"\xed\xa0\x80\xf0\x9f\x98\x80", "\ufffd😀"),
    ],
)
def test_a_key_that_is_not_utf8_is_shown_as_java_does(key: bytes, shown: str) -> None:
    assert as_java_shows(key) == shown


def test_the_footer_counts_what_is_there_and_what_is_not() -> None:
    _, footer = written(list(AWKWARD))
    assert footer.records == 8
    # keys 3+0+0+1+2+1+1+1, values 5+0+0+0+300+1+1+1, headers (1+1 + 1 + 1 + 1) + (2+1+2+1) + (8+1) + 3
    assert footer.raw_bytes == 9 + 308 + 5 + 6 + 9 + 3
    assert (footer.first_offset, footer.last_offset, footer.end_offset) == (10, 20, 21)
    assert (footer.timestamp_ms_min, footer.timestamp_ms_max) == (0, 1_700_000_000_000)
    assert footer.gap_offsets == {GapKind.ABSENT: 3}
    assert [str(gap.offsets) for gap in footer.gaps] == ["[14, 15)", "[18, 20)"]
    assert footer.gaps_complete


def test_a_range_without_records_is_a_segment_too() -> None:
    truncated = Gap(offsets=OffsetRange(start_offset=10, end_offset=21), kind=GapKind.TRUNCATED)
    data, footer = written(gaps=(truncated,))
    assert read_back(data) == []
    assert footer.gaps == (truncated,)
    assert (footer.records, footer.first_offset, footer.timestamp_ms_min) == (0, None, None)
    with reader_of(data) as segment:
        segment.check_content()
        assert segment.footer == footer


def test_records_without_timestamps_have_no_span_of_time() -> None:
    _, footer = written([Record(10, timestamp_ms=-1, timestamp_type=-1)])
    assert (footer.timestamp_ms_min, footer.timestamp_ms_max) == (None, None)


def test_only_offset_and_timestamp_have_statistics() -> None:
    data, _ = written(list(AWKWARD))
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert [column.path_in_schema for column in columns if column.is_stats_set] == ["offset", "timestamp_ms"]


def test_keys_and_values_have_no_dictionary() -> None:
    data, _ = written([Record(offset, b"same", b"same") for offset in range(10, 20)])
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert not columns["key"].has_dictionary_page
    assert not columns["value"].has_dictionary_page
    assert columns["topic"].has_dictionary_page


def test_row_groups_are_bounded_by_bytes_whatever_the_records_sizes() -> None:
    random.seed(3)
    sizes = [random.choice([0, 100, 1 << 20, 3 << 20, ROW_GROUP_BYTES_MAX + 5]) for _ in range(40)]
    records = [Record(offset, None, bytes(size)) for offset, size in enumerate(sizes)]
    file = io.BytesIO()
    writer = ParquetSegmentWriter(file, envelope())
    for start in range(0, 40, 7):
        writer.write(columns_of(records[start : start + 7]))
    writer.close(end_offset=40)
    metadata = pq.ParquetFile(file).metadata
    row = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        held = sum(size + 32 for size in sizes[row : row + rows])
        assert held <= ROW_GROUP_BYTES_MAX or rows == 1
        if row + rows < 40 and rows > 1:
            assert held + sizes[row + rows] + 32 > ROW_GROUP_BYTES_MAX  # and none is cut too early
        row += rows
    assert row == 40
    assert [len(record.value or b"") for record in read_back(file.getvalue())] == sizes


def test_empty_records_fill_row_groups_too() -> None:
    rows = ROW_GROUP_BYTES_MAX // 32 + 1
    file = io.BytesIO()
    writer = ParquetSegmentWriter(file, envelope())
    one = columns_of([Record(0, None, None)])
    empty = type(one)(
        offsets=np.arange(rows),
        timestamps=np.zeros(rows, np.int64),
        timestamp_types=np.zeros(rows, np.int8),
        keys=pa.nulls(rows, pa.large_binary()),
        values=pa.nulls(rows, pa.large_binary()),
        headers=pa.ListArray.from_arrays(np.zeros(rows + 1, np.int32), one.headers.values, type=one.headers.type),
        sizes=np.zeros(rows, np.int64),
    )
    writer.write(empty)
    writer.close(end_offset=rows)
    assert pq.ParquetFile(file).num_row_groups == 2


@given(st.integers(0, 25), st.integers(0, 25))
def test_reading_within_a_range_gives_exactly_its_records(a: int, b: int) -> None:
    data, _ = written(list(AWKWARD))
    within = OffsetRange(start_offset=min(a, b), end_offset=max(a, b))
    expected = [record for record in AWKWARD if within.start_offset <= record.offset < within.end_offset]
    assert read_back(data, within) == expected


def test_row_groups_outside_the_range_are_not_read() -> None:
    data, _ = written([Record(offset, None, bytes(ROW_GROUP_BYTES_MAX)) for offset in range(10, 13)])
    cut = bytearray(data)
    first = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(6)
    cut[first.data_page_offset : first.data_page_offset + 20] = bytes(20)  # the first group is now unreadable
    assert [r.offset for r in read_back(bytes(cut), OffsetRange(start_offset=11, end_offset=12))] == [11]
    with pytest.raises(ChainBrokenError, match="cannot be read as Parquet"):
        read_back(bytes(cut))


def test_offsets_that_do_not_follow_are_refused_by_the_writer() -> None:
    with pytest.raises(ValueError, match="offset 9 does not follow 9"):
        written([Record(9)])
    with pytest.raises(ValueError, match="does not follow"):
        written([Record(11)], [Record(11)])
    with pytest.raises(ValueError, match="past the end"):
        written([Record(21)])


@pytest.mark.parametrize("kept", [0, 3, 4, 100, -1, -9])
def test_a_truncated_file_is_refused(kept: int) -> None:
    data, _ = written(list(AWKWARD))
    with pytest.raises(ChainBrokenError, match="the file cannot be read as Parquet"):
        reader_of(data[:kept])


def test_a_file_that_is_no_segment_is_refused() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"offset": [1]}), file)
    with pytest.raises(ChainBrokenError, match="is not a segment: it has no columns"):
        reader_of(file.getvalue())


def test_a_file_from_the_future_is_refused() -> None:
    data, _ = written(list(AWKWARD))
    later = data.replace(b'{"format_version": 1,', b'{"format_version": 9,')
    with pytest.raises(UnsupportedError, match="segment format 9"):
        reader_of(later)


def test_content_that_differs_from_the_checksum_is_found() -> None:
    data, footer = written(list(AWKWARD), compression=Compression.UNCOMPRESSED)
    assert data.count(b"\xff" * 300) == 1
    changed = data.replace(b"\xff" * 300, b"\xff" * 299 + b"\xfe")
    with reader_of(changed) as segment, pytest.raises(ChainBrokenError, match=footer.checksum):
        segment.check_content()


def mirror_v3_file(path: Path, *, offsets: list[int] | None = None) -> bytes:
    """A file as mirror-v3 writes it: one row group, unsigned offsets, no footer of ours."""
    data, _ = written([record for record in AWKWARD if record.offset not in {15, 20}])
    table = pq.read_table(io.BytesIO(data)).drop_columns(["header_keys"])
    unsigned = pa.array(offsets or table["offset"].to_pylist(), pa.uint64())
    table = table.set_column(2, pa.field("offset", pa.uint64(), nullable=False), unsigned)
    pq.write_table(table.replace_schema_metadata(None), path, compression="zstd")
    return path.read_bytes()


def test_a_file_of_mirror_v3_is_read(tmp_path: Path) -> None:
    data = mirror_v3_file(tmp_path / "v3.parquet")
    assert read_back(data) == [record for record in AWKWARD if record.offset not in {15, 20}]
    with reader_of(data) as segment:
        assert segment.footer is None
        segment.check_content()


def test_an_offset_beyond_signed_64_bit_is_refused(tmp_path: Path) -> None:
    data = mirror_v3_file(tmp_path / "v3.parquet", offsets=[1, 2, 3, 4, 5, 2**63])
    with pytest.raises(ChainBrokenError, match="cannot be read"):
        read_back(data)


def test_offsets_out_of_order_are_refused_by_the_reader(tmp_path: Path) -> None:
    data = mirror_v3_file(tmp_path / "v3.parquet", offsets=[1, 2, 3, 5, 4, 6])
    with pytest.raises(ChainBrokenError, match="out of order"):
        read_back(data)


def test_a_full_disk_while_writing_is_our_error() -> None:
    class FullFile(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            raise StoreUnavailableError("disk full")

    with pytest.raises(StoreUnavailableError, match="disk full"):
        ParquetSegmentWriter(FullFile(), envelope()).close(end_offset=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("topic_id", ["topic-id", None])
def test_a_segment_of_the_same_range_and_source_is_confirmed(topic_id: str | None) -> None:
    data, footer = written(list(AWKWARD))
    _, mine = written(list(AWKWARD), about=envelope(start_offset=10, topic_id=topic_id))
    store = MemoryStore({KEY: data})
    assert confirm_same_range(store, KEY, mine) is True
    _, compacted = written(list(AWKWARD[1:]))
    assert confirm_same_range(store, KEY, compacted) is False
    with open_segment(store, KEY) as segment:
        assert segment.footer == footer


def test_a_segment_of_another_range_or_source_is_not_confirmed() -> None:
    data, _ = written(list(AWKWARD))
    store = MemoryStore({KEY: data, CUT_KEY: data[:-5]})
    for other, error, text in (
        (written(list(AWKWARD), end_offset=22)[1], ChainBrokenError, "belongs there"),
        (written(list(AWKWARD), about=envelope(start_offset=9))[1], ChainBrokenError, "belongs there"),
        (
            written(list(AWKWARD), about=envelope(start_offset=10, topic="payments"))[1],
            OtherSourceError,
            "archives payments-3 of cluster cluster",
        ),
        (
            written(list(AWKWARD), about=envelope(start_offset=10, topic_id="other"))[1],
            TopicRecreatedError,
            "topic id topic-id, now other",
        ),
    ):
        with pytest.raises(error, match=text):
            confirm_same_range(store, KEY, other)
    view = replace(written(list(AWKWARD))[1], snapshot=SnapshotState(complete_since_ms=0))
    with pytest.raises(ChainBrokenError, match=r"every record of .* and the latest of every key"):
        confirm_same_range(store, KEY, view)
    with pytest.raises(ChainBrokenError, match=rf"{CUT_KEY} cannot be read as Parquet"):
        confirm_same_range(store, CUT_KEY, other)


def test_a_segment_of_mirror_v3_is_confirmed_if_it_is_whole(tmp_path: Path) -> None:
    _, footer = written(list(AWKWARD))
    whole = mirror_v3_file(tmp_path / "v3.parquet", offsets=[10, 11, 12, 13, 16, 20])
    store = MemoryStore({KEY: whole})
    assert confirm_same_range(store, KEY, footer) is False
    store = MemoryStore({KEY: mirror_v3_file(tmp_path / "v3.parquet")})
    with pytest.raises(ChainBrokenError, match="no record of offset 20"):
        confirm_same_range(store, KEY, footer)
