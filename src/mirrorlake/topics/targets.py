"""What a configuration means on real clusters: which source partition goes where, and what stands against it.

A target is a value; nothing is created or changed while targets are found, so ``plan`` and ``status`` use the
same code as ``run``.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mirrorlake.archive.snapshots.tombstones import snapshot_rule
from mirrorlake.config.destinations.archive import ArchiveDestination
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.resolved import Mirror
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.destinations.filtering import PartitionBranch, PartitionFilter, PartitionProjection
from mirrorlake.destinations.letters.settings import LetterSettings
from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.map.settings import MapStart
from mirrorlake.destinations.map.shard_count import SHARDS_UNWRITTEN
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.mirror.flush_clock import Retention
from mirrorlake.offsets import StartKind, TopicPartition
from mirrorlake.sources.source import SourceWork

SHARDS_PER_MIRROR = 16
"""Writer identities per mirror with equal offsets; mapped ones have their own number, see ``shard_count``.

Fixed: a partition with another identity would meet its own old one as an unknown producer.
"""

NO_LIMIT = -1
TIME_LIMIT_MAX = (1 << 63) - 1

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
class TopicGrowth:
    """Partitions a destination topic has, and those it needs, as the source has them."""

    topic: str
    partitions_before: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where records of a topic were before: a cluster's id, a topic there, and the mirror that copied them from it.

    ``is_held`` is False where that mirror has let go of the copy.
    """

    cluster_id: str
    topic: str
    mirror: str
    is_held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One source partition at one destination.

    ``destination_topic`` is a topic, an archive's folder name, or what else a source topic is called at a destination.
    ``creation`` is set where the topic is missing and may be made. ``error`` is why nothing can be copied; the
    partition is then parked, or tried again if it is transient. ``batch_bytes_max`` is what the destination topic
    takes. ``source_configs`` and ``destination_configs`` are the topics' settings as they hold now, defaults included;
    empty where they were not read, or there is no such topic. ``destination_topic_id`` is empty for what is no topic,
    or is not yet made; ``destination_partitions`` is how many partitions it has or will have, ``source_partitions`` how
    many the source topic has; 0 where that is not known.

    ``replaces`` is the id of the source topic whose copy is deleted, and ``creation`` made, before the first record;
    empty where nothing is. ``growth`` is set where the destination topic lacks partitions and may be given them.
    ``map_shards`` is how many shards the mirror has at a destination with mapped offsets, where ``has_progress_topic``
    says that it has begun there: that its progress topic was there when it was looked for. Of one that has not, nobody
    knows yet how many it will get.

    ``destination_cluster_id`` is empty for what is no topic. ``owner`` is the mirror's state record at the destination,
    None where there is none, as at all that is no cluster. ``origins`` say of what the source topic is a copy; where
    that could not be read, ``origins_unread`` says why. ``progress_topic_id`` and ``pages_topic_id`` are the ids of the
    topics of a mirror with mapped offsets, empty where they are not there.

    ``letters_creation`` is set where the topic for dead letters is missing and may be made; ``letters_bytes_max`` is
    the largest batch that the one which is there takes, 0 where there is none.

    ``is_found_filled`` says whether the destination partition held something, or may have, where no state record calls
    that the copy; None where it was not looked at, as it is known or does not matter.

    ``is_due`` is False where none of the partition's records is as late as the mirror wants them yet: nothing is begun,
    as where the copy begins is told by a record that is still to come.
    """

    mirror: Mirror
    destination: Destination
    source_work: SourceWork
    source: TopicPartition
    source_cluster_id: str = ""
    topic_id: str = ""
    destination_topic: str = ""
    destination_topic_id: str = ""
    destination_partitions: int = 0
    destination_cluster_id: str = ""
    owner: OwnerState | None = field(default=None, repr=False)
    origins: tuple[Origin, ...] = ()
    origins_unread: MirrorlakeError | None = None
    progress_topic_id: str = ""
    pages_topic_id: str = ""
    source_partitions: int = 0
    replaces: str = ""
    growth: TopicGrowth | None = None
    map_shards: int = SHARDS_UNWRITTEN
    has_progress_topic: bool = False
    batch_bytes_max: int = 0
    source_configs: Mapping[str, str | None] = field(default_factory=dict, hash=False, repr=False)
    destination_configs: Mapping[str, str | None] = field(default_factory=dict, hash=False, repr=False)
    creation: TopicCreation | None = None
    letters_creation: TopicCreation | None = None
    letters_bytes_max: int = 0
    error: MirrorlakeError | None = None
    is_due: bool = True
    is_found_filled: bool | None = None

    @property
    def is_begun(self) -> bool:
        """True where the mirror's state record names the destination topic with this source topic."""
        if self.owner is None:
            return False
        if self.source.topic in self.owner.mapped_sources.get(self.destination_topic, {}):
            return True
        return self.owner.destinations.get(self.destination_topic) == self.source.topic

    @property
    def is_topic(self) -> bool:
        """True where the destination is a topic of a Kafka cluster, and `kafka` says of which."""
        return self.destination.is_topic

    @property
    def is_mapped(self) -> bool:
        """True for a Kafka destination with ``offsets: map``."""
        return isinstance(self.destination, KafkaDestination) and self.destination.is_mapped

    @property
    def destination_keeps_compression(self) -> bool:
        """True where the destination's brokers store batches as they come; False too where that is not known."""
        return self.destination_configs.get("compression.type") == "producer"

    @property
    def kafka(self) -> KafkaDestination:
        """The destination, where it is a topic of a Kafka cluster.

        Raises:
            TypeError: it is something else; a mistake of ours.
        """
        if not isinstance(self.destination, KafkaDestination):
            raise TypeError(f"destination {self.destination.label} of {self.source} is no Kafka cluster")
        return self.destination

    @property
    def archive(self) -> ArchiveDestination:
        """The destination, where it is an archive.

        Raises:
            TypeError: it is something else; a mistake of ours.
        """
        if not isinstance(self.destination, ArchiveDestination):
            raise TypeError(f"destination {self.destination.label} of {self.source} is no archive")
        return self.destination

    @property
    def destination_cluster(self) -> ClusterSettings:
        """The settings of the destination cluster, where there is one; see `kafka`."""
        return self.kafka.cluster.settings

    @property
    def own_producer_ids(self) -> frozenset[int]:
        """The producer ids that the partition's mapped shard wrote under, as far as the mirror's state record knows.

        With those of shards that the mirror has no longer: what they wrote is this one's now, or another's.
        """
        return self._producer_ids_of(lambda shard: shard == self.map_shard or shard >= self.map_shards)

    @property
    def other_shards_ids(self) -> frozenset[int]:
        """The same of the mirror's other shards: they may fill the same destination partition from other sources."""
        return self._producer_ids_of(lambda shard: shard != self.map_shard and shard < self.map_shards)

    def _producer_ids_of(self, wanted: Callable[[int], bool]) -> frozenset[int]:
        held = self.owner.map_producer_ids if self.owner is not None else {}
        return frozenset(each for shard, ids in held.items() if wanted(shard) for each in ids)

    @property
    def progress_topics(self) -> ProgressTopics:
        """Where the mirror keeps progress and offset maps, if its offsets are mapped."""
        return ProgressTopics(
            mirror=self.mirror.name,
            shards=self.map_shards,
            progress_id=self.progress_topic_id,
            pages_id=self.pages_topic_id,
        )

    @property
    def map_shard(self) -> int:
        """The shard the partition belongs to, if its offsets are mapped."""
        return shard_of(self.source, self.map_shards)

    @property
    def map_start(self) -> MapStart:
        """Where the partition begins while it has no progress, if its offsets are mapped."""
        start = self.mirror.source.start
        offset = start.offsets.get(self.source.topic, {}).get(self.source.partition)
        return MapStart(
            kind=start.kind,
            timestamp_ms=start.timestamp_ms,
            max_age_seconds=start.max_age_seconds,
            offset=offset if start.kind is StartKind.OFFSETS else None,
        )

    @property
    def base_topic(self) -> str:
        """The destination topic or folder as configured; another one where the source topic was recreated."""
        return self.destination.name_for(self.source.topic)

    @property
    def keeps(self) -> PartitionFilter | None:
        """Which of the partition's records are copied; None for all."""
        wanted = self.mirror.filter_of(self.source.topic)
        return None if wanted is None else PartitionFilter(wanted=wanted, partition=self.source.partition)

    @property
    def takes(self) -> PartitionBranch | None:
        """Which of those a route gives to this destination; None for all."""
        branch = self.destination.branch
        return None if branch is None else PartitionBranch(branch=branch, source=self.source)

    @property
    def projects(self) -> PartitionProjection | None:
        """What the partition's records become; None where they stay as they are."""
        wanted = self.mirror.select_of(self.source.topic)
        return None if wanted is None else PartitionProjection(wanted=wanted, source=self.source)

    @property
    def letters_template(self) -> str:
        """Names the topics that dead letters go to, by ``{topic}``; empty where there are none."""
        schemas = self.mirror.schemas_of(self.source.topic)
        return schemas.letters_template if schemas is not None and self.is_topic else ""

    @property
    def letters_topic(self) -> str:
        """Where dead letters of the source topic go; empty where there are none."""
        return self.letters_template.replace("{topic}", self.source.topic)

    @property
    def letters(self) -> LetterSettings | None:
        """What a copy that keeps offsets is told of its dead letters, also where it writes none, or none any more."""
        if not self.is_topic or self.is_mapped:
            return None
        return LetterSettings(
            mirror=self.mirror.name,
            template=self.letters_template,
            shard=shard_of(self.source),
            shards=SHARDS_PER_MIRROR,
            source=self.source,
            destination_topic=self.destination_topic,
            cluster_id=self.source_cluster_id,
            topic_id=self.topic_id,
        )

    @property
    def source_is_compacted(self) -> bool:
        """True where records of the source may vanish at any time, so that gaps can appear below a position."""
        return is_compacted(self.source_configs)

    @property
    def source_keeps_all_keys(self) -> bool:
        """True where no cleaner takes records of the source for later ones of their keys; False where not known."""
        return self.source_configs.get("cleanup.policy") is not None and not self.source_is_compacted

    @property
    def source_retention(self) -> Retention:
        """What the source keeps of each partition; without bounds where that was not read."""
        tombstones_seconds = self._tombstones_seconds
        if not self.source_configs or not is_deleting(self.source_configs):
            return Retention(tombstones_seconds=tombstones_seconds)
        milliseconds = limit_of(self.source_configs, "retention.ms")
        return Retention(
            seconds=None if milliseconds is None else milliseconds / 1000,
            bytes_max=limit_of(self.source_configs, "retention.bytes"),
            tombstones_seconds=tombstones_seconds,
        )

    @property
    def _tombstones_seconds(self) -> float | None:
        """For how long the source keeps tombstones; None where none goes, as in an archive, or that is not known."""
        configs = self.source_configs
        if not self.source_is_compacted or isinstance(self.mirror.source, ArchiveSource):
            return None
        return snapshot_rule(configs.get("cleanup.policy"), configs.get("delete.retention.ms")).tombstones_kept_seconds

    @property
    def destination_is_compacted(self) -> bool:
        """True where the destination takes no record without a key."""
        return is_compacted(self.destination_configs)

    @property
    def asks_for_compaction(self) -> bool:
        """True where the file has the copy compacted, whatever the source's policy is."""
        return self.is_topic and is_compacted(self.kafka.sync.override)

    @property
    def loses_to_its_cleaner(self) -> bool:
        """True where the copy is compacted, the source keeps all, and the file does not ask for that."""
        return self.destination_is_compacted and self.source_keeps_all_keys and not self.asks_for_compaction

    @property
    def is_to_be_made(self) -> bool:
        """True where the destination partition is not there yet, or will be empty: the copy begins at 0."""
        if self.creation is not None:
            return True
        return self.growth is not None and self.source.partition >= self.growth.partitions_before

    @property
    def destination_partition(self) -> TopicPartition:
        """The destination topic with the source's partition number; mapped ones wrap where there are fewer."""
        number = self.source.partition
        if self.is_mapped and self.destination_partitions:
            number %= self.destination_partitions
        return TopicPartition(self.destination_topic, number)

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
        return f"{self.mirror.name}.{self.map_shard if self.is_mapped else shard_of(self.source)}"

    @property
    def transactional_id(self) -> str:
        """The writer identity of the shard at a Kafka destination with equal offsets."""
        return transactional_id_of(self.mirror.name, shard_of(self.source))


