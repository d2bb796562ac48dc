"""How fast a lease may read for a mirror."""

import pickle
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.clock import ManualClock
from mirrorlake.mirror.pace import Pace, PaceOrder


class Timers:
    """Calls what is due when the clock is moved."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, delay: float, callback: Callable[[], None], /) -> object:
        self.waiting.append((self._clock.elapsed_seconds() + delay, callback))
        return None

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        now = self._clock.elapsed_seconds()
        due = [callback for at, callback in self.waiting if at <= now + 1e-9]
        self.waiting = [(at, callback) for at, callback in self.waiting if at > now + 1e-9]
        for callback in due:
            callback()


def paced(rate: float, debt: float = 0.0) -> tuple[Pace, Timers]:
    clock = ManualClock()
    timers = Timers(clock)
    return Pace(PaceOrder(bytes_per_second=rate, debt_bytes=debt), clock=clock, call_later=timers), timers


def may_read(pace: Pace) -> bool:
    return pace.is_open


def test_what_was_read_must_be_paid_for_before_more_is_asked_for() -> None:
    pace, timers = paced(100)
    assert may_read(pace)
    pace.took(250)
    assert not may_read(pace)
    timers.advance(2.4)
    assert not may_read(pace)
    timers.advance(0.2)
    assert may_read(pace)


def test_a_lease_begins_with_the_debt_of_the_one_before() -> None:
    pace, timers = paced(100, debt=150)
    assert not may_read(pace)
    timers.advance(1.5)
    assert may_read(pace)


def test_time_in_which_nothing_was_read_is_no_credit() -> None:
    pace, timers = paced(100)
    timers.advance(60)
    pace.took(100)
    assert not may_read(pace)


def test_those_that_wait_are_woken_once_the_debt_is_gone_by_one_timer() -> None:
    pace, timers = paced(100)
    woken: list[str] = []
    pace.follow(lambda: woken.append("first"))
    pace.follow(lambda: woken.append("second"))
    pace.took(200)
    assert [may_read(pace) for _ in range(5)] == [False] * 5
    assert len(timers.waiting) == 1
    timers.advance(1.9)
    assert woken == []
    timers.advance(0.1)
    assert woken == ["first", "second"]
    assert may_read(pace)
    pace.took(100)
    assert not may_read(pace)
    assert len(timers.waiting) == 1, "a later debt has a timer of its own"


def test_an_order_travels() -> None:
    order = PaceOrder(bytes_per_second=1.5, debt_bytes=7.0)
    assert pickle.loads(pickle.dumps(order)) == order


@given(
    rate=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5000)), max_size=50),
)
def test_in_any_time_no_more_is_read_than_the_limit_allows_and_one_answer(
    rate: int, steps: list[tuple[int, int]]
) -> None:
    pace, timers = paced(rate)
    taken: list[tuple[float, int]] = []
    now = 0.0
    for tenths, answer in steps:
        timers.advance(tenths / 10)
        now += tenths / 10
        if may_read(pace):
            pace.took(answer)
            taken.append((now, answer))
    for begin in range(len(taken)):
        for end in range(begin, len(taken)):
            seconds = taken[end][0] - taken[begin][0]
            assert sum(answer for _, answer in taken[begin:end]) <= rate * seconds + 1e-6 * rate
