"""The series that say how partitions stand, made from their states whenever somebody asks.

So nothing is shown that is not known at that moment: a source that does not answer has no end and no lag, what begins
anew or is gone has no series, and nothing is parked, or not, before everything was looked at.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mirrorlake.clock import Clock
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.park_names import PARK_NAMES, WAIT_NAMES, park_name, wait_name
from mirrorlake.topics.targets import UNKNOWN_PARTITION

STREAM = ("topic", "partition")
COPY = ("mirror", "topic", "partition", "destination")


class StateSeries(Collector):
    """Gauges of all partitions that are served.

    Args:
        clock: that states are noted by.
        has_v3: whether the series of mirror-v3 are there, for its form.
    """

    def __init__(self, clock: Clock, *, has_v3: bool) -> None:
        self._clock = clock
        self._has_v3 = has_v3
        self._states: dict[tuple[str, ...], tuple[PartitionState, bool]] = {}
        self._has_looked = False
        self._lock = threading.Lock()

    def began(self, state: PartitionState, *, is_first: bool) -> None:
        """Takes a partition that is served from now on; ``is_first`` at its mirror's first destination."""
        with self._lock:
            self._states[copy_of(state)] = (state, is_first)

    def retired(self, state: PartitionState) -> None:
        """Forgets a partition that is replaced or gone; its successor may be known already."""
        with self._lock:
            if self._states.get(copy_of(state), (None,))[0] is state:
                del self._states[copy_of(state)]

    def looked(self) -> None:
        """Notes that everything was looked at once."""
        self._has_looked = True

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yields the series as they are now."""
        now = self._clock.elapsed_seconds()
        with self._lock:
            found = list(self._states.values())
        # A topic that could not be asked for its partitions has none to speak of.
        known = [(s, is_first) for s, is_first in found if s.source.partition != UNKNOWN_PARTITION]
        yield from _copies([state for state, _ in known], now)
        if self._has_v3:
            yield from _streams([state for state, is_first in known if is_first])
        if self._has_looked:
            yield from _parked([state for state, _ in found])
            yield _paused([state for state, _ in found])
            yield _waiting([state for state, _ in known])


def _copies(states: Sequence[PartitionState], now: float) -> Iterator[GaugeMetricFamily]:
    position = GaugeMetricFamily("mirrorlake_position_offset", "Next source offset needed", labels=COPY)
    source_end = GaugeMetricFamily("mirrorlake_source_end_offset", "Last stable offset of the source", labels=COPY)
    lag = GaugeMetricFamily("mirrorlake_lag_records", "Offsets behind the source", labels=COPY)
    seconds = GaugeMetricFamily(
        "mirrorlake_lag_seconds",
        "How long the oldest offset not copied has been waiting, as far as this process has seen",
        labels=COPY,
    )
    for state in states:
        values = (
            (position, state.shown_position),
            (source_end, state.source_end if state.is_source_seen(now) else None),
            (lag, state.lag_now(now)),
            (seconds, state.lag_seconds(now)),
        )
        for family, value in values:
            if value is not None:
                family.add_metric(copy_of(state), value)
    yield from (position, source_end, lag, seconds)


def _streams(states: Sequence[PartitionState]) -> Iterator[GaugeMetricFamily]:
    """Yields what mirror-v3 shows; of several mirrors of one partition, the one that is safe of all of them."""
    verified: dict[tuple[str, str], int] = {}
    failures: dict[tuple[str, str], int] = {}
    for state in states:
        stream = stream_of(state)
        failures[stream] = max(failures.get(stream, 0), state.failures)
        if (position := state.shown_position) is not None:
            verified[stream] = min(verified.get(stream, position), position)
    series = (
        (
            "mirror_v3_destination_offset_verified",
            "Next source offset the destination would accept; everything below is durable there",
            verified,
        ),
        (
            "mirror_v3_destination_offset_inflight_retry",
            "Failures in a row of the write that is due next, 0 where it goes well",
            failures,
        ),
    )
    for name, help_text, values in series:
        family = GaugeMetricFamily(name, help_text, labels=STREAM)
        for stream, value in values.items():
            family.add_metric(stream, value)
        yield family


def _parked(states: Sequence[PartitionState]) -> Iterator[GaugeMetricFamily]:
    reasons = [park_name(s.error) if s.error is not None else "parked" for s in states if s.is_parked]
    yield GaugeMetricFamily("mirrorlake_parked_partitions", "Partitions that wait for an operator", value=len(reasons))
    family = GaugeMetricFamily(
        "mirrorlake_parked_partitions_by_reason", "The same, by the reason they are parked for", labels=("reason",)
    )
    counts = Counter(reasons)
    for name in dict.fromkeys([*PARK_NAMES.values(), *counts]):
        family.add_metric((name,), counts[name])
    yield family


def _paused(states: Sequence[PartitionState]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "mirrorlake_paused_partitions", "Partitions that are paused, parked ones included", labels=("mirror",)
    )
    counts = Counter(state.mirror for state in states if state.is_paused)
    for mirror in dict.fromkeys(state.mirror for state in states):
        family.add_metric((mirror,), counts[mirror])
    return family


def _waiting(states: Sequence[PartitionState]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "mirrorlake_waiting_partitions",
        "Healthy partitions that wait, by reason",
        labels=("reason",),
    )
    counts = Counter(wait_name(state.shown_error) for state in states if not state.is_parked)
    for name in WAIT_NAMES.values():
        family.add_metric((name,), counts[name])
    return family


def copy_of(state: PartitionState) -> tuple[str, str, str, str]:
    """Returns the values of the labels `COPY`."""
    return (state.mirror, state.source.topic, str(state.source.partition), state.destination)


def stream_of(state: PartitionState) -> tuple[str, str]:
    """Returns the values of the labels `STREAM`."""
    return (state.source.topic, str(state.source.partition))
