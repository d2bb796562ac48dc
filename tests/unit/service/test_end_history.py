"""Since when an offset has been at its source, as far as was seen; and how that is shown."""

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.service.end_history import MARKS_MAX, EndHistory
from mirrorlake.sources.client import Bounds
from support.partition_states import kafka_state


def test_an_offset_is_there_since_an_end_above_it_was_first_seen() -> None:
    history = EndHistory()
    for seconds, end in ((1.0, 10), (2.0, 10), (3.0, 25)):
        history.saw(end, position=0, now_seconds=seconds)
    assert [history.there_since(offset) for offset in (0, 9, 10, 24, 25)] == [1.0, 1.0, 3.0, 3.0, None]


def test_a_log_that_was_cut_is_known_from_its_new_end_on() -> None:
    history = EndHistory()
    for seconds, end in ((1.0, 10), (2.0, 30), (3.0, 12), (4.0, 20)):
        history.saw(end, position=0, now_seconds=seconds)
    assert [history.there_since(offset) for offset in (5, 11, 15)] == [1.0, 3.0, 4.0]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=400))
def test_however_many_ends_were_seen_few_are_kept_and_no_wait_is_told_too_short(growth: list[int]) -> None:
    first_seen: dict[int, float] = {}
    history, end = EndHistory(), 0
    for seconds, more in enumerate(growth):
        for offset in range(end, end + more):
            first_seen[offset] = float(seconds)
        end += more
        history.saw(end, position=0, now_seconds=float(seconds))
    assert len(history._marks) <= MARKS_MAX
    for offset, came in first_seen.items():
        there_since = history.there_since(offset)
        assert there_since is not None
        assert there_since <= came


def test_a_copy_that_is_behind_all_the_time_is_so_since_its_oldest_offset_came_not_since_its_last_lease() -> None:
    state = kafka_state(0)
    for seconds in range(100):
        state.position = seconds  # one offset a second is copied, ten come
        state.saw_source(Bounds(0, 10 * (seconds + 1)), float(seconds), 0.0)
    # Offset 99 came with the end at 100, which was first seen in second 9.
    waited = state.lag_seconds(99.0)
    assert waited is not None
    assert 90.0 <= waited <= 99.0


def test_how_far_behind_is_unknown_before_a_source_was_seen_and_when_it_is_seen_no_more() -> None:
    state = kafka_state(0)
    assert (state.lag_now(0.0), state.lag_seconds(0.0)) == (None, None)
    state.saw_source(Bounds(0, 7), 1.0, 0.0)
    assert (state.lag_now(1.0), state.lag_seconds(1.0)) == (None, None), "the position is not known"
    state.position = 7
    assert (state.lag_now(2.0), state.lag_seconds(2.0)) == (0, 0.0)
    assert (state.lag_now(16.0), state.lag_seconds(16.0)) == (None, None)
