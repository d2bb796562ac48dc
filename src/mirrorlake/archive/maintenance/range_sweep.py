"""Which of many ranges a read in offset order has come to, without looking at all of them for every piece."""

from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from mirrorlake.offsets import OffsetRange


class Ranged(Protocol):
    """Something of a range of offsets."""

    @property
    def offsets(self) -> OffsetRange:
        """The range."""
        ...


R = TypeVar("R", bound=Ranged)


class RangeSweep(Generic[R]):
    """Goes along ranges as a read goes along offsets: each is taken up once, and let go of once.

    Costs a piece of the read no more than the ranges it touches, and those the piece before has touched; ranges may
    overlap and hold one another. A read that goes back begins anew: right, and slow.

    Args:
        ranges: in any order.
    """

    def __init__(self, ranges: Sequence[R]) -> None:
        self._ranges = sorted(ranges, key=lambda each: each.offsets.start_offset)
        self._waiting = deque(self._ranges)
        self._open: list[R] = []
        self._reached = 0

    def touched_by(self, first_offset: int, end_offset: int) -> Sequence[R]:
        """Returns the ranges that have an offset of ``[first_offset, end_offset)``, by where they start."""
        if first_offset < self._reached:
            self._waiting, self._open = deque(self._ranges), []
        self._reached = first_offset
        while self._waiting and self._waiting[0].offsets.start_offset < end_offset:
            self._open.append(self._waiting.popleft())
        self._open = [each for each in self._open if each.offsets.end_offset > first_offset]
        if self._open and self._open[-1].offsets.start_offset >= end_offset:  # a piece that ends before the last one's
            return [each for each in self._open if each.offsets.start_offset < end_offset]
        return self._open
