"""Deliveries of many batches, in pieces: together they account for what the whole does."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.interface import ClassifiedBatch, Delivery
from mirrorlake.mirror.delivery_pieces import pieces_of
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from support.records import simple_records
from support.sinks import dense_batch
from unit.destinations.archive.test_sink import UnpinnedFrame

_Shape = Sequence[tuple[int, int]]
"""By batch: how many offsets lie before it that no batch holds, and how many records it has."""

_shapes = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=12)


def delivery_of(shape: _Shape, *, tail: int) -> Delivery:
    """A delivery of such batches and so many offsets behind them; what is between them is known to be missing."""
    position, items, gaps = 100, [], list[Gap]()
    for hole, count in [*shape, (tail, 0)]:
        if hole:
            gap = OffsetRange(start_offset=position, end_offset=position + hole)
            gaps.append(Gap(offsets=gap, kind=GapKind.MISSING))
        position += hole
        if count:
            items.append(dense_batch(simple_records(count), position))
        position += count
    return Delivery(
        covered=OffsetRange(start_offset=100, end_offset=position),
        batches=items,
        frame=UnpinnedFrame(),
        log_start_offset=7,
        end_offset=position + 50,
        leader_epoch=3,
        gaps=gaps,
        may_be_changed=True,
    )


@given(_shapes, st.integers(0, 3), st.integers(1, 5))
def test_pieces_have_the_batches_the_offsets_and_the_gaps_of_the_whole(shape: _Shape, tail: int, most: int) -> None:
    whole = delivery_of(shape, tail=tail)
    pieces = [*pieces_of(whole, batches_max=most)]

    taken: list[ClassifiedBatch] = [item for piece in pieces for item in piece.batches]
    assert taken == [*whole.batches]
    assert [gap for piece in pieces for gap in piece.gaps] == [*whole.gaps]
    ends = [piece.covered.end_offset for piece in pieces]
    assert [piece.covered.start_offset for piece in pieces] == [100, *ends[:-1]]
    assert ends[-1] == whole.covered.end_offset
    assert all(len(piece.batches) == most for piece in pieces[:-1])
    assert len(pieces[-1].batches) <= most
    for piece in pieces:
        assert piece.batches or piece is pieces[-1]
        assert all(item.batch.header.base_offset >= piece.covered.start_offset for item in piece.batches)
        assert (piece.log_start_offset, piece.end_offset, piece.leader_epoch, piece.may_be_changed) == (
            *(7, whole.end_offset, 3),
            True,
        )


def test_a_delivery_without_a_batch_is_one_piece() -> None:
    nothing = delivery_of([], tail=5)
    (piece,) = pieces_of(nothing)
    assert (piece.covered, piece.batches, [*piece.gaps]) == (nothing.covered, [], [*nothing.gaps])
