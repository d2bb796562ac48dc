"""The metrics of a running service, one method per event; how partitions stand is made when asked (`state_series`).

Base units are in the names. The ``mirror_v3_*`` series keep the names and labels (``topic``, ``partition``) of
mirror-v3, so that its dashboards go on; they speak of a mirror's first destination, and are there in its form only.
All else is ``mirrorlake_*``, and ``process_*`` for the driver's process.
"""

import threading
from collections import Counter as Counts
from collections.abc import Iterator, Mapping
from math import isinf
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from mirrorlake import __version__
from mirrorlake.clock import Clock, SystemClock
from mirrorlake.destinations.interface import LATENCY_BOUNDS_SECONDS
from mirrorlake.mirror.told_progress import ToldProgress
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.heartbeat_series import HeartbeatSeries
from mirrorlake.service.sight.schema_series import SchemaSeries
from mirrorlake.service.sight.state_series import COPY, STREAM, StateSeries, copy_of, stream_of
from mirrorlake.service.sight.topic_series import TopicSeries
from mirrorlake.topics.targets import UNKNOWN_PARTITION

T = TypeVar("T")


class LatencyHistogram(Collector):
    """``mirrorlake_latency_seconds``: how old records were when they became durable, see `Progress.saw_latency`.

    Tasks count for themselves and bring sums; the library's own histogram takes single observations only. By topic and
    not by partition: twenty series a partition would be more than all others together.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], Counts[float]] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    def add(self, done: LeaseRow | ToldProgress, told: ToldProgress | None = None) -> None:
        """Adds what one lease counted, but for what it had told; one that counted nothing makes no series."""
        if not done.latencies:
            return
        labels = (done.mirror, done.source.topic, done.destination)
        told_sum = told.latency_seconds_sum if told is not None else 0.0
        with self._lock:
            counts = self._counts.setdefault(labels, Counts())
            for bound, count in _since(done.latencies, told.latencies if told is not None else {}):
                counts[bound] += count
            self._sums[labels] = self._sums.get(labels, 0.0) + max(0.0, done.latency_seconds_sum - told_sum)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yields the series, one per mirror, topic and destination."""
        family = HistogramMetricFamily(
            "mirrorlake_latency_seconds",
            "Age of a record when it became durable: a batch's newest, a segment's oldest, a snapshot's newest",
            labels=("mirror", "topic", "destination"),
        )
        with self._lock:
            for labels, counts in self._counts.items():
                buckets, total = [], 0
                for bound in LATENCY_BOUNDS_SECONDS:
                    total += counts[bound]
                    buckets.append(("+Inf" if isinf(bound) else str(bound), float(total)))
                family.add_metric(labels, buckets, sum_value=self._sums[labels])
        yield family


def _since(counts: Mapping[T, int], told: Mapping[T, int]) -> Iterator[tuple[T, int]]:
    """Yields what has been counted since it was told."""
    for name, count in counts.items():
        if (more := count - told.get(name, 0)) > 0:
            yield name, more


