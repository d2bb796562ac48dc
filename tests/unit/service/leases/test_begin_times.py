"""Lanes whose leases come late give the next ones more time to begin, and nobody waits longer for their end."""

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.service.leases.begin_times import BeginTimes

LATE, IN_TIME = True, False


def after(*ends: bool, lease_seconds: float = 5.0) -> tuple[float, float]:
    """The seconds to begin, and those of a live time of 20 s, after leases of lane 1 that ended so."""
    times = BeginTimes(lease_seconds)
    for was_late in ends:
        times.lease_ended(1, was_late=was_late)
    assert (times.begin_seconds(0), times.live_seconds(0, 20.0)) == (2.0, 20.0), "another lane's are its own"
    return times.begin_seconds(1), times.live_seconds(1, 20.0)


def test_each_late_lease_gives_the_next_one_longer_to_begin_and_takes_it_off_its_live_time() -> None:
    assert after() == (2, 20)
    assert after(LATE) == (4, 18)
    assert after(LATE, LATE) == (8, 14)
    assert after(LATE, LATE, LATE) == (16, 6)
    assert after(LATE, LATE, LATE, LATE) == (17, 5), "a lease is live for its usual time, however late leases come"
    assert after(*[LATE] * 9) == (17, 5)


def test_what_was_given_is_taken_back_step_by_step() -> None:
    assert after(LATE, LATE, LATE, IN_TIME) == (9, 13)
    assert after(LATE, LATE, LATE, IN_TIME, IN_TIME) == (5.5, 16.5)
    assert after(LATE, IN_TIME) == (3, 19)
    assert after(LATE, IN_TIME, IN_TIME) == (2, 20)
    assert after(IN_TIME) == (2, 20)


def test_a_lease_that_is_short_already_stays_so_long() -> None:
    times = BeginTimes(5.0)
    for _ in range(9):
        times.lease_ended(0, was_late=True)
    assert times.live_seconds(0, 5.0) == 5


@given(st.lists(st.booleans(), max_size=12), st.floats(0.5, 60), st.floats(1, 4))
def test_to_begin_and_to_live_never_take_longer_together_than_they_may(
    ends: list[bool], lease_seconds: float, part: float
) -> None:
    times = BeginTimes(lease_seconds)
    for was_late in ends:
        times.lease_ended(0, was_late=was_late)
    live_seconds = times.live_seconds(0, part * lease_seconds)
    assert times.begin_seconds(0) + live_seconds <= 2 + 4 * lease_seconds + 1e-9
    assert live_seconds >= lease_seconds * (1 - 1e-12)
    assert times.begin_seconds(0) >= 2
