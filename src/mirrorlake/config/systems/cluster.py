"""A Kafka cluster, as the configuration names it."""

from dataclasses import dataclass, field

from mirrorlake.config.problems import Place
from mirrorlake.kafka.wire.settings import ClusterSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kafka cluster: how to talk to it, and where the file says so."""

    settings: ClusterSettings
    place: Place = field(compare=False)

    @property
    def name(self) -> str:
        """Returns what the configuration calls it."""
        return self.settings.name

    def is_same_as(self, other: "Cluster") -> bool:
        """Tells whether both definitions share a bootstrap server, so that they reach the same cluster."""
        return not set(self.settings.bootstrap_servers).isdisjoint(other.settings.bootstrap_servers)
