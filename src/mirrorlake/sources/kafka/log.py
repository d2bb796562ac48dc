"""A partition of a source cluster, as its destinations may ask of it."""

from collections.abc import AsyncIterator

from mirrorlake.destinations.tail import Tail, read_tail
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.kafka.control.range_reader import first_at, read_range
from mirrorlake.kafka.records.codec import RecordColumns
from mirrorlake.kafka.schema_ids.counting import all_counts
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.client import seen_from
from mirrorlake.sources.kafka.client import KafkaSourceClient
from mirrorlake.sources.kafka.window_ends import WindowEnds


class KafkaSourceLog:
    """Asks the leader of one partition.

    Args:
        partition: which one.
        client: of the source cluster.
        ends: where the partition ends for whoever asks; None where it does not.
    """

    def __init__(self, partition: TopicPartition, client: ClusterClient, ends: WindowEnds | None = None) -> None:
        self._partition = partition
        self._client = client
        self._ends = ends

    @property
    def partition(self) -> TopicPartition:
        """Which one."""
        return self._partition

    async def start(self) -> int:
        """Returns the log start offset."""
        return await self._client.offset_at(self._partition, EARLIEST)

    async def end(self) -> int:
        """Returns the last stable offset, or where the partition ends by a window."""
        if self._ends is None:
            return await self._client.offset_at(self._partition, LATEST)
        found = (await KafkaSourceClient(self._client, self._ends).bounds([self._partition]))[self._partition]
        if isinstance(found, MirrorlakeError):
            raise found
        return seen_from(found, None)[1]

    async def written_end(self) -> int | None:
        """Returns the leader's own end.

        After an election the others may lag for a moment, a truncated log never gets it back.
        """
        end = (await self._client.log_ends([self._partition]))[self._partition]
        return end.end_offset if isinstance(end, LogEnd) else None

    async def offset_at(self, timestamp_ms: int) -> int | None:
        """Returns the offset of the first record of that time or later, None where there is none."""
        found = (await first_at(self._client, [self._partition], timestamp_ms))[self._partition]
        if isinstance(found, MirrorlakeError):
            raise found
        return found

    async def read_tail(self, offsets: OffsetRange) -> Tail:
        """Returns what lies at offsets below the end."""
        return await read_tail(self._client, self._partition, offsets, whose="source")

    def read_range(
        self, offsets: OffsetRange, *, cleaned: list[OffsetRange] | None = None
    ) -> AsyncIterator[RecordColumns]:
        """Yields the records of a range in order, in parts of bounded memory; see `SourceLog.read_range`."""
        return read_range(self._client, self._partition, offsets, cleaned=cleaned)

    async def schema_ids(self, offsets: OffsetRange, sides: int) -> AsyncIterator[SchemaIdCounts]:
        """Yields what the records of a range have where a schema is named: all of them are read."""
        async for records in self.read_range(offsets):
            yield all_counts(records, sides)
