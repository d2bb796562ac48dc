"""Messages of formats v0 and v1 written out field by field, with nothing of the code under test."""

import gzip
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cramjam
import xxhash

GZIP, SNAPPY, LZ4 = 1, 2, 3
LOG_APPEND_TIME = 8


@dataclass(frozen=True)
class Message:
    """``offset`` as it is to stand in the bytes; ``timestamp`` is left out of v0."""

    offset: int
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    timestamp: int = -1


def message(magic: int, fields: Message, attributes: int = 0) -> bytes:
    content = struct.pack(">bb", magic, attributes)
    if magic == 1:
        content += struct.pack(">q", fields.timestamp)
    for part in (fields.key, fields.value):
        content += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", fields.offset, 4 + len(content), zlib.crc32(content)) + content


def xerial(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block


def lz4_frame(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress(data))


def lz4_frame_of_v0(data: bytes) -> bytes:
    """With the checksum as Kafka wrote it before 0.10: over the frame's magic as well (KAFKA-3160)."""
    frame = bytearray(lz4_frame(data))
    end = 14 if frame[4] & 8 else 6
    right = xxhash.xxh32_intdigest(bytes(frame[4:end])) >> 8 & 0xFF
    assert frame[end] == right
    frame[end] = xxhash.xxh32_intdigest(bytes(frame[:end])) >> 8 & 0xFF
    assert frame[end] != right
    return bytes(frame)


COMPRESSIONS: dict[tuple[int, int], Callable[[bytes], bytes]] = {
    (0, GZIP): gzip.compress,
    (0, SNAPPY): xerial,
    (0, LZ4): lz4_frame_of_v0,
    (1, GZIP): gzip.compress,
    (1, SNAPPY): xerial,
    (1, LZ4): lz4_frame,
}


def wrapper(
    magic: int, codec: int, offset: int, inside: Sequence[bytes], *, timestamp: int = -1, attributes: int = 0
) -> bytes:
    value = COMPRESSIONS[magic, codec](b"".join(inside))
    return message(magic, Message(offset, None, value, timestamp), codec | attributes)
