"""Which offsets of a destination partition no run names: written out, and by marking every offset."""

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.map.offset_map import MappedRun
from mirrorlake.groups.others import uncovered
from mirrorlake.offsets import OffsetRange


def run(destination_offset: int, length: int) -> MappedRun:
    return MappedRun(start_offset=0, length=length, destination_offset=destination_offset)


def between(start: int, end: int, *runs: MappedRun) -> list[tuple[int, int]]:
    offsets = OffsetRange(start_offset=start, end_offset=end)
    return [(each.start_offset, each.end_offset) for each in uncovered(offsets, runs)]


def test_what_lies_between_runs_before_and_behind_them_is_uncovered() -> None:
    assert between(0, 20, run(3, 4), run(10, 5)) == [(0, 3), (7, 10), (15, 20)]


def test_without_a_run_all_is_uncovered_and_inside_of_one_nothing_is() -> None:
    assert between(5, 9) == [(5, 9)]
    assert between(5, 9, run(0, 20)) == []
    assert between(5, 5) == []


@given(
    st.integers(0, 60),
    st.integers(0, 60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 10)), max_size=8),
)
def test_an_offset_is_uncovered_exactly_where_no_run_holds_it(
    start: int, length: int, places: list[tuple[int, int]]
) -> None:
    held = {offset for first, count in places for offset in range(first, first + count)}
    found = between(start, start + length, *(run(first, count) for first, count in places))
    assert [offset for first, end in found for offset in range(first, end)] == [
        offset for offset in range(start, start + length) if offset not in held
    ]
