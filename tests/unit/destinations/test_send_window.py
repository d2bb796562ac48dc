"""How many requests are under way at once, and when a full window takes more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.round_trips import (
    LARGE_BYTES_MIN,
    REQUESTS_MAX,
    REQUESTS_MIN,
    SLOW_ANSWER_SECONDS,
    SendWindow,
)

MIB = 1 << 20
SOON = 0.001


def grown() -> SendWindow:
    """A window that has had enough answers to take as many requests as ever."""
    window = SendWindow()
    for _ in range(REQUESTS_MAX):
        window.sent(1, 100)
        window.answered(SOON)
    return window


def full(size_bytes: int, answer_bytes: int = 100) -> SendWindow:
    window = grown()
    while window.takes_more:
        window.sent(size_bytes, answer_bytes)
    return window


@pytest.mark.parametrize(
    ("size_bytes", "requests"),
    [(100, 20), (128 << 10, 20), (256 << 10, 16), (512 << 10, 8), (MIB, 5), (8 * MIB, 5)],
)
def test_twenty_requests_are_under_way_and_fewer_where_they_hold_four_mebibytes_but_five_always(
    size_bytes: int, requests: int
) -> None:
    window = full(size_bytes)
    assert len(window) == requests
    assert window.in_flight_bytes == requests * size_bytes


@pytest.mark.parametrize(("size_bytes", "left"), [(100, 8), (256 << 10, 6), (512 << 10, 3), (MIB, 4), (8 * MIB, 4)])
def test_a_full_window_takes_more_when_three_fifths_are_answered_or_one_of_five_large_ones(
    size_bytes: int, left: int
) -> None:
    window = full(size_bytes)
    while len(window) > left + 1:
        window.answered(SOON)
        assert not window.takes_more
    window.answered(SOON)
    assert window.takes_more


def test_a_window_that_is_not_full_takes_more_at_once() -> None:
    window = grown()
    for _ in range(REQUESTS_MAX - 1):
        window.sent(1, 100)
        assert window.takes_more
    window.answered(SOON)
    assert window.takes_more


def test_the_answers_before_it_opens_are_awaited_and_any_where_it_is_open() -> None:
    window = grown()
    assert window.awaited_bytes == 1
    for number in range(REQUESTS_MAX):
        window.sent(1, 100 + number)
    assert window.awaited_bytes == sum(range(100, 112))  # twelve of twenty
    window.answered(SOON)
    assert window.awaited_bytes == sum(range(101, 112))
    for _ in range(11):
        window.answered(SOON)
    assert window.awaited_bytes == 1


def test_a_full_window_that_is_opened_before_takes_one_for_each_answer() -> None:
    window = full(100)
    window.open()
    seen = [(window.takes_more, window.is_shut, window.awaited_bytes)]
    window.answered(SOON)
    seen.append((window.takes_more, window.is_shut, window.awaited_bytes))
    window.sent(100, 100)
    seen.append((window.takes_more, window.is_shut, window.awaited_bytes))
    assert seen == [(False, False, 1), (True, False, 1), (False, True, 1200)]  # full; one free; full, and shut again


def requests_taken(window: SendWindow) -> int:
    """How many are under way once it is full."""
    while window.takes_more:
        window.sent(1, 100)
    return len(window)


def test_a_window_begins_with_five_requests_and_takes_one_more_after_each_answer_that_is_not_slow() -> None:
    window = SendWindow()
    taken = [requests_taken(window)]
    while len(taken) < 4:
        window.answered(SOON)
        window.open()
        taken.append(requests_taken(window))
    assert taken == [5, 6, 7, 8]


@pytest.mark.parametrize("after_seconds", [SLOW_ANSWER_SECONDS, 30.0])
def test_a_slow_answer_brings_the_window_back_to_five(after_seconds: float) -> None:
    window = full(100)
    for left in range(REQUESTS_MAX - 1, REQUESTS_MIN - 1, -1):
        window.answered(after_seconds)
        assert len(window) == left
        assert not window.takes_more
    window.answered(after_seconds)
    assert requests_taken(window) == REQUESTS_MIN


@given(st.lists(st.one_of(st.floats(0, 1), st.integers(1, 9 * MIB)), max_size=200))
def test_bounds_hold_whatever_is_sent_and_answered(steps: list[float | int]) -> None:
    """A float is an answer after so many seconds, an int a request of so many bytes, for which there may be no room."""
    window, sizes = SendWindow(), list[int]()
    for step in steps:
        if isinstance(step, float):
            if sizes:
                window.answered(step)
                sizes.pop(0)
        elif window.takes_more:
            window.sent(step, 50)
            sizes.append(step)
        assert (len(window), window.in_flight_bytes) == (len(sizes), sum(sizes))
        assert len(sizes) <= REQUESTS_MAX
        assert len(sizes) <= REQUESTS_MIN or sum(sizes[:-1]) < LARGE_BYTES_MIN
        assert sizes or window.takes_more, "nobody would open it"
        assert 1 <= window.awaited_bytes <= max(1, 50 * len(sizes))
