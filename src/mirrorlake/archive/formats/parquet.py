"""Writing a segment as Parquet: streaming, row group by row group, within a bounded memory."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.archive.checksum import ContentChecksum
from mirrorlake.archive.envelope import METADATA_KEY, SegmentEnvelope, SegmentFooter, encode_footer
from mirrorlake.archive.formats.parquet_schema import (
    ARROW_METADATA,
    NO_TIMESTAMP,
    WRITTEN_SCHEMA,
    ColumnBuilder,
)
from mirrorlake.archive.gaps import GapFinder
from mirrorlake.kafka.columns import RecordColumns
from mirrorlake.offsets import Gap
from mirrorlake.page_compression import Compression

ROW_GROUP_BYTES_MAX = 16 << 20
"""Record bytes, and 32 for every record, in a row group: what a writer or reader holds in memory at a time."""

ROW_BYTES = 32
"""What a record weighs in a row group beside its bytes, so that empty records fill one too."""


_CODECS: dict[Compression, tuple[str, int | None]] = {
    Compression.ZSTD_1: ("zstd", 1),
    Compression.ZSTD_3: ("zstd", 3),
    Compression.SNAPPY: ("snappy", None),
    Compression.LZ4: ("lz4", None),
    Compression.UNCOMPRESSED: ("none", None),
}


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
        self.records = 0
        self.raw_bytes = 0
        self._envelope = envelope
        self._builder = ColumnBuilder(envelope.topic, envelope.partition)
        self._checksum = ContentChecksum()
        self._gaps = GapFinder(envelope.start_offset)
        self._first_offset: int | None = None
        self._last_offset: int | None = None
        self._timestamp_ms_min: int | None = None
        self._timestamp_ms_max: int | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        codec, level = _CODECS[compression]
        self._writer = pq.ParquetWriter(
            file,
            WRITTEN_SCHEMA,
            version="2.6",
            compression=codec,
            compression_level=level,
            # A dictionary for keys or values costs CPU and memory and is given up again for most topics.
            use_dictionary=["topic", "timestamp_type"],
            column_encoding={
                "partition": "DELTA_BINARY_PACKED",
                "offset": "DELTA_BINARY_PACKED",
                "timestamp_ms": "DELTA_BINARY_PACKED",
            },
            # Statistics of keys and values would put user data into the footer, and cost a comparison each.
            write_statistics=["offset", "timestamp_ms"],
            write_page_index=True,
            store_schema=False,
            data_page_size=1 << 20,
            write_batch_size=1024,
        )

    def write(self, records: RecordColumns) -> None:
        """Takes the next records; whole row groups go to the file.

        Raises:
            ValueError: offsets that do not follow those before; nothing of ``records`` is taken.
            StoreUnavailableError, StoreUnusableError: the file's; the segment is lost.
        """
        if not len(records):
            return
        self._gaps.follow(records.offsets)
        self._note(records)
        self._checksum.update(records)
        for piece, piece_bytes in self._pieces(records):
            if self._pending and self._pending_bytes + piece_bytes > ROW_GROUP_BYTES_MAX:
                self._write_row_group()
            self._pending.append(self._builder.columns(piece))
            self._pending_bytes += piece_bytes

    def close(self, *, end_offset: int, gaps: Sequence[Gap] = (), leader_epoch: int | None = None) -> SegmentFooter:
        """Writes what is left and the footer, and returns it.

        Args:
            end_offset: where the range ends, exclusive.
            gaps: gaps that are not ``absent``, in offset order; all others are found from the offsets.
            leader_epoch: the source's latest of what was read; None where it is not known.

        Raises:
            ValueError: a record past the end, or in one of the gaps; the file is nothing then.
        """
        report = self._gaps.finish(end_offset, gaps)
        if self._pending:
            self._write_row_group()
        footer = SegmentFooter(
            envelope=self._envelope,
            end_offset=end_offset,
            records=self.records,
            raw_bytes=self.raw_bytes,
            first_offset=self._first_offset,
            last_offset=self._last_offset,
            timestamp_ms_min=self._timestamp_ms_min,
            timestamp_ms_max=self._timestamp_ms_max,
            gap_offsets=report.offsets,
            gaps=report.listed,
            gaps_complete=report.is_complete,
            checksum=self._checksum.hexdigest(),
            leader_epoch=leader_epoch,
        )
        self._writer.add_key_value_metadata({**ARROW_METADATA, METADATA_KEY: encode_footer(footer)})
        self._writer.close()
        return footer

    def abandon(self) -> None:
        """Writes nothing more; what was written is nothing. Without effect after ``close``."""
        # Its finalizer would else write a footer into a file that is gone.
        self._writer.is_open = False

    def _note(self, records: RecordColumns) -> None:
        self.records += len(records)
        self.raw_bytes += int(records.sizes.sum())
        if self._first_offset is None:
            self._first_offset = int(records.offsets[0])
        self._last_offset = int(records.offsets[-1])
        times = records.timestamps
        low, high = int(times.min()), int(times.max())
        if low <= NO_TIMESTAMP:
            times = times[times != NO_TIMESTAMP]
            if not len(times):
                return
            low, high = int(times.min()), int(times.max())
        self._timestamp_ms_min = low if self._timestamp_ms_min is None else min(low, self._timestamp_ms_min)
        self._timestamp_ms_max = high if self._timestamp_ms_max is None else max(high, self._timestamp_ms_max)

    def _pieces(self, records: RecordColumns) -> Iterator[tuple[RecordColumns, int]]:
        """Yields the records in pieces that fill up the row group begun, then whole ones, with their weights."""
        ends = np.cumsum(records.sizes + ROW_BYTES)
        row, done = 0, 0
        room = ROW_GROUP_BYTES_MAX - self._pending_bytes
        while row < len(records):
            stop = int(np.searchsorted(ends, done + room, side="right"))
            if stop == row and room == ROW_GROUP_BYTES_MAX:
                stop += 1  # larger than a row group: one of its own
            if stop > row:
                yield records.slice(row, stop), int(ends[stop - 1]) - done
                row, done = stop, int(ends[stop - 1])
            room = ROW_GROUP_BYTES_MAX

    def _write_row_group(self) -> None:
        table = pa.Table.from_batches(self._pending, WRITTEN_SCHEMA)
        self._pending, self._pending_bytes = [], 0
        self._writer.write_table(table, row_group_size=len(table))
