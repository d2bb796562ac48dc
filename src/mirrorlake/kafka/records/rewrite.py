"""Records of v2 batches taken over into new, dense batches as bytes: what a broker appends, without columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mirrorlake.kafka.records import decode_kernels as kernels
from mirrorlake.kafka.records.batch_header import (
    CRC,
    CRC_AT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    RECORD_BYTES_MIN,
    Batch,
    BatchHeader,
    Codec,
    corrupt,
    write_header,
)
from mirrorlake.kafka.records.compression import compress
from mirrorlake.kafka.records.decode import record_error
from mirrorlake.kafka.records.kernels import Int64s, UInt8s
from mirrorlake.kafka.records.rewrite_kernels import (
    FAILED_BATCH,
    FAILED_RECORD,
    OFFSET,
    OUTCOME_FIELDS,
    RECORD_FIELDS,
    REST_END,
    ROOM_PER_RECORD,
    ROWS,
    RUNS,
    TIMESTAMP,
    TIMESTAMP_MAX,
    find_records,
    write_rows,
)
from mirrorlake.kafka.records.scratch import decompressed_row, records_of

COALESCED_DECOMPRESSED_BYTES_MAX = 4 * 1024 * 1024
"""What coalesced batches may come to together by default: many times what small batches do."""

_TABLE_FIELDS = tuple(
    (column, BatchHeader._fields.index(field))
    for column, field in (
        (kernels.RECORD_COUNT, "record_count"),
        (kernels.BASE_OFFSET, "base_offset"),
        (kernels.LAST_OFFSET_DELTA, "last_offset_delta"),
        (kernels.BASE_TIMESTAMP, "base_timestamp"),
        (kernels.APPEND_TIMESTAMP, "max_timestamp"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedBatch:
    """The records of one batch or of several in a row, checked and listed; made by ``open_batch``, ``open_batches``.

    Attributes:
        codec: of the batches made of it.
        payload: the records, decompressed; where the one batch is not compressed, the batch's own memory.
        records: a row per record, as `rewrite_kernels.py` lays it out, with addresses within ``payload``.
        run_rows: the first row of each run of records whose offsets follow one another, then the number of rows.
    """

    codec: Codec
    payload: UInt8s
    records: Int64s
    run_rows: Int64s

    def __len__(self) -> int:
        return len(self.records)

    def offset(self, row: int) -> int:
        """Returns the offset of a record at the source."""
        return int(self.records.item(row, OFFSET))

    def runs(self, start_row: int, end_row: int) -> Iterator[tuple[int, int]]:
        """Yields the rows, half-open, of each run inside some rows, cut at their ends."""
        if start_row == end_row:
            return
        first = int(np.searchsorted(self.run_rows, start_row, side="right"))
        for run in range(first, len(self.run_rows)):
            stop_row = min(self.run_rows.item(run), end_row)
            yield start_row, stop_row
            if stop_row == end_row:
                return
            start_row = stop_row

    def middle(self, start_row: int, end_row: int) -> int:
        """Returns the row that halves the bytes of at least two rows; no half is empty."""
        half = self._rest_end(start_row) + self._rest_bytes(start_row, end_row) // 2
        row = int(np.searchsorted(self.records[start_row:end_row, REST_END], half)) + start_row
        return min(max(row, start_row + 1), end_row - 1)

    def _rest_end(self, row: int) -> int:
        return int(self.records.item(row - 1, REST_END)) if row else 0

    def _rest_bytes(self, start_row: int, end_row: int) -> int:
        return self._rest_end(end_row) - self._rest_end(start_row)

    def dense_batch(self, start_row: int, end_row: int) -> Batch:
        """Returns rows as a batch of no producer at base offset 0, one offset after another, CreateTime.

        Keys, values and headers are those of the source byte by byte, timestamps those its readers saw. The view is
        writable memory of its own.
        """
        count = end_row - start_row
        room = HEADER_BYTES + self._rest_bytes(start_row, end_row) + count * ROOM_PER_RECORD
        output = np.empty(room, np.uint8)
        outcome = np.empty(OUTCOME_FIELDS, np.int64)
        end = write_rows(self.records, start_row, end_row, output, HEADER_BYTES, outcome)
        assert end >= 0, "records were written other than they were measured"
        view = output.data[:end]
        if self.codec != Codec.NONE:
            compressed = bytearray(HEADER_BYTES)
            compressed += compress(self.codec, view[HEADER_BYTES:])
            view = memoryview(compressed)
        header = BatchHeader(
            base_offset=0,
            batch_bytes=len(view),
            leader_epoch=NO_LEADER_EPOCH,
            magic=2,
            crc=0,
            attributes=self.codec,
            last_offset_delta=count - 1,
            base_timestamp=self.records.item(start_row, TIMESTAMP),
            max_timestamp=outcome.item(TIMESTAMP_MAX),
            producer_id=NO_PRODUCER_ID,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=count,
        )
        write_header(view, header)
        return Batch(header._replace(crc=CRC.unpack_from(view, CRC_AT)[0]), view)


def open_batch(
    batch: Batch,
    *,
    start_offset: int,
    end_offset: int,
    codec: Codec | None = None,
    decompressed_bytes_max: int | None = None,
) -> OpenedBatch:
    """Returns the records of a batch whose offsets are in ``[start_offset, end_offset)``; all are checked.

    Where the batch is not compressed the result shares its memory, which must stay as it is meanwhile.

    Args:
        batch: a v2 data batch whose checksum was verified.
        start_offset: inclusive.
        end_offset: exclusive.
        codec: for the batches to be made; None is the batch's own.
        decompressed_bytes_max: the largest the batch may become, None for what the process allows.

    Raises:
        CorruptBatchError: compression or a record is not right, or the batch is larger than allowed; with its
            base offset.
    """
    header = batch.header
    payload = records_of(batch, bytes_max=decompressed_bytes_max)
    table = np.array(
        [
            (
                payload.ctypes.data,
                len(payload),
                header.record_count,
                header.base_offset,
                header.last_offset_delta,
                header.base_timestamp,
                header.max_timestamp,
                header.is_log_append_time,
            )
        ],
        np.int64,
    )
    new_codec = header.codec if codec is None else codec
    return _opened([batch], table, payload, start_offset=start_offset, end_offset=end_offset, codec=new_codec)


def open_batches(
    batches: Sequence[Batch], *, decompressed_bytes_max: int = COALESCED_DECOMPRESSED_BYTES_MAX
) -> OpenedBatch:
    """Returns the records of neighbouring batches of one compression as those of one batch; all are checked.

    Made for many small ones: next to nothing is done for a single batch. The result shares no memory with them.

    Args:
        batches: at least one; v2 data batches in the order of their offsets, their checksums verified.
        decompressed_bytes_max: the most they may become, together.

    Raises:
        CorruptBatchError: compression or a record is not right; with the base offset of the batch it was found in.
        BatchTooLargeError: there is more than allowed.
    """
    headers = np.array([batch.header for batch in batches], np.int64)
    sizes = headers[:, BatchHeader._fields.index("batch_bytes")]
    first = batches[0].header
    if first.codec == Codec.NONE:
        payload = np.frombuffer(b"".join([batch.view for batch in batches]), np.uint8)
        ends, passed = np.cumsum(sizes), HEADER_BYTES
        assert ends[-1] == len(payload), "a header tells another size than its batch has"
    else:
        payload, row_ends = decompressed_row(
            first.codec,
            [(batch.header.base_offset, batch.payload) for batch in batches],
            bytes_max=decompressed_bytes_max,
        )
        ends, passed = np.array(row_ends, np.int64), 0
    lengths = np.diff(ends, prepend=0)
    table = np.zeros((len(batches), kernels.TABLE_COLUMNS), np.int64)
    table[:, kernels.ADDRESS] = payload.ctypes.data + ends - lengths + passed
    table[:, kernels.LENGTH] = lengths - passed
    for column, field in _TABLE_FIELDS:
        table[:, column] = headers[:, field]
    table[:, kernels.IS_APPEND_TIME] = headers[:, BatchHeader._fields.index("attributes")] & LOG_APPEND_TIME_BIT != 0
    is_short = table[:, kernels.RECORD_COUNT] * RECORD_BYTES_MIN > table[:, kernels.LENGTH]
    if is_short.any():
        header = batches[int(is_short.argmax())].header
        raise corrupt(header.base_offset, f"{header.record_count} records do not fit its bytes")
    last = batches[-1].header
    return _opened(
        batches, table, payload, start_offset=first.base_offset, end_offset=last.next_offset, codec=first.codec
    )


def _opened(
    batches: Sequence[Batch], table: Int64s, payload: UInt8s, *, start_offset: int, end_offset: int, codec: Codec
) -> OpenedBatch:
    count = int(table[:, kernels.RECORD_COUNT].sum())
    records = np.empty((count, RECORD_FIELDS), np.int64)
    run_rows = np.empty(count + 1, np.int64)
    outcome = np.empty(OUTCOME_FIELDS, np.int64)
    status = find_records(table, start_offset, end_offset, records, run_rows, outcome)
    if status != kernels.OK:
        raise record_error(batches[outcome.item(FAILED_BATCH)].header, status, outcome.item(FAILED_RECORD))
    rows, runs = outcome.item(ROWS), outcome.item(RUNS)
    return OpenedBatch(codec=codec, payload=payload, records=records[:rows], run_rows=run_rows[: runs + 1])
