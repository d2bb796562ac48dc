"""A log whose blocks have checksums is read once, and no batch comes out of a block that is not right."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.archive.blocks.compared_file import ComparedFile
from mirrorlake.archive.blocks.sums import BlockSummer
from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import SegmentName, parse_segment_name
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.records.codec import Codec
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.archive import content as content_module
from mirrorlake.sources.archive.batch_runs import REST_BYTES_MAX, BatchRuns
from mirrorlake.sources.archive.content import Content, LogContent
from mirrorlake.sources.archive.known_segments import KnownSegments, LogStop
from mirrorlake.sources.archive.opened_segment import OpenSegment
from mirrorlake.sources.archive.piece_buffers import PieceBuffers
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.memory import MemoryStore
from support.archived_source import BLOCKLESS_LOG, SMALL_BLOCKS_LOG, held_records, write_segment
from support.held_source import HeldPartition
from support.records import build_batch, simple_records

RECORDS = simple_records(60, size=40)
WHERE = TopicPartition("orders", 0)


class CountedFile(io.BytesIO):
    """Counts the bytes that are read of it."""

    count = 0

    def readinto(self, buffer: "bytearray | memoryview", /) -> int:  # type: ignore[override]
        read = super().readinto(buffer)
        self.count += read
        return read


def held(sizes: list[int]) -> HeldPartition:
    """The records in batches of these sizes, and one of what is left."""
    batches, start = [], 0
    for size in [*sizes, len(RECORDS)]:
        if records := RECORDS[start : start + size]:
            batches.append((start, build_batch(records)))
            start += len(records)
    return held_records(batches)


def log_of(sizes: list[int]) -> bytes:
    return bytes(held(sizes).from_offset(0))


def content_of(
    data: bytes,
    offsets: OffsetRange,
    *,
    block_bytes: int | None = None,
    of: bytes | None = None,
    stop: LogStop | None = None,
    buffers: PieceBuffers | None = None,
    raw: io.BytesIO | None = None,
) -> LogContent:
    file: BinaryIO = raw or io.BytesIO(data)
    if block_bytes is not None:
        summer = BlockSummer(block_bytes)
        summer.update(of or data)
        blocks = summer.sums()
        file = cast(BinaryIO, ComparedFile(file, file_bytes=len(data), blocks=blocks, where="k"))
    segment = Segment(name=SegmentName(from_offset=0, to_offset=59, extension="log"), size_bytes=len(data))
    return LogContent(
        file,
        segment,
        offsets=offsets,
        key="k",
        stop=stop or LogStop(),
        unit_bytes=block_bytes or 1,
        buffers=buffers,
    )


def batches_of(content: LogContent, buffers: PieceBuffers | None = None) -> Iterator[bytes]:
    """Yields all batches; the memory of each piece is spoilt as soon as it is given back."""
    while (piece := content.next_piece()) is not None:
        found = [bytes(item.batch.view) for item in piece.items]
        buffer, held_bytes = piece.buffer, piece.size_bytes
        assert held_bytes >= (len(buffer) if buffer is not None else sum(map(len, found)))
        del piece
        if buffers is not None and buffer is not None:
            buffers.give_back(buffer)
            buffer[:] = b"\xff" * len(buffer)
        yield from found


SIZES = st.lists(st.integers(1, 25), max_size=12)


@settings(max_examples=300, deadline=None)
@given(
    sizes=SIZES,
    block_bytes=st.integers(1, 4000),
    piece_bytes=st.integers(64, 4000),
    start=st.integers(0, 59),
    count=st.integers(1, 60),
    has_buffers=st.booleans(),
)
def test_it_gives_what_a_log_without_them_gives(
    sizes: list[int], block_bytes: int, piece_bytes: int, start: int, count: int, has_buffers: bool
) -> None:
    data = log_of(sizes)
    offsets = OffsetRange(start_offset=start, end_offset=min(60, start + count))
    buffers = PieceBuffers(piece_bytes) if has_buffers else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content_module, "PIECE_BYTES", piece_bytes)
        wanted = [*batches_of(content_of(data, offsets))]
        content = content_of(data, offsets, block_bytes=block_bytes, buffers=buffers)
        assert [*batches_of(content, buffers)] == wanted
        assert content.stop.offset == offsets.end_offset


@settings(max_examples=300, deadline=None)
@given(
    sizes=SIZES,
    block_bytes=st.integers(1, 4000),
    piece_bytes=st.integers(64, 4000),
    start=st.integers(0, 59),
    flipped=st.integers(0, 10_000),
    bit=st.integers(0, 7),
    from_stop=st.booleans(),
)
def test_no_batch_comes_out_of_a_block_with_a_changed_byte_and_all_before_it_do(
    sizes: list[int], block_bytes: int, piece_bytes: int, start: int, flipped: int, bit: int, from_stop: bool
) -> None:
    data = log_of(sizes)
    flipped %= len(data)
    damaged = bytearray(data)
    damaged[flipped] ^= 1 << bit
    bad = flipped // block_bytes * block_bytes
    ends, wanted, begins = 0, [], 0
    for batch in walk(memoryview(data)):
        begins, ends = ends, ends + len(batch.view)
        if batch.header.next_offset > start and ends <= bad:
            wanted.append(bytes(batch.view))
    begins = sum(len(batch.view) for batch in walk(memoryview(data)) if batch.header.next_offset <= start)
    # Where it is known where the first batch begins, blocks before that one's are not read.
    stop = LogStop(offset=start, byte_position=begins) if from_stop else LogStop()
    is_read = not from_stop or begins < bad + block_bytes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content_module, "PIECE_BYTES", piece_bytes)
        offsets = OffsetRange(start_offset=start, end_offset=60)
        buffers = PieceBuffers(piece_bytes)
        content = content_of(bytes(damaged), offsets, block_bytes=block_bytes, of=data, stop=stop, buffers=buffers)
        found: list[bytes] = []
        if not is_read:
            assert b"".join(batches_of(content, buffers)) == data[begins:]
            return
        with pytest.raises(ChainBrokenError, match=f"k has other bytes from {bad} to") as refused:
            found.extend(batches_of(content, buffers))
        assert refused.value.hint
        assert found == wanted
        with pytest.raises(ChainBrokenError, match=f"k has other bytes from {bad} to"):
            content.next_piece()


@pytest.mark.parametrize("block_bytes", [None, 64, 100, 700])
@pytest.mark.parametrize("piece_bytes", [800, 3000])
def test_each_byte_is_read_once(monkeypatch: pytest.MonkeyPatch, block_bytes: int | None, piece_bytes: int) -> None:
    monkeypatch.setattr(content_module, "PIECE_BYTES", piece_bytes)
    data = log_of([3, 5, 9, 2, 2, 12, 1, 4])
    raw = CountedFile(data)
    content = content_of(data, OffsetRange(start_offset=0, end_offset=60), block_bytes=block_bytes, raw=raw)
    assert b"".join(batches_of(content)) == data
    assert raw.count == len(data)


def test_reading_goes_on_at_the_block_in_which_it_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_module, "PIECE_BYTES", 800)
    data = log_of([5] * 11)
    content = content_of(data, OffsetRange(start_offset=0, end_offset=60), block_bytes=100)
    first = content.next_piece()
    assert first is not None
    stop, raw = content.stop, CountedFile(data)
    rest = content_of(data, OffsetRange(start_offset=stop.offset, end_offset=60), block_bytes=100, stop=stop, raw=raw)
    assert b"".join(batches_of(rest)) == data[stop.byte_position :]
    assert raw.count == len(data) - stop.byte_position // 100 * 100


def test_the_rest_of_a_large_batch_is_read_again_and_not_kept() -> None:
    large = build_batch(simple_records(1, size=2 * REST_BYTES_MAX))
    data = bytes(build_batch(simple_records(1, size=200))) + bytes(large)
    raw = CountedFile(data)

    def broken(what: str) -> ChainBrokenError:
        return ChainBrokenError(what)

    run_bytes = 3 * REST_BYTES_MAX // 2
    runs = BatchRuns(raw, len(data), unit_bytes=1, run_bytes=run_bytes, buffers=None, broken=broken)
    view, _ = runs.run_at(0)
    (first,) = walk(view)
    rest = view[len(first.view) :]
    assert len(rest) > REST_BYTES_MAX
    runs.keep(rest, len(first.view))
    view, _ = runs.run_at(len(first.view))
    assert bytes(view[: len(large)]) == bytes(large)
    assert raw.count == len(data) + len(rest)


# --- whole segments ------------------------------------------------------------------------------------------


class CountingStore(MemoryStore):
    """Counts what is read of files, by their kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[CountedFile] = []

    def open(self, key: str) -> BinaryIO:
        self.files.append(CountedFile(self.read(key)))
        return self.files[-1]

    @property
    def read_bytes(self) -> int:
        return sum(file.count for file in self.files)


