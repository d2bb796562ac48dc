"""What the driver asks of a source: what topics it has, and about many partitions at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.descriptions import ConfigValue
from mirrorlake.offsets import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    """One topic of a source.

    ``topic_id`` is another one after the topic was recreated; empty where the source gives none. ``is_internal`` says
    that brokers keep their own state in it. ``partitions`` are their numbers: of an archive some may be left out.
    ``replicas`` is the most that a partition has; None where the source has none, as an archive.
    """

    name: str
    topic_id: str
    is_internal: bool
    partitions: frozenset[int]
    replicas: int | None = None

    @property
    def partition_count(self) -> int:
        """How many partitions a topic needs to have all of these."""
        return max(self.partitions, default=-1) + 1


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
    """Where a log begins, and up to where (exclusive) everything in it is decided.

    ``holes`` are offsets between that nobody can be given now, and that are waited for. ``limit`` is where whoever asks
    reads no further (exclusive) whatever else is there, None where no such end is known. See `seen_from` for both.
    """

    start: int
    end: int
    holes: tuple[OffsetRange, ...] = ()
    limit: int | None = None

    def has_ended(self, position: int | None) -> bool:
        """Tells whether a copy at a position has all it is to have."""
        return self.limit is not None and position is not None and position >= self.limit


def seen_from(bounds: "Bounds | tuple[int, int]", position: int | None) -> tuple[int, int]:
    """Returns where a log begins and ends for a copy at a position: a hole before it is its end, one below it is not.

    A limit is its end too. A copy that stands there or behind it needs nothing more: for it the log ends where it
    stands, unless that is past the log's own end, and what was deleted below it is not missed.
    A copy whose position is not known is one that begins.
    """
    start, end = bounds[0], bounds[1]
    at = start if position is None else position
    if not isinstance(bounds, Bounds):
        return start, end
    for hole in bounds.holes:
        if hole.end_offset > at:
            end = min(end, max(at, hole.start_offset))
            break
    if bounds.limit is not None:
        start = min(start, at) if at >= bounds.limit else start
        end = min(end, max(at, bounds.limit))
    return start, end


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFacts:
    """What the batch at an offset says of itself; ``oldest_ms`` is its first record's time, None where not known."""

    oldest_ms: int | None
    is_transactional: bool


def concerns(missing: MirrorlakeError, position: int | None, source_end: int | None) -> bool:
    """Tells whether what a source says is missing keeps a copy up.

    Who stands behind it is kept up where the source ends before it, and so below the copy.

    Args:
        missing: what the source says.
        position: of the copy, None where it is not known.
        source_end: where the source ends for who stands there, None where it is not known.
    """
    end = missing.facts.get("end_offset")
    if position is None or not isinstance(end, int) or position < end:
        return True
    return source_end is not None and source_end < position


class SourceClient(Protocol):
    """A source, asked about many partitions at a time; every question is asked anew, and nothing is changed.

    What can be said of one partition and not of another is said by partition. A source that cannot be asked at all
    raises a ``MirrorlakeError``.
    """

    @property
    def connections_made(self) -> int:
        """How often the source was connected to anew. While it stays the same the source was there all the time.

        Where it grows, what answers may have been put back from a backup meanwhile, with the identity it had.
        """
        ...

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

    async def stored_bytes(self, partition: TopicPartition, offsets: OffsetRange) -> int | None:
        """Returns how large the files are that hold a range of offsets; None where the source keeps no files.

        Raises:
            MirrorlakeError: it could not be read.
        """
        ...

    async def missing(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, MirrorlakeError]:
        """Returns by partition why what lies behind its end cannot be read although it was there once.

        Partitions of which nothing is known to be missing are left out. Where the source goes on behind what is
        missing, who stands behind it too is not kept up by it: see `concerns`.
        """
        ...

    async def try_reading(self, partition: TopicPartition, end: int) -> MirrorlakeError | None:
        """Returns why this user cannot read a partition that ended at ``end`` a moment ago; None where it can."""
        ...
