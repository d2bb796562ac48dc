"""Encoding columns as record batches."""

import numpy as np

from mirrorlake.errors import RecordTooLargeError
from mirrorlake.kafka.records.addresses import column_table, kernel_input
from mirrorlake.kafka.records.batch_header import (
    HEADER_BYTES,
    NO_LEADER_EPOCH,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    write_header,
)
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.records.compression import ZSTD_LEVEL, compress
from mirrorlake.kafka.records.encode_kernels import measure_records, write_records
from mirrorlake.kafka.records.few_records import encode_few
from mirrorlake.kafka.records.kernels import FIRST_INDEX, HEADERS, Int64s, are_loaded

_INT32_MAX = 2**31 - 1
_BATCHES_TAKE = "a batch takes at least one record, at offsets that grow, by less than 2^31 in all"


def encode_batch(
    columns: RecordColumns,
    *,
    codec: Codec,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    base_offset: int = 0,
    zstd_level: int = ZSTD_LEVEL,
) -> bytearray:
    """Returns one v2 batch as a producer sends it: leader epoch -1, CreateTime whatever the timestamps were.

    The first record is at ``base_offset``, the others as far behind it as in ``columns.offsets``; the last
    offset delta is the last record's, so offsets with gaps make a batch that is not dense. That is right for
    an archive and refused by brokers: what is sent to one is cut at the gaps or ``renumbered``. Base
    timestamp is the first record's, max timestamp the largest.

    Raises:
        RecordTooLargeError: a record, or the batch, is above the 2^31 - 1 bytes the format can say.
        ValueError: no records, or offsets that do not grow or span 2^31 and more.
    """
    rows = RowEncoder(columns)
    batch = rows.uncompressed(0, len(columns))
    if codec != Codec.NONE:
        batch = compressed(batch, codec, zstd_level=zstd_level)
    write_header(
        batch,
        rows.header(0, len(columns), batch)._replace(
            base_offset=base_offset,
            attributes=codec | (TRANSACTIONAL_BIT if is_transactional else 0),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        ),
    )
    return bytearray(batch)


class RowEncoder:
    """Encodes rows of the same columns as batches, a run of rows at a time.

    What all runs share is looked up once: a run costs little beside its bytes.

    Args:
        columns: stay as they are.

    Raises:
        ValueError: offsets that do not grow.
    """

    def __init__(self, columns: RecordColumns) -> None:
        self._columns = columns
        self._offsets = kernel_input(columns.offsets)
        if (self._offsets[1:] <= self._offsets[:-1]).any():
            raise ValueError(_BATCHES_TAKE)
        self._timestamps = kernel_input(columns.timestamps)
        self._body_lengths = np.empty(len(columns), np.int64)
        self._table: Int64s | None = None
        self._table_row = 0

    def uncompressed(self, start_row: int, stop_row: int) -> memoryview:
        """Returns a batch of rows ``start_row`` to ``stop_row`` (exclusive), in memory of its own.

        What its first `HEADER_BYTES` are is undefined: there is room for the header.

        Raises:
            RecordTooLargeError: a record, or all of them, are above the 2^31 - 1 bytes the format can say.
            ValueError: no rows, or their offsets span 2^31 and more.
        """
        if stop_row <= start_row or int(self._offsets[stop_row - 1]) - int(self._offsets[start_row]) > _INT32_MAX:
            raise ValueError(_BATCHES_TAKE)
        if not are_loaded() and (few := encode_few(self._columns.slice(start_row, stop_row))) is not None:
            return memoryview(bytearray(HEADER_BYTES) + few)
        offsets, timestamps = self._offsets[start_row:stop_row], self._timestamps[start_row:stop_row]
        lengths, table = self._body_lengths[start_row:stop_row], self._table_from(start_row)
        body_bytes = measure_records(offsets, timestamps, table, lengths)
        if body_bytes < 0 or body_bytes > _INT32_MAX:
            raise self._too_large(start_row + (-1 - body_bytes if body_bytes < 0 else int(np.argmax(lengths))))
        # Not filled with zeros: every byte behind the header is written.
        batch = np.empty(HEADER_BYTES + body_bytes, np.uint8)
        end = write_records(offsets, timestamps, table, lengths, batch, HEADER_BYTES)
        assert end == len(batch), "records were written other than they were measured"
        return batch.data

    def header(self, start_row: int, stop_row: int, batch: memoryview) -> BatchHeader:
        """Returns what ``write_header`` takes for a batch of those rows: at their own offsets, of no producer.

        Its attributes are 0: CreateTime, not compressed.

        Raises:
            RecordTooLargeError: the batch is above 2^31 - 1 bytes.
        """
        if len(batch) > _INT32_MAX:
            raise RecordTooLargeError(f"a batch of {len(batch)} bytes", bytes=len(batch))
        first, last = int(self._offsets[start_row]), int(self._offsets[stop_row - 1])
        return BatchHeader(
            base_offset=first,
            batch_bytes=len(batch),
            leader_epoch=NO_LEADER_EPOCH,
            magic=2,
            crc=0,
            attributes=0,
            last_offset_delta=last - first,
            base_timestamp=int(self._timestamps[start_row]),
            max_timestamp=int(self._timestamps[start_row:stop_row].max()),
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=stop_row - start_row,
        )

    def _table_from(self, row: int) -> Int64s:
        """Returns the table of addresses whose first row is ``row``; good until the next call."""
        if self._table is None:
            self._table = column_table(self._columns)
        # Keys, values and lists of headers have a row each; lists name their headers by absolute numbers.
        self._table[: HEADERS + 1, FIRST_INDEX] += row - self._table_row
        self._table_row = row
        return self._table

    def _too_large(self, row: int) -> RecordTooLargeError:
        offset, size = int(self._offsets[row]), int(self._columns.sizes[row])
        return RecordTooLargeError(
            f"the record at offset {offset} has {size} bytes, and with it the batch more than 2^31 - 1",
            offset=offset,
            bytes=size,
        )


def compressed(batch: memoryview, codec: Codec, *, zstd_level: int = ZSTD_LEVEL) -> memoryview:
    """Returns a batch with its records compressed, in memory of its own, with as undefined a header."""
    records = compress(codec, batch[HEADER_BYTES:], zstd_level=zstd_level)
    made = np.empty(HEADER_BYTES + len(records), np.uint8).data
    made[HEADER_BYTES:] = records
    return made
