"""What a copy that keeps offsets is told of its dead letters, and the steps between which their writer may die."""

from dataclasses import dataclass
from enum import StrEnum

from mirrorlake.destinations.letters.dead_letters import LetterOrigin
from mirrorlake.destinations.letters.progress import LetterKey
from mirrorlake.destinations.letters.topics import letters_topic
from mirrorlake.offsets import TopicPartition
from mirrorlake.own_topics import LETTER_PROGRESS_PREFIX


class LetterStep(StrEnum):
    """The steps between which a writer may die; the crash point is called with the next one before it happens."""

    READ_PROGRESS = "read letter progress"
    ADD_PARTITIONS = "add partitions of letters"
    SEND_LETTERS = "send letters"
    SEND_PROGRESS = "send letter progress"
    COMMIT = "commit letters"
    LOOK_CLOSED = "look letters closed"
    TAKE_COMMIT = "take commit of letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSettings:
    """Where dead letters of one source partition go, and where it is kept which there are.

    ``template`` names their topics by ``{topic}``, empty where none are written, or none any more: what is known of
    letters written before still says where the copy has no record. ``shard`` is the partition of the mirror's letter
    progress, of ``shards``. ``cluster_id`` and ``topic_id`` are the source's, empty where it knows none.
    """

    mirror: str
    template: str
    shard: int
    shards: int
    source: TopicPartition
    destination_topic: str
    cluster_id: str = ""
    topic_id: str = ""

    @property
    def topic(self) -> str:
        """Where dead letters go; empty where none are written."""
        return letters_topic(self.template, self.source.topic)

    @property
    def progress_partition(self) -> TopicPartition:
        """Where the letter progress of the shard is."""
        return TopicPartition(letter_progress_topic(self.mirror), self.shard)

    @property
    def origin(self) -> LetterOrigin:
        """What dead letters say of where they come from, but for their offset."""
        return LetterOrigin.anywhere_in(
            self.source,
            cluster_id=self.cluster_id,
            topic_id=self.topic_id,
            mirror=self.mirror,
            destination_topic=self.destination_topic,
        )

    def key(self, destination_topic_id: str) -> LetterKey:
        """Returns the key of the partition's letter progress, its copy being in a topic of that id."""
        return LetterKey(
            destination_topic=self.destination_topic,
            destination_topic_id=destination_topic_id,
            source_cluster_id=self.cluster_id,
            source_topic=self.source.topic,
            source_topic_id=self.topic_id,
            partition=self.source.partition,
        )


def letter_progress_topic(mirror: str) -> str:
    """Returns the topic of a mirror's letter progress."""
    return f"{LETTER_PROGRESS_PREFIX}{mirror}"
