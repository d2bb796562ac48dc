"""A Kafka topic as the source of a lease's partitions."""

from dataclasses import dataclass

from mirrorlake.destinations.connections import Clients
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.log import KafkaSourceLog
from mirrorlake.sources.kafka.partition import KafkaPartition
from mirrorlake.sources.kafka.readers import ClusterReads
from mirrorlake.sources.source import SourceContext, SourceWork


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSourceWork(SourceWork):
    """A topic of a Kafka cluster.

    ``topic_id`` is the id the topic must have; empty where the cluster gives none.
    """

    cluster: ClusterSettings
    topic_id: str = ""

    @property
    def label(self) -> str:
        """The cluster, by its name."""
        return f"cluster {self.cluster.name}"

    def open(self, partition: TopicPartition, context: SourceContext) -> KafkaPartition:
        """Returns a partition of the topic; those of one cluster share their connections."""
        connections = context.connections
        reads = context.shared(
            ("kafka", self.cluster.name),
            lambda: ClusterReads(self.cluster, connections=connections, clock=context.clock, time=context.time),
        )
        return KafkaPartition(partition, self.topic_id, client=connections.client(self.cluster), reads=reads)

    def log(self, partition: TopicPartition, clients: Clients) -> KafkaSourceLog:
        """Returns a partition of the topic, to be asked about."""
        return KafkaSourceLog(partition, clients.client(self.cluster))
