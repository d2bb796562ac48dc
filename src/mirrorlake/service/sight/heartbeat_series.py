"""The metrics of heartbeats that a service writes."""

from prometheus_client import CollectorRegistry, Counter


class HeartbeatSeries:
    """How many heartbeats were written, and how many could not be, by mirror; none of mirrors without heartbeats.

    Args:
        registry: of the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._written = Counter(
            "mirrorlake_heartbeats", "Heartbeats written to the source", ("mirror",), registry=registry
        )
        self._failures = Counter(
            "mirrorlake_heartbeat_failures",
            "Heartbeats that could not be written, or whose answer was lost",
            ("mirror",),
            registry=registry,
        )

    def written(self, mirror: str) -> None:
        """Takes that a heartbeat was written."""
        self._written.labels(mirror).inc()
        self._failures.labels(mirror).inc(0)

    def failed(self, mirror: str) -> None:
        """Takes that one could not be written."""
        self._written.labels(mirror).inc(0)
        self._failures.labels(mirror).inc()
