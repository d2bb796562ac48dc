"""Copies that are further behind than allowed are said once, and so is their end; nothing is concluded from silence."""

import pytest
from prometheus_client import CollectorRegistry

from mirrorlake.clock import Clock
from mirrorlake.errors import CorruptBatchError
from mirrorlake.service.partition_state import SOURCE_UNSEEN_SECONDS, PartitionState
from mirrorlake.service.sight.staleness import Stale, StalenessAlarm, stale_of
from mirrorlake.sources.client import Bounds
from support.partition_states import kafka_state

LIMIT = 60.0


class Hand(Clock):
    """A clock that is set by hand."""

    seconds = 1000.0

    def now_seconds(self) -> float:
        return self.seconds

    def elapsed_seconds(self) -> float:
        return self.seconds


def seen(state: PartitionState, end: int, at: float) -> PartitionState:
    state.saw_source(Bounds(0, end), at, at)
    return state


def state_at(position: int | None) -> PartitionState:
    state = kafka_state(0)
    state.position = position
    return state


def test_a_copy_that_is_whole_is_never_stale_however_quiet_its_topic_is() -> None:
    state = seen(seen(state_at(10), 10, 0.0), 10, 100_000.0)
    assert stale_of(state, LIMIT, 100_000.0, 0.0) is None


def test_a_record_that_waits_too_long_makes_a_copy_stale_and_later_ones_do_not_make_it_younger() -> None:
    state = seen(state_at(10), 11, 100.0)
    for at in (120.0, 140.0, 159.0):
        assert stale_of(seen(state, int(at), at), LIMIT, at, 0.0) is None
    assert stale_of(seen(state, 200, 161.0), LIMIT, 161.0, 0.0) == Stale(61.0, is_known=True)
    state.position = 200
    assert stale_of(state, LIMIT, 161.0, 0.0) is None


def test_a_source_that_does_not_tell_its_end_may_have_anything() -> None:
    never, long_ago = state_at(None), seen(state_at(10), 10, 100.0)
    assert stale_of(never, LIMIT, 1059.0, 1000.0) is None
    assert stale_of(never, LIMIT, 1061.0, 1000.0) == Stale(61.0, is_known=False)
    assert stale_of(long_ago, LIMIT, 100.0 + SOURCE_UNSEEN_SECONDS + 1, 0.0) is None
    assert stale_of(long_ago, LIMIT, 161.0, 0.0) == Stale(61.0, is_known=False)


@pytest.mark.parametrize("is_parked", [True, False])
def test_what_is_parked_or_paused_is_said_as_that(is_parked: bool) -> None:
    state = seen(state_at(10), 11, 100.0)
    if is_parked:
        state.failed(CorruptBatchError("x"), 100.0)
    else:
        state.is_paused = True
    assert stale_of(state, LIMIT, 10_000.0, 0.0) is None


def test_an_alarm_is_raised_once_and_taken_back_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    registry, clock = CollectorRegistry(), Hand()
    alarm = StalenessAlarm(registry, clock=clock, limits=lambda: {"m": LIMIT})
    states = [seen(state_at(10), 11, clock.seconds), kafka_state(1, mirror="another")]

    def counted() -> float | None:
        return registry.get_sample_value("mirrorlake_stale_partitions", {"mirror": "m", "destination": "west"})

    def looked(after: float) -> str:
        clock.seconds += after
        seen(states[0], 11, clock.seconds)
        alarm.look(states)
        return capsys.readouterr().out

    assert "stale" not in looked(1.0)
    assert counted() == 0
    assert "copy is stale" in looked(LIMIT)
    assert counted() == 1
    assert "stale" not in looked(5.0)
    states[0].position = 11
    assert "copy is no longer stale" in looked(5.0)
    assert counted() == 0
    assert (
        registry.get_sample_value("mirrorlake_stale_partitions", {"mirror": "another", "destination": "west"}) is None
    )


def test_a_limit_that_a_reload_took_away_leaves_no_alarm_and_no_count(capsys: pytest.CaptureFixture[str]) -> None:
    registry, clock, limits = CollectorRegistry(), Hand(), {"m": LIMIT}
    alarm = StalenessAlarm(registry, clock=clock, limits=lambda: limits)
    state = seen(state_at(10), 11, clock.seconds)
    alarm.look([state])
    clock.seconds += LIMIT + 1
    alarm.look([seen(state, 11, clock.seconds)])
    assert alarm.message_of(state) == "behind its source for 61 s"
    limits.clear()
    clock.seconds += 1
    alarm.look([state])
    assert alarm.message_of(state) == ""
    assert "copy is no longer stale" in capsys.readouterr().out
    assert registry.get_sample_value("mirrorlake_stale_partitions", {"mirror": "m", "destination": "west"}) is None
