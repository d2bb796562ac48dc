"""What every format of segments offers to those who write one and those who read one."""

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.name_check import Edge
from mirrorlake.archive.gaps import NOTHING_FILTERED, FilteredGaps
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import Gap, OffsetRange


class SegmentReader(Protocol):
    """Reads one segment. Close it, or use it as a context manager."""

    @property
    def footer(self) -> SegmentFooter | None:
        """What the segment says about itself; None where mirror-v3 wrote it, or its description has been lost."""
        ...

    def __enter__(self) -> Self:
        """Returns itself."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        ...

    def close(self) -> None:
        """Closes the file."""
        ...

    def records(self, *, within: OffsetRange | None = None) -> Iterator[RecordColumns]:
        """Yields the records in offset order, in pieces of bounded size.

        Args:
            within: leaves out records outside.

        Raises:
            ChainBrokenError: damaged, or offsets that do not grow or lie outside the segment's range.
        """
        ...

    def edges(self) -> tuple[Edge, ...]:
        """Returns the first and the last record as they lie in the file; nothing without records.

        Reads no more than it must: neither keys nor values of Parquet, of NDJSON only these two lines.

        Raises:
            ChainBrokenError: damaged.
        """
        ...

    def sources(self) -> set[tuple[str, int]]:
        """Returns the topics and partitions that the records name; none in a format whose records name none.

        Raises:
            ChainBrokenError: damaged.
        """
        ...

    def check_bytes(self) -> None:
        """Compares all bytes with what the segment says of them; nothing where it says nothing.

        Nothing either where each block is compared when it is read.

        Raises:
            ChainBrokenError: damaged, or they differ.
        """
        ...

    def check_content(self, *, each: Callable[[RecordColumns], None] | None = None) -> None:
        """Reads everything and compares it with what the segment says about itself.

        Args:
            each: called with the records on the way, piece by piece; of a log, whose records are not decoded for it,
                never.

        Raises:
            ChainBrokenError: damaged, or it differs.
        """
        ...


class SegmentWriter(Protocol):
    """Writes one segment: its content in offset order, then ``close`` once."""

    @property
    def records(self) -> int:
        """Records taken so far."""
        ...

    @property
    def raw_bytes(self) -> int:
        """Bytes taken so far, as ``flush.max-bytes`` counts them for this format."""
        ...

    def close(
        self,
        *,
        end_offset: int,
        gaps: Sequence[Gap] = (),
        leader_epoch: int | None = None,
        filtered: FilteredGaps = NOTHING_FILTERED,
        schema_ids: SchemaIdCounts | None = None,
    ) -> SegmentFooter:
        """Writes what is left and returns what the segment says about itself.

        Args:
            end_offset: where the range ends, exclusive.
            gaps: gaps that are neither ``absent`` nor ``filtered``, in offset order; others are found from the offsets.
            leader_epoch: the source's latest of what was read; None where it is not known.
            filtered: what a filter left out.
            schema_ids: what its records have where a schema is named; None where it was not counted.

        Raises:
            ValueError: a record past the end, or in one of the gaps; the file is nothing then.
        """
        ...

    def abandon(self) -> None:
        """Writes nothing more; what was written is nothing. Without effect after ``close``."""
        ...


class RecordWriter(SegmentWriter, Protocol):
    """Writes a segment of decoded records."""

    def write(self, records: RecordColumns) -> None:
        """Takes the next records.

        Raises:
            ValueError: offsets that do not follow those before; nothing of ``records`` is taken.
            StoreUnavailableError, StoreUnusableError: the file's; the segment is lost.
        """
        ...
