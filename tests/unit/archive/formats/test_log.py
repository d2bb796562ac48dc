import io
from dataclasses import replace

import pytest
import xxhash

from mirrorlake.archive.blocks.sums import BLOCK_BYTES, BlockSums
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats import log as log_format
from mirrorlake.archive.formats.log import LogSegmentWriter
from mirrorlake.archive.formats.log_batches import LogBatch, clipped, log_batch
from mirrorlake.archive.formats.log_reader import LogSegmentReader
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.formats.same_range import confirm_same_range
from mirrorlake.archive.seal import READ_BYTES
from mirrorlake.archive.sidecar import create_sidecar
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.batch_header import LOG_APPEND_TIME_BIT, write_header
from mirrorlake.kafka.records.batches import Batch, Codec, walk
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.stores.memory import MemoryStore
from support.records import CODECS, build_batch, every_kind
from unit.archive.sample_records import AWKWARD, Record, columns_of, envelope, records_in
from unit.kafka.records.old_messages import GZIP, Message, message, wrapper

KEY = "orders/3/00000000000000000010-00000000000000000020.log"


def batch(*records: Record, codec: Codec = Codec.NONE) -> Batch:
    """A batch of records at their own offsets."""
    data = encode_batch(columns_of(records), codec=codec, base_offset=records[0].offset)
    (found,) = walk(memoryview(data))
    return found


# Without log append time and missing times, which a batch has for all its records.
PLAIN = [replace(record, timestamp_type=0, timestamp_ms=max(record.timestamp_ms, 0)) for record in AWKWARD]
BATCHES = [batch(*PLAIN[:3]), batch(*PLAIN[3:6], codec=Codec.ZSTD), batch(*PLAIN[6:7]), batch(PLAIN[7])]
"""Offsets 10-12; 13, 15, 16; 17; 20."""


def written(batches: list[Batch], *, end_offset: int = 21, gaps: tuple[Gap, ...] = ()) -> tuple[bytes, SegmentFooter]:
    file = io.BytesIO()
    writer = LogSegmentWriter(file, envelope(start_offset=10))
    writer.write([log_batch(each) for each in batches[:2]])
    writer.write([log_batch(each) for each in batches[2:]])
    return file.getvalue(), writer.close(end_offset=end_offset, gaps=gaps)


def reader_of(data: bytes, footer: SegmentFooter) -> LogSegmentReader:
    return LogSegmentReader(io.BytesIO(data), footer=footer, where="the file")


def read_back(data: bytes, footer: SegmentFooter, within: OffsetRange | None = None) -> list[Record]:
    with reader_of(data, footer) as segment:
        return [record for columns in segment.records(within=within) for record in records_in(columns)]


def test_the_file_is_the_sources_batches_and_nothing_else() -> None:
    data, footer = written(BATCHES)
    assert data == b"".join(bytes(each.view) for each in BATCHES)
    assert read_back(data, footer) == PLAIN
    reader_of(data, footer).check_content()


def test_it_says_of_itself_what_the_headers_say() -> None:
    data, footer = written(BATCHES)
    assert (footer.records, footer.raw_bytes, footer.first_offset, footer.last_offset) == (8, len(data), 10, 20)
    assert footer.algorithm == "xxh3-128"
    assert footer.file is not None
    assert (footer.file.bytes, footer.file.checksum) == (len(data), footer.checksum)
    # Base timestamps: records 10, 13, 17 and 20; of record 16, which has 0, only decoding would tell.
    assert (footer.timestamp_ms_min, footer.timestamp_ms_max) == (0, 1_700_000_000_000)


def test_gaps_between_batches_are_listed_and_those_inside_counted() -> None:
    _, footer = written(BATCHES)
    assert footer.gap_offsets == {GapKind.ABSENT: 3}
    assert footer.gaps == (Gap(offsets=OffsetRange(start_offset=18, end_offset=20), kind=GapKind.ABSENT),)
    assert not footer.gaps_complete
    _, dense = written([BATCHES[0], BATCHES[2]])
    assert [(str(gap.offsets), gap.kind) for gap in dense.gaps] == [
        (str(OffsetRange(start_offset=13, end_offset=17)), GapKind.ABSENT),
        (str(OffsetRange(start_offset=18, end_offset=21)), GapKind.ABSENT),
    ]
    assert dense.gaps_complete


