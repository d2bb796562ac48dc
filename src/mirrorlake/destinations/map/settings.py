"""What a sink with ``offsets: map`` is told, and the steps between which its shard may die."""

from dataclasses import dataclass, field
from enum import StrEnum

from mirrorlake.destinations.filtering import PartitionBranch, PartitionFilter, PartitionProjection
from mirrorlake.destinations.letters.dead_letters import LetterOrigin
from mirrorlake.destinations.letters.topics import letters_topic
from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.provenance import Provenance
from mirrorlake.destinations.transform import Transform, transform_of
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.offsets import StartKind, TopicPartition
from mirrorlake.travelling import travelling


class Step(StrEnum):
    """The steps between which a writer may die; the crash point is called with the next one before it happens."""

    FENCE = "fence"
    READ_PROGRESS = "read progress"
    ADD_PARTITIONS = "add partitions"
    SEND_BATCH = "send batch in transaction"
    TAKE_ANSWER = "take answer in transaction"
    SEND_LETTERS = "send dead letters"
    SEND_PROGRESS = "send progress"
    COMMIT = "commit"
    TAKE_COMMIT = "take commit"
    LOOK_CLOSED = "look closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStart:
    """Where a partition begins that has no progress yet.

    ``timestamp_ms`` is set for ``TIMESTAMP`` only, ``offset`` for ``OFFSETS`` only; None there stands for the log
    start. ``max_age_seconds`` is set for ``MAX_AGE`` only.
    """

    kind: StartKind = StartKind.EARLIEST
    timestamp_ms: int | None = None
    max_age_seconds: float | None = None
    offset: int | None = None


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class MapSettings:
    """One partition of one mirror, and where it goes.

    ``destination`` is where a partition without progress goes; one that has progress stays where it began.
    ``topics`` and ``shard`` say where its progress is. ``transactional_id`` is the shard's for this mode.
    ``source_cluster_id`` and ``source_topic_id`` are those its progress must name; empty where the source knows none.
    ``batch_bytes_max`` is the destination topic's ``max.message.bytes``.

    ``skips_truncated`` allows to go on at the source's log start where it has moved past the position.
    ``restarts_recreated`` allows to begin anew where the source topic was recreated; what was copied of the one
    before stays where it is. ``copies_lost_again`` allows to copy once more what the destination has lost.
    ``own_producer_ids`` are those the shard wrote under, as far as they are remembered, ``other_shards_ids`` those of
    the mirror's other mapped shards: they may write to the same destination partition from other sources.
    ``keeps_log_append_time`` False where the destination's brokers stamp their own time, or, with ``stamps_times``, the
    copy does. ``source_is_compacted`` says that the source topic may lose records to its cleaner.
    ``keeps_compression`` is True where the destination's brokers are known to store batches as they come: one that they
    compress anew may grow above what they take.
    ``schema_ids`` says where records have schema ids that change, and holds no pair: a lease is told those. None where
    they keep theirs.
    ``keeps`` is what of the source's records is copied, ``takes`` what a route gives to this topic, both None for all,
    and ``projects`` what they become.
    ``stamps_provenance`` gives each headers that say where it came from.
    ``letters_template`` names the topics that dead letters go to, by ``{topic}``; empty where there are none.
    """

    source: TopicPartition
    destination: TopicPartition
    topics: ProgressTopics
    shard: int
    transactional_id: str
    source_cluster_id: str
    source_topic_id: str
    batch_bytes_max: int
    start: MapStart = field(default_factory=MapStart)
    skips_truncated: bool = False
    restarts_recreated: bool = False
    copies_lost_again: bool = False
    own_producer_ids: frozenset[int] = frozenset()
    other_shards_ids: frozenset[int] = frozenset()
    keeps_log_append_time: bool = True
    stamps_times: bool = False
    keeps_compression: bool = False
    schema_ids: SchemaIdMap | None = None
    source_is_compacted: bool = False
    keeps: PartitionFilter | None = None
    takes: PartitionBranch | None = None
    projects: PartitionProjection | None = None
    letters_template: str = ""
    stamps_provenance: bool = False

    @property
    def letters_topic(self) -> str:
        """Where dead letters go; empty where there are none."""
        return letters_topic(self.letters_template, self.source.topic)

    @property
    def letters_origin(self) -> LetterOrigin:
        """What dead letters say of where they come from, but for their offset."""
        return LetterOrigin.anywhere_in(
            self.source,
            cluster_id=self.source_cluster_id,
            topic_id=self.source_topic_id,
            mirror=self.topics.mirror,
            destination_topic=self.destination.topic,
        )

    @property
    def transform(self) -> Transform:
        """What the copy changes of records."""
        return transform_of(
            keeps_log_append_time=self.keeps_log_append_time,
            stamps_times=self.stamps_times,
            schema_ids=self.schema_ids,
            keeps=self.keeps,
            takes=self.takes,
            projects=self.projects,
            provenance=Provenance(
                cluster_id=self.source_cluster_id, topic=self.source.topic, partition=self.source.partition
            ),
            stamps_provenance=self.stamps_provenance,
        )

    @property
    def keeps_source_time(self) -> bool | None:
        """What the answers to appends must tell of the topic's clock, see `record_clock.is_expected`."""
        return None if self.stamps_times else self.keeps_log_append_time


def map_transactional_id(mirror: str, shard: int) -> str:
    """Returns the transactional id of a shard's transactions.

    No other id of a mirror can be equal: a shard's for equal offsets ends in a number, the owner's in ``.owner``.
    """
    return f"mirrorlake.{mirror}.{shard}.map"
