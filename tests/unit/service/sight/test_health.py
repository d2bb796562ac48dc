"""What makes a service unwell or not ready, part by part; the clock stands still until told."""

from collections.abc import Callable

import pytest

from mirrorlake.clock import ManualClock
from mirrorlake.errors import ChainBrokenError, TopicMissingError
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.health import (
    CONTROL_SECONDS_MAX,
    DRIVER_SECONDS_MAX,
    ENGINE_SECONDS_MAX,
    LEASE_GRACE_SECONDS,
    START_SECONDS_MAX,
    STOP_GRACE_SECONDS,
    Part,
    Phase,
    Pulse,
    readiness,
)
from mirrorlake.sources.client import Bounds
from support.partition_states import kafka_state

SOURCES = {"m": "east"}


class Watched:
    """A service whose parts all move as time passes, but for those that are frozen."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pulse = Pulse(self.clock, stop_seconds=60.0)
        self.overdue = 0.0

    def pass_time(self, seconds: float, *, frozen: Part | None = None) -> None:
        self.clock.advance(seconds)
        for part in Part:
            if part is not frozen:
                self.pulse.moved(part)

    def reasons(self) -> tuple[str, ...]:
        return self.pulse.verdict(lease_overdue_seconds=self.overdue).reasons


@pytest.fixture
def watched() -> Watched:
    made = Watched()
    made.pulse.entered(Phase.SERVING)
    return made


@pytest.mark.parametrize(
    ("part", "seconds", "said"),
    [
        (Part.DRIVER, DRIVER_SECONDS_MAX, "the driver's loop has not turned for 121 s, expected within 120 s"),
        (Part.CONTROL, CONTROL_SECONDS_MAX, "the loop that asks the clusters has not turned for 31 s, expected within"),
        (Part.ENGINE, ENGINE_SECONDS_MAX, "Spark has not answered for 21 s, expected within 20 s"),
    ],
)
def test_a_part_that_stands_still_beyond_its_bound_alone_makes_a_service_unwell_and_is_named(
    watched: Watched, part: Part, seconds: float, said: str
) -> None:
    watched.pass_time(seconds, frozen=part)
    assert watched.reasons() == ()
    watched.pass_time(1.0, frozen=part)
    (reason,) = watched.reasons()
    assert reason.startswith(said)
    watched.pass_time(1.0)
    assert watched.reasons() == ()


def test_a_lease_that_outlives_its_watchdog_makes_a_service_unwell(watched: Watched) -> None:
    watched.overdue = LEASE_GRACE_SECONDS
    assert watched.reasons() == ()
    watched.overdue = LEASE_GRACE_SECONDS + 1
    assert watched.reasons() == ("a lease should have ended 11 s ago",)


def test_a_start_and_a_stop_have_their_time_and_no_more() -> None:
    watched = Watched()
    watched.clock.advance(START_SECONDS_MAX)
    assert watched.reasons() == ()
    watched.clock.advance(1.0)
    assert watched.reasons() == ("starting for 901 s, expected within 900 s",)
    watched.pulse.entered(Phase.SERVING)
    assert watched.reasons() == (), "every part has its full time from then on"
    watched.pulse.entered(Phase.STOPPING)
    watched.clock.advance(60.0 + STOP_GRACE_SECONDS)
    assert watched.reasons() == ()
    watched.clock.advance(1.0)
    assert watched.reasons() == ("stopping for 91 s, expected within 90 s",)


def seen(partition: int, *, position: int | None = 0, at: float = 0.0) -> PartitionState:
    state = kafka_state(partition)
    state.position = position
    state.saw_source(Bounds(0, 10), at, 0.0)
    return state


def parked(state: PartitionState, error: TopicMissingError | ChainBrokenError) -> PartitionState:
    state.failed(error, 0.0)
    return state


def ready(*states: PartitionState, now: float = 0.0, phase: Phase = Phase.SERVING) -> tuple[str, ...]:
    return readiness(phase, states, (), sources=SOURCES, now_seconds=now).reasons


def test_a_service_is_ready_once_every_source_and_destination_was_looked_at() -> None:
    assert ready(seen(0), seen(1)) == ()
    assert ready(seen(0), kafka_state(1)) == (
        "source east has not answered within the last 15 s (1 partition(s))",
        "m → west: positions of 1 partition(s) were not read yet",
    )
    assert ready(seen(0), seen(1, position=None)) == ("m → west: positions of 1 partition(s) were not read yet",)


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.STOPPING])
def test_a_service_that_starts_or_stops_is_not_ready(phase: Phase) -> None:
    assert ready(seen(0), phase=phase) == (phase.value,)


def test_a_source_that_answers_no_more_makes_a_service_not_ready() -> None:
    assert ready(seen(0), now=14.9) == ()
    assert ready(seen(0), now=15.0) == ("source east has not answered within the last 15 s (1 partition(s))",)


def test_some_parked_partitions_leave_a_service_ready_and_all_of_them_do_not() -> None:
    missing: Callable[[], TopicMissingError] = lambda: TopicMissingError("gone", topic="t")  # noqa: E731
    one, two = parked(seen(0), missing()), parked(seen(1), ChainBrokenError("broken", key="k"))
    assert ready(one, seen(2)) == ()
    assert ready(one, two, parked(seen(2), missing())) == (
        "all 3 partitions are parked: chain-broken (1), missing (2)",
    )


def test_a_mirror_that_selects_nothing_yet_is_ready() -> None:
    assert ready() == ()


def test_what_is_paused_speaks_against_no_readiness() -> None:
    paused, served = kafka_state(0), kafka_state(1)
    paused.is_paused = True  # its position was never read, and its source is away
    served.position = 5
    served.saw_source(Bounds(0, 5), 0.0, 0.0)
    assert readiness(Phase.SERVING, [paused, served], [], sources=SOURCES, now_seconds=1.0).is_good
    assert readiness(Phase.SERVING, [paused], [], sources=SOURCES, now_seconds=1.0).is_good
