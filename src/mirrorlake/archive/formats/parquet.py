"""Writing a segment as Parquet: streaming, within a bounded memory."""

from collections.abc import Sequence
from typing import BinaryIO

from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter
from mirrorlake.archive.formats.parquet_rows import ParquetRows
from mirrorlake.archive.gaps import NOTHING_FILTERED, FilteredGaps, GapFinder
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import Gap
from mirrorlake.page_compression import Compression


class ParquetSegmentWriter:
    """Writes the records of one range into one file.

    Use: ``write`` in offset order, ``close`` once. The file is not closed, and is nothing before ``close`` is
    done. Holds at most one row group of records, and its columns compressed.

    Args:
        file: takes the bytes in order; need not seek.
        envelope: whose records these are.
        compression: of the pages.
    """

    def __init__(
        self,
        file: BinaryIO,
        envelope: SegmentEnvelope,
        *,
        compression: Compression = Compression.ZSTD_1,
    ) -> None:
        self._envelope = envelope
        self._gaps = GapFinder(envelope.start_offset)
        self._rows = ParquetRows(file, envelope.topic, envelope.partition, compression=compression)

    @property
    def records(self) -> int:
        """Records taken so far."""
        return self._rows.records

    @property
    def raw_bytes(self) -> int:
        """Bytes of keys, values and headers taken so far."""
        return self._rows.raw_bytes

    def write(self, records: RecordColumns) -> None:
        """Takes the next records; whole row groups go to the file.

        Raises:
            ValueError: offsets that do not follow those before; nothing of ``records`` is taken.
            StoreUnavailableError, StoreUnusableError: the file's; the segment is lost.
        """
        self._gaps.follow(records.offsets)
        self._rows.write(records)

    def close(
        self,
        *,
        end_offset: int,
        gaps: Sequence[Gap] = (),
        leader_epoch: int | None = None,
        filtered: FilteredGaps = NOTHING_FILTERED,
        schema_ids: SchemaIdCounts | None = None,
    ) -> SegmentFooter:
        """Writes what is left and the footer, and returns it.

        Args:
            end_offset: where the range ends, exclusive.
            gaps: gaps that are neither ``absent`` nor ``filtered``, in offset order; others are found from the offsets.
            leader_epoch: the source's latest of what was read; None where it is not known.
            filtered: what a filter left out.
            schema_ids: what its records have where a schema is named; None where it was not counted.

        Raises:
            ValueError: a record past the end, or in one of the gaps; the file is nothing then.
        """
        report = self._gaps.finish(end_offset, gaps, filtered)
        return self._rows.close(
            self._envelope, end_offset=end_offset, gaps=report, leader_epoch=leader_epoch, schema_ids=schema_ids
        )

    def abandon(self) -> None:
        """Writes nothing more; what was written is nothing. Without effect after ``close``."""
        self._rows.abandon()