class Metrics:
    """Every series, on a registry of its own.

    Args:
        registry: where they are registered; tests pass their own.
        clock: that partitions' states are noted by.
        has_v3: whether the series of mirror-v3 are there, for its form.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, clock: Clock | None = None, has_v3: bool = True
    ) -> None:
        # The library's default: one more series of each counter, with the time of its first count.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry or CollectorRegistry()
        self._states = StateSeries(clock or SystemClock(), has_v3=has_v3)
        self.registry.register(self._states)
        ProcessCollector(registry=self.registry)
        # What nobody scrapes costs nothing: without that form its counters stand on a registry of their own.
        self._v3_series(self.registry if has_v3 else CollectorRegistry())
        self._own_series()
        self.schemas = SchemaSeries(self.registry)
        self.topics = TopicSeries(self.registry)
        self.heartbeats = HeartbeatSeries(self.registry)

    def _v3_series(self, r: CollectorRegistry) -> None:
        self._v3_records = Counter(
            "mirror_v3_destination_records", "Records made durable since the process started", STREAM, registry=r
        )
        self._last_flush = Gauge(
            "mirror_v3_destination_last_flush_timestamp_seconds",
            "Unix time of the last published segment",
            STREAM,
            registry=r,
        )
        self._v3_bytes = Counter(
            "mirror_v3_destination_bytes", "Encoded bytes of published segments", STREAM, registry=r
        )
        self._v3_flushes = Counter("mirror_v3_destination_flushes", "Published segments", STREAM, registry=r)
        self._gap_records = Counter(
            "mirror_v3_source_offset_gap_records",
            "With compaction: log, records that did not lie right behind the one before at the source",
            STREAM,
            registry=r,
        )
        self._compaction_keys = Gauge(
            "mirror_v3_destination_compaction_keys",
            "With compaction: log, keys in the newest snapshot",
            STREAM,
            registry=r,
        )

    def _own_series(self) -> None:
        r = self.registry
        self._records = Counter("mirrorlake_records", "Records made durable", COPY, registry=r)
        self._bytes = Counter("mirrorlake_bytes", "Bytes made durable, as read", COPY, registry=r)
        self._batches = Counter(
            "mirrorlake_batches", "Record batches by the path they took and why", (*COPY, "path", "reason"), registry=r
        )
        self._gaps = Counter("mirrorlake_gap_offsets", "Offsets without a record, by kind", (*COPY, "kind"), registry=r)
        self._letters = Counter(
            "mirrorlake_dead_letters",
            "Records that name no schema and are in a topic for dead letters, by side and reason",
            (*COPY, "side", "reason"),
            registry=r,
        )
        self._flushes = Counter(
            "mirrorlake_flushes", "Published segments, by what cut them", (*COPY, "trigger"), registry=r
        )
        self._deletions_doubted = Counter(
            "mirrorlake_deletions_doubted",
            "Times a copy of a compacted source read on so late that it may have missed tombstones",
            COPY,
            registry=r,
        )
        self._errors = Counter("mirrorlake_errors", "Errors by name", (*COPY, "error"), registry=r)
        self._latencies = LatencyHistogram()
        self._told: dict[tuple[str, ...], ToldProgress] = {}  # by leases that run
        self._counted: set[tuple[str, ...]] = set()  # whose series are there
        r.register(self._latencies)
        self._leases = Histogram(
            "mirrorlake_lease_seconds",
            "Wall time of leases",
            ("lane",),
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 7.5, 10, 30, 60, 120, 300, 600),
            registry=r,
        )
        self._flush_seconds = Histogram(
            "mirrorlake_flush_seconds",
            "Time from the first byte of a segment to its publication",
            buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=r,
        )
        self._groups_at = Gauge(
            "mirrorlake_groups_archived_timestamp_seconds",
            "Unix time of the last look at consumer groups that found and archived all that was asked for",
            ("mirror", "destination"),
            registry=r,
        )
        self._group_failures = Counter(
            "mirrorlake_group_archive_failures",
            "Groups, brokers and folders that a look at consumer groups failed for",
            ("mirror", "destination"),
            registry=r,
        )
        self._groups_synced_at = Gauge(
            "mirrorlake_groups_synced_timestamp_seconds",
            "Unix time of the last look at consumer groups that failed for none of those to be taken along",
            ("mirror", "destination"),
            registry=r,
        )
        self._group_sync_failures = Counter(
            "mirrorlake_group_sync_failures",
            "Groups and clusters that a look at the consumer groups to be taken along failed for",
            ("mirror", "destination"),
            registry=r,
        )
        self._group_offsets = Gauge(
            "mirrorlake_group_offsets",
            "Offsets of consumer groups that are taken along, by what became of them at the last look",
            ("mirror", "destination", "result"),
            registry=r,
        )
        Gauge("mirrorlake_build_info", "Always 1", ("version",), registry=r).labels(__version__).set(1)

    def began(self, state: PartitionState, *, is_first: bool) -> None:
        """A partition joins the service; an archive that is up to date may not see a lease for hours."""
        self._states.began(state, is_first=is_first)
        if is_first and state.work.has_view and state.source.partition != UNKNOWN_PARTITION:
            self._gap_records.labels(*stream_of(state)).inc(0)
            if state.view_records is not None:
                self._compaction_keys.labels(*stream_of(state)).set(state.view_records)

    def retired(self, state: PartitionState) -> None:
        """A partition begins anew, or is gone."""
        self._states.retired(state)

    def looked(self) -> None:
        """Everything was looked at once."""
        self._states.looked()

    def lease_told(self, state: PartitionState, told: ToldProgress, *, is_first: bool) -> None:
        """Counts what a lease that runs has told; the rest follows when it has ended."""
        self._count(state, told, is_first=is_first)
        self._told[copy_of(state)] = told

    def _count(self, state: PartitionState, done: LeaseRow | ToldProgress, *, is_first: bool) -> None:
        """Takes what a lease has done up to now, of which what it has told is counted."""
        copy = copy_of(state)
        told = self._told.pop(copy, None)
        self._latencies.add(done, told)
        for name, count in _since(done.batches, told.batches if told is not None else {}):
            path, _, reason = name.partition(":")
            self._batches.labels(*copy, path, reason).inc(count)
        for kind, count in _since(done.gap_offsets, told.gap_offsets if told is not None else {}):
            self._gaps.labels(*copy, kind).inc(count)
        records, raw_bytes = done.records, done.raw_bytes
        told_records, told_bytes = (told.records, told.raw_bytes) if told is not None else (0, 0)
        if not (records or raw_bytes) and copy in self._counted:
            return
        self._counted.add(copy)
        self._records.labels(*copy).inc(max(0, records - told_records))
        self._bytes.labels(*copy).inc(max(0, raw_bytes - told_bytes))
        if is_first:
            self._v3_records.labels(*stream_of(state)).inc(max(0, records - told_records))

    def lease_ended(self, state: PartitionState, row: LeaseRow | None, *, is_first: bool, now_seconds: float) -> None:
        """Takes what one lease did for one partition at one destination."""
        copy, stream = copy_of(state), stream_of(state)
        if row is None:
            if not state.is_leased:
                self._told.pop(copy_of(state), None)
            return
        self._count(state, row, is_first=is_first)
        for name, count in row.dead_letters.items():
            side, _, reason = name.partition(":")
            self._letters.labels(*copy, side, reason).inc(count)
        if row.error is not None:
            self._errors.labels(*copy, type(row.error).__name__).inc()
        for flush in row.flushes:
            self._flush_seconds.observe(flush.elapsed_ms / 1000)
            self._flushes.labels(*copy, flush.trigger).inc()
            if is_first:
                self._v3_flushes.labels(*stream).inc()
                self._v3_bytes.labels(*stream).inc(flush.file_bytes)
                self._last_flush.labels(*stream).set(now_seconds)
                if flush.view_records is not None:
                    self._gap_records.labels(*stream).inc(flush.gap_records)
                    self._compaction_keys.labels(*stream).set(flush.view_records)

    def deletions_doubted(self, state: PartitionState) -> None:
        """Counts that a copy may have missed tombstones of its source."""
        self._deletions_doubted.labels(*copy_of(state)).inc()

    def groups_archived(self, mirror: str, destination: str, *, now_seconds: float) -> None:
        """Records that the archive has what every group had committed at a time."""
        self._groups_at.labels(mirror, destination).set(now_seconds)
        self._group_failures.labels(mirror, destination).inc(0)

    def groups_not_archived(self, mirror: str, destination: str, failures: int) -> None:
        """Takes how much a look at the groups failed for."""
        self._group_failures.labels(mirror, destination).inc(failures)

    def groups_synced(self, mirror: str, destination: str, results: Mapping[str, int], *, now_seconds: float) -> None:
        """Takes how many offsets of groups a look found, by what became of them."""
        self._groups_synced_at.labels(mirror, destination).set(now_seconds)
        self._group_sync_failures.labels(mirror, destination).inc(0)
        for result, offsets in results.items():
            self._group_offsets.labels(mirror, destination, result).set(offsets)

    def groups_not_synced(self, mirror: str, destination: str, failures: int) -> None:
        """Takes how much a look at the groups failed for."""
        self._group_sync_failures.labels(mirror, destination).inc(failures)

    def lease_took(self, lane: int, seconds: float) -> None:
        """Takes the wall time of one lease."""
        self._leases.labels(str(lane)).observe(seconds)
