"""What times leave of a partition of an archive, by what was found of them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.errors import StoreUnavailableError
from mirrorlake.sources.archive.selection import ArchivedRange
from mirrorlake.sources.client import Bounds
from mirrorlake.topics.windows import range_of
from mirrorlake.window import Window

BOUNDS = Bounds(10, 50)
FROM, UNTIL = Window(from_ms=1), Window(until_ms=9)
BOTH = Window(from_ms=1, until_ms=9)


@pytest.mark.parametrize(
    ("window", "first_due", "first_late", "start", "end"),
    [
        (FROM, 20, None, 20, None),
        (FROM, 10, None, 10, None),
        (FROM, 5, None, 10, None),  # what offsets leave out stays out
        (FROM, 70, None, 70, None),  # a record that came since the ends were read
        (UNTIL, None, 30, 10, 30),
        (UNTIL, None, 10, 10, 10),  # the first record is too late already
        (UNTIL, None, 5, 10, 10),
        (UNTIL, None, None, 10, 50),  # none is too late: all there was, and no more without another look
        # A late record that came since the ends were read: all before it was looked at to find it, so it is the end.
        (UNTIL, None, 70, 10, 70),
        (BOTH, 20, 30, 20, 30),
        (BOTH, 40, 30, 30, 30),  # times that go back: nothing lies between
        (BOTH, 20, None, 20, 50),
        (BOTH, 70, None, 70, 70),  # due, and come since the ends were read: whether it is late is for the next look
        (BOTH, 70, 80, 70, 80),
    ],
)
def test_a_partition_begins_and_ends_where_its_records_say(
    window: Window, first_due: int | None, first_late: int | None, start: int, end: int | None
) -> None:
    expected = ArchivedRange(start_offset=start, end_offset=end)
    assert range_of(window, BOUNDS, first_due, first_late) == expected


@pytest.mark.parametrize("window", [FROM, BOTH])
@pytest.mark.parametrize("first_late", [None, 30])
def test_a_partition_without_a_record_that_is_due_has_no_range_yet(window: Window, first_late: int | None) -> None:
    """It does not begin behind all there is, as it was once said here.

    A lease looks more often than the window is looked for: it would read what came since, due or not. And a copy that
    was begun there would stand below its own start once the first record that is due has come.
    """
    assert range_of(window, BOUNDS, None, first_late) is None


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_could_not_be_found_bounds_nothing_by_guess(place: int) -> None:
    error = StoreUnavailableError("no answer")
    found: list[object] = [BOUNDS, 20, 30]
    found[place] = error
    assert range_of(BOTH, *found) is error  # type: ignore[arg-type]


def _looked(times: list[int], ends_read: int, looked_for: int, window: Window) -> ArchivedRange | None:
    """What a look finds of an archive that had so many records when its ends were read, and grew meanwhile."""
    there = times[:looked_for]
    due = next((n for n, time in enumerate(there) if window.from_ms is not None and time >= window.from_ms), None)
    late = next((n for n, time in enumerate(there) if window.until_ms is not None and time > window.until_ms), None)
    found = range_of(window, Bounds(0, ends_read), due, late)
    assert not isinstance(found, Exception)
    return found


@given(
    times=st.lists(st.integers(0, 12), max_size=12),
    cuts=st.lists(st.integers(0, 12), max_size=8).map(sorted),
    window=st.sampled_from([FROM, UNTIL, BOTH, Window(from_ms=6), Window(from_ms=6, until_ms=6)]),
)
def test_looks_at_an_archive_that_grows_never_move_a_start_nor_let_a_late_record_in(
    times: list[int], cuts: list[int], window: Window
) -> None:
    starts: set[int] = set()
    ends = [0]
    for ends_read, looked_for in pairwise(min(cut, len(times)) for cut in cuts):
        found = _looked(times, ends_read, looked_for, window)
        if found is None:
            assert not starts, "what was due once is due"
            continue
        starts.add(found.start_offset)
        last = looked_for if found.end_offset is None else min(found.end_offset, len(times))
        if window.until_ms is not None:
            assert all(time <= window.until_ms for time in times[found.start_offset : last])
        if window.from_ms is not None and last > found.start_offset:
            assert times[found.start_offset] >= window.from_ms
        assert last >= ends[-1], "an end never goes back"
        ends.append(last)
    assert len(starts) <= 1
