"""One partition of an archive, open for one lease."""

from collections.abc import Iterable

from mirrorlake.destinations.connections import LeaseConnections
from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.archive.archive import Found, OpenArchive
from mirrorlake.sources.archive.reader import ArchiveReader
from mirrorlake.sources.archive.reads import ArchiveReads
from mirrorlake.sources.mark import SourceMark
from mirrorlake.sources.source import SourceContext

DRAIN_SECONDS = 0.4
"""Before a lease's hard end: what was read then is still handed over."""


class ArchivePartition:
    """One partition of an archive.

    Args:
        source: the partition.
        topic_id: the id its topic must have; empty where the archive gives none.
        archive: open for the lease.
        reads: the lease's from it.
        context: what the lease has.
    """

    def __init__(
        self,
        source: TopicPartition,
        topic_id: str,
        *,
        archive: OpenArchive,
        reads: ArchiveReads,
        context: SourceContext,
    ) -> None:
        self._source = source
        self._topic_id = topic_id
        self._archive = archive
        self._reads = reads
        self._context = context

    async def find(self) -> None:
        """Looks that the partition is there and of the topic that is meant; see `SourcePartition.find`."""
        await self._look()

    async def look_at_marks(self, marks: Iterable[SourceMark]) -> None:
        """An archive leaves no marks."""

    def divergence(self, mark: SourceMark, position: int, *, destination: str) -> MirrorlakeError | None:
        """Returns None: segments never change, and whose they are is looked at."""
        del mark, position, destination
        return None

    async def reader(self, *, is_live: bool) -> ArchiveReader:
        """Returns a reader that was not begun yet."""
        await self._look()
        connections: LeaseConnections = self._context.connections
        time = self._context.time
        reader = ArchiveReader(
            self._source,
            self._archive.work,
            topic_id=self._topic_id,
            look=self._look,
            reads=self._reads,
            threads=connections.store_threads,
            clock=self._context.clock,
            until=lambda: time.live_until if is_live else time.hard_until - DRAIN_SECONDS,
            is_live=is_live,
        )
        self._reads.readers.append(reader)
        return reader

    async def _look(self, is_whole: bool = False) -> Found:
        return await self._archive.find(self._source, topic_id=self._topic_id, is_whole=is_whole)