def test_a_truncated_gap_keeps_its_kind() -> None:
    lost = Gap(offsets=OffsetRange(start_offset=10, end_offset=17), kind=GapKind.TRUNCATED)
    _, footer = written(BATCHES[2:], gaps=(lost,))
    assert footer.gap_offsets == {GapKind.TRUNCATED: 7, GapKind.ABSENT: 2}
    assert footer.gaps[0] == lost


def test_batches_out_of_order_are_refused_and_not_taken() -> None:
    writer = LogSegmentWriter(io.BytesIO(), envelope(start_offset=10))
    writer.write([log_batch(BATCHES[1])])
    with pytest.raises(ValueError, match="a batch at offset 10 does not follow 16"):
        writer.write([log_batch(BATCHES[0])])
    assert writer.records == 3
    with pytest.raises(ValueError, match="does not follow 10"):
        LogSegmentWriter(io.BytesIO(), envelope(start_offset=11)).write([log_batch(BATCHES[0])])


def test_a_batch_past_the_end_is_refused() -> None:
    with pytest.raises(ValueError, match="past the end"):
        written(BATCHES, end_offset=20)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_batches_of_an_independent_encoder_come_back(codec: int) -> None:
    made = every_kind(codec)
    (found,) = walk(memoryview(build_batch(made, codec)))
    file = io.BytesIO()
    writer = LogSegmentWriter(file, envelope())
    writer.write([log_batch(found)])
    footer = writer.close(end_offset=len(made))
    assert footer.records == len(made)
    assert footer.gap_offsets == {}
    assert [(r.key, r.value, r.timestamp_ms) for r in read_back(file.getvalue(), footer)] == [
        (record.key, record.value, record.timestamp) for record in made
    ]


def test_small_and_large_batches_keep_their_order() -> None:
    sizes = [10, 100_000, 10, 20, 90_000, 90_000, 5] + [40_000] * 60
    batches = [batch(Record(10 + row, b"k", bytes([row]) * size)) for row, size in enumerate(sizes)]
    assert sum(sizes[7:]) > 2 * log_format.WRITE_BYTES_MAX
    file = io.BytesIO()
    writer = LogSegmentWriter(file, envelope(start_offset=10))
    writer.write([log_batch(each) for each in batches])
    writer.close(end_offset=10 + len(sizes))
    assert file.getvalue() == b"".join(bytes(each.view) for each in batches)


