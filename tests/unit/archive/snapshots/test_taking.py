"""Gaps of ranges that follow one another, as one report."""

import numpy as np

from mirrorlake.archive.gaps import GAPS_LISTED_MAX, GapFinder, GapReport
from mirrorlake.archive.snapshots.taking import joined_gaps
from mirrorlake.offsets import Gap, GapKind, OffsetRange


def gap(start: int, end: int, kind: GapKind = GapKind.ABSENT) -> Gap:
    return Gap(offsets=OffsetRange(start_offset=start, end_offset=end), kind=kind)


def part(start: int, end: int, *gaps: Gap) -> GapReport:
    """As whoever reads a range finds it: nothing but these gaps has no record."""
    known = [each for each in gaps if each.kind is not GapKind.ABSENT]
    missing = {offset for each in gaps for offset in range(each.offsets.start_offset, each.offsets.end_offset)}
    finder = GapFinder(start)
    finder.follow(np.array([offset for offset in range(start, end) if offset not in missing], np.int64))
    return finder.finish(end, known)


def test_counts_add_up_and_gaps_stay_in_order_by_their_kinds() -> None:
    parts = [part(10, 20, gap(12, 14)), part(20, 30, gap(20, 23, GapKind.TRUNCATED), gap(29, 30))]
    report = joined_gaps(parts, before=OffsetRange(start_offset=0, end_offset=10))
    assert report.offsets == {GapKind.ABSENT: 3, GapKind.TRUNCATED: 13}
    assert report.listed == (
        gap(0, 10, GapKind.TRUNCATED),
        gap(12, 14),
        gap(20, 23, GapKind.TRUNCATED),
        gap(29, 30),
    )
    assert report.is_complete


def test_of_too_many_gaps_the_absent_ones_are_left_out_which_is_said() -> None:
    parts = []
    for first in (0, 2 * GAPS_LISTED_MAX):
        every = [gap(start, start + 1) for start in range(first, first + 2 * GAPS_LISTED_MAX, 2)]
        parts.append(part(first, first + 2 * GAPS_LISTED_MAX, *every))
    end = 4 * GAPS_LISTED_MAX
    parts.append(part(end, end + 10, gap(end, end + 5, GapKind.TRUNCATED)))
    report = joined_gaps(parts, before=None)
    assert report.offsets == {GapKind.ABSENT: 2 * GAPS_LISTED_MAX, GapKind.TRUNCATED: 5}
    assert len(report.listed) == GAPS_LISTED_MAX
    assert report.listed[-1] == gap(end, end + 5, GapKind.TRUNCATED)
    assert not report.is_complete


def test_without_a_gap_there_is_none() -> None:
    assert joined_gaps([part(0, 5), part(5, 6)], before=None) == GapReport(offsets={}, listed=(), is_complete=True)
