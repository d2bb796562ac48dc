"""What the driver asks of a source: what topics it has, and about many partitions at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.descriptions import ConfigValue
from mirrorlake.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    """One topic of a source.

    ``topic_id`` is another one after the topic was recreated; empty where the source gives none. ``is_internal`` says
    that brokers keep their own state in it. ``partitions`` are their numbers.
    """

    name: str
    topic_id: str
    is_internal: bool
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopics:
    """A source and its topics at one moment.

    ``source_id`` is the id of the cluster whose records these are, empty where it does not say. Topics that do not
    exist are absent; ``errors`` are of topics that were asked for and refused for another reason.
    """

    source_id: str
    topics: Mapping[str, SourceTopic]
    errors: Mapping[str, MirrorlakeError] = field(default_factory=dict)


class Bounds(NamedTuple):
    """Where a log begins, and up to where (exclusive) everything in it is decided."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """What the batch at an offset says of itself; ``oldest_ms`` is its first record's time, None where not known."""

    oldest_ms: int | None
    is_transactional: bool


class SourceClient(Protocol):
    """A source, asked about many partitions at a time; every question is asked anew, and nothing is changed.

    What can be said of one partition and not of another is said by partition. A source that cannot be asked at all
    raises a ``MirrorlakeError``.
    """

    async def topics(self, names: Sequence[str] | None) -> SourceTopics:
        """Returns the topics of these names, all topics for None."""
        ...

    async def topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, ConfigValue]]:
        """Returns the configurations of topics by name, defaults included.

        Raises:
            MirrorlakeError: one of them could not be read.
        """
        ...

    async def owner_states(self) -> Mapping[str, OwnerState]:
        """Returns the state records kept beside the topics, by mirror: they say which topics are copies, and of what.

        Empty where nobody copies to such a source.
        """
        ...

    async def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds | MirrorlakeError]:
        """Returns the bounds of each partition."""
        ...

    async def written_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Returns where all that is written ends, decided or not; partitions that cannot tell are left out."""
        ...

    async def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> Mapping[TopicPartition, int | MirrorlakeError | None]:
        """Returns the first offset where something of that time or later lies, None where there is none.

        Args:
            partitions: about which.
            timestamp_ms: Unix milliseconds.
        """
        ...

    async def batch_at(self, partition: TopicPartition, offset: int) -> BatchFacts | None:
        """Returns what the batch says that holds an offset, or is the first behind it; None where there is none.

        Raises:
            MirrorlakeError: it could not be read.
        """
        ...

    async def try_reading(self, partition: TopicPartition, end: int) -> MirrorlakeError | None:
        """Returns why this user cannot read a partition that ended at ``end`` a moment ago; None where it can."""
        ...
