import base64
import io
import json
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.envelope import FileSum, SegmentFooter
from mirrorlake.archive.formats import ndjson_reader
from mirrorlake.archive.formats.ndjson import PIECE_BYTES_MAX, NdjsonSegmentWriter
from mirrorlake.archive.formats.ndjson_reader import NdjsonSegmentReader
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from unit.archive.sample_records import AWKWARD, Record, columns_of, envelope, records_in

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
HEADERS = st.tuples(st.text(max_size=4) | st.binary(max_size=3), st.none() | st.binary(max_size=4))


def written(*pieces: list[Record], end_offset: int = 21, start_offset: int = 10) -> tuple[bytes, SegmentFooter]:
    file = io.BytesIO()
    writer = NdjsonSegmentWriter(file, envelope(start_offset=start_offset))
    for piece in pieces:
        writer.write(columns_of(piece))
    return file.getvalue(), writer.close(end_offset=end_offset)


def reader_of(data: bytes, footer: SegmentFooter | None = None) -> NdjsonSegmentReader:
    return NdjsonSegmentReader(io.BytesIO(data), footer=footer, where="the file")


def read_back(data: bytes, within: OffsetRange | None = None, footer: SegmentFooter | None = None) -> list[Record]:
    with reader_of(data, footer) as segment:
        return [record for columns in segment.records(within=within) for record in records_in(columns)]


def test_lines_are_mirror_v3s_envelope_to_the_byte() -> None:
    data, _ = written(list(AWKWARD[:4]), [AWKWARD[5]])
    assert data.decode().splitlines() == [
        '{"topic":"orders","partition":3,"offset":10,"timestamp_ms":1700000000000,"timestamp_type":"create_time",'
        '"key":"a2V5","value":"dmFsdWU="}',
        '{"topic":"orders","partition":3,"offset":11,"timestamp_ms":1700000000000,"timestamp_type":"create_time"}',
        '{"topic":"orders","partition":3,"offset":12,"timestamp_ms":1700000000000,"timestamp_type":"create_time",'
        '"key":"","value":""}',
        '{"topic":"orders","partition":3,"offset":13,"timestamp_ms":1700000000000,"timestamp_type":"create_time",'
        '"key":"aw==","headers":[{"key":"a","value":"MQ=="},{"key":"b"},{"key":"a","value":""},'
        '{"key":"","value":"eA=="}]}',
        '{"topic":"orders","partition":3,"offset":16,"timestamp_type":"not_available","key":"aw==","value":"dg==",'
        '"headers":[{"key":"ключ","value":"AA=="}]}',
    ]
    assert data.endswith(b"}\n")


def test_header_keys_that_are_not_utf8_are_kept_beside_what_java_shows() -> None:
    data, _ = written(list(AWKWARD))
    lines = [json.loads(line) for line in data.splitlines()]
    assert [line.get("header_keys") for line in lines] == [
        *(None, None, None, None),
        [base64.b64encode(b"\xff\xfe").decode(), base64.b64encode(b"ok").decode()],
        *(None, None),
        [base64.b64encode(b"\xed\xa0\x80").decode()],
    ]
    assert [header["key"] for header in lines[4]["headers"]] == ["\ufffd\ufffd", "ok"]
    assert lines[7]["headers"] == [{"key": "\ufffd"}]


@pytest.mark.parametrize("cut", range(len(AWKWARD) + 1))
def test_records_come_back_whatever_pieces_they_arrived_in(cut: int) -> None:
    whole, _ = written(list(AWKWARD))
    data, footer = written(list(AWKWARD[:cut]), list(AWKWARD[cut:]))
    assert data == whole
    assert read_back(data, footer=footer) == list(AWKWARD)
    reader_of(data, footer).check_content()


def test_it_says_of_itself_what_parquet_says_and_the_sum_of_the_file() -> None:
    data, footer = written(list(AWKWARD))
    parquet = ParquetSegmentWriter(io.BytesIO(), envelope(start_offset=10))
    parquet.write(columns_of(list(AWKWARD)))
    said = parquet.close(end_offset=21)
    assert said.file is None
    assert footer.file is not None
    assert footer.file.bytes == len(data)
    for name in ("records", "raw_bytes", "checksum", "gaps", "gap_offsets", "timestamp_ms_min", "first_offset"):
        assert getattr(footer, name) == getattr(said, name)


