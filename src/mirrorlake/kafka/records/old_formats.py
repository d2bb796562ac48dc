"""Message formats v0 and v1, which brokers before 0.11 wrote and later ones still serve: made into batches of v2.

A message is, big-endian: offset (8), length of what follows (4), CRC-32 of all that follows it (4), magic (1),
attributes (1), v1 only: timestamp (8); then key and value, each behind its length (4), -1 for null. A compressed
message is a wrapper: its value is the messages themselves, and its offset that of the last. Inside a v0 wrapper
offsets are absolute, inside a v1 wrapper they count from the first that was ever in it. Source:
`AbstractLegacyRecordBatch.java`, `LegacyRecord.java`, KIP-31, KIP-32.
"""

import zlib
from collections.abc import Sequence
from struct import Struct

import xxhash

from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.records.batch_header import (
    CRC,
    HEADER_BYTES,
    LENGTH_MIN,
    LOG_APPEND_TIME_BIT,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    PREFIX,
    PREFIX_BYTES,
    Batch,
    BatchHeader,
    Codec,
    corrupt,
    read_header,
    varint,
    write_header,
)
from mirrorlake.kafka.records.compression import Bytes
from mirrorlake.kafka.records.scratch import allowed, decompressed

_CRC_AT = PREFIX_BYTES
_ATTRIBUTES_AT = MAGIC_AT + 1
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_TIMESTAMP_AT = _ATTRIBUTES_AT + 1
_KEY_AT = {0: _TIMESTAMP_AT, 1: _TIMESTAMP_AT + _INT64.size}
_CODEC_MASK = 0x07
_NO_TIMESTAMP = -1
_DELTA_MAX = 2**31 - 1
_STEP_MAX = 2**16  # so that the offsets of any number of messages that fit one batch are a delta apart

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE_BIT = 0x08


def as_v2(message: Batch, *, decompressed_bytes_max: int | None = None) -> Batch:
    """Returns the records of a message as one uncompressed v2 batch in memory of its own, at their own offsets.

    Offsets a compacted wrapper lacks are holes of the batch. With LogAppendTime all records have the wrapper's time,
    as every reader sees it, else their own; a record of v0 has none, -1. Memory: about what the message decompresses
    to, twice.

    Args:
        message: of format v0 or v1, its checksum verified.
        decompressed_bytes_max: the largest the message may become, None for what the process allows.

    Raises:
        CorruptBatchError: compression, checksum, length or offset of a message inside is not right; with the offset of
            the outer one.
    """
    if message.header.codec == Codec.NONE:
        return coalesce_as_v2([message])
    messages = _inside(message, allowed() if decompressed_bytes_max is None else decompressed_bytes_max)
    records = _Records(message.header)
    position = 0
    while position < len(messages):
        position = records.add(messages, position)
    return records.batch()


def can_coalesce(earlier: BatchHeader, later: BatchHeader) -> bool:
    """Returns whether the records of two messages, one after the other, may be in one batch of v2.

    Neither is compressed, and where a broker set their times it set the same: a batch has one for all.
    """
    return (
        earlier.magic == later.magic < 2
        and not (earlier.is_old_wrapper or later.is_old_wrapper)
        and earlier.is_log_append_time == later.is_log_append_time
        and (earlier.max_timestamp == later.max_timestamp or not later.is_log_append_time)
        and later.base_offset - earlier.base_offset <= _STEP_MAX
    )


def coalesce_as_v2(messages: Sequence[Batch]) -> Batch:
    """Returns the records of uncompressed messages as one batch of v2, otherwise as ``as_v2``.

    Args:
        messages: at least one, in a row, each of which ``can_coalesce`` the next; their checksums verified.

    Raises:
        CorruptBatchError: as ``as_v2``, with the offset of the message that is not right.
    """
    records = _Records(messages[0].header)
    for message in messages:
        records.outer = message.header
        records.add(message.view, 0)
    return records.batch()


