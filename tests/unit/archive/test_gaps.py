import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.gaps import GAPS_LISTED_MAX, FilteredAccount, FilteredGaps, GapFinder, GapReport
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


def filtered(start: int, end: int) -> Gap:
    return gap(start, end, GapKind.FILTERED)


def test_what_a_filter_left_out_is_told_from_what_is_absent() -> None:
    account = FilteredAccount()
    account.take([filtered(0, 2), filtered(4, 5)], start_offset=0)
    account.take([filtered(5, 6), filtered(8, 12)], start_offset=5)
    finder = GapFinder(0)
    finder.follow(np.array([2, 6], np.int64))

    first = finder.finish(10, [], account.until(10))

    assert first == GapReport(
        offsets={GapKind.FILTERED: 6, GapKind.ABSENT: 2},
        listed=(filtered(0, 2), gap(3, 4), filtered(4, 6), gap(7, 8), filtered(8, 10)),
        is_complete=True,
    )
    assert GapFinder(10).finish(13, [], account.until(13)).listed == (filtered(10, 12), gap(12, 13))


def test_of_a_delivery_that_begins_before_a_segment_only_the_rest_counts() -> None:
    account = FilteredAccount()
    account.take([filtered(0, 4), filtered(6, 9)], start_offset=3)
    found = account.until(8)
    assert (found.offsets, found.listed) == (3, (filtered(3, 4), filtered(6, 8)))
    assert account.until(20).listed == (filtered(8, 9),)


def test_a_long_list_ends_and_nothing_behind_its_end_is_called_absent() -> None:
    account, finder = FilteredAccount(), GapFinder(0)
    count = GAPS_LISTED_MAX + 50
    for number in range(count):  # record, left out, absent
        account.take([filtered(3 * number + 1, 3 * number + 2)], start_offset=3 * number)
        finder.follow(np.array([3 * number], np.int64))

    found = finder.finish(3 * count, [], account.until(3 * count))

    assert found.offsets == {GapKind.FILTERED: count, GapKind.ABSENT: count}
    assert not found.is_complete
    assert sum(each.kind is GapKind.FILTERED for each in found.listed) == GAPS_LISTED_MAX
    assert found.listed[-1].offsets.end_offset <= 3 * GAPS_LISTED_MAX


def test_segments_that_become_one_add_up_what_was_left_out_whatever_they_list() -> None:
    account = FilteredAccount()
    account.add([gap(0, 1), filtered(1, 3)], 2)
    account.add([filtered(3, 5)], 10)
    account.add([filtered(20, 21)], 1)
    found = account.until(30)
    assert (found.offsets, found.listed, found.listed_end) == (13, (filtered(1, 5),), 5)


@given(st.lists(st.sampled_from("rfa"), min_size=1, max_size=60), st.integers(1, 9), st.integers(1, 9))
def test_offsets_are_counted_by_what_they_are_however_they_are_delivered_and_cut(
    kinds: list[str], delivered: int, cut: int
) -> None:
    account, counts, position = FilteredAccount(), {GapKind.FILTERED: 0, GapKind.ABSENT: 0}, 0
    finder = GapFinder(0)
    for start in range(0, len(kinds), delivered):
        end = min(start + delivered, len(kinds))
        account.take([filtered(at, at + 1) for at in range(start, end) if kinds[at] == "f"], start_offset=start)
        while position < end:
            stop = min(end, (position // cut + 1) * cut)
            finder.follow(np.array([at for at in range(position, stop) if kinds[at] == "r"], np.int64))
            position = stop
            if position % cut == 0 or position == len(kinds):
                for kind, offsets in finder.finish(position, [], account.until(position)).offsets.items():
                    counts[kind] += offsets
                finder = GapFinder(position)
    assert counts == {GapKind.FILTERED: kinds.count("f"), GapKind.ABSENT: kinds.count("a")}


RUNS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)
"""Of a segment: so many offsets with records, then so many without."""


@given(st.lists(RUNS, min_size=1, max_size=4), st.integers(0, 9))
def test_ranges_followed_by_their_gaps_say_what_their_offsets_do(
    segments: list[list[tuple[int, int]]], start: int
) -> None:
    by_gaps, by_offsets, position = GapFinder(start), GapFinder(start), start
    for runs in segments:
        first = position
        gaps: list[Gap] = []
        offsets: list[int] = []
        for records, missing in runs:
            offsets += range(position, position + records)
            position += records + missing
            if missing:
                gaps.append(gap(position - missing, position))
        by_gaps.follow_all_but(gaps, OffsetRange(start_offset=first, end_offset=position))
        by_offsets.follow(np.array(offsets, np.int64))
    assert by_gaps.finish(position, ()) == by_offsets.finish(position, ())


def test_gaps_of_a_followed_range_keep_the_kinds_the_caller_knows() -> None:
    truncated, filtered = gap(0, 3, GapKind.TRUNCATED), gap(5, 6, GapKind.FILTERED)
    finder = GapFinder(0)
    finder.follow_all_but((truncated, gap(4, 5), filtered), OffsetRange(start_offset=0, end_offset=8))
    finder.follow(np.array([9], np.int64))
    finder.follow_all_but((gap(12, 13),), OffsetRange(start_offset=10, end_offset=13))
    left_out = FilteredGaps(offsets=1, listed=(filtered,))
    assert finder.finish(15, (truncated,), left_out) == GapReport(
        offsets={GapKind.TRUNCATED: 3, GapKind.FILTERED: 1, GapKind.ABSENT: 5},
        listed=(truncated, gap(4, 5), filtered, gap(8, 9), gap(12, 15)),
        is_complete=True,
    )


def test_a_followed_range_of_more_gaps_than_are_listed_is_counted_in_whole() -> None:
    gaps = [gap(at, at + 1) for at in range(0, 2 * GAPS_LISTED_MAX + 200, 2)]
    finder = GapFinder(0)
    finder.follow_all_but(gaps, OffsetRange(start_offset=0, end_offset=2 * len(gaps)))
    found = finder.finish(2 * len(gaps), ())
    assert found.offsets == {GapKind.ABSENT: len(gaps)}
    assert found.listed == tuple(gaps[:GAPS_LISTED_MAX])
    assert not found.is_complete


@pytest.mark.parametrize(
    ("start", "end", "gaps"),
    [
        (9, 20, ()),  # behind what was followed before
        (9, 20, (gap(9, 20),)),
        (10, 20, (gap(12, 15), gap(14, 16))),
        (10, 20, (gap(15, 16), gap(12, 13))),
        (10, 20, (gap(8, 11),)),
        (10, 20, (gap(19, 21),)),
    ],
)
def test_a_range_that_its_gaps_do_not_fit_or_that_lies_below_is_refused(
    start: int, end: int, gaps: tuple[Gap, ...]
) -> None:
    finder = GapFinder(0)
    finder.follow(np.arange(10))
    with pytest.raises(ValueError, match=r"overlap|does not follow"):
        finder.follow_all_but(gaps, OffsetRange(start_offset=start, end_offset=end))
    assert finder.finish(10, ()) == GapReport(offsets={}, listed=(), is_complete=True), "nothing of it was taken"
