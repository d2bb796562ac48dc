"""What is due, as a table."""

from dataclasses import replace

import pytest

from mirrorlake.destinations.archive.triggers import Trigger
from mirrorlake.mirror.due import Due, FlushRule, Waiting, due

RULE = FlushRule(bytes_max=1_000, records_max=100, time_seconds_max=60.0)


def waiting(
    position: int, end: int, *, since: float | None = 0.0, per_record: float | None = 1.0, fruitless: int = 0
) -> Waiting:
    return Waiting(
        position=position,
        source_end=end,
        since_seconds=since,
        bytes_per_record=per_record,
        fruitless_offsets=fruitless,
    )


@pytest.mark.parametrize(
    ("state", "now", "flush_all", "expected"),
    [
        pytest.param(waiting(5, 5, since=None), 1e9, True, None, id="nothing waits"),
        pytest.param(waiting(0, 99), 59.9, False, None, id="below every trigger"),
        pytest.param(waiting(0, 99), 60.0, False, Due(trigger=Trigger.TIME, end_offset=99), id="old enough"),
        pytest.param(waiting(0, 1), 60.0, False, Due(trigger=Trigger.TIME, end_offset=1), id="one idle record"),
        pytest.param(waiting(0, 100), 0.0, False, Due(trigger=Trigger.RECORDS, end_offset=None), id="records"),
        pytest.param(
            waiting(0, 50, per_record=20.0), 0.0, False, Due(trigger=Trigger.BYTES, end_offset=None), id="bytes"
        ),
        pytest.param(waiting(0, 50, per_record=19.9), 0.0, False, None, id="bytes not yet"),
        pytest.param(waiting(7, 8, since=None), 0.0, True, Due(trigger=Trigger.EXPLICIT, end_offset=8), id="flush all"),
        pytest.param(
            waiting(0, 150), 60.0, False, Due(trigger=Trigger.TIME, end_offset=150), id="time takes the rest along"
        ),
        pytest.param(
            waiting(0, 1, per_record=None), 0.0, False, Due(trigger=Trigger.BYTES, end_offset=None), id="first guess"
        ),
        pytest.param(waiting(0, 124, fruitless=100), 0.0, False, None, id="a fruitless look is not repeated at once"),
        pytest.param(
            waiting(0, 125, fruitless=100),
            0.0,
            False,
            Due(trigger=Trigger.RECORDS, end_offset=None),
            id="a quarter more is worth another look",
        ),
        pytest.param(
            waiting(0, 100, fruitless=100),
            60.0,
            False,
            Due(trigger=Trigger.TIME, end_offset=100),
            id="time does not wait for more",
        ),
        pytest.param(waiting(9, 5), 1e9, True, None, id="destination ahead is not due"),
    ],
)
def test_due_follows_the_first_trigger_that_is_met(
    state: Waiting, now: float, flush_all: bool, expected: Due | None
) -> None:
    assert due(RULE, state, now_seconds=now, flush_all=flush_all) == expected


def test_what_was_there_at_the_daily_time_is_cut_on_its_own_and_before_anything_else() -> None:
    state = replace(waiting(10, 150), daily_end_offset=40, is_pressed=True)
    assert due(RULE, state, now_seconds=60.0, flush_all=False) == Due(trigger=Trigger.DAILY, end_offset=40)
    assert due(RULE, state, now_seconds=60.0, flush_all=True) == Due(trigger=Trigger.EXPLICIT, end_offset=150)


@pytest.mark.parametrize("end_offset", [0, 9, 10])
def test_a_daily_time_that_found_nothing_waiting_makes_no_segment(end_offset: int) -> None:
    assert due(RULE, replace(waiting(10, 20), daily_end_offset=end_offset), now_seconds=0.0, flush_all=False) is None


def test_a_bounded_run_does_not_go_past_its_end_for_a_daily_time() -> None:
    state = replace(waiting(10, 20), daily_end_offset=40)
    assert due(RULE, state, now_seconds=0.0, flush_all=False) == Due(trigger=Trigger.DAILY, end_offset=20)


def test_what_the_source_is_about_to_delete_is_cut_at_once_even_after_a_fruitless_look() -> None:
    state = replace(waiting(10, 20, fruitless=100), is_pressed=True)
    assert due(RULE, state, now_seconds=0.0, flush_all=False) == Due(trigger=Trigger.RETENTION, end_offset=20)
