"""Says which copies are further behind their sources, in time, than their mirror allows. Changes nothing."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry, Gauge

from mirrorlake.clock import Clock
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.topic_series import LABELS

_log = structlog.get_logger("mirrorlake")

LOOK_SECONDS = 1.0

Key = tuple[str, TopicPartition, str]
"""Mirror, source partition and the destination's label."""


@dataclass(frozen=True, slots=True)
class Stale:
    """For how long a copy is behind its source; ``is_known`` False where its source has not told its end so long."""

    seconds: float
    is_known: bool

    @property
    def message(self) -> str:
        """What is said of it."""
        if self.is_known:
            return f"behind its source for {self.seconds:.0f} s"
        return f"may be behind: its source has not told its end for {self.seconds:.0f} s"


def stale_of(state: PartitionState, limit_seconds: float, now_seconds: float, began_seconds: float) -> Stale | None:
    """Returns how stale a copy is; None where it is not staler than allowed. Pure.

    A partition that is parked or paused is said as what it is, and is never stale. Nor is a quiet topic: what counts is
    how long the oldest record that was not copied has been there, as far as this process has seen.

    Args:
        state: as last seen.
        limit_seconds: longer than this is stale.
        now_seconds: reading of the driver's clock.
        began_seconds: when the partition was first looked at here; a source never seen is unknown since then.
    """
    if state.is_parked or state.is_paused:
        return None
    if (lag := state.lag_now(now_seconds)) is not None:
        waited = state.lag_seconds(now_seconds)
        behind = now_seconds - began_seconds if lag and waited is None else waited or 0.0
        return Stale(behind, is_known=True) if behind > limit_seconds else None
    seen = state.source_seen_seconds
    unknown = now_seconds - (began_seconds if seen is None else seen)
    return Stale(unknown, is_known=False) if unknown > limit_seconds else None


class StalenessAlarm:
    """Warns once of each copy that becomes stale, says when it no longer is, and counts those that are.

    Args:
        registry: of the metrics.
        clock: the driver's.
        limits: seconds by mirror, as the configuration is now; a mirror without one is never stale.
    """

    def __init__(self, registry: CollectorRegistry, *, clock: Clock, limits: Callable[[], Mapping[str, float]]) -> None:
        self._clock = clock
        self._limits = limits
        self._began: dict[Key, float] = {}
        self._stale: dict[Key, Stale] = {}
        self._counted: set[tuple[str, str]] = set()
        self._next_look = 0.0
        self._gauge = Gauge(
            "mirrorlake_stale_partitions",
            "Partitions whose copy is further behind in time than `stale-after` of its mirror, or may be",
            LABELS,
            registry=registry,
        )

    def look(self, states: Sequence[PartitionState]) -> None:
        """Looks at all states, once a second at most."""
        now = self._clock.elapsed_seconds()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        limits = self._limits()
        if not limits and not self._counted:
            return
        found: dict[Key, Stale] = {}
        counts: Counter[tuple[str, str]] = Counter()
        for state in states:
            if (limit := limits.get(state.mirror)) is None:
                continue
            key = state.mirror, state.source, state.destination
            counts[state.mirror, state.destination] += 0
            if (stale := stale_of(state, limit, now, self._began.setdefault(key, now))) is not None:
                found[key] = stale
                counts[state.mirror, state.destination] += 1
        for labels, count in counts.items():
            self._gauge.labels(*labels).set(count)
        for labels in self._counted - counts.keys():  # a reload took the limit away
            self._gauge.remove(*labels)
        self._counted = set(counts)
        self._tell(found)

    def message_of(self, state: PartitionState) -> str:
        """Returns what is said of a copy that was stale at the last look; empty where it was not. From any thread."""
        stale = self._stale.get((state.mirror, state.source, state.destination))
        return "" if stale is None else stale.message

    def _tell(self, found: Mapping[Key, Stale]) -> None:
        for key in sorted(found.keys() - self._stale.keys()):
            stale = found[key]
            said = "copy is stale" if stale.is_known else "copy may be stale, as its source does not tell its end"
            _log.warning(said, **_facts(key), seconds=round(stale.seconds, 1))
        for key in sorted(self._stale.keys() - found.keys()):
            _log.info("copy is no longer stale", **_facts(key))
        self._stale = dict(found)


def _facts(key: Key) -> dict[str, object]:
    mirror, source, destination = key
    return {"mirror": mirror, "topic": source.topic, "partition": source.partition, "destination": destination}
