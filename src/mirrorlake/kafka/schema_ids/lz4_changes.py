"""A few bytes changed of data that is compressed as an LZ4 frame, without compressing it anew."""

import struct

import numpy as np
import xxhash

from mirrorlake.kafka.records.kernels import Int64s, UInt8s
from mirrorlake.kafka.schema_ids.lz4_kernels import (
    BLOCK_CHECKSUMS,
    FLAGS_AT,
    IS_STORED,
    MARK_BITS,
    NOT_UNDERSTOOD,
    SIZE_BYTES,
    change_frame,
)

BLOCK_BYTES_MIN = 64 << 10
"""What the smallest blocks that a frame may have hold; the last one may hold less."""

_SIZE = struct.Struct("<I")


def new_marks(size_bytes: int) -> UInt8s:
    """Returns what says where data of a size changes, with nothing marked yet: one for each sixteen bytes."""
    return np.zeros((size_bytes >> MARK_BITS) + 1, np.uint8)


def changed_frame(frame: UInt8s, wanted: UInt8s, marks: UInt8s, *, header_bytes: int) -> UInt8s | None:
    """Returns a frame of ``wanted`` behind so many bytes that are left free, None where that needs compressing.

    It has the blocks and the matches of ``frame``, but for matches of what does not change alike. None for a frame with
    a checksum of its whole content, which no client of Kafka writes, one that is damaged, and one that becomes an
    eighth larger.

    Args:
        frame: one whole LZ4 frame.
        wanted: what the new one is to decompress to, as many bytes as ``frame`` does.
        marks: see `new_marks`; each sixteen bytes of which one changes are marked.
        header_bytes: how much is left free.
    """
    made = np.empty(header_bytes + len(frame) + len(frame) // 8 + 1024, np.uint8)
    # A block that holds less than the smallest, but for the last one, is one that nobody writes.
    blocks = np.empty(len(wanted) // BLOCK_BYTES_MIN + 2, np.int64)
    own = frame.copy()
    length = change_frame(
        own.ctypes.data, len(own), wanted.ctypes.data, len(wanted), marks, made[header_bytes:], blocks
    )
    if length == NOT_UNDERSTOOD:
        return None
    if int(frame[FLAGS_AT]) & BLOCK_CHECKSUMS:
        _sum_blocks(made[header_bytes:].data, blocks)
    return made[: header_bytes + length]


def _sum_blocks(frame: memoryview, blocks: Int64s) -> None:
    for start in blocks.tolist():
        if not start:
            return
        size = _SIZE.unpack_from(frame, start - SIZE_BYTES)[0] & (IS_STORED - 1)
        end = start + size
        _SIZE.pack_into(frame, end, xxhash.xxh32_intdigest(frame[start:end]))
