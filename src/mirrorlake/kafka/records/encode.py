"""Encoding columns as a record batch."""

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
from mirrorlake.kafka.records.kernels import are_loaded

_INT32_MAX = 2**31 - 1


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
    offsets, timestamps = columns.offsets, columns.timestamps
    if len(columns) == 0 or (np.diff(offsets) <= 0).any() or int(offsets[-1]) - int(offsets[0]) > _INT32_MAX:
        raise ValueError("a batch takes at least one record, at offsets that grow, by less than 2^31 in all")
    batch = _with_body(columns, codec, zstd_level)
    if len(batch) > _INT32_MAX:
        raise RecordTooLargeError(f"a batch of {len(batch)} bytes", bytes=len(batch))
    header = BatchHeader(
        base_offset=base_offset,
        batch_bytes=len(batch),
        leader_epoch=NO_LEADER_EPOCH,
        magic=2,
        crc=0,
        attributes=codec | (TRANSACTIONAL_BIT if is_transactional else 0),
        last_offset_delta=int(offsets[-1] - offsets[0]),
        base_timestamp=int(timestamps[0]),
        max_timestamp=int(timestamps.max()),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(columns),
    )
    write_header(batch, header)
    return batch


def _with_body(columns: RecordColumns, codec: Codec, zstd_level: int) -> bytearray:
    """Returns the bytes of a batch but for its header, for which there is room."""
    if codec == Codec.NONE and not are_loaded() and (few := encode_few(columns)) is not None:
        return bytearray(HEADER_BYTES) + few
    offsets = kernel_input(columns.offsets)
    timestamps = kernel_input(columns.timestamps)
    table = column_table(columns)
    body_lengths = np.empty(len(columns), np.int64)
    body_bytes = measure_records(offsets, timestamps, table, body_lengths)
    if body_bytes < 0 or body_bytes > _INT32_MAX:
        row = -1 - body_bytes if body_bytes < 0 else int(np.argmax(body_lengths))
        offset, size = int(offsets[row]), int(columns.sizes[row])
        raise RecordTooLargeError(
            f"the record at offset {offset} has {size} bytes, and with it the batch more than 2^31 - 1",
            offset=offset,
            bytes=size,
        )
    batch = bytearray(HEADER_BYTES + body_bytes)
    end = write_records(offsets, timestamps, table, body_lengths, np.frombuffer(batch, np.uint8), HEADER_BYTES)
    assert end == len(batch), "records were written other than they were measured"
    if codec == Codec.NONE:
        return batch
    compressed = bytearray(HEADER_BYTES)
    compressed += compress(codec, memoryview(batch)[HEADER_BYTES:], zstd_level=zstd_level)
    return compressed
