"""The metrics of destination topics that a service keeps in step."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

LABELS = ("mirror", "destination")


class TopicSeries:
    """How destination topics differ from their sources, and what was done about it, by mirror and destination.

    Args:
        registry: of the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._differences = Gauge(
            "mirrorlake_topic_differences",
            "Differences between destination topics and their sources that the last look left, by what is done of them",
            (*LABELS, "action"),
            registry=registry,
        )
        self._changes = Counter(
            "mirrorlake_topic_changes",
            "Changes of destination topics and ACLs that were made and read back",
            (*LABELS, "action"),
            registry=registry,
        )
        self._missing = Gauge(
            "mirrorlake_missing_destination_partitions",
            "Partitions of source topics that the destination's topics lack",
            LABELS,
            registry=registry,
        )
        self._failures = Counter(
            "mirrorlake_topic_look_failures",
            "Looks at destination topics that failed, or left something refused or unknown",
            LABELS,
            registry=registry,
        )

    def looked(
        self,
        mirror: str,
        destination: str,
        *,
        left: Mapping[str, int],
        done: Mapping[str, int],
        missing_partitions: int,
    ) -> None:
        """Takes what a look has left and done, by action."""
        self._failures.labels(mirror, destination).inc(0)
        self._missing.labels(mirror, destination).set(missing_partitions)
        for action in ("report", "refused", "unknown"):
            self._differences.labels(mirror, destination, action).set(left.get(action, 0))
        for action, count in done.items():
            self._changes.labels(mirror, destination, action).inc(count)

    def failed(self, mirror: str, destination: str) -> None:
        """Takes that a look failed."""
        self._failures.labels(mirror, destination).inc()
