"""The metrics of subjects and schema ids that a service takes along."""

from collections import Counter as Counts
from collections.abc import Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge

if TYPE_CHECKING:
    from mirrorlake.service.subjects.bringing import Brought

LABELS = ("mirror", "destination")


class SchemaSeries:
    """What became of subjects and ids, by mirror and destination.

    Args:
        registry: of the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._changes = Counter(
            "mirrorlake_schema_changes",
            "Changes of the destination's schema registry that were made and read back",
            (*LABELS, "action"),
            registry=registry,
        )
        self._failures = Counter(
            "mirrorlake_schema_look_failures",
            "Looks at the schema registries that failed in whole or in part",
            LABELS,
            registry=registry,
        )
        self._ids = Gauge(
            "mirrorlake_schema_ids",
            "Schema ids and GUIDs of the source's registry, by what is known of them: known, absent, refused, or guid, "
            "for GUIDs of records where the destination's registry gives none",
            (*LABELS, "result"),
            registry=registry,
        )

    def looked(self, mirror: str, destination: str, brought: "Brought", counts: Mapping[str, int]) -> None:
        """Takes what a look has found and done."""
        self._failures.labels(mirror, destination).inc(0)
        for action, count in Counts(action.kind.value for action in brought.done).items():
            self._changes.labels(mirror, destination, action).inc(count)
        for result, count in counts.items():
            self._ids.labels(mirror, destination, result).set(count)

    def failed(self, mirror: str, destination: str) -> None:
        """Takes that a look failed."""
        self._failures.labels(mirror, destination).inc()
