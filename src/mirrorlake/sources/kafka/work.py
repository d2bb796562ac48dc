"""A Kafka cluster as the source of mirrors."""

from dataclasses import dataclass, field

from mirrorlake.destinations.connections import Clients
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.client import KafkaSourceClient
from mirrorlake.sources.kafka.log import KafkaSourceLog
from mirrorlake.sources.kafka.partition import KafkaPartition
from mirrorlake.sources.kafka.read_limit import limit_of
from mirrorlake.sources.kafka.readers import ClusterReads
from mirrorlake.sources.kafka.window_ends import KnownEnds, WindowEnds
from mirrorlake.sources.source import SourceContext, SourceWork
from mirrorlake.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSourceWork(SourceWork):
    """A Kafka cluster.

    Attributes:
        cluster: how to reach it.
        mirror: whose ends these are; empty for a cluster that every mirror sees alike. Part of the source's name, by
            which a driver keeps what it saw of sources.
        window: where partitions end; a cluster's never says where they begin.
    """

    cluster: ClusterSettings
    mirror: str = ""
    window: Window = field(default_factory=Window)

    @property
    def name(self) -> str:
        """The cluster's name, and whose ends of it these are."""
        return f"{self.cluster.name}/{self.mirror}" if self.mirror else self.cluster.name

    @property
    def is_bounded(self) -> bool:
        """True where partitions end."""
        return self.window != Window()

    @property
    def place(self) -> str:
        """Its bootstrap servers."""
        return ", ".join(self.cluster.bootstrap_servers)

    @property
    def label(self) -> str:
        """The cluster, by its name."""
        return f"cluster {self.cluster.name}"

    def open(self, partition: TopicPartition, topic_id: str, context: SourceContext) -> KafkaPartition:
        """Returns a partition, to be read; those of the cluster share their connections."""
        connections = context.connections
        reads = context.shared(
            ("kafka", self.cluster.name),
            lambda: ClusterReads(self.cluster, connections=connections, clock=context.clock, time=context.time),
        )
        client, limit = connections.client(self.cluster), limit_of(self.window, partition)
        return KafkaPartition(partition, topic_id, client=client, reads=reads, limit=limit)

    def log(self, partition: TopicPartition, clients: Clients) -> KafkaSourceLog:
        """Returns a partition, to be asked about."""
        return KafkaSourceLog(partition, clients.client(self.cluster), self._ends(clients))

    def client(self, clients: Clients) -> KafkaSourceClient:
        """Returns the cluster, to be asked about many partitions at a time."""
        return KafkaSourceClient(clients.client(self.cluster), self._ends(clients))

    def _ends(self, clients: Clients) -> WindowEnds | None:
        if not self.is_bounded:
            return None
        known = clients.kept(("ends", self.name, self.window.until_ms), KnownEnds)
        return WindowEnds(clients.client(self.cluster), self.window, known)
