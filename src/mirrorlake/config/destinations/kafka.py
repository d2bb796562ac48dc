"""A Kafka cluster as destination of a mirror."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from mirrorlake.config.destinations.destination import Destination, Flaw
from mirrorlake.config.destinations.groups import GroupSettings
from mirrorlake.config.problems import Place
from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.topics.policy import AS_THE_SOURCE, USUAL_SYNC, CountRule, SyncMode, TopicSync
from mirrorlake.config.values.names import topic_flaw
from mirrorlake.filters.branch import Branch
from mirrorlake.offsets import GAP_FILL_OFFSETS_MAX, GapFill, StartKind


class OffsetMode(StrEnum):
    """How offsets at a Kafka destination relate to those of the source."""

    PRESERVE = "preserve"
    MAP = "map"


class TimestampMode(StrEnum):
    """Whose timestamp a record carries at a Kafka destination."""

    SOURCE = "source"
    DESTINATION = "destination"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaDestination(Destination):
    """A Kafka cluster as destination.

    ``replication_rule`` None leaves it to the destination cluster; ``topic_template`` has no
    placeholder but ``{topic}`` left. ``gap_fill_offsets_max`` bounds what is filled for one log start. Without
    ``groups`` a run takes no consumer groups along. With ``stamps_provenance`` records get headers that say where they
    came from, which only mapped offsets allow.
    """

    type_in_file: ClassVar[str] = "kafka"
    is_topic: ClassVar[bool] = True

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

    @property
    def noun(self) -> str:
        """Returns what a name is there."""
        return "topic"

    @property
    def partition_sync(self) -> SyncMode:
        """What is done about partitions that a destination topic lacks."""
        if self.sync.partitions is not None:
            return self.sync.partitions
        is_grown = self.creates_topics and self.offsets is OffsetMode.PRESERVE
        return SyncMode.APPLY if is_grown else SyncMode.REPORT

    @property
    def is_mapped(self) -> bool:
        """True with ``offsets: map``."""
        return self.offsets is OffsetMode.MAP

    def name_for(self, topic: str) -> str:
        """Returns the destination topic of a source topic."""
        return self.topic_template.replace("{topic}", topic)

    def place_of(self, name: str) -> str:
        """Returns the topic's name, whatever cluster it is of."""
        return name

    def where(self, name: str) -> str:
        """Returns topic and cluster."""
        return f"topic {name} of cluster {self.cluster.name}"

    def name_flaw(self, name: str) -> str:
        """Returns why no topic can have the name."""
        return topic_flaw(name)

    def start_flaw(self, start: StartKind) -> Flaw | None:
        """Returns why equal offsets begin at the source's first one."""
        message = f"`start: {start}` needs `offsets: map`, which {self.label} has not"
        hint = "use `start: earliest`, or a mirror of its own for this one"
        return None if self.is_mapped else Flaw(message=message, hint=hint)

    def filter_flaw(self) -> Flaw | None:
        """Returns why equal offsets need every record."""
        message = f"a filter leaves offsets out, and {self.label} keeps those of the source"
        hint = "use `offsets: map` there, or a mirror of its own without a filter"
        return None if self.is_mapped else Flaw(message=message, hint=hint)

    def select_flaw(self) -> Flaw | None:
        """Returns why equal offsets need equal records."""
        message = f"`select` changes records, and with `offsets: preserve` {self.label} has the source's"
        hint = "use `offsets: map` there, or a mirror of its own without `select`"
        return None if self.is_mapped else Flaw(message=message, hint=hint)

    def restart_flaw(self) -> Flaw | None:
        """Returns that a topic cannot be made anew where none may be made."""
        message = f"`on-recreate: restart` makes topics, and {self.label} says `create-topics: false`"
        hint = "use `on-recreate: park`, or allow it to create topics"
        return None if self.creates_topics or self.is_mapped else Flaw(message=message, hint=hint)

    def of_route(self, branch: Branch, place: Place) -> "KafkaDestination":
        """Returns what it is for one topic of a route, which stands at ``place``; its label has that one's name.

        Also where there is but one: the next must not give it another name.
        """
        return replace(
            self, label=f"{self.label}/{branch.topic}", topic_template=branch.topic, branch=branch, place=place
        )
