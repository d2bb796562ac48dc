"""The metrics of a running service, one method per event.

Base units are in the names. The ``mirror_v3_*`` series keep the names and labels (``topic``, ``partition``) of
mirror-v3, so that its dashboards go on; they speak of a mirror's first destination. All else is ``mirrorlake_*``.
"""

import threading
from collections import Counter as Counts
from collections.abc import Iterator, Sequence
from math import isinf
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from mirrorlake import __version__
from mirrorlake.destinations.interface import LATENCY_BOUNDS_SECONDS
from mirrorlake.errors import ConfigurationError
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.service.park_names import PARK_NAMES, park_name
from mirrorlake.service.partition_state import PartitionState, StateName
from mirrorlake.service.targets import UNKNOWN_PARTITION

STREAM = ("topic", "partition")
COPY = ("mirror", "topic", "partition", "destination")


class LatencyHistogram(Collector):
    """``mirrorlake_latency_seconds``: how old a batch's newest record was when it became durable.

    Tasks count for themselves and bring sums; the library's own histogram takes single observations only.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], Counts[float]] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    def add(self, copy: tuple[str, ...], row: LeaseRow) -> None:
        """Adds what one lease counted."""
        with self._lock:
            self._counts.setdefault(copy, Counts()).update(row.latencies)
            self._sums[copy] = self._sums.get(copy, 0.0) + row.latency_seconds_sum

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yields the series, one per mirror, partition and destination."""
        family = HistogramMetricFamily(
            "mirrorlake_latency_seconds", "Age of the newest record of a batch when it became durable", labels=COPY
        )
        with self._lock:
            for copy, counts in self._counts.items():
                buckets, total = [], 0
                for bound in LATENCY_BOUNDS_SECONDS:
                    total += counts[bound]
                    buckets.append(("+Inf" if isinf(bound) else str(bound), float(total)))
                family.add_metric(copy, buckets, sum_value=self._sums[copy])
        yield family


