"""A Kafka cluster as destination of a mirror."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from mirrorlake.config.destinations.groups import GroupSettings
from mirrorlake.config.problems import Place
from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.topics.policy import AS_THE_SOURCE, USUAL_SYNC, CountRule, SyncMode, TopicSync
from mirrorlake.filters.branch import Branch
from mirrorlake.offsets import GAP_FILL_OFFSETS_MAX, GapFill


class OffsetMode(StrEnum):
    """How offsets at a Kafka destination relate to those of the source."""

    PRESERVE = "preserve"
    MAP = "map"


class TimestampMode(StrEnum):
    """Whose timestamp a record carries at a Kafka destination."""

    SOURCE = "source"
    DESTINATION = "destination"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaDestination:
    """A Kafka cluster as destination. ``label`` is unique within its mirror.

    ``replication_rule`` None leaves it to the destination cluster; ``topic_template`` has no
    placeholder but ``{topic}`` left. ``gap_fill_offsets_max`` bounds what is filled for one log start. Without
    ``groups`` a run takes no consumer groups along. With ``stamps_provenance`` records get headers that say where they
    came from, which only mapped offsets allow. With a ``branch`` it is one topic of a route, and takes what that gives
    it.
    """

    label: str
    cluster: Cluster
    topic_template: str = "{topic}"
    offsets: OffsetMode = OffsetMode.PRESERVE
    gap_fill: GapFill = GapFill.MARKERS
    gap_fill_offsets_max: int = GAP_FILL_OFFSETS_MAX
    timestamp_mode: TimestampMode = TimestampMode.SOURCE
    creates_topics: bool = True
    partition_rule: CountRule = AS_THE_SOURCE
    replication_rule: CountRule | None = None
    sync: TopicSync = USUAL_SYNC
    groups: GroupSettings | None = None
    stamps_provenance: bool = False
    branch: Branch | None = None
    place: Place = field(compare=False)

    @property
    def partition_sync(self) -> SyncMode:
        """What is done about partitions that a destination topic lacks."""
        if self.sync.partitions is not None:
            return self.sync.partitions
        is_grown = self.creates_topics and self.offsets is OffsetMode.PRESERVE
        return SyncMode.APPLY if is_grown else SyncMode.REPORT

    @property
    def type_name(self) -> str:
        """Returns the type as users name it."""
        return "kafka"

    def name_for(self, topic: str) -> str:
        """Returns the destination topic of a source topic."""
        return self.topic_template.replace("{topic}", topic)

    def of_route(self, branch: Branch, place: Place) -> "KafkaDestination":
        """Returns what it is for one topic of a route, which stands at ``place``; its label has that one's name.

        Also where there is but one: the next must not give it another name.
        """
        return replace(
            self, label=f"{self.label}/{branch.topic}", topic_template=branch.topic, branch=branch, place=place
        )
