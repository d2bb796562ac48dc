"""Record batches as a `log` segment holds them: the source's bytes, and what their headers say."""

from typing import NamedTuple

from mirrorlake.kafka.records.batch_header import (
    LOG_APPEND_TIME_BIT,
    PREFIX_BYTES,
    Batch,
    read_header,
    write_header,
)
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.records.columns import LOG_APPEND_TIME, NO_TIMESTAMP, RecordColumns
from mirrorlake.kafka.records.decode import decode_batches
from mirrorlake.kafka.records.old_formats import as_v2


class LogBatch(NamedTuple):
    """One batch of any message format, and what is known of its records without looking at them.

    ``first_offset`` and ``next_offset`` bound the offsets it covers; the cleaner may have removed the records at both
    ends. ``timestamp_ms_first`` is its first record's and ``timestamp_ms_max`` the highest, as its header has them;
    None where there is none, or, of the first, where the header holds a delete horizon in its place (KIP-534).
    """

    batch: Batch
    first_offset: int
    next_offset: int
    records: int
    timestamp_ms_first: int | None
    timestamp_ms_max: int | None

    @property
    def size_bytes(self) -> int:
        """The whole batch's."""
        return len(self.batch.view)


def log_batch(batch: Batch) -> LogBatch:
    """Returns a data batch with what its header says; of message formats v0 and v1, what a reader finds.

    Raises:
        CorruptBatchError: a message of v0 or v1 that cannot be read.
    """
    header = batch.header if batch.header.magic >= 2 else as_v2(batch).header
    return LogBatch(
        batch=batch,
        first_offset=header.base_offset,
        next_offset=header.next_offset,
        records=header.record_count,
        timestamp_ms_first=header.first_timestamp,
        timestamp_ms_max=None if header.max_timestamp == NO_TIMESTAMP else header.max_timestamp,
    )


def clipped(batch: LogBatch, *, start_offset: int, end_offset: int) -> LogBatch | None:
    """Returns the records of a batch from ``start_offset`` on and below ``end_offset``, as a batch of their own.

    A batch inside the range is returned as it is, and None where no record is left.

    Raises:
        CorruptBatchError: it cannot be read.
        RecordTooLargeError: what is left, compressed again, is above 2^31 - 1 bytes.
    """
    if start_offset <= batch.first_offset and batch.next_offset <= end_offset:
        return batch
    columns = decode_batches([batch.batch], start_offset=start_offset, end_offset=end_offset)
    return made_of(batch.batch, columns) if len(columns) else None


def made_of(batch: Batch, columns: RecordColumns) -> LogBatch:
    """Returns some records of a batch, one at least, as a batch of their own.

    The only batches of a segment that are not the source's bytes: those that reach over an edge of its range, and those
    of which records were erased. Same compression, timestamps, offsets and leader epoch; nobody's sequence and
    transaction.

    Raises:
        RecordTooLargeError: compressed again, they are above 2^31 - 1 bytes.
    """
    header = batch.header
    made = encode_batch(columns, codec=header.codec, base_offset=int(columns.offsets[0]))
    is_stamped = int(columns.timestamp_types[0]) == LOG_APPEND_TIME
    fields = read_header(memoryview(made), 0, len(made) - PREFIX_BYTES)
    attributes = fields.attributes | (LOG_APPEND_TIME_BIT if is_stamped else 0)
    write_header(made, fields._replace(leader_epoch=header.leader_epoch, attributes=attributes))
    view = memoryview(made)
    return log_batch(Batch(read_header(view, 0, len(made) - PREFIX_BYTES), view))