class _Records:
    """The records of one outer message, written as those of v2 one after another.

    Offsets are taken as they stand in the bytes; ``batch`` knows what they count from. ``outer`` is the message that is
    read, or of which the messages inside are.
    """

    def __init__(self, outer: BatchHeader) -> None:
        self.outer = outer
        self._data = bytearray(HEADER_BYTES)
        self._count = 0
        self._first_offset = 0
        self._last_offset = -1
        self._max_timestamp = _NO_TIMESTAMP

    def add(self, messages: memoryview, start: int) -> int:
        """Takes the message at ``start``; returns where it ends."""
        end, magic = self._checked(messages, start)
        (offset,) = _INT64.unpack_from(messages, start)
        (timestamp,) = _INT64.unpack_from(messages, start + _TIMESTAMP_AT) if magic == 1 else (_NO_TIMESTAMP,)
        if self._count == 0:
            self._first_offset, self._max_timestamp = offset, timestamp
        if offset <= self._last_offset or offset - self._first_offset > _DELTA_MAX:
            raise self._corrupt("its offset is not shortly behind that of the message before")
        body = bytearray(1)  # attributes: none are in use
        body += varint(timestamp)  # counted from 0
        body += varint(offset - self._first_offset)
        position = start + _KEY_AT[magic]
        for _ in ("key", "value"):
            position = self._take_field(body, messages, position, end)
        if position != end:
            raise self._corrupt("bytes are left behind its value")
        body += varint(0)  # headers came with v2
        self._data += varint(len(body))
        self._data += body
        self._count += 1
        self._last_offset = offset
        self._max_timestamp = max(self._max_timestamp, timestamp)
        return end

    def _checked(self, messages: memoryview, start: int) -> tuple[int, int]:
        """Returns the end and the magic of the message at ``start``, of which everything but key and value is right."""
        if len(messages) - start < PREFIX_BYTES + LENGTH_MIN[0]:
            raise self._corrupt("it is cut")
        end = start + PREFIX_BYTES + PREFIX.unpack_from(messages, start)[1]
        magic, attributes = messages[start + MAGIC_AT], messages[start + _ATTRIBUTES_AT]
        if magic > 1 or not start + PREFIX_BYTES + LENGTH_MIN[magic] <= end <= len(messages):
            raise self._corrupt("its magic or length is none a message can have")
        if self.outer.codec != Codec.NONE:
            if attributes & _CODEC_MASK:
                raise self._corrupt("it is compressed, inside one that is")
            if zlib.crc32(messages[start + MAGIC_AT : end]) != CRC.unpack_from(messages, start + _CRC_AT)[0]:
                raise self._corrupt("its checksum is not that of its bytes")
        return end, magic

    def _take_field(self, body: bytearray, messages: memoryview, start: int, end: int) -> int:
        """Takes a key or value over; returns where it ends. As everywhere, any negative length is a null."""
        length = _INT32.unpack_from(messages, start)[0] if end - start >= _INT32.size else end
        start += _INT32.size
        if length > end - start:
            raise self._corrupt("a length in it leads beyond it")
        if length < 0:
            body += varint(-1)
            return start
        body += varint(length)
        body += messages[start : start + length]
        return start + length

    def _corrupt(self, what: str) -> CorruptBatchError:
        where = f"message {self._count} inside" if self.outer.codec != Codec.NONE else "the message"
        return corrupt(self.outer.base_offset, f"{where}: {what}")

    def batch(self) -> Batch:
        """Returns the batch of all records taken; a wrapper's offset is that of its last one."""
        outer = self.outer
        if self._count == 0:
            raise corrupt(outer.base_offset, "it is compressed and holds no message")
        base_offset = self._first_offset
        if outer.codec != Codec.NONE and outer.magic == 1:
            base_offset += outer.base_offset - self._last_offset
        last_delta = outer.base_offset - base_offset
        if base_offset < 0 or not self._last_offset - self._first_offset <= last_delta <= _DELTA_MAX:
            raise corrupt(outer.base_offset, "offsets inside do not lead to its own")
        is_append_time = outer.magic == 1 and outer.is_log_append_time
        header = BatchHeader(
            base_offset=base_offset,
            batch_bytes=len(self._data),
            leader_epoch=NO_LEADER_EPOCH,
            magic=2,
            crc=0,
            attributes=LOG_APPEND_TIME_BIT if is_append_time else 0,
            last_offset_delta=last_delta,
            base_timestamp=0,
            max_timestamp=outer.max_timestamp if is_append_time else self._max_timestamp,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=self._count,
        )
        write_header(self._data, header)
        view = memoryview(self._data)
        return Batch(read_header(view, 0, len(view) - PREFIX_BYTES), view)


def _inside(wrapper: Batch, bytes_max: int) -> memoryview:
    """Returns the messages a wrapper holds."""
    header, view = wrapper
    key_at = _KEY_AT[header.magic]
    value_at = key_at + _INT32.size + max(0, _INT32.unpack_from(view, key_at)[0])
    length = _INT32.unpack_from(view, value_at)[0] if value_at + _INT32.size <= len(view) else -1
    value = view[value_at + _INT32.size :]
    if length != len(value):
        raise corrupt(header.base_offset, "it is compressed, and its value is null or cut")
    data: Bytes = value
    if header.codec == Codec.LZ4 and header.magic == 0:
        data = _with_right_checksum(value)
    return decompressed(header.codec, data, base_offset=header.base_offset, bytes_max=bytes_max).data


def _with_right_checksum(frame: memoryview) -> Bytes:
    """Returns an LZ4 frame with the checksum of its descriptor made right.

    Writers of v0 took it over the frame's magic as well, so readers of v0 do not look at it (KAFKA-3160).
    """
    if len(frame) < len(_LZ4_MAGIC) + 3 or frame[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        return frame
    start = len(_LZ4_MAGIC)
    end = start + (10 if frame[start] & _LZ4_CONTENT_SIZE_BIT else 2)
    if end >= len(frame):
        return frame
    corrected = bytearray(frame)
    # The LZ4 frame format: the second byte of XXH32 over the descriptor, from its flags up to this byte.
    corrected[end] = xxhash.xxh32_intdigest(bytes(frame[start:end])) >> 8 & 0xFF
    return corrected