def segment_in(store: MemoryStore, key: str) -> Segment:
    name = parse_segment_name(key.rpartition("/")[2])
    assert name is not None
    return Segment(name=name, size_bytes=len(store.objects[key]))


def opened(store: MemoryStore, key: str, known: KnownSegments | None = None) -> OpenSegment:
    return OpenSegment(store, key, segment_in(store, key), is_snapshot=False, known=known or KnownSegments())


def pieces(opened: OpenSegment, start: int = 0) -> Content:
    offsets = OffsetRange(start_offset=start, end_offset=60)
    return opened.content(offsets, codec=Codec.NONE, batch_bytes_max=1 << 20)


@pytest.mark.parametrize(("form", "times"), [("log", 1), (SMALL_BLOCKS_LOG, 1), (BLOCKLESS_LOG, 2)])
def test_a_segment_near_by_is_read_once_and_one_of_an_earlier_version_twice(form: str, times: int) -> None:
    store = CountingStore()
    key = write_segment(store, WHERE, held([5] * 11), 0, 60, form=form)
    content = pieces(opened(store, key))
    found = b""
    while (piece := content.next_piece()) is not None:
        found += b"".join(bytes(item.batch.view) for item in piece.items)
    content.close()
    assert found == store.objects[key]
    assert store.read_bytes == times * len(found)


