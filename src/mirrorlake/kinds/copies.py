"""Where the records of a copied partition are read, to be compared with the source's. Values that travel to tasks."""

from dataclasses import dataclass

from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.settings import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSide:
    """A partition of a cluster that is a copy, with equal offsets.

    Its log may start later than asked for, and has nothing before that: where the source begins with a gap, what
    filled it was deleted, and retention may have come sooner here.
    """

    cluster: ClusterSettings
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedSide:
    """A partition of a cluster that holds the records of ``source`` where the committed offset map says."""

    cluster: ClusterSettings
    partition: TopicPartition
    source: TopicPartition
    topics: ProgressTopics
    shard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSide:
    """A partition of an archive. ``extension`` is the format's."""

    store: StoreSettings
    destination_name: str
    partition: int
    extension: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSide:
    """The newest snapshot of a partition in a store. ``extension`` is the format's."""

    store: StoreSettings
    destination_name: str
    partition: int
    extension: str


CopySide = KafkaSide | MappedSide | ArchiveSide | SnapshotSide