@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=9),
            st.none() | st.binary(max_size=9),
            st.lists(
                st.tuples(st.text(max_size=4) | st.binary(max_size=3), st.none() | st.binary(max_size=4)), max_size=3
            ),
            st.integers(INT64_MIN, INT64_MAX),
            st.sampled_from([0, 1, -1]),
        ),
        max_size=6,
    )
)
def test_any_records_come_back_and_a_plain_json_reader_sees_them_too(
    rows: list[tuple[bytes | None, bytes | None, list[tuple[str | bytes, bytes | None]], int, int]],
) -> None:
    records = [
        Record(
            10 + row,
            key,
            value,
            tuple((k.encode("utf-8", "surrogatepass") if isinstance(k, str) else k, v) for k, v in headers),
            timestamp,
            kind,
        )
        for row, (key, value, headers, timestamp, kind) in enumerate(rows)
    ]
    data, footer = written(records)
    assert read_back(data, footer=footer) == records
    lines = data.decode().split("\n")[:-1]  # not splitlines, which also ends lines at U+0085 and others
    for line, record in zip(lines, records, strict=True):
        seen = json.loads(line)
        assert seen["offset"] == record.offset
        assert seen.get("timestamp_ms", -1) == record.timestamp_ms
        assert ("key" in seen) == (record.key is not None)
        assert base64.b64decode(seen.get("value", ""), validate=True) == (record.value or b"")


def test_a_segment_larger_than_a_piece_and_than_a_read_comes_back() -> None:
    chance = random.Random(7)
    values = [chance.randbytes(chance.randrange(200_000)) for _ in range(120)] + [chance.randbytes(PIECE_BYTES_MAX * 2)]
    count = len(values)
    columns = RecordColumns.of(
        offsets=np.arange(count, dtype=np.int64),
        timestamps=np.zeros(count, np.int64),
        timestamp_types=np.zeros(count, np.int8),
        keys=pa.nulls(count, pa.large_binary()),
        values=pa.array(values, pa.large_binary()),
        headers=pa.array([[]] * count, HEADERS_TYPE),
    )
    file = io.BytesIO()
    writer = NdjsonSegmentWriter(file, envelope())
    writer.write(columns)
    footer = writer.close(end_offset=count)
    pieces = list(reader_of(file.getvalue(), footer).records())
    assert len(pieces) > 1
    assert RecordColumns.concat(pieces).equals(columns)


def test_only_records_within_a_range_are_handed_out() -> None:
    data, _ = written(list(AWKWARD))
    assert [r.offset for r in read_back(data, OffsetRange(start_offset=12, end_offset=16))] == [12, 13, 15]


class CountedFile(io.BytesIO):
    """Counts the bytes that are read."""

    read_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.read_bytes += len(data)
        return data


@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0, 1, 90, 700, 5000]), st.booleans()), max_size=60),
    st.integers(0, 200),
    st.integers(1, 200),
    st.sampled_from([64, 500, 4000]),
)
def test_any_range_of_any_lines_is_found_by_halves(
    rows: list[tuple[int, int, bool]], start: int, length: int, read_bytes: int
) -> None:
    """Lines of any length, holes between their offsets, and empty lines, as others may write them."""
    offset, data, offsets = 9, b"", list[int]()
    for step, size, is_followed_by_nothing in rows:
        offset += step
        offsets.append(offset)
        data += written([Record(offset, None, b"x" * size, (), 5, 0)], start_offset=offset, end_offset=offset + 1)[0]
        data += b" \n\n" if is_followed_by_nothing else b""
    within = OffsetRange(start_offset=start, end_offset=start + length)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ndjson_reader, "READ_BYTES", read_bytes)
        patch.setattr(ndjson_reader, "EDGE_READ_BYTES", max(1, read_bytes // 8))
        found = [record.offset for record in read_back(data, within)]
    assert found == [each for each in offsets if start <= each < start + length]


def test_the_end_of_a_long_file_is_found_without_reading_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson_reader, "READ_BYTES", 1 << 10)
    monkeypatch.setattr(ndjson_reader, "EDGE_READ_BYTES", 1 << 8)
    data, footer = written([Record(offset, b"key", b"x" * 40, (), 5, 0) for offset in range(10, 5010)], end_offset=5010)
    file = CountedFile(data)
    with NdjsonSegmentReader(file, footer=footer, where="the file") as segment:
        parts = list(segment.records(within=OffsetRange(start_offset=5000, end_offset=5010)))
    assert RecordColumns.concat(parts).offsets.tolist() == list(range(5000, 5010))
    assert file.read_bytes < len(data) // 20


def test_a_line_that_is_no_record_is_refused_where_it_is_found_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson_reader, "READ_BYTES", 100)
    data = written([Record(offset, None, b"x", (), 5, 0) for offset in range(10, 21)])[0] + b"nothing\n" * 200
    with pytest.raises(ChainBrokenError, match="cannot be read as NDJSON"):
        read_back(data, OffsetRange(start_offset=20, end_offset=21))


