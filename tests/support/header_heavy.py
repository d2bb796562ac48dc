"""Batches of records that are nothing but headers, each of them empty: small on the wire, large in memory."""

import struct

import cramjam
import crc32c

ZSTD_V2 = 4
"""The attributes of such a batch."""
TIMESTAMP_MS = 1_700_000_000_000


def header_heavy_batch(records: int, headers: int) -> bytes:
    """A batch at base offset 0 of records without key and value; their headers have empty keys and null values."""
    payload = b"".join(_record(number, headers) for number in range(records))
    times = (TIMESTAMP_MS, TIMESTAMP_MS)
    fields = struct.pack(">hiqqqhii", ZSTD_V2, records - 1, *times, -1, -1, -1, records)
    fields += bytes(cramjam.zstd.compress(payload, level=3))
    return struct.pack(">qiibI", 0, 9 + len(fields), 0, 2, crc32c.crc32c(fields)) + fields


def _record(number: int, headers: int) -> bytes:
    header = _varint(0) + _varint(-1)
    body = b"\0" + _varint(0) + _varint(number) + _varint(-1) + _varint(-1) + _varint(headers) + header * headers
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    zigzag, found = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 0x7F:
        found.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*found, zigzag])
