"""Sets of offsets as runs, for rows of columns to be asked whether they are among them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.offsets import Gap, GapKind, OffsetRange


@dataclass(frozen=True, slots=True)
class OffsetRuns:
    """Offsets as half-open runs in order, none of which meets or overlaps the next."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, ranges: Iterable[OffsetRange]) -> "OffsetRuns":
        """Returns the offsets of all ranges, which may overlap and be in any order."""
        pairs = sorted((each.start_offset, each.end_offset) for each in ranges if each)
        joined: list[list[int]] = []
        for start, end in pairs:
            if joined and start <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([start, end])
        starts, ends = np.array(joined, np.int64).reshape(-1, 2).T
        return cls(starts, ends)

    @classmethod
    def of_offsets(cls, offsets: npt.NDArray[np.int64]) -> "OffsetRuns":
        """Returns these offsets, which grow."""
        if not len(offsets):
            return cls.of(())
        breaks = np.flatnonzero(np.diff(offsets) > 1)
        return cls(offsets[np.concatenate([[0], breaks + 1])], offsets[np.concatenate([breaks, [-1]])] + 1)

    @classmethod
    def erased_by(cls, footer: SegmentFooter | None) -> "OffsetRuns":
        """Returns the offsets that a segment says were erased; none where it says nothing."""
        gaps = footer.gaps if footer is not None else ()
        return cls.of(gap.offsets for gap in gaps if gap.kind is GapKind.ERASED)

    def __len__(self) -> int:
        """Returns the number of runs."""
        return len(self.starts)

    @property
    def offset_count(self) -> int:
        """Offsets in all runs together."""
        return int((self.ends - self.starts).sum())

    def ranges(self) -> list[OffsetRange]:
        """Returns the runs."""
        pairs = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [OffsetRange(start_offset=start, end_offset=end) for start, end in pairs]

    def gaps(self, kind: GapKind) -> list[Gap]:
        """Returns the runs as gaps of one kind."""
        return [Gap(offsets=offsets, kind=kind) for offsets in self.ranges()]

    def within(self, offsets: OffsetRange) -> "OffsetRuns":
        """Returns what lies in a range."""
        starts = np.maximum(self.starts, offsets.start_offset)
        ends = np.minimum(self.ends, offsets.end_offset)
        kept = starts < ends
        return OffsetRuns(starts[kept], ends[kept])

    def joined(self, other: "OffsetRuns") -> "OffsetRuns":
        """Returns the offsets of both."""
        return OffsetRuns.of([*self.ranges(), *other.ranges()])

    def hold(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tells of each offset whether it is among them."""
        if not len(self.starts):
            return np.zeros(len(offsets), np.bool_)
        at = np.searchsorted(self.starts, offsets, side="right") - 1
        found: npt.NDArray[np.bool_] = (at >= 0) & (offsets < self.ends[at])
        return found
