"""A Kafka cluster as the source of mirrors."""

from dataclasses import dataclass

from mirrorlake.destinations.connections import Clients
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.client import KafkaSourceClient
from mirrorlake.sources.kafka.log import KafkaSourceLog
from mirrorlake.sources.kafka.partition import KafkaPartition
from mirrorlake.sources.kafka.readers import ClusterReads
from mirrorlake.sources.source import SourceContext, SourceWork


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSourceWork(SourceWork):
    """A Kafka cluster."""

    cluster: ClusterSettings

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.cluster.name

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
        return KafkaPartition(partition, topic_id, client=connections.client(self.cluster), reads=reads)

    def log(self, partition: TopicPartition, clients: Clients) -> KafkaSourceLog:
        """Returns a partition, to be asked about."""
        return KafkaSourceLog(partition, clients.client(self.cluster))

    def client(self, clients: Clients) -> KafkaSourceClient:
        """Returns the cluster, to be asked about many partitions at a time."""
        return KafkaSourceClient(clients.client(self.cluster))
