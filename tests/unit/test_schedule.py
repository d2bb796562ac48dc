"""When something is due: by a cron expression or an interval, in UTC, whatever the clock does."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.schedule import Appointment, Schedule

YEAR_2026 = 1_767_225_600  # 2026-01-01T00:00:00Z
moments = st.floats(YEAR_2026, YEAR_2026 + 40 * 365 * 86400)
intervals = st.one_of(st.integers(1, 366 * 86400).map(float), st.integers(1000, 10_000_000).map(lambda ms: ms / 1000))


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("cron", "now", "due"),
    [
        ("*/15 * * * *", "2026-11-23T04:00:00", "2026-11-23T04:15:00"),
        ("*/15 * * * *", "2026-11-23T04:14:59", "2026-11-23T04:15:00"),
        ("0 3 * * *", "2026-11-23T03:00:00", "2026-11-24T03:00:00"),
        ("0 0 1 * * *", "2026-11-23T00:59:59", "2026-11-23T01:00:00"),
        ("*/2 * * * * *", "2026-11-23T00:00:01", "2026-11-23T00:00:02"),
        ("30 2 29 2 *", "2026-11-23T00:00:00", "2028-02-29T02:30:00"),
        ("0 12 * * MON", "2026-11-23T12:00:00", "2026-11-30T12:00:00"),
    ],
)
def test_an_expression_is_read_as_crontab_reads_it_in_utc(cron: str, now: str, due: str) -> None:
    assert Schedule(cron=cron).next_after(at(now)) == at(due)
    assert Schedule(cron=cron).next_after(at(now) + 0.25) == at(due)


def test_an_interval_counts_from_1970_so_that_a_restart_shifts_nothing() -> None:
    quarter = Schedule(every_seconds=900)
    assert quarter.next_after(at("2026-11-23T04:00:00")) == at("2026-11-23T04:15:00")
    assert quarter.next_after(at("2026-11-23T04:14:59.999")) == at("2026-11-23T04:15:00")


@given(intervals, moments)
def test_the_next_moment_of_an_interval_lies_after_now_and_not_further_than_it(every: float, now: float) -> None:
    due = Schedule(every_seconds=every).next_after(now)
    assert now < due <= now + every + 1e-6
    assert math.isclose(due / every, round(due / every), rel_tol=0, abs_tol=1e-5)


@given(
    st.sampled_from(["*/15 * * * *", "7 3 * * *", "0 0 1 * * *", "*/2 * * * * *", "0 4 1 * *", "5 5 * * 1-5"]), moments
)
def test_no_moment_of_an_expression_is_passed_over(cron: str, now: float) -> None:
    """From anywhere before the next moment that one is next."""
    schedule = Schedule(cron=cron)
    due = schedule.next_after(now)
    assert due > now
    for part in (0.0, 0.5, 0.999):
        assert schedule.next_after(now + part * (due - now - 0.001)) == due


@given(intervals, moments, st.lists(st.floats(0, 10 * 86400), max_size=8))
def test_however_many_moments_pass_unseen_they_are_one(every: float, now: float, waits: list[float]) -> None:
    """Whoever looks now and then does it at most once each time, and the next is always ahead."""
    appointment = Appointment.after(Schedule(every_seconds=every), now)
    for wait in waits:
        now += wait
        appointment = appointment.seen_at(now)
        if appointment.is_due(now):
            appointment = Appointment.after(appointment.schedule, now)
        assert not appointment.is_due(now)
        assert appointment.due_seconds <= now + every + 1e-6


def test_a_clock_that_is_set_back_does_not_keep_it_waiting() -> None:
    schedule = Schedule(every_seconds=900)
    appointment = Appointment.after(schedule, at("2026-11-23T04:00:00"))
    assert appointment.seen_at(at("2026-11-23T04:10:00")) is appointment
    earlier = appointment.seen_at(at("2026-11-20T00:00:00"))
    assert earlier.due_seconds == at("2026-11-20T00:15:00")


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("* * * *", "number of fields"),
        ("61 * * * *", "bad minute"),
        ("0 0 31 2 *", "bad day-of-month"),
        ("* * */20 * 1L", "within 50 years"),
        ("@daily", "number of fields"),
    ],
)
def test_what_has_no_moment_is_refused(cron: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Schedule(cron=cron)


@pytest.mark.parametrize(("cron", "every"), [(None, None), ("* * * * *", 60.0), (None, 0.0), (None, math.inf)])
def test_it_is_an_expression_or_an_interval(cron: str | None, every: float | None) -> None:
    with pytest.raises(ValueError, match="interval"):
        Schedule(cron=cron, every_seconds=every)
