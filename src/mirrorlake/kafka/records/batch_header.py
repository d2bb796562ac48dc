"""The header of a record batch: reading and writing it.

The layout of format v2 is that of `DefaultRecordBatch.java`, of v0 and v1 that of
`AbstractLegacyRecordBatch.java`; big-endian throughout:

     0 base offset (8), length of what follows (4), leader epoch (4), magic (1), CRC-32C of all that follows
     (4),
    21 attributes (2), last offset delta (4), base timestamp (8), max timestamp (8),
    43 producer id (8), producer epoch (2), base sequence (4), record count (4), 61 records
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from mirrorlake.errors import CorruptBatchError

HEADER_BYTES = 61
"""Bytes of a v2 batch before its records."""
PREFIX_BYTES = 12
"""Base offset and length, which the length does not count."""
RECORD_BYTES_MIN = 7
"""The smallest record: its length, attributes, two deltas, lengths of key and value, number of headers."""
NO_PRODUCER_ID = -1
NO_LEADER_EPOCH = -1
NO_TIMESTAMP = -1

MAGIC_AT = 16
CRC_AT = 17
CHECKED_FROM = 21
"""Where what the CRC of v2 covers begins; that of v0 and v1 covers what follows it, from the magic on."""
LENGTH_MIN = {0: 14, 1: 22, 2: HEADER_BYTES - PREFIX_BYTES}
"""By magic; what the length field counts."""

LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
_CODEC_MASK = 0x07

PREFIX = Struct(">qi")
CRC = Struct(">I")
_HEADER = Struct(">qiibIhiqqqhii")
_OLD_HEADER = Struct(">qiIbb")
_OLD_TIMESTAMP = Struct(">q")
_OLD_TIMESTAMP_AT = 18

_OFFSET_MAX = 2**63 - 1


class Codec(IntEnum):
    """Compression of a batch's records; the numbers are those of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """The header of one batch.

    For magic 0 and 1 a "batch" is one message, possibly a compressed set of them: ``base_offset`` is then the
    offset of its *last* record, ``last_offset_delta`` 0, ``record_count`` -1 (not known), the producer's
    fields -1, and the timestamps those of the message (-1 with magic 0).
    """

    base_offset: int
    batch_bytes: int
    """The whole batch, with the 12 bytes that its own length field does not count."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """Milliseconds; what the records' deltas count from, also where it is a delete horizon (KIP-534)."""
    max_timestamp: int
    """Milliseconds; with LogAppendTime the timestamp of every record."""
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Returns the last offset the batch covers, inclusive; compaction may have removed its record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Returns the position after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """Returns the compression of the records; ``walk`` has refused any other number."""
        return Codec(self.attributes & _CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        """Returns whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Returns whether the batch is a marker of the broker and not data."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def is_log_append_time(self) -> bool:
        """Returns whether the broker's time, ``max_timestamp``, stands for the timestamps of the records."""
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Returns whether ``base_timestamp`` is when the cleaner may remove what it holds: often in the future."""
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def first_timestamp(self) -> int | None:
        """Returns the timestamp of the first record; None where the header does not say, or there is none."""
        if self.is_log_append_time:
            first = self.max_timestamp
        elif self.has_delete_horizon:
            return None
        else:
            first = self.base_timestamp
        return None if first == NO_TIMESTAMP else first

    @property
    def is_old_wrapper(self) -> bool:
        """Returns whether it is a compressed message of v0 or v1, whose first offset only its contents tell."""
        return self.magic < 2 and self.attributes & _CODEC_MASK != 0

    @property
    def is_dense(self) -> bool:
        """Returns whether every offset the batch covers has its record; a broker appends no other batch."""
        return self.record_count == self.last_offset_delta + 1


class Batch(NamedTuple):
    """One whole batch; ``view`` starts at its base offset and ends with its last byte."""

    header: BatchHeader
    view: memoryview

    @property
    def payload(self) -> memoryview:
        """Returns the records of a v2 batch, still compressed."""
        return self.view[HEADER_BYTES:]


def read_header(records: memoryview, position: int, length: int) -> BatchHeader:
    """Returns the header of the batch at ``position``, whose length field says ``length`` and is true.

    Raises:
        CorruptBatchError: magic, codec, counts or offsets that no batch can have.
    """
    magic = records[position + MAGIC_AT]
    if magic not in LENGTH_MIN or length < LENGTH_MIN[magic]:
        base_offset = PREFIX.unpack_from(records, position)[0]
        raise corrupt(base_offset, f"magic {magic} with length {length} is no format of a batch")
    if magic < 2:
        return _read_old_header(records, position, magic)
    fields = _HEADER.unpack_from(records, position)
    # What `BatchHeader(…)` does in the end; its own call takes as long again, for every batch.
    header = tuple.__new__(BatchHeader, (fields[0], length + PREFIX_BYTES, *fields[2:]))
    base_offset, offsets = header.base_offset, header.last_offset_delta + 1
    if base_offset < 0 or not 0 <= header.record_count <= offsets or base_offset > _OFFSET_MAX - offsets:
        raise corrupt(
            header.base_offset,
            f"{header.record_count} records do not fit last offset delta {header.last_offset_delta}",
        )
    if header.attributes & _CODEC_MASK > Codec.ZSTD:
        raise corrupt(header.base_offset, f"attributes {header.attributes:#06x} name no known compression")
    return header


def _read_old_header(records: memoryview, position: int, magic: int) -> BatchHeader:
    offset, length, crc, _, attributes = _OLD_HEADER.unpack_from(records, position)
    if not 0 <= offset < _OFFSET_MAX or attributes & _CODEC_MASK > Codec.LZ4:
        raise corrupt(offset, f"attributes {attributes:#04x} or the offset cannot be those of a v{magic} message")
    timestamp = -1
    if magic == 1:
        (timestamp,) = _OLD_TIMESTAMP.unpack_from(records, position + _OLD_TIMESTAMP_AT)
    return BatchHeader(
        base_offset=offset,
        batch_bytes=length + PREFIX_BYTES,
        leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes & (_CODEC_MASK | LOG_APPEND_TIME_BIT),
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=-1,
    )


def write_header(buffer: bytearray | memoryview, header: BatchHeader) -> None:
    """Writes the header of a v2 batch at the start of a buffer that holds the whole of it, records and all.

    The CRC is computed from what then is there; ``header.crc`` is not used.
    """
    length = header.batch_bytes - PREFIX_BYTES
    _HEADER.pack_into(buffer, 0, header.base_offset, length, *header[2:])
    CRC.pack_into(buffer, CRC_AT, crc32c(memoryview(buffer)[CHECKED_FROM:]))


def corrupt(offset: int, what: str) -> CorruptBatchError:
    """Returns the error for a batch, with its base offset as a fact."""
    return CorruptBatchError(f"the record batch at offset {offset} is corrupt: {what}", offset=offset)


def varint(number: int) -> bytes:
    """Returns a number of at most 64 bits as records have it: zigzag, of variable length (`ByteUtils.java`)."""
    rest = number << 1 if number >= 0 else ~(number << 1)
    if rest < 0x80:
        return bytes((rest,))
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def read_varint(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """Returns the number at a position and the position after it, of at most ten bytes.

    Raises:
        IndexError: there is none.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise IndexError("a number of more than ten bytes")
