"""A Kafka cluster, as the configuration names it."""

from dataclasses import dataclass, field

from mirrorlake.config.problems import Place
from mirrorlake.kafka.wire.settings import ClusterSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kafka cluster: how to talk to it, and where the file says so.

    ``read_bytes_per_second`` is how fast all mirrors of the file read from it together, None for as fast as can be. It
    is no part of what a cluster is: two that differ in it are equal.
    """

    settings: ClusterSettings
    read_bytes_per_second: int | None = field(default=None, compare=False)
    place: Place = field(compare=False)

    @property
    def name(self) -> str:
        """Returns what the configuration calls it."""
        return self.settings.name

    def is_same_as(self, other: "Cluster") -> bool:
        """Tells whether both definitions share a bootstrap server, so that they reach the same cluster."""
        return not set(self.settings.bootstrap_servers).isdisjoint(other.settings.bootstrap_servers)