def test_a_batch_larger_than_a_read_comes_back() -> None:
    large = Record(10, b"k", bytes(range(256)) * (READ_BYTES // 100))
    data, footer = written([batch(large), *[batch(Record(11 + n, b"k", b"v" * 999)) for n in range(10)]])
    assert len(data) > 2 * READ_BYTES
    assert [record.offset for record in read_back(data, footer)] == [*range(10, 21)]
    reader_of(data, footer).check_content()


@pytest.mark.parametrize(("start", "end"), [(10, 21), (11, 16), (14, 15), (16, 18), (0, 11), (18, 20)])
def test_only_records_within_a_range_are_handed_out(start: int, end: int) -> None:
    data, footer = written(BATCHES)
    found = read_back(data, footer, OffsetRange(start_offset=start, end_offset=end))
    assert found == [record for record in PLAIN if start <= record.offset < end]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_over_an_edge_is_cut_to_the_records_inside(codec: Codec) -> None:
    whole = log_batch(batch(*PLAIN[3:6], codec=codec))
    assert clipped(whole, start_offset=13, end_offset=17) is whole
    left = clipped(whole, start_offset=0, end_offset=15)
    right = clipped(whole, start_offset=15, end_offset=99)
    assert left is not None
    assert right is not None
    assert (left.first_offset, left.next_offset, left.records) == (13, 14, 1)
    assert (right.first_offset, right.next_offset, right.records) == (15, 17, 2)
    assert left.batch.header.codec == right.batch.header.codec == codec
    records = [r for part in (left, right) for r in records_in(decode_batches([part.batch]))]
    assert records == PLAIN[3:6]
    assert clipped(whole, start_offset=14, end_offset=15) is None


def test_a_cut_batch_keeps_the_brokers_time_and_the_leader_epoch() -> None:
    data = bytearray(batch(*PLAIN[3:6]).view)
    header = next(walk(memoryview(data))).header
    write_header(data, header._replace(attributes=LOG_APPEND_TIME_BIT, max_timestamp=1_800_000_000_000, leader_epoch=7))
    (stamped,) = walk(memoryview(data))
    right = clipped(log_batch(stamped), start_offset=15, end_offset=17)
    assert right is not None
    assert (right.timestamp_ms_first, right.timestamp_ms_max) == (1_800_000_000_000, 1_800_000_000_000)
    assert right.batch.header.leader_epoch == 7
    columns = decode_batches([right.batch])
    assert columns.timestamps.tolist() == [1_800_000_000_000] * 2
    assert columns.timestamp_types.tolist() == [1, 1]


def test_a_delete_horizon_is_not_taken_for_a_timestamp() -> None:
    data = bytearray(batch(*PLAIN[:3]).view)
    header = next(walk(memoryview(data))).header
    write_header(data, header._replace(attributes=0x40, base_timestamp=5))
    (found,) = walk(memoryview(data))
    assert log_batch(found).timestamp_ms_first is None
    assert log_batch(found).timestamp_ms_max == 1_700_000_000_000


@pytest.mark.parametrize("kind", ["cut", "cut at a batch", "changed", "longer", "swapped"])
def test_a_changed_cut_or_swapped_file_is_told_from_a_good_one(kind: str) -> None:
    data, footer = written(BATCHES)
    damaged = {
        "cut": data[:-3],
        "cut at a batch": data[: -len(BATCHES[3].view)],
        "changed": data[:80] + bytes([data[80] ^ 1]) + data[81:],
        "longer": data + bytes(BATCHES[3].view),
        "swapped": written([BATCHES[0]])[0],
    }[kind]
    with pytest.raises(ChainBrokenError, match="its description says"):
        reader_of(damaged, footer).check_content()


def without_blocks(footer: SegmentFooter) -> SegmentFooter:
    """As earlier versions wrote it."""
    assert footer.file is not None
    return replace(footer, file=replace(footer.file, blocks=None))


def test_a_damaged_file_without_checksums_of_blocks_is_not_read_as_a_good_one() -> None:
    data, footer = written(BATCHES)
    footer = without_blocks(footer)
    changed = data[:80] + bytes([data[80] ^ 1]) + data[81:]
    with pytest.raises(ChainBrokenError, match=r"the file cannot be read as record batches: .* checksum"):
        read_back(changed, footer)
    with pytest.raises(ChainBrokenError, match="ends inside a record batch"):
        read_back(data[:-3], footer)
    with pytest.raises(ChainBrokenError, match="out of order"):
        read_back(data[len(BATCHES[0].view) :] + bytes(BATCHES[0].view), footer)


@pytest.mark.parametrize("damage", ["changed", "cut", "longer", "out of order"])
def test_of_a_file_with_checksums_of_blocks_nothing_wrong_is_read(damage: str) -> None:
    data, footer = written(BATCHES)
    first = len(BATCHES[0].view)
    damaged, message = {
        "changed": (data[:80] + bytes([data[80] ^ 1]) + data[81:], f"other bytes from 0 to {len(data) - 1} than"),
        "cut": (data[:-3], f"has {len(data) - 3} bytes, its description says {len(data)}"),
        "longer": (data + b"x", f"has {len(data) + 1} bytes, its description says {len(data)}"),
        "out of order": (data[first:] + data[:first], "the file has other bytes"),
    }[damage]
    with pytest.raises(ChainBrokenError, match=message) as refused:
        read_back(damaged, footer)
    assert refused.value.hint
    assert refused.value.facts["key"] == "the file"


def test_a_whole_check_tells_a_wrong_checksum_beside_right_blocks_and_the_other_way_round() -> None:
    data, footer = written(BATCHES)
    assert footer.file is not None
    with pytest.raises(ChainBrokenError, match="its description says"):
        reader_of(data, replace(footer, file=replace(footer.file, checksum="0" * 32))).check_content()
    wrong = BlockSums(block_bytes=BLOCK_BYTES, digests=bytes(16))
    with pytest.raises(ChainBrokenError, match="its description says"):
        reader_of(data, replace(footer, file=replace(footer.file, blocks=wrong))).check_content()


def test_its_blocks_are_those_of_its_file() -> None:
    file = io.BytesIO()
    writer = LogSegmentWriter(file, envelope(start_offset=10), block_bytes=64)
    for each in BATCHES:
        writer.write([log_batch(each)])
    said = writer.close(end_offset=21).file
    data = file.getvalue()
    assert said is not None
    assert said.blocks is not None
    starts = range(0, len(data), 64)
    assert said.blocks.hexdigests() == [xxhash.xxh3_128_hexdigest(data[at : at + 64]) for at in starts]
    assert replace(said, blocks=None) == said


def test_a_log_that_lost_its_description_is_read_and_nothing_is_taken_from_it_that_only_that_would_say() -> None:
    data, footer = written(BATCHES)
    store = MemoryStore({KEY: data})
    with open_segment(store, KEY) as segment:
        assert segment.footer is None
        segment.check_content()
        assert [int(o) for columns in segment.records() for o in columns.offsets] == [
            int(o) for columns in reader_of(data, footer).records() for o in columns.offsets
        ]
    changed = data[:80] + bytes([data[80] ^ 1]) + data[81:]
    with open_segment(MemoryStore({KEY: changed}), KEY) as segment, pytest.raises(ChainBrokenError, match="checksum"):
        segment.check_content()
    with pytest.raises(ChainBrokenError, match=f"{KEY} has no description"):
        confirm_same_range(store, KEY, footer)
    create_sidecar(store, KEY, footer)
    with open_segment(store, KEY) as segment:
        assert segment.footer == footer
        segment.check_content()


def old(data: bytes) -> list[LogBatch]:
    return [log_batch(each) for each in walk(memoryview(data))]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_kept_as_they_are(magic: int) -> None:
    plain = message(magic, Message(10, b"a", b"1", 5))
    # A wrapper's offset is that of its last message; v1 counts inside from the first.
    inside = [message(magic, Message(offset if magic else 12 + offset, b"b", b"2", 6 + offset)) for offset in (0, 2)]
    data = plain + wrapper(magic, GZIP, 14, inside, timestamp=8)
    batches = old(data)
    assert [(each.first_offset, each.next_offset, each.records) for each in batches] == [(10, 11, 1), (12, 15, 2)]
    assert [each.timestamp_ms_max for each in batches] == ([5, 8] if magic else [None, None])
    file = io.BytesIO()
    writer = LogSegmentWriter(file, envelope(start_offset=10))
    writer.write(batches)
    footer = writer.close(end_offset=15)
    assert file.getvalue() == data
    assert footer.gap_offsets == {GapKind.ABSENT: 2}
    assert [(r.offset, r.key, r.timestamp_ms) for r in read_back(data, footer)] == (
        [(10, b"a", 5), (12, b"b", 6), (14, b"b", 8)] if magic else [(10, b"a", -1), (12, b"b", -1), (14, b"b", -1)]
    )
    reader_of(data, footer).check_content()
    right = clipped(batches[1], start_offset=13, end_offset=15)
    assert right is not None
    assert [(r.offset, r.value) for r in records_in(decode_batches([right.batch]))] == [(14, b"2")]
