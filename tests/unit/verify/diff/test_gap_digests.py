"""Gaps are told apart block by block."""

from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.verify.diff.gap_digests import UNSAID, blocks_of, differing_gaps, gap_digests, joined
from mirrorlake.verify.digest import BLOCK_OFFSETS


def gap(start: int, end: int, kind: GapKind = GapKind.ERASED) -> Gap:
    return Gap(offsets=OffsetRange(start_offset=start, end_offset=end), kind=kind)


def digests(*gaps: Gap) -> dict[int, int]:
    return gap_digests(joined(gaps), [])


def test_gaps_that_touch_are_one_however_segments_cut_them() -> None:
    assert joined([gap(5, 9), gap(0, 5), gap(9, 10, GapKind.TRUNCATED), gap(3, 7)]) == [
        gap(0, 9),
        gap(9, 10, GapKind.TRUNCATED),
    ]
    assert digests(gap(0, 4), gap(4, 9)) == digests(gap(0, 9))


def test_absent_gaps_are_left_to_the_records_offsets() -> None:
    assert digests(gap(3, 4, GapKind.ABSENT)) == {}


def test_a_block_differs_where_kind_or_offsets_do() -> None:
    long = gap(10, 3 * BLOCK_OFFSETS)
    assert sorted(digests(long)) == [0, 1, 2]
    assert differing_gaps(digests(long), digests(long)) == []
    assert differing_gaps(digests(long), digests(gap(11, 3 * BLOCK_OFFSETS))) == [0]
    assert differing_gaps(digests(long), digests(gap(10, 3 * BLOCK_OFFSETS - 1))) == [2]
    assert differing_gaps(digests(long), digests(gap(10, 3 * BLOCK_OFFSETS, GapKind.MISSING))) == [0, 1, 2]
    assert differing_gaps(digests(long), {}) == [0, 1, 2]


def test_gaps_that_are_not_said_differ_from_none() -> None:
    unsaid = gap_digests([], [OffsetRange(start_offset=0, end_offset=BLOCK_OFFSETS + 1)])
    assert unsaid == {0: UNSAID, 1: UNSAID}
    assert differing_gaps(unsaid, digests(gap(0, 3 * BLOCK_OFFSETS))) == [2]


def test_no_block_has_some_of_nothing() -> None:
    assert list(blocks_of(OffsetRange(start_offset=7, end_offset=7))) == []
    assert list(blocks_of(OffsetRange(start_offset=0, end_offset=BLOCK_OFFSETS))) == [0]
