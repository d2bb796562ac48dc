"""Daily times, jumping clocks, and sources that are about to delete; no clock but the one in the arguments."""

from datetime import UTC, datetime, time

import pytest

from mirrorlake.mirror.flush_clock import FlushClock, Retention, last_daily_seconds


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def at_ms(text: str) -> int:
    return int(at(text) * 1000)


@pytest.mark.parametrize(
    ("at_utc", "now", "expected"),
    [
        (time(0, 30), "2026-03-01T00:29:59", "2026-02-28T00:30:00"),
        (time(0, 30), "2026-03-01T00:30:00", "2026-03-01T00:30:00"),
        (time(0, 30), "2026-03-01T23:59:59", "2026-03-01T00:30:00"),
        (time(0, 0), "2024-02-29T00:00:00", "2024-02-29T00:00:00"),
        (time(23, 59, 59), "2024-03-01T00:00:00", "2024-02-29T23:59:59"),
    ],
)
def test_the_last_daily_time_is_never_ahead_and_less_than_a_day_ago(at_utc: time, now: str, expected: str) -> None:
    assert last_daily_seconds(at_utc, at(now)) == at(expected)


def daily(at_utc: time = time(0, 30)) -> FlushClock:
    return FlushClock(daily_at_utc=at_utc)


def see(clock: FlushClock, now: str, end: int, *, start: int = 0, position: int | None = 0) -> int:
    """Returns what is to be flushed after a look at the source."""
    clock.saw_source(position=position, start=start, end=end, wall_seconds=at(now))
    return clock.daily_end_offset


def test_what_the_source_holds_when_the_daily_time_has_come_is_to_be_flushed_and_nothing_later() -> None:
    clock = daily()
    assert see(clock, "2026-03-01T00:29:59", 10) == 0
    assert see(clock, "2026-03-01T00:30:00", 12) == 12
    assert see(clock, "2026-03-01T00:30:01", 15) == 12
    assert see(clock, "2026-03-02T00:30:00", 40) == 40


def test_a_clock_that_jumps_by_days_flushes_once() -> None:
    clock = daily()
    see(clock, "2026-03-01T12:00:00", 10)
    assert see(clock, "2026-03-06T12:00:00", 12) == 12
    assert see(clock, "2026-03-06T12:00:01", 13) == 12


def test_a_clock_that_is_put_back_flushes_nothing_by_that_and_its_next_daily_time_counts() -> None:
    clock = daily()
    see(clock, "2026-03-06T12:00:00", 10)
    assert see(clock, "2026-03-01T12:00:00", 11) == 0
    assert see(clock, "2026-03-02T00:30:00", 12) == 12


def test_without_a_daily_time_none_comes() -> None:
    clock = FlushClock()
    see(clock, "2026-03-01T12:00:00", 10)
    assert see(clock, "2026-03-09T12:00:00", 12) == 0
    assert not clock.times_to_ask(now_seconds=0.0, wall_seconds=at("2026-03-09T12:00:00"))


def test_after_a_start_the_source_is_asked_what_was_there_at_the_last_daily_time() -> None:
    clock = daily()
    see(clock, "2026-03-01T07:00:00", 100, position=20)
    missed = at_ms("2026-03-01T00:30:00")
    # Asked again until it is answered.
    for _ in range(2):
        assert list(clock.times_to_ask(now_seconds=0.0, wall_seconds=at("2026-03-01T07:00:00"))) == [missed]
    clock.answered(missed, 60)
    assert clock.daily_end_offset == 60
    assert not clock.times_to_ask(now_seconds=0.0, wall_seconds=at("2026-03-01T07:00:01"))


def test_an_answer_that_comes_after_the_next_daily_time_takes_nothing_back() -> None:
    clock = daily()
    see(clock, "2026-03-01T00:29:59", 100)
    missed = at_ms("2026-02-28T00:30:00")
    assert list(clock.times_to_ask(now_seconds=0.0, wall_seconds=at("2026-03-01T00:29:59"))) == [missed]
    see(clock, "2026-03-01T00:30:00", 120)
    clock.answered(missed, 60)
    assert clock.daily_end_offset == 120


def pressed(clock: FlushClock, position: int, end: int, per_record: float | None = 1.0) -> bool:
    return clock.is_pressed(position=position, end=end, bytes_per_record=per_record)


def test_records_older_than_half_of_the_retention_are_pressed_and_newer_ones_not() -> None:
    clock = FlushClock(retention=Retention(seconds=600.0))
    now = at("2026-03-01T12:00:00")
    (asked,) = clock.times_to_ask(now_seconds=1000.0, wall_seconds=now)
    assert asked == at_ms("2026-03-01T11:55:00")
    clock.answered(asked, 50)
    assert pressed(clock, 49, 80)
    assert not pressed(clock, 50, 80)


@pytest.mark.parametrize(
    ("retention", "pause"), [(2.0, 0.5), (100.0, 5.0), (7 * 86400.0, 30.0)], ids=["shortest", "a twentieth", "longest"]
)
def test_the_source_is_asked_a_bounded_number_of_times(retention: float, pause: float) -> None:
    clock = FlushClock(retention=Retention(seconds=retention))
    wall = at("2026-03-01T12:00:00")
    assert len(clock.times_to_ask(now_seconds=0.0, wall_seconds=wall)) == 1
    assert len(clock.times_to_ask(now_seconds=pause - 0.01, wall_seconds=wall)) == 0
    assert len(clock.times_to_ask(now_seconds=pause, wall_seconds=wall)) == 1


def test_partitions_of_one_retention_ask_for_the_same_time() -> None:
    early, late = (FlushClock(retention=Retention(seconds=600.0)) for _ in range(2))
    first = early.times_to_ask(now_seconds=0.0, wall_seconds=at("2026-03-01T12:00:00"))
    assert late.times_to_ask(now_seconds=3.0, wall_seconds=at("2026-03-01T12:00:03")) == first


def test_a_source_that_keeps_for_ever_is_not_asked() -> None:
    clock = FlushClock()
    assert not clock.times_to_ask(now_seconds=0.0, wall_seconds=at("2026-03-01T12:00:00"))
    assert not pressed(clock, 0, 1 << 60)


@pytest.mark.parametrize(
    ("end", "per_record", "expected"),
    [(5, 30.0, True), (4, 30.0, False), (1, None, True), (500, 0.0, True)],
    ids=["half", "less", "nothing known yet", "empty records take room too"],
)
def test_what_waits_is_pressed_when_it_takes_half_of_what_the_source_keeps(
    end: int, per_record: float | None, expected: bool
) -> None:
    clock = FlushClock(retention=Retention(bytes_max=1000))
    assert pressed(clock, 0, end, per_record) is expected


def test_a_log_start_that_comes_near_presses_until_the_archive_has_got_on() -> None:
    clock = FlushClock()
    now = "2026-03-01T12:00:00"
    see(clock, now, 5000, start=0, position=1500)
    assert not pressed(clock, 1500, 5000), "nothing was deleted while somebody looked"
    see(clock, now, 5000, start=700, position=1500)
    assert not pressed(clock, 1500, 5000), "another 700 would end at 1400"
    see(clock, now, 5000, start=1400, position=1500)
    assert pressed(clock, 1500, 5000)
    see(clock, now, 5000, start=1400, position=1500)
    assert pressed(clock, 1500, 5000), "still there"
    clock.moved()
    assert not pressed(clock, 5000, 5001), "one segment for each deletion, not one for each record"
