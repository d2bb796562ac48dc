"""Memory of pieces that goes round: what was read into it is what is handed out, until it is given back."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import SegmentName
from mirrorlake.errors import ChainBrokenError
from mirrorlake.offsets import OffsetRange
from mirrorlake.sources.archive import content as content_module
from mirrorlake.sources.archive.content import LogContent
from mirrorlake.sources.archive.known_segments import LogStop
from mirrorlake.sources.archive.piece_buffers import PieceBuffers
from mirrorlake.sources.archive.reads import PieceFrame, PieceMemory
from support.archived_source import held_records
from support.records import build_batch, simple_records

RECORDS = simple_records(200, size=100)
SIZES = (1, 9, 30, 2, 60, 5, 5, 5, 40, 43)


def _log() -> bytes:
    starts = [sum(SIZES[:number]) for number in range(len(SIZES))]
    held = held_records(
        [(start, build_batch(RECORDS[start : start + size])) for start, size in zip(starts, SIZES, strict=True)]
    )
    return bytes(held.from_offset(0))


LOG = _log()


def content_of(offsets: OffsetRange, buffers: PieceBuffers | None, log: bytes = LOG) -> LogContent:
    segment = Segment(name=SegmentName(from_offset=0, to_offset=199, extension="log"), size_bytes=len(log))
    return LogContent(io.BytesIO(log), segment, offsets=offsets, key="k", stop=LogStop(), buffers=buffers)


def read(content: LogContent, buffers: PieceBuffers | None) -> list[tuple[OffsetRange, list[bytes]]]:
    """Reads all pieces; the memory of each is spoilt as soon as it is given back."""
    found = []
    while (piece := content.next_piece()) is not None:
        found.append((piece.covered, [bytes(item.batch.view) for item in piece.items]))
        buffer = piece.buffer
        del piece
        if buffers is not None and buffer is not None:
            buffers.give_back(buffer)
            buffer[:] = b"\xff" * len(buffer)
    return found


@settings(max_examples=150, deadline=None)
@given(start=st.integers(0, 199), count=st.integers(1, 200), piece_bytes=st.integers(61, 9000))
def test_pieces_are_the_same_with_and_without_buffers(start: int, count: int, piece_bytes: int) -> None:
    offsets = OffsetRange(start_offset=start, end_offset=min(200, start + count))
    buffers = PieceBuffers(piece_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content_module, "PIECE_BYTES", piece_bytes)
        found = read(content_of(offsets, buffers), buffers)
        assert found == read(content_of(offsets, None), None)
    assert found[0][0].start_offset == start
    assert found[-1][0].end_offset == offsets.end_offset


def test_one_buffer_is_enough_for_who_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_module, "PIECE_BYTES", 8000)  # more than any batch
    buffers = PieceBuffers(8000)
    taken: list[bytearray] = []

    def noted() -> bytearray:
        taken.append(PieceBuffers.taken(buffers))
        return taken[-1]

    monkeypatch.setattr(buffers, "taken", noted)
    read(content_of(OffsetRange(start_offset=0, end_offset=200), buffers), buffers)
    assert len(taken) > 1
    assert len({id(each) for each in taken}) == 1


def test_what_is_damaged_behind_right_batches_is_said_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_module, "PIECE_BYTES", len(LOG))
    damaged = bytearray(LOG)
    damaged[-5] ^= 1
    buffers = PieceBuffers(len(LOG))
    content = content_of(OffsetRange(start_offset=0, end_offset=200), buffers, bytes(damaged))
    piece = content.next_piece()
    assert piece is not None
    assert piece.covered == OffsetRange(start_offset=0, end_offset=200 - SIZES[-1])
    with pytest.raises(ChainBrokenError, match="checksum"):
        content.next_piece()


def test_a_buffer_is_used_again_once_nobody_looks_at_it_and_never_by_two() -> None:
    buffers = PieceBuffers(8, kept_max=2)
    first = buffers.taken()
    view = memoryview(first)
    buffers.give_back(first)
    assert buffers.taken() is not first
    view.release()
    buffers.give_back(first)
    buffers.give_back(first)
    assert buffers.taken() is first
    assert buffers.taken() is not first
    for each in [bytearray(8) for _ in range(5)]:
        buffers.give_back(each)
    assert len({id(buffers.taken()) for _ in range(2)}) == 2


def test_the_last_pin_gives_the_buffer_back() -> None:
    buffers = PieceBuffers(8)
    buffer = buffers.taken()
    frame = PieceFrame(PieceMemory(1 << 20), 8, buffers, buffer)
    frame.pin()
    frame.unpin()
    frame.unpin()
    assert buffers.taken() is buffer
