"""A Parquet file of records in the making: row group by row group, within a bounded memory."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import RawIOBase
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.archive.envelope import (
    METADATA_KEY,
    SegmentEnvelope,
    SegmentFooter,
    SnapshotState,
    encode_footer,
    with_seals,
)
from mirrorlake.archive.formats.parquet_schema import (
    ARROW_METADATA,
    WRITTEN_SCHEMA,
    ColumnBuilder,
)
from mirrorlake.archive.formats.record_account import RecordAccount
from mirrorlake.archive.gaps import GapReport
from mirrorlake.archive.seal import OPEN_SEAL, SealingFile
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.page_compression import Compression

ROW_GROUP_BYTES_MAX = 16 << 20
"""What records weigh, in a row group: what a writer or reader holds in memory at a time."""

ROW_BYTES = 32
"""What a record weighs in a row group beside its bytes, so that empty records fill one too."""


_CODECS: dict[Compression, tuple[str, int | None]] = {
    Compression.ZSTD_1: ("zstd", 1),
    Compression.ZSTD_3: ("zstd", 3),
    Compression.SNAPPY: ("snappy", None),
    Compression.LZ4: ("lz4", None),
    Compression.UNCOMPRESSED: ("none", None),
}


class RowGroupWriter:
    """Cuts records into row groups and writes them, in the order they come.

    Holds at most one row group of records, and its columns compressed.

    Args:
        file: takes the bytes of a Parquet file in order; need not seek.
        topic: the source topic.
        partition: the source partition.
        compression: of the pages.
    """

    def __init__(self, file: RawIOBase, topic: str, partition: int, *, compression: Compression) -> None:
        self._builder = ColumnBuilder(topic, partition)
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
            StoreUnavailableError, StoreUnusableError: the file's; it is lost.
        """
        for piece, piece_bytes in self._pieces(records):
            if self._pending and self._pending_bytes + piece_bytes > ROW_GROUP_BYTES_MAX:
                self._write_row_group()
            self._pending.append(self._builder.columns(piece))
            self._pending_bytes += piece_bytes

    def flush(self) -> None:
        """Writes the records that are held, as a row group; behind it there is only the end of the file."""
        if self._pending:
            self._write_row_group()

    def close(self, key_values: Mapping[bytes, bytes]) -> None:
        """Writes the end of the file, with this key-value metadata."""
        self.flush()
        self._writer.add_key_value_metadata({**key_values})
        self._writer.close()

    def abandon(self) -> None:
        """Writes nothing more; what was written is nothing. Without effect after ``close``."""
        # Its finalizer would else write a footer into a file that is gone.
        self._writer.is_open = False

    def _pieces(self, records: RecordColumns) -> Iterator[tuple[RecordColumns, int]]:
        """Yields the records in pieces that fill up the row group begun, then whole ones, with their weights."""
        ends = np.cumsum(records.weights(record_bytes=ROW_BYTES))
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


class ParquetRows:
    """Writes records into one file, in the order they come.

    Use: ``write``, ``close`` once. The file is not closed, and is nothing before ``close`` is done. Holds at most one
    row group of records, and its columns compressed.

    Args:
        file: takes the bytes in order; need not seek.
        topic: the source topic.
        partition: the source partition.
        compression: of the pages.
    """

    def __init__(self, file: BinaryIO, topic: str, partition: int, *, compression: Compression) -> None:
        self._account = RecordAccount()
        self._compression = compression
        self._file = SealingFile(file)
        self._groups = RowGroupWriter(self._file, topic, partition, compression=compression)

    @property
    def records(self) -> int:
        """Records taken so far."""
        return self._account.records

    @property
    def raw_bytes(self) -> int:
        """Bytes of keys, values and headers taken so far."""
        return self._account.raw_bytes

    def write(self, records: RecordColumns) -> None:
        """Takes the next records; whole row groups go to the file.

        Raises:
            StoreUnavailableError, StoreUnusableError: the file's; it is lost.
        """
        if len(records):
            self._account.take(records)
            self._groups.write(records)

    def close(
        self,
        envelope: SegmentEnvelope,
        *,
        end_offset: int,
        gaps: GapReport,
        leader_epoch: int | None,
        snapshot: SnapshotState | None = None,
        schema_ids: SchemaIdCounts | None = None,
    ) -> SegmentFooter:
        """Writes what is left and the footer, and returns it; see `SegmentFooter`."""
        self._groups.flush()
        said = self._account.footer(
            envelope,
            end_offset=end_offset,
            gaps=gaps,
            leader_epoch=leader_epoch,
            snapshot=snapshot,
            schema_ids=schema_ids,
        )
        # The page indexes and the footer: some hundred bytes for each row group.
        pages = self._file.hold_back()
        footer = replace(said, compression=self._compression.value, pages=pages, seal=OPEN_SEAL)
        self._groups.close({**ARROW_METADATA, METADATA_KEY: encode_footer(footer)})
        return with_seals(footer, self._file.seal())

    def abandon(self) -> None:
        """Writes nothing more; what was written is nothing. Without effect after ``close``."""
        self._groups.abandon()
