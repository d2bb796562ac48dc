"""What a configuration means on real clusters: which source partition goes where, and what stands against it.

A target is a value; nothing is created or changed while targets are found, so ``plan`` and ``status`` use the
same code as ``run``.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirrorlake.config.resolved import ArchiveDestination, Cluster, Destination, Mirror
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition

SHARDS_PER_MIRROR = 16
"""Writer identities per mirror. Fixed: a partition with another identity would meet its own old one as a stranger."""

UNKNOWN_PARTITION = -1
"""Stands for the partitions of a topic that could not be asked for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation:
    """A destination topic that has to be made before the first record. ``replication_factor`` −1 is the cluster's."""

    topic: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One source partition at one destination.

    ``destination_topic`` is a topic or an archive's folder name. ``creation`` is set where the topic is missing
    and may be made. ``error`` is why nothing can be copied; the partition is then parked, or tried again if it is
    transient. ``batch_bytes_max`` is what the destination topic takes.
    """

    mirror: Mirror
    destination: Destination
    source_cluster: ClusterSettings
    source: TopicPartition
    source_cluster_id: str = ""
    topic_id: str = ""
    destination_topic: str = ""
    batch_bytes_max: int = 0
    creation: TopicCreation | None = None
    error: MirrorlakeError | None = None

    @property
    def is_archive(self) -> bool:
        """True for an archive destination."""
        return isinstance(self.destination, ArchiveDestination)

    @property
    def destination_partition(self) -> TopicPartition:
        """The destination topic with the source's partition number."""
        return TopicPartition(self.destination_topic, self.source.partition)

    def as_json(self) -> dict[str, str | int | None]:
        """Returns the fields every row of a report begins with; ``partition`` is null where it is unknown."""
        return {
            "name": self.mirror.name,
            "topic": self.source.topic,
            "partition": None if self.source.partition == UNKNOWN_PARTITION else self.source.partition,
            "destination": self.destination.label,
        }

    @property
    def shard(self) -> str:
        """The unit of scheduling: partitions of one shard are served by one lane and write under one identity."""
        return f"{self.mirror.name}.{shard_of(self.source)}"

    @property
    def transactional_id(self) -> str:
        """The writer identity of the shard at a Kafka destination."""
        return f"mirrorlake.{self.shard}"


def shard_of(partition: TopicPartition) -> int:
    """Returns the shard of a source partition: neighbours fall into different shards, the same one always into one."""
    return (zlib.crc32(partition.topic.encode()) + partition.partition) % SHARDS_PER_MIRROR


def cluster_settings(cluster: Cluster) -> ClusterSettings:
    """Returns the wire client's settings of a configured cluster."""
    return ClusterSettings(
        name=cluster.name,
        bootstrap_servers=cluster.bootstrap_servers,
        client_id=cluster.client_id,
        request_timeout_seconds=cluster.request_timeout_seconds,
        connect_timeout_seconds=cluster.connect_timeout_seconds,
        fetch_bytes_max=cluster.fetch_bytes_max,
        fetch_partition_bytes_max=cluster.fetch_partition_bytes_max,
        fetch_bytes_min=cluster.fetch_bytes_min,
        fetch_wait_seconds_max=cluster.fetch_wait_seconds_max,
    )