def is_compacted(configs: Mapping[str, str | None]) -> bool:
    """Tells whether a topic of these settings is cleaned by key, alone or beside its retention."""
    return "compact" in (configs.get("cleanup.policy") or "")


def is_deleting(configs: Mapping[str, str | None]) -> bool:
    """Tells whether a topic of these settings is cleaned by age or size, alone or beside its compaction.

    One whose policy is not known is taken to be; one whose policy is empty keeps everything (from Kafka 4.2 on).
    """
    policy = configs.get("cleanup.policy")
    return policy is None or "delete" in policy


def limit_of(configs: Mapping[str, str | None], key: str) -> int | None:
    """Returns a setting that limits something; None where it is not set, or says that there is no limit."""
    value = int(configs.get(key) or NO_LIMIT)
    return None if value in (NO_LIMIT, TIME_LIMIT_MAX) else value


def transactional_id_of(mirror: str, shard: int) -> str:
    """Returns the writer identity of one of a mirror's shards, ``0`` to ``SHARDS_PER_MIRROR`` exclusive."""
    return f"mirrorlake.{mirror}.{shard}"


def shard_of(partition: TopicPartition, shards: int = SHARDS_PER_MIRROR) -> int:
    """Returns the shard of a source partition: neighbours fall into different shards, the same one always into one."""
    return (zlib.crc32(partition.topic.encode()) + partition.partition) % shards
