"""What a destination may ask of the source partition it is copied from, whatever kind of source that is."""

from collections.abc import AsyncIterator
from typing import Protocol

from mirrorlake.destinations.tail import Tail
from mirrorlake.kafka.records.codec import RecordColumns
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import OffsetRange, TopicPartition


class SourceLog(Protocol):
    """One source partition: its bounds, and its records below a position. Every question is asked anew.

    All of them raise a ``MirrorlakeError`` where the source cannot be asked; nothing follows from that.
    """

    @property
    def partition(self) -> TopicPartition:
        """Which one."""
        ...

    async def start(self) -> int:
        """Returns the first offset the log may hold a record at: it has deleted all below."""
        ...

    async def end(self) -> int:
        """Returns the offset (exclusive) up to which everything is decided: no open transaction reaches below it."""
        ...

    async def written_end(self) -> int | None:
        """Returns the end of all that is written, decided or not; None where that cannot be told at the moment.

        A log that ends below what was once read of it has lost records.
        """
        ...

    async def offset_at(self, timestamp_ms: int) -> int | None:
        """Returns the first offset where something of that time or later lies, None where there is none.

        A marker of a transaction has a time too, that of its writing.

        Args:
            timestamp_ms: Unix milliseconds.
        """
        ...

    async def read_tail(self, offsets: OffsetRange) -> Tail:
        """Returns what lies at offsets below the end, as a consumer of committed records sees it.

        Raises:
            BrokerNotReadyError: the source does not show all of it yet.
        """
        ...

    def read_range(
        self, offsets: OffsetRange, *, cleaned: list[OffsetRange] | None = None
    ) -> AsyncIterator[RecordColumns]:
        """Yields the records of a range in order, in parts of bounded memory; every offset was read when it ends.

        Args:
            offsets: the range.
            cleaned: where the log shows that a cleaner has taken records is added to it, ascending; what shows nothing
                of that adds nothing.

        Raises:
            SourceTruncatedError: the log starts past the range's start, or ends before its end.
            BrokerNotReadyError: the range is there, and still nothing came.
        """
        ...

    def schema_ids(self, offsets: OffsetRange, sides: int) -> AsyncIterator[SchemaIdCounts]:
        """Yields, part by part of a range, what its records have where a schema is named.

        Args:
            offsets: the range.
            sides: bit 0 for keys, bit 1 for values: what is counted, and of which alone is told.

        Raises:
            SourceTruncatedError, BrokerNotReadyError: as ``read_range``.
        """
        ...
