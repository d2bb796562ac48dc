"""Decoding record batches to columns."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from mirrorlake.errors import UnsupportedError
from mirrorlake.kafka.records import decode_kernels as kernels
from mirrorlake.kafka.records.batch_header import HEADER_BYTES, RECORD_BYTES_MIN, Batch, BatchHeader, Codec, corrupt
from mirrorlake.kafka.records.batches import verify_crc
from mirrorlake.kafka.records.columns import NO_TIMESTAMP, NO_TIMESTAMP_TYPE, RecordColumns
from mirrorlake.kafka.records.compression import MalformedDataError, OutputFullError, decompress_into
from mirrorlake.kafka.records.few_records import decode_few
from mirrorlake.kafka.records.growing import Group, GrowingRecords
from mirrorlake.kafka.records.kernels import are_loaded
from mirrorlake.kafka.records.old_formats import as_v2
from mirrorlake.kafka.records.scratch import SCRATCH, allowed, too_large

_OFFSET_END = 2**63 - 1
# Batches are decompressed and read in groups: a call for each would cost more than the work where they are
# small. From 16 KiB to 4 MiB speed was the same; so it is what a core keeps in its cache.
_GROUP_BYTES = 256 * 1024


def decode_batches(
    batches: Sequence[Batch],
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    decompressed_bytes_max: int | None = None,
) -> RecordColumns:
    """Returns the records of some batches whose offsets are in ``[start_offset, end_offset)``.

    Checksums are verified, and records checked, of every batch that reaches into the range; the others are
    passed over. With LogAppendTime every record has the batch's ``max_timestamp``. The result owns its
    memory: the batches' buffer may be reused. Nothing is allocated for what a batch merely claims: a count is
    compared with the bytes there are, a decompressed size with ``decompressed_bytes_max``.

    Args:
        batches: data batches of any format in offset order; aborted ones are not told from others here.
        start_offset: inclusive.
        end_offset: exclusive; None is no end.
        decompressed_bytes_max: the largest one batch may become, None for what the process allows; memory for all of
            them is the caller's concern, see ``decode_parts``.

    Raises:
        CorruptBatchError: checksum, compression or a record is not right; with the base offset of the batch.
        BatchTooLargeError: a batch becomes larger than allowed.
        ValueError: a control batch is among them.
    """
    parts = decode_parts(
        batches,
        start_offset=start_offset,
        end_offset=end_offset,
        decompressed_bytes_max=decompressed_bytes_max,
        part_bytes_max=_OFFSET_END,
    )
    return next(parts, RecordColumns.empty())


def decode_parts(
    batches: Sequence[Batch],
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    decompressed_bytes_max: int | None = None,
    part_bytes_max: int,
) -> Iterator[RecordColumns]:
    """Yields what ``decode_batches`` returns, in parts of about ``part_bytes_max``.

    A part ends with the batch that brings it there. Bounds memory where a fetch answer decompresses to many
    times its size. Parts have at least one record.

    Args:
        batches: as for ``decode_batches``; so are the others.
        start_offset: inclusive.
        end_offset: exclusive; None is no end.
        decompressed_bytes_max: the largest one batch may become.
        part_bytes_max: what a part takes in memory, to within one batch; every header counts, however empty.

    Raises:
        CorruptBatchError, BatchTooLargeError: as ``decode_batches``; the parts before it have been yielded.
        ValueError: as ``decode_batches``.
    """
    end = _OFFSET_END if end_offset is None else end_offset
    bytes_max = allowed() if decompressed_bytes_max is None else decompressed_bytes_max
    wanted = [
        each
        for each in batches
        if each.header.last_offset >= start_offset and (each.header.base_offset < end or each.header.is_old_wrapper)
    ]
    if not are_loaded():
        few = decode_few(wanted, start_offset=start_offset, end_offset=end)
        if few is not None:
            yield from (few,) if len(few) else ()
            return
    bytes_left = sum(each.header.batch_bytes for each in wanted)
    decoder = _Decoder(start_offset, end, bytes_max, bytes_left)
    try:
        for batch in wanted:
            decoder.add(batch)
            bytes_left -= batch.header.batch_bytes
            if decoder.data_bytes >= part_bytes_max:
                yield from decoder.finish()
                decoder = _Decoder(start_offset, end, bytes_max, bytes_left)
        yield from decoder.finish()
    finally:
        SCRATCH.trim()


def record_error(header: BatchHeader, status: int, record: int) -> Exception:
    """Returns the error for what a kernel said of the ``record``-th record of a batch."""
    match status:
        case kernels.BAD_RECORD:
            return corrupt(header.base_offset, f"a length in its record {record} leads beyond the record")
        case kernels.BAD_OFFSET:
            what = f"the offset of its record {record} is no higher than the one before it, or beyond the batch"
            return corrupt(header.base_offset, what)
        case kernels.BYTES_LEFT:
            return corrupt(header.base_offset, f"bytes are left after its {header.record_count} records")
        case kernels.TOO_MANY_HEADERS:
            return UnsupportedError("more than 2147483647 headers in one part: decode fewer batches at once")
        case _:
            return AssertionError(f"the columns had no room for batch {header}")


class _Decoder:
    """Appends batches to columns, group by group.

    Args:
        start_offset: inclusive.
        end_offset: exclusive.
        decompressed_bytes_max: the largest one batch may become.
        batch_bytes: of all batches that may come; only used to guess how large the columns will be.
    """

    def __init__(self, start_offset: int, end_offset: int, decompressed_bytes_max: int, batch_bytes: int) -> None:
        self._decompressed_bytes_max = decompressed_bytes_max
        self._batch_bytes = batch_bytes
        self._batch_bytes_read = 0
        self._records = GrowingRecords(start_offset=start_offset, end_offset=end_offset)
        self._start_group()

    def _start_group(self) -> None:
        self._group: list[Batch] = []
        self._table: list[tuple[int, ...]] = []
        self._held: list[pa.Buffer] = []  # keeps the addresses in the table good
        self._payload_bytes = 0
        self._scratch_used = 0

    @property
    def data_bytes(self) -> int:
        """Returns about what the records so far take in memory, and the bytes of whole records not yet read."""
        return self._records.data_bytes + self._payload_bytes

    def add(self, batch: Batch) -> None:
        """Takes a batch in; its records are read with its group."""
        if batch.header.is_control:
            raise ValueError(f"the batch at offset {batch.header.base_offset} holds no records but a marker")
        verify_crc(batch)
        self._batch_bytes_read += batch.header.batch_bytes
        has_timestamps = True
        if batch.header.magic < 2:
            if batch.header.is_old_wrapper:
                self._flush()  # what it decompresses to goes where the group's does
            magic = batch.header.magic
            batch = as_v2(batch, decompressed_bytes_max=self._decompressed_bytes_max)
            has_timestamps = magic == 1 or batch.header.max_timestamp != NO_TIMESTAMP
        header = batch.header
        address, length = self._locate(batch) if header.codec == Codec.NONE else self._decompress(batch)
        if header.record_count * RECORD_BYTES_MIN > length:
            raise corrupt(batch.header.base_offset, f"{header.record_count} records do not fit {length} bytes")
        self._group.append(batch)
        self._table.append(
            (
                address,
                length,
                header.record_count,
                header.base_offset,
                header.last_offset_delta,
                header.base_timestamp,
                header.max_timestamp,
                header.is_log_append_time if has_timestamps else NO_TIMESTAMP_TYPE,
            )
        )
        self._payload_bytes += length
        if self._payload_bytes >= _GROUP_BYTES:
            self._flush()

    def _locate(self, batch: Batch) -> tuple[int, int]:
        held = pa.py_buffer(batch.view)
        self._held.append(held)
        return held.address + HEADER_BYTES, held.size - HEADER_BYTES

    def _decompress(self, batch: Batch) -> tuple[int, int]:
        """Returns the address and bytes of the records; reads the group first if it is in the way."""
        while True:
            limit = min(len(SCRATCH.payloads) - self._scratch_used, self._decompressed_bytes_max)
            output = SCRATCH.payloads[self._scratch_used : self._scratch_used + limit]
            try:
                length = decompress_into(batch.header.codec, batch.payload, output.data)
            except MalformedDataError as error:
                raise corrupt(batch.header.base_offset, str(error)) from error
            except OutputFullError as error:
                if limit == self._decompressed_bytes_max:
                    size = len(batch.payload)
                    raise too_large(batch.header.base_offset, compressed_bytes=size, bytes_max=limit) from error
                if self._scratch_used:
                    self._flush()
                else:
                    SCRATCH.reserve(min(4 * limit, self._decompressed_bytes_max))
            else:
                self._scratch_used += length
                return int(output.ctypes.data), length

    def _flush(self) -> None:
        """Reads the records of the group."""
        if not self._group:
            return
        group = Group(
            table=np.array(self._table, np.int64),
            record_count=sum(batch.header.record_count for batch in self._group),
            payload_bytes=self._payload_bytes,
            growth=max(self._batch_bytes / self._batch_bytes_read, 1.0),
        )
        status = self._records.read(group)
        if status != kernels.OK:
            raise self._error(status)
        self._start_group()

    def _error(self, status: int) -> Exception:
        batch = self._group[int(self._records.state[kernels.FAILED_BATCH])]
        return record_error(batch.header, status, int(self._records.state[kernels.FAILED_RECORD]))

    def finish(self) -> Iterator[RecordColumns]:
        """Yields the records of all batches, if there are any; the last thing to be called."""
        self._flush()
        columns = self._records.taken()
        if len(columns):
            yield columns
