"""A file's bytes block by block, all in the same memory: fresh memory for each would be cleared first, and cold."""

from collections.abc import Iterator
from typing import BinaryIO

READ_BYTES = 4 << 20
"""What is asked for at a time of a file that may be far away, where each range is a request."""

NEAR_READ_BYTES = 256 << 10
"""The same of a file on a file system: it stays in the processor's cache until it is summed up."""


def blocks_of(file: BinaryIO, read_bytes: int, *, total_bytes: int | None = None) -> Iterator[memoryview]:
    """Yields a file's next bytes, block by block, all in the same memory: each is gone when the next is asked for.

    Args:
        file: read from where it stands.
        read_bytes: what is read at a time, at most.
        total_bytes: what is read in all; up to the end of the file where it is None.
    """
    block = memoryview(bytearray(read_bytes if total_bytes is None else max(1, min(read_bytes, total_bytes))))
    left = total_bytes
    while left is None or left > 0:
        wanted = block if left is None else block[: min(left, len(block))]
        count = file.readinto(wanted)  # type: ignore[attr-defined]  # every store's file has it
        if not count:
            return
        yield wanted[:count]
        left = None if left is None else left - count
