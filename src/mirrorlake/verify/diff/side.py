"""One partition of the two sides that are compared."""

from dataclasses import dataclass, replace

from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.sources.source import SourceWork
from mirrorlake.verify.worker import SourceSide


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A topic or folder of one side, and what people call it."""

    work: SourceWork
    topic: str

    @property
    def label(self) -> str:
        """Store or cluster, and the topic."""
        return f"{self.work.name}:{self.topic}"

    def side(self, partition: int) -> SourceSide:
        """Returns one of its partitions, to be read."""
        return SourceSide(source_work=self.work, partition=TopicPartition(self.topic, partition))


def alone(side: SourceSide) -> SourceSide:
    """Returns the side as a task is told it: of an archive without the names of all other topics, which may be many."""
    work = side.source_work
    if not isinstance(work, ArchiveSourceWork):
        return side
    topic = side.partition.topic
    return replace(side, source_work=replace(work, folders={topic: work.folders.get(topic, topic)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A partition of A, and the one of B that it is compared with."""

    a: Place
    b: Place
    partition: int

    @property
    def sides(self) -> tuple[SourceSide, SourceSide]:
        """Both, to be read."""
        return self.a.side(self.partition), self.b.side(self.partition)

    def __str__(self) -> str:
        return f"{self.a.label}-{self.partition} and {self.b.label}-{self.partition}"