def spoilt(store: MemoryStore, key: str, at: int) -> None:
    data = bytearray(store.objects[key])
    data[at] ^= 1
    store.objects[key] = bytes(data)


def test_of_a_segment_of_an_earlier_version_nothing_is_handed_out_that_is_changed_anywhere() -> None:
    store = CountingStore()
    key = write_segment(store, WHERE, held([5] * 11), 0, 60, form=BLOCKLESS_LOG)
    spoilt(store, key, len(store.objects[key]) - 1)
    with pytest.raises(ChainBrokenError, match="its description says"):
        opened(store, key)


def test_records_come_out_of_right_blocks_alone_whoever_decodes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorlake.archive.formats.log_reader.READ_BYTES", 300)
    store = CountingStore()
    key = write_segment(store, WHERE, held([5] * 11), 0, 60, form=SMALL_BLOCKS_LOG)
    size = len(store.objects[key])
    spoilt(store, key, size // 2)
    found: list[int] = []
    whole = OffsetRange(start_offset=0, end_offset=60)

    def follow(records: Iterator[RecordColumns]) -> None:
        for columns in records:
            found.extend(columns.offsets.tolist())

    for is_glimpse in (True, False):
        each = opened(store, key)
        with pytest.raises(ChainBrokenError, match=f"{key} has other bytes from {size // 2 // 100 * 100} to"):
            follow(each.records(whole, is_glimpse=is_glimpse))
        each.close()
        assert 0 < len(found) < 35
        assert found == list(range(len(found)))
        found.clear()
    with open_segment(store, key) as reader, pytest.raises(ChainBrokenError, match="other bytes from"):
        follow(reader.records(within=whole))
    assert 0 < len(found) < 35
    with pytest.raises(ChainBrokenError, match="other bytes from"):
        opened(store, key).check_batches()


def test_what_one_lease_has_read_the_next_one_does_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_module, "PIECE_BYTES", 800)
    store, known = CountingStore(), KnownSegments()
    key = write_segment(store, WHERE, held([5] * 11), 0, 60, form=SMALL_BLOCKS_LOG)
    content = pieces(opened(store, key, known))
    first, second = content.next_piece(), content.next_piece()
    content.close()
    assert first is not None
    assert second is not None
    before = store.read_bytes
    content = pieces(opened(store, key, known), second.covered.start_offset)
    again = content.next_piece()
    assert again is not None
    assert again.covered.start_offset == second.covered.start_offset
    assert store.read_bytes - before <= 800
    content.close()


def test_a_file_on_a_disk_is_read_the_same_way(tmp_path: Path) -> None:
    store = FilesystemStore(tmp_path)
    key = write_segment(store, WHERE, held([5] * 11), 0, 60, form="log")
    name = parse_segment_name(key.rpartition("/")[2])
    assert name is not None
    segment = Segment(name=name, size_bytes=(tmp_path / key).stat().st_size)
    content = pieces(OpenSegment(store, key, segment, is_snapshot=False, known=KnownSegments()))
    piece = content.next_piece()
    assert piece is not None
    assert b"".join(bytes(item.batch.view) for item in piece.items) == (tmp_path / key).read_bytes()
    assert content.next_piece() is None
    content.close()