def test_a_segment_without_records_is_an_empty_file() -> None:
    file = io.BytesIO()
    lost = Gap(offsets=OffsetRange(start_offset=10, end_offset=21), kind=GapKind.TRUNCATED)
    footer = NdjsonSegmentWriter(file, envelope(start_offset=10)).close(end_offset=21, gaps=[lost])
    assert file.getvalue() == b""
    # XXH3 of nothing, as the specification has it.
    assert footer.file == FileSum(bytes=0, checksum="99aa06d3014798d86001c324468d497f")
    assert read_back(b"", footer=footer) == []
    reader_of(b"", footer).check_content()


def test_lines_of_others_are_read_as_mirror_v3_reads_them() -> None:
    data = (
        b'\n{"offset": 4, "topic": "t", "partition": 0, "timestamp_type": "moon", "colour": {"a": [1]}}\n\r\n'
        b'{"timestamp_type":"create_time","value":"dg==","timestamp_ms":7,"partition":0,"topic":"t","offset":5,'
        b'"headers":null}\n'
    )
    assert read_back(data) == [
        Record(4, None, None, timestamp_ms=-1, timestamp_type=-1),
        Record(5, None, b"v", timestamp_ms=7),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b'{"offset":0,"timestamp_type":"create_time","key":"a"}',
        b'{"offset":0,"timestamp_type":"create_time","key":"ab=c"}',
        b'{"offset":0,"timestamp_type":"create_time","key":"ab!="}',
        b'{"offset":0,"timestamp_type":"create_time","key":"ab=="}',  # bits left over
        b'{"offset":0,"timestamp_type":"create_time","key":"abc!defg"}',
        b'{"offset":0,"timestamp_type":"create_time","headers":[{"value":"dg=="}]}',
        b'{"offset":0,"timestamp_type":"create_time","headers":[{"key":"a"}],"header_keys":[]}',
        b'{"offset":"0","timestamp_type":"create_time"}',
        b'{"timestamp_type":"create_time"}',
        b'{"offset":0}',
        b"[1]",
        b"not json",
    ],
)
def test_a_line_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(ChainBrokenError, match="the file cannot be read as NDJSON"):
        read_back(line + b"\n")


@pytest.mark.parametrize("kind", ["cut", "cut at a line", "changed", "longer", "swapped"])
def test_a_changed_cut_or_swapped_file_is_told_from_a_good_one(kind: str) -> None:
    data, footer = written(list(AWKWARD))
    lines = data.splitlines(keepends=True)
    damaged = {
        "cut": data[:-3],
        "cut at a line": b"".join(lines[:-1]),
        "changed": data.replace(b'"key":"a2V5"', b'"key":"a2V6"'),
        "longer": data + lines[-1],
        "swapped": written(list(AWKWARD[1:]))[0],
    }[kind]
    assert damaged != data
    with pytest.raises(ChainBrokenError, match="its description says"):
        reader_of(damaged, footer).check_content()


def test_offsets_that_do_not_grow_are_refused() -> None:
    data, footer = written(list(AWKWARD))
    lines = data.splitlines(keepends=True)
    with pytest.raises(ChainBrokenError, match="out of order"):
        read_back(b"".join([lines[1], lines[0]]), footer=footer)
