"""Gaps of a segment: found from the offsets as they pass, counted always, listed as far as they are few.

A compacted topic can have a gap before every record, so the list has a limit; beyond it the counts and the
offsets themselves still say everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mirrorlake.offsets import Gap, GapKind, OffsetRange, gaps_within

GAPS_LISTED_MAX = 1000
"""Gaps a footer lists, at most: some 50 kB of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapReport:
    """The gaps of one segment.

    ``offsets`` counts offsets by kind and is always complete. ``listed`` is in offset order, and complete where
    ``is_complete``; else it holds every gap that is neither ``absent`` nor ``filtered``, and the first of those.
    """

    offsets: dict[GapKind, int]
    listed: tuple[Gap, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredGaps:
    """What a filter left out of one segment: how many offsets, and the first runs of them, in offset order.

    ``listed_end`` is where the list ends (exclusive) while there are more; None where it holds all.
    """

    offsets: int = 0
    listed: tuple[Gap, ...] = ()
    listed_end: int | None = None


NOTHING_FILTERED = FilteredGaps()


class FilteredAccount:
    """Counts what a filter leaves out as it passes, segment by segment; memory does not grow with it."""

    def __init__(self) -> None:
        self._offsets = 0
        self._listed: list[Gap] = []
        self._listed_end: int | None = None
        self._recent: list[Gap] = []

    def take(self, gaps: Sequence[Gap], *, start_offset: int) -> None:
        """Takes the gaps of the next delivery, of which those below ``start_offset`` are taken already.

        What was taken before lies in the segment that is being written, wherever that will end.
        """
        self._count(self._recent)
        end = gaps[-1].offsets.end_offset if gaps else start_offset
        wanted = OffsetRange(start_offset=start_offset, end_offset=max(start_offset, end))
        self._recent = list(gaps_within(gaps, wanted))

    def add(self, footer_gaps: Sequence[Gap], offsets: int) -> None:
        """Takes what the next of several segments that become one says of what was left out of it.

        Args:
            footer_gaps: those it lists, of all kinds.
            offsets: how many it counts.
        """
        listed = [gap for gap in footer_gaps if gap.kind is GapKind.FILTERED]
        self._count(listed)
        unlisted = offsets - sum(len(gap.offsets) for gap in listed)
        if unlisted > 0:
            self._offsets += unlisted
            self._end_list()

    def until(self, end_offset: int) -> FilteredGaps:
        """Returns what was left out below ``end_offset``, where the segment ends; the rest is of the next one."""
        first = self._recent[0].offsets.start_offset if self._recent else end_offset
        below = OffsetRange(start_offset=min(first, end_offset), end_offset=end_offset)
        rest = [gap for gap in self._recent if gap.offsets.end_offset > end_offset]
        self._count(list(gaps_within(self._recent, below)))
        found = FilteredGaps(offsets=self._offsets, listed=tuple(self._listed), listed_end=self._listed_end)
        self._offsets, self._listed, self._listed_end, self._recent = 0, [], None, []
        if rest:
            past = OffsetRange(start_offset=end_offset, end_offset=rest[-1].offsets.end_offset)
            self._recent = list(gaps_within(rest, past))
        return found

    def _count(self, gaps: Sequence[Gap]) -> None:
        for gap in gaps:
            self._offsets += len(gap.offsets)
            last = self._listed[-1] if self._listed else None
            if self._listed_end is not None:
                continue
            if last is not None and last.offsets.end_offset == gap.offsets.start_offset:
                joined = OffsetRange(start_offset=last.offsets.start_offset, end_offset=gap.offsets.end_offset)
                self._listed[-1] = Gap(offsets=joined, kind=GapKind.FILTERED)
            elif len(self._listed) < GAPS_LISTED_MAX:
                self._listed.append(gap)
            else:
                self._end_list()

    def _end_list(self) -> None:
        if self._listed_end is None:
            self._listed_end = self._listed[-1].offsets.end_offset if self._listed else 0


class GapFinder:
    """Follows the offsets of a segment and notes the runs that are missing.

    Args:
        start_offset: where the segment begins.

    Attributes:
        records_behind_gaps: how many of the offsets followed did not lie right behind the one before.
    """

    def __init__(self, start_offset: int) -> None:
        self.records_behind_gaps = 0
        self._position = start_offset
        self._missing_offsets = 0
        self._runs: list[OffsetRange] = []
        self._is_complete = True

    def follow(self, offsets: npt.NDArray[np.int64]) -> None:
        """Takes the next offsets: growing, and at or above everything before.

        Raises:
            ValueError: they are not; nothing of them is taken.
        """
        if not len(offsets):
            return
        steps = np.diff(offsets, prepend=np.int64(self._position - 1))
        if steps.min() < 1:
            row = int(np.argmax(steps < 1))
            raise ValueError(f"offset {offsets[row]} does not follow {int(offsets[row]) - int(steps[row])}")
        missing_offsets = int(offsets[-1]) + 1 - self._position - len(offsets)
        if missing_offsets:
            rows = np.flatnonzero(steps > 1)
            self._note(offsets[rows] - steps[rows] + 1, offsets[rows])
            self.records_behind_gaps += len(rows)
            self._missing_offsets += missing_offsets
        self._position = int(offsets[-1]) + 1

    def follow_batches(
        self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> None:
        """Takes the next batches, whose records are counted and not looked at.

        Offsets without a record inside a batch are counted too; which they are is not known.

        Args:
            starts: first offset of each batch.
            ends: of each batch, exclusive.
            counts: records in each batch.

        Raises:
            ValueError: they overlap, or lie below what came before; nothing of them is taken.
        """
        if not len(starts):
            return
        before = np.concatenate([[self._position], ends[:-1]])
        if (starts < before).any():
            row = int(np.argmax(starts < before))
            raise ValueError(f"a batch at offset {starts[row]} does not follow {before[row] - 1}")
        rows = np.flatnonzero(starts > before)
        self._note(before[rows], starts[rows])
        self._is_complete &= bool((ends - starts == counts).all())
        self._missing_offsets += int(ends[-1]) - self._position - int(counts.sum())
        self._position = int(ends[-1])

    def follow_all_but(self, gaps: Sequence[Gap], offsets: OffsetRange) -> None:
        """Takes all offsets of a range as followed, but for its gaps.

        Args:
            gaps: all gaps of the range, of every kind, in offset order.
            offsets: the range, which lies at or above everything before.

        Raises:
            ValueError: it does not, or the gaps overlap.
        """
        bounds = [offsets.start_offset]
        for gap in gaps:
            bounds += [gap.offsets.start_offset, gap.offsets.end_offset]
        pairs = np.array([*bounds, offsets.end_offset], np.int64).reshape(-1, 2)
        if (pairs[:, 0] > pairs[:, 1]).any():
            raise ValueError(f"gaps that overlap, or lie outside of {offsets}")
        if offsets.start_offset < self._position:
            raise ValueError(f"a range from {offsets.start_offset} does not follow {self._position - 1}")
        runs = pairs[pairs[:, 0] < pairs[:, 1]]
        self.follow_batches(runs[:, 0], runs[:, 1], runs[:, 1] - runs[:, 0])

    def finish(self, end_offset: int, known: Sequence[Gap], filtered: FilteredGaps = NOTHING_FILTERED) -> GapReport:
        """Returns all gaps up to ``end_offset``; those not ``known`` and not ``filtered`` are absent.

        Args:
            end_offset: where the segment ends, exclusive.
            known: gaps whose kind the caller knows, in offset order.
            filtered: what a filter left out; none of ``known``.

        Raises:
            ValueError: a record lies past the end, or in a gap that is known.
        """
        if end_offset < self._position:
            raise ValueError(f"a record at {self._position - 1} is past the end {end_offset}")
        if end_offset > self._position:
            self._note(np.array([self._position]), np.array([end_offset]))
            self._missing_offsets += end_offset - self._position
            self._position = end_offset
        told = sorted([*known, *filtered.listed], key=lambda gap: gap.offsets) if filtered.listed else known
        absent = _without(self._runs, told, is_complete=self._is_complete)
        if filtered.listed_end is not None:
            # Behind the end of that list nobody can say which of the two they are.
            absent = [gap for gap in absent if gap.offsets.end_offset <= filtered.listed_end]
        counts = {kind: sum(len(gap.offsets) for gap in known if gap.kind is kind) for kind in GapKind}
        counts[GapKind.FILTERED] += filtered.offsets
        counts[GapKind.ABSENT] += self._missing_offsets - sum(counts.values())
        listed = sorted([*told, *absent[: max(0, GAPS_LISTED_MAX - len(told))]], key=lambda gap: gap.offsets)
        return GapReport(
            offsets={kind: count for kind, count in counts.items() if count},
            listed=tuple(listed),
            is_complete=self._is_complete and filtered.listed_end is None and len(listed) == len(told) + len(absent),
        )

    def _note(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> None:
        room = GAPS_LISTED_MAX - len(self._runs)
        self._is_complete &= len(starts) <= room
        self._runs += [
            OffsetRange(start_offset=int(start), end_offset=int(end))
            for start, end in zip(starts[:room], ends[:room], strict=True)
        ]


def _without(runs: Sequence[OffsetRange], known: Sequence[Gap], *, is_complete: bool) -> list[Gap]:
    """Returns the runs as absent gaps, less what is known."""
    absent: list[Gap] = []
    covered = first = 0
    for run in runs:
        start = run.start_offset
        # Both are in order, and many may have been erased: none that ends below this run is looked at again.
        while first < len(known) and known[first].offsets.end_offset <= start:
            first += 1
        at = first
        while at < len(known) and known[at].offsets.start_offset < run.end_offset:
            low = max(start, known[at].offsets.start_offset)
            high = min(run.end_offset, known[at].offsets.end_offset)
            if low < high:
                covered += high - low
                absent += _absent(start, low)
                start = high
            at += 1
        absent += _absent(start, run.end_offset)
    if is_complete and covered != sum(len(gap.offsets) for gap in known):
        raise ValueError(f"records lie in offsets that are called gaps: {[str(gap.offsets) for gap in known[:10]]}")
    return absent


def _absent(start: int, end: int) -> list[Gap]:
    if start == end:
        return []
    return [Gap(offsets=OffsetRange(start_offset=start, end_offset=end), kind=GapKind.ABSENT)]
