"""Bytes on their way into a file, or out of it, with their length and checksum."""

from typing import BinaryIO

import xxhash

from mirrorlake.archive.blocks.sums import BlockSummer
from mirrorlake.archive.envelope import FileSum
from mirrorlake.archive.seal import READ_BYTES, blocks_of


class SummingFile:
    """Writes to a file and sums up what it writes.

    Args:
        file: takes the bytes in order.
        block_bytes: of the blocks that have sums of their own; None where none has.
    """

    def __init__(self, file: BinaryIO, *, block_bytes: int | None = None) -> None:
        self._file = file
        self._bytes = 0
        self._hash = xxhash.xxh3_128()
        self._blocks = None if block_bytes is None else BlockSummer(block_bytes)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes ``data`` behind what came before.

        Raises:
            StoreUnavailableError, StoreUnusableError: the file's.
        """
        self._file.write(data)
        self._hash.update(data)
        if self._blocks is not None:
            self._blocks.update(data)
        self._bytes += len(data)

    def sum(self) -> FileSum:
        """Returns the sum of all that was written."""
        blocks = None if self._blocks is None else self._blocks.sums()
        return FileSum(bytes=self._bytes, checksum=self._hash.hexdigest(), blocks=blocks)


def sum_of(file: BinaryIO, *, read_bytes: int = READ_BYTES, block_bytes: int | None = None) -> FileSum:
    """Reads a file from its start to its end and returns its sum.

    Args:
        file: seekable.
        read_bytes: what is read at a time.
        block_bytes: of the blocks that get sums of their own; None where none does.
    """
    file.seek(0)
    total, found = 0, xxhash.xxh3_128()
    blocks = None if block_bytes is None else BlockSummer(block_bytes)
    for data in blocks_of(file, read_bytes):
        found.update(data)
        if blocks is not None:
            blocks.update(data)
        total += len(data)
    return FileSum(bytes=total, checksum=found.hexdigest(), blocks=None if blocks is None else blocks.sums())
