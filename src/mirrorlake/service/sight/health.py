"""Whether a running service is well, and whether it is ready: judged by what moved last, never by being there.

Well: the driver's loop turns, the loop that asks the clusters turns, Spark answers, and no lease is longer on its way
than it may be. Ready: every source and destination was looked at, and not everything stands parked. Both functions
are pure; the readings come from one clock.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mirrorlake.clock import Clock
from mirrorlake.service.partition_state import SOURCE_UNSEEN_SECONDS, PartitionState
from mirrorlake.service.sight.park_names import park_name
from mirrorlake.topics.targets import Target

ENGINE_SECONDS_MAX = 20.0
"""Spark is asked every two seconds; its JVM collects garbage for less than a tenth of this."""

CONTROL_SECONDS_MAX = 30.0
"""The loop that asks the sources turns twice a second, and never waits for one of them."""

DRIVER_SECONDS_MAX = 120.0
"""It turns twice a second, but for a turn that makes topics on a slow cluster, or lists a large archive."""

START_SECONDS_MAX = 900.0
"""For Spark to start, silent clusters to time out, and every archive to be listed."""

STOP_GRACE_SECONDS = 30.0
"""Beyond ``engine.stop-timeout``: for the last look at the sources and for Spark to end."""

LEASE_GRACE_SECONDS = 10.0
"""Beyond the time at which a lease's worker is killed."""

NAMED_MAX = 5
"""Reasons of one kind that are named."""


class Phase(StrEnum):
    """Where a service is in its life."""

    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class Part(StrEnum):
    """What must move for a service to be well."""

    DRIVER = "the driver's loop has not turned"
    CONTROL = "the loop that asks the clusters has not turned"
    ENGINE = "Spark has not answered"


SECONDS_MAX = {
    Part.DRIVER: DRIVER_SECONDS_MAX,
    Part.CONTROL: CONTROL_SECONDS_MAX,
    Part.ENGINE: ENGINE_SECONDS_MAX,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Good where there is no reason against it."""

    reasons: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """True where nothing speaks against it."""
        return not self.reasons


class Pulse:
    """When each part moved last; parts note it themselves, from any thread.

    Args:
        clock: whose elapsed seconds are noted.
        stop_seconds: how long a graceful stop may take.
    """

    def __init__(self, clock: Clock, *, stop_seconds: float) -> None:
        self._clock = clock
        self._stop_seconds = stop_seconds
        self._phase = (Phase.STARTING, clock.elapsed_seconds())
        self._moved: dict[Part, float] = {}

    @property
    def phase(self) -> Phase:
        """Where the service is."""
        return self._phase[0]

    def entered(self, phase: Phase) -> None:
        """Begins a phase; from the beginning of ``serving`` on every part has its full time."""
        now = self._clock.elapsed_seconds()
        if phase is Phase.SERVING:
            self._moved = dict.fromkeys(Part, now)
        self._phase = (phase, now)

    def stops_within(self, seconds: float) -> None:
        """Sets how long a graceful stop may take."""
        self._stop_seconds = seconds

    def moved(self, part: Part) -> None:
        """Notes that a part moved now."""
        self._moved[part] = self._clock.elapsed_seconds()

    def age_seconds(self, part: Part) -> float:
        """Returns how long ago a part moved last; 0 where it is not expected to yet."""
        at = self._moved.get(part)
        return 0.0 if at is None else self._clock.elapsed_seconds() - at

    def verdict(self, *, lease_overdue_seconds: float) -> Verdict:
        """Returns whether the service is well.

        Args:
            lease_overdue_seconds: since when the latest of all leases should have ended or been killed; 0 or less
                where none is late.
        """
        phase, since = self._phase
        now = self._clock.elapsed_seconds()
        if phase is not Phase.SERVING:
            most = START_SECONDS_MAX if phase is Phase.STARTING else self._stop_seconds + STOP_GRACE_SECONDS
            return _late(f"{phase.value}", now - since, most)
        reasons = [
            f"{part.value} for {age:.0f} s, expected within {SECONDS_MAX[part]:.0f} s"
            for part, at in list(self._moved.items())
            if (age := now - at) > SECONDS_MAX[part]
        ]
        if lease_overdue_seconds > LEASE_GRACE_SECONDS:
            reasons.append(f"a lease should have ended {lease_overdue_seconds:.0f} s ago")
        return Verdict(reasons=tuple(reasons))


def _late(what: str, seconds: float, most: float) -> Verdict:
    return Verdict(reasons=(f"{what} for {seconds:.0f} s, expected within {most:.0f} s",) if seconds > most else ())


def readiness(
    phase: Phase,
    states: Sequence[PartitionState],
    waiting: Sequence[Target],
    *,
    sources: Mapping[str, str],
    now_seconds: float,
) -> Verdict:
    """Returns whether every source and destination was looked at, and not everything stands parked. Pure.

    Args:
        phase: a service that starts or stops is not ready.
        states: of all partitions that are served.
        waiting: topics that could not be asked for yet, with the reason.
        sources: name of the source cluster, by mirror.
        now_seconds: reading of the clock that the states were noted by.
    """
    if phase is not Phase.SERVING:
        return Verdict(reasons=(phase.value,))
    reasons = [
        f"{t.mirror.name}: {t.source.topic} → {t.destination.label}: {t.error.message if t.error else 'not there yet'}"
        for t in waiting
    ]
    # A paused partition is where it is meant to be: nobody reads its position, and its source may be away.
    served = [state for state in states if not state.is_parked and not state.is_paused]
    unseen = [state for state in served if not state.is_source_seen(now_seconds)]
    unseen_by_source = Counter(sources[state.mirror] for state in unseen)
    reasons = _shortened(reasons) + _shortened(
        [
            f"source {cluster} has not answered within the last {SOURCE_UNSEEN_SECONDS:.0f} s ({count} partition(s))"
            for cluster, count in sorted(unseen_by_source.items())
        ]
    )
    unread = Counter((s.mirror, s.destination) for s in served if s.position is None)
    reasons += _shortened(
        [
            f"{mirror} → {to}: positions of {count} partition(s) were not read yet"
            for (mirror, to), count in unread.items()
        ]
    )
    if states and all(state.is_parked for state in states):
        names = Counter(park_name(s.error) if s.error is not None else "parked" for s in states)
        why = ", ".join(f"{name} ({count})" for name, count in sorted(names.items()))
        reasons.append(f"all {len(states)} partitions are parked: {why}")
    return Verdict(reasons=tuple(reasons))


def _shortened(reasons: Sequence[str]) -> list[str]:
    more = len(reasons) - NAMED_MAX
    return [*reasons[:NAMED_MAX], *([f"… and {more} more"] if more > 0 else [])]