class Metrics:
    """Every series, on a registry of its own.

    Args:
        registry: where they are registered; tests pass their own.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._v3_series()
        self._own_series()

    def _v3_series(self) -> None:
        r = self.registry
        self._verified = Gauge(
            "mirror_v3_destination_offset_verified",
            "Next source offset the destination would accept; everything below is durable there",
            STREAM,
            registry=r,
        )
        self._inflight_retry = Gauge(
            "mirror_v3_destination_offset_inflight_retry",
            "Failures in a row of the write that is due next, 0 where it goes well",
            STREAM,
            registry=r,
        )
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
        self._position = Gauge("mirrorlake_position_offset", "Next source offset needed", COPY, registry=r)
        self._source_end = Gauge("mirrorlake_source_end_offset", "Last stable offset of the source", COPY, registry=r)
        self._lag = Gauge("mirrorlake_lag_records", "Offsets behind the source", COPY, registry=r)
        self._lag_seconds = Gauge(
            "mirrorlake_lag_seconds", "How long the oldest offset not copied has been waiting", COPY, registry=r
        )
        self._records = Counter("mirrorlake_records", "Records made durable", COPY, registry=r)
        self._bytes = Counter("mirrorlake_bytes", "Bytes made durable, as read", COPY, registry=r)
        self._batches = Counter(
            "mirrorlake_batches", "Record batches by the path they took and why", (*COPY, "path", "reason"), registry=r
        )
        self._gaps = Counter("mirrorlake_gap_offsets", "Offsets without a record, by kind", (*COPY, "kind"), registry=r)
        self._flushes = Counter(
            "mirrorlake_flushes", "Published segments, by what cut them", (*COPY, "trigger"), registry=r
        )
        self._errors = Counter("mirrorlake_errors", "Errors by name", (*COPY, "error"), registry=r)
        self._latencies = LatencyHistogram()
        r.register(self._latencies)
        self._parked = Gauge("mirrorlake_parked_partitions", "Partitions that wait for somebody to act", registry=r)
        self._parked_by_reason = Gauge(
            "mirrorlake_parked_partitions_by_reason",
            "The same, by the name of what parked them",
            ("reason",),
            registry=r,
        )
        self._leases = Histogram(
            "mirrorlake_lease_seconds",
            "Wall time of leases",
            ("lane",),
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 7.5, 10, 30, 60, 120),
            registry=r,
        )
        self._flush_seconds = Histogram(
            "mirrorlake_flush_seconds",
            "Time from the first byte of a segment to its publication",
            buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=r,
        )
        Gauge("mirrorlake_build_info", "Always 1", ("version",), registry=r).labels(__version__).set(1)

    def began(self, state: PartitionState, *, is_first: bool) -> None:
        """A partition joins the service; an archive that is up to date may not see a lease for hours."""
        if state.source.partition == UNKNOWN_PARTITION:
            return
        self._positions(state, is_first=is_first)
        if is_first and state.has_view:
            stream = (state.source.topic, str(state.source.partition))
            self._gap_records.labels(*stream).inc(0)
            if state.view_records is not None:
                self._compaction_keys.labels(*stream).set(state.view_records)

    def _positions(self, state: PartitionState, *, is_first: bool) -> None:
        stream = (state.source.topic, str(state.source.partition))
        if state.position is not None:
            self._position.labels(*_copy(state)).set(state.position)
            if state.lag is not None:
                self._lag.labels(*_copy(state)).set(state.lag)
            if is_first:
                self._verified.labels(*stream).set(state.position)
        if is_first:
            self._inflight_retry.labels(*stream).set(state.failures)

    def lease_ended(self, state: PartitionState, row: LeaseRow | None, *, is_first: bool, now_seconds: float) -> None:
        """Takes what one lease did for one partition at one destination."""
        copy = _copy(state)
        stream = (state.source.topic, str(state.source.partition))
        self._positions(state, is_first=is_first)
        if row is None:
            return
        self._records.labels(*copy).inc(row.records)
        self._bytes.labels(*copy).inc(row.raw_bytes)
        if is_first:
            self._v3_records.labels(*stream).inc(row.records)
        self._latencies.add(copy, row)
        for name, count in row.batches.items():
            path, _, reason = name.partition(":")
            self._batches.labels(*copy, path, reason).inc(count)
        for kind, count in row.gap_offsets.items():
            self._gaps.labels(*copy, kind).inc(count)
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

    def lease_took(self, lane: int, seconds: float) -> None:
        """Takes the wall time of one lease."""
        self._leases.labels(str(lane)).observe(seconds)

    def observed(self, states: Sequence[PartitionState], *, elapsed_seconds: float) -> None:
        """Takes the state of everything after the sources' ends were read."""
        for state in states:
            if state.source.partition == UNKNOWN_PARTITION:
                continue  # a topic that could not be asked for its partitions has no series
            copy = _copy(state)
            if state.source_end is not None:
                self._source_end.labels(*copy).set(state.source_end)
            if state.lag is not None:
                self._lag.labels(*copy).set(state.lag)
            since = state.waiting_since_seconds
            self._lag_seconds.labels(*copy).set(0.0 if since is None else max(0.0, elapsed_seconds - since))
        parked = Counts(park_name(s.error) for s in states if s.state is StateName.PARKED and s.error is not None)
        for name in PARK_NAMES.values():
            self._parked_by_reason.labels(name).set(parked[name])
        self._parked.set(sum(state.state is StateName.PARKED for state in states))


def _copy(state: PartitionState) -> tuple[str, str, str, str]:
    return (state.mirror, state.source.topic, str(state.source.partition), state.destination)


class MetricsServer:
    """Serves ``/metrics`` over plain HTTP until closed.

    Args:
        metrics: what to serve.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.

    Raises:
        ConfigurationError: the address is taken or not ours.
    """

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=metrics.registry)
        except OSError as error:
            raise ConfigurationError(
                f"the metrics endpoint cannot listen on {host}:{port}: {error.strerror}",
                hint="set service.metrics (mirror-v3 form: MIRROR_V3_METRICS_PORT) to a free port, or switch it off",
            ) from error

    @property
    def port(self) -> int:
        """The port listened on."""
        server: WSGIServer = self._server
        return int(server.server_port)

    def close(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()
        thread: threading.Thread = self._thread
        thread.join(timeout=5.0)
