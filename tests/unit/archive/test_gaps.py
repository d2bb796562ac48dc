import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.gaps import GAPS_LISTED_MAX, GapFinder, GapReport
from mirrorlake.offsets import Gap, GapKind, OffsetRange


def gap(start: int, end: int, kind: GapKind = GapKind.ABSENT) -> Gap:
    return Gap(offsets=OffsetRange(start_offset=start, end_offset=end), kind=kind)


def report(offsets: list[int], start: int, end: int, *known: Gap) -> GapReport:
    finder = GapFinder(start)
    finder.follow(np.array(offsets, np.int64))
    return finder.finish(end, known)


def test_a_dense_range_has_no_gap() -> None:
    assert report([5, 6, 7], 5, 8) == GapReport(offsets={}, listed=(), is_complete=True)


def test_gaps_are_found_before_between_and_after_records() -> None:
    assert report([7, 8, 11], 5, 15) == GapReport(
        offsets={GapKind.ABSENT: 7}, listed=(gap(5, 7), gap(9, 11), gap(12, 15)), is_complete=True
    )


def test_a_range_without_records_is_one_gap() -> None:
    assert report([], 5, 15).listed == (gap(5, 15),)


def test_known_gaps_keep_their_kind_and_the_rest_is_absent() -> None:
    truncated = gap(5, 9, GapKind.TRUNCATED)
    assert report([10, 12], 5, 13, truncated) == GapReport(
        offsets={GapKind.ABSENT: 2, GapKind.TRUNCATED: 4},
        listed=(truncated, gap(9, 10), gap(11, 12)),
        is_complete=True,
    )


def test_a_known_gap_inside_a_run_splits_it() -> None:
    recreated = gap(7, 8, GapKind.RECREATED)
    assert report([5, 10], 5, 11, recreated).listed == (gap(6, 7), recreated, gap(8, 10))


def test_a_record_in_a_gap_that_is_known_is_refused() -> None:
    with pytest.raises(ValueError, match="records lie in offsets that are called gaps"):
        report([5, 6, 9], 5, 10, gap(6, 9, GapKind.TRUNCATED))


def test_a_record_past_the_end_is_refused() -> None:
    with pytest.raises(ValueError, match="record at 9 is past the end 9"):
        report([9], 5, 9)


@pytest.mark.parametrize("offsets", [[5, 5], [6, 5], [4, 5]])
def test_offsets_that_do_not_grow_from_the_start_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="does not follow"):
        report(offsets, 5, 20)


def test_the_list_has_a_limit_and_the_count_has_none() -> None:
    offsets = list(range(1, 2 * GAPS_LISTED_MAX + 200, 2))
    found = report(offsets, 0, offsets[-1] + 1)
    assert found.offsets == {GapKind.ABSENT: GAPS_LISTED_MAX + 100}
    assert len(found.listed) == GAPS_LISTED_MAX
    assert not found.is_complete


@given(st.sets(st.integers(3, 60)), st.integers(1, 7))
def test_gaps_are_what_no_record_fills_however_the_records_arrive(offsets: set[int], piece: int) -> None:
    finder = GapFinder(3)
    ordered = sorted(offsets)
    for start in range(0, len(ordered), piece):
        finder.follow(np.array(ordered[start : start + piece], np.int64))
    found = finder.finish(61, ())
    missing = {offset for gap in found.listed for offset in range(gap.offsets.start_offset, gap.offsets.end_offset)}
    assert missing == set(range(3, 61)) - offsets
    assert found.offsets.get(GapKind.ABSENT, 0) == len(missing)


def test_records_right_behind_the_one_before_are_not_behind_a_gap() -> None:
    finder = GapFinder(5)
    for offsets in ([5, 6, 9], [], [10, 12], [14]):
        finder.follow(np.array(offsets, np.int64))
    finder.finish(20, ())
    assert finder.records_behind_gaps == 3  # 9, 12 and 14
