"""How far a copy that keeps keys, values, headers and times goes beyond the offset its program has stored. Pure.

The program copies each source partition in order into one partition, and begins anew at a stored offset after it was
stopped. So a record that is there says that all before it are there. A record is told by its hash; of equal ones, one
that is found proves no more than the first of them, and two found may be one copied twice: what cannot be told apart
counts as not copied, so that nothing is lost, and is named.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What the records of both sides say.

    Attributes:
        position: the next source offset that is needed: no record before it is missing, as far as can be told.
        end: source offset (exclusive) up to which records may be there already; ``position`` where it is exact.
        hole: source offset of a record that is not there although later ones are, None where there is none.
        compared: how many source records below the stored offset were looked for.
        found: how many of those were there.
        is_whole: False where everything that was read of the source is there: read more of it, and ask again.
    """

    position: int
    end: int
    hole: int | None
    compared: int
    found: int
    is_whole: bool


class Window:
    """Source records of one partition around a stored offset, and how often each was met in the copy.

    Args:
        offsets: ascending, of all source records that may be equal to one behind ``next_offset``, and some before.
        hashes: of the records.
        next_offset: what the program would read next, by what it has stored.
    """

    def __init__(self, offsets: Int64s, hashes: UInt64s, *, next_offset: int) -> None:
        self._offsets = offsets
        self._next_offset = next_offset
        self._unique, first, self._inverse = np.unique(hashes, return_index=True, return_inverse=True)
        self._first_offsets = offsets[first]
        self._met = np.zeros(len(self._unique), np.int64)

    def meet(self, hashes: UInt64s) -> None:
        """Takes records of the copy; those that no source record is equal to are somebody else's, or older."""
        if len(self._unique):
            rows = np.minimum(np.searchsorted(self._unique, hashes), len(self._unique) - 1)
            np.add.at(self._met, rows[self._unique[rows] == hashes], 1)

    def copied(self, *, may_have_lost: bool) -> Copied:
        """Returns how far the copy goes.

        Args:
            may_have_lost: the destination deletes or compacts, so a record that is not there may have been.
        """
        behind = self._offsets >= self._next_offset
        proven = self._first_offsets[(self._met > 0) & (self._first_offsets >= self._next_offset)]
        sure = int(proven.max()) + 1 if len(proven) else self._next_offset
        missing = self._offsets[behind & (_occurrences(self._inverse) > self._met[self._inverse])]
        there = int(missing[0]) if len(missing) else self._behind_last()
        hole = there if there < sure else None
        position = sure if hole is None or may_have_lost else there
        before = self._met[self._inverse[~behind]]
        return Copied(
            position=position,
            end=max(sure, there),
            hole=hole,
            compared=len(before),
            found=int((before > 0).sum()),
            is_whole=bool(len(missing)),
        )

    def _behind_last(self) -> int:
        return max(self._next_offset, int(self._offsets[-1]) + 1) if len(self._offsets) else self._next_offset


def _occurrences(groups: Int64s) -> Int64s:
    """Returns for each row how many rows of its group there are up to it, itself included."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    counted = np.arange(len(groups)) - np.repeat(starts, np.diff([*starts, len(groups)])) + 1
    result = np.empty(len(groups), np.int64)
    result[order] = counted
    return result
