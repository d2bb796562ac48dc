"""A few records to and from batches without compiled loops, for processes that have no other use for those.

A driver reads and writes state records and progress: some kilobytes in all, or a few records of some hundred kilobytes
where a mirror has a thousand topics. numba and the loops would cost it 2 s at its start and 110 MB for as long as it
runs. What is larger, compressed, or not as it should be is left to the loops, so that there is one place that says what
is wrong with a batch.

Record layout: `DefaultRecord.java`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mirrorlake.kafka.records.batch_header import Batch, Codec, read_varint, varint
from mirrorlake.kafka.records.batches import verify_crc
from mirrorlake.kafka.records.columns import RecordColumns, bytes_column, headers_column

FEW_BYTES_MAX = 1 << 16
"""Up to which this is quicker than loading the loops: some 20 ms for small records."""

FEW_RECORDS_MAX = 2000
"""Up to which it is quicker whatever they hold: what a record takes here does not depend on its bytes."""

LARGE_BYTES_MAX = 8 << 20
"""What so few records may take; each is copied once or twice."""

_INT64_MAX = 2**63 - 1

Header = tuple[bytes, bytes | None]


class _Record(NamedTuple):
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class _NotSoundError(Exception):
    """A record is not as it should be; the loops say what is wrong."""


def decode_few(batches: Sequence[Batch], *, start_offset: int, end_offset: int) -> RecordColumns | None:
    """Returns what `decode.decode_batches` does, or None where that has to be asked.

    Args:
        batches: data batches in offset order.
        start_offset: inclusive.
        end_offset: exclusive.

    Raises:
        CorruptBatchError: a checksum is not right.
    """
    size = sum(each.header.batch_bytes for each in batches)
    if not _are_few(size, sum(each.header.record_count for each in batches)):
        return None
    if not all(h.magic == 2 and h.codec == Codec.NONE and not h.is_control for h in (b.header for b in batches)):
        return None
    records: list[_Record] = []
    try:
        for batch in batches:
            verify_crc(batch)
            records += _records(batch)
    except _NotSoundError:
        return None
    return _columns([each for each in records if start_offset <= each.offset < end_offset])


def _are_few(size_bytes: int, records: int) -> bool:
    return size_bytes <= FEW_BYTES_MAX or (records <= FEW_RECORDS_MAX and size_bytes <= LARGE_BYTES_MAX)


def are_few(columns: RecordColumns) -> bool:
    """Tells whether records are so few that writing them here is quicker than loading the loops."""
    return len(columns) <= FEW_BYTES_MAX and _are_few(int(columns.sizes.sum()), len(columns))


def encode_few(columns: RecordColumns) -> bytearray | None:
    """Returns the records of a batch, uncompressed and without header; None where the loops have to be asked."""
    if not are_few(columns):
        return None
    span_ms = int(columns.timestamps.max()) - int(columns.timestamps.min())
    if span_ms > _INT64_MAX:
        return None
    output = bytearray()
    rows = zip(
        (columns.offsets - columns.offsets[0]).tolist(),
        columns.timestamps.tolist(),
        columns.keys.to_pylist(),
        columns.values.to_pylist(),
        columns.headers.to_pylist(),
        strict=True,
    )
    first_ms = int(columns.timestamps[0])
    for offset_delta, timestamp, key, value, headers in rows:
        body = bytearray(1)  # attributes: none are used
        body += varint(timestamp - first_ms) + varint(offset_delta) + _field(key) + _field(value)
        body += varint(len(headers))
        for header in headers:
            body += _field(header["key"]) + _field(header["value"])
        output += varint(len(body)) + body
    return output


def _columns(records: Sequence[_Record]) -> RecordColumns:
    parts = [(each.key, each.value, *(part for header in each.headers for part in header)) for each in records]
    return RecordColumns(
        offsets=np.array([each.offset for each in records], np.int64),
        timestamps=np.array([each.timestamp for each in records], np.int64),
        timestamp_types=np.array([each.timestamp_type for each in records], np.int8),
        keys=bytes_column([each.key for each in records]),
        values=bytes_column([each.value for each in records]),
        headers=headers_column([each.headers for each in records]),
        sizes=np.array([sum(len(part or b"") for part in each) for each in parts], np.int64),
    )


def _records(batch: Batch) -> Iterator[_Record]:
    """Yields the records of an uncompressed batch.

    Raises:
        _NotSoundError: they are not as their batch says.
    """
    header, content = batch.header, _Content(bytes(batch.payload))
    last = -1
    for _ in range(header.record_count):
        end = content.varint(32) + content.position
        content.take(1)
        timestamp, delta = header.base_timestamp + content.varint(64), content.varint(32)
        key, value = content.field(), content.field()
        headers = [content.header() for _ in range(content.count())]
        is_between = last < delta <= header.last_offset_delta
        if content.position != end or not is_between or not -_INT64_MAX <= timestamp <= _INT64_MAX:
            raise _NotSoundError
        last = delta
        if header.is_log_append_time:
            timestamp = header.max_timestamp
        yield _Record(header.base_offset + delta, timestamp, int(header.is_log_append_time), key, value, headers)
    if content.position != len(content.data):
        raise _NotSoundError


class _Content:
    """Reads fields from the bytes of records; everything raises `_NotSoundError` where they end before it does."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, length: int) -> bytes:
        start, self.position = self.position, self.position + length
        if length < 0 or self.position > len(self.data):
            raise _NotSoundError
        return self.data[start : self.position]

    def varint(self, bits: int) -> int:
        """Reads a number of so many bits, in no more bytes than these take."""
        try:
            number, end = read_varint(self.data, self.position)
        except IndexError as error:
            raise _NotSoundError from error
        is_long = end - self.position > -(-bits // 7)
        if is_long or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise _NotSoundError
        self.position = end
        return number

    def count(self) -> int:
        if (count := self.varint(32)) < 0:
            raise _NotSoundError
        return count

    def field(self) -> bytes | None:
        length = self.varint(32)
        return None if length < 0 else self.take(length)

    def header(self) -> Header:
        return self.take(self.count()), self.field()


def _field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content
