"""What is nothing but headers weighs what it takes in memory, wherever something is bounded by memory."""

import io

import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.formats.ndjson import PIECE_BYTES_MAX, NdjsonSegmentWriter
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.parquet_rows import ROW_GROUP_BYTES_MAX
from mirrorlake.archive.snapshots.changes import Changes
from mirrorlake.destinations.archive.cut import CutRule
from mirrorlake.destinations.archive.segment_encoding import PART_BYTES_MAX, RecordEncoding, decoded
from mirrorlake.kafka.records.batches import Batch, walk
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.records.decode import decode_batches, decode_parts
from support.header_heavy import header_heavy_batch
from unit.archive.sample_records import Record, columns_of, envelope

HEADERS = 10_000
RECORD_WEIGHS = HEADERS * 32
"""Two offsets of eight bytes for each header's key and value, and as much again while it is written."""


def batches(count: int) -> list[Batch]:
    """So many batches of ten records, one after the other."""
    one = header_heavy_batch(10, HEADERS)
    data = bytearray(one * count)
    for number in range(count):
        data[number * len(one) : number * len(one) + 8] = (10 * number).to_bytes(8, "big")
    return list(walk(memoryview(data)))


@pytest.fixture(scope="module")
def heavy() -> RecordColumns:
    """200 records with two million headers: 64 MB, by what they weigh, and not a byte of content."""
    return decode_batches(batches(20))


def test_a_record_weighs_its_content_and_every_one_of_its_headers() -> None:
    columns = columns_of([Record(0, b"key", b"value"), Record(1, None, None, headers=((b"a", b"bc"), (b"", None)))])
    assert columns.weights(record_bytes=5).tolist() == [8 + 5, 3 + 2 * 32 + 5]
    assert columns.slice(1, 2).weights().tolist() == [3 + 2 * 32]


def test_a_row_group_of_headers_is_full_when_its_headers_fill_the_memory(heavy: RecordColumns) -> None:
    file = io.BytesIO()
    writer = ParquetSegmentWriter(file, envelope(start_offset=0))
    writer.write(heavy)
    writer.close(end_offset=200)
    groups = pq.ParquetFile(file).metadata
    rows = [groups.row_group(n).num_rows for n in range(groups.num_row_groups)]
    assert sum(rows) == 200
    assert max(rows) * RECORD_WEIGHS <= ROW_GROUP_BYTES_MAX


def test_a_reader_holds_a_row_group_of_headers_at_most(heavy: RecordColumns) -> None:
    file = io.BytesIO()
    writer = ParquetSegmentWriter(file, envelope(start_offset=0))
    writer.write(heavy)
    writer.close(end_offset=200)
    with ParquetSegmentReader(file, where="the file") as segment:
        pieces = [len(columns) for columns in segment.records()]
    assert sum(pieces) == 200
    assert max(pieces) * RECORD_WEIGHS <= ROW_GROUP_BYTES_MAX


def test_lines_of_headers_are_made_a_few_at_a_time(heavy: RecordColumns) -> None:
    sizes: list[int] = []

    class File(io.BytesIO):
        def write(self, data: object) -> int:
            sizes.append(len(memoryview(data)))  # type: ignore[arg-type]
            return sizes[-1]

    NdjsonSegmentWriter(File(), envelope(start_offset=0)).write(heavy)
    assert len(sizes) > 10
    assert max(sizes) <= PIECE_BYTES_MAX


def test_what_is_sorted_for_a_snapshot_goes_to_disk_when_its_headers_fill_the_memory(heavy: RecordColumns) -> None:
    keyed = RecordColumns.of(
        offsets=heavy.offsets,
        timestamps=heavy.timestamps,
        timestamp_types=heavy.timestamp_types,
        keys=columns_of([Record(n, b"%03d" % n, None) for n in range(200)]).keys,
        values=heavy.values,
        headers=heavy.headers,
    )
    changes = Changes(bytes_max=16 << 20)
    try:
        changes.add(keyed)
        assert changes.held_bytes < 16 << 20
        assert changes.stored_runs == 2
    finally:
        changes.close()


def test_an_answer_is_decoded_part_by_part_as_its_headers_fill_the_memory() -> None:
    parts = [len(part) for part in decode_parts(batches(20), part_bytes_max=PART_BYTES_MAX)]
    assert sum(parts) == 200
    assert max(parts) * RECORD_WEIGHS < PART_BYTES_MAX + 10 * RECORD_WEIGHS


def test_the_parts_of_an_answer_follow_one_another_and_end_where_it_does() -> None:
    parts = [(columns.offsets.tolist(), end) for columns, end in decoded(batches(12), start_offset=5, covered_end=130)]
    assert [offset for offsets, _ in parts for offset in offsets] == list(range(5, 120))
    assert len(parts) > 2
    assert all(offsets[-1] + 1 == end for offsets, end in parts[:-1])
    assert parts[-1] == ([], 130)


def test_a_segment_of_headers_is_full_when_they_weigh_as_much_as_it_may_hold() -> None:
    encoding = RecordEncoding("parquet", compression="zstd-1")
    encoding.begin(io.BytesIO(), envelope(start_offset=0))
    rule = CutRule(records_max=1 << 40, bytes_max=25 * RECORD_WEIGHS, end_offset=None, end_trigger="")
    cuts = []
    for end in encoding.take(batches(4), start_offset=0, covered_end=40):
        cut = encoding.find_cut(rule, covered_end=end)
        encoding.write(cut)
        cuts.append(None if cut is None else (cut.end_offset, cut.trigger))
    assert cuts == [(25, "max-bytes")]
