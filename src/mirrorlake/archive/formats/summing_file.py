"""Bytes on their way into a file, or out of it, with their length and checksum."""

from typing import BinaryIO

import xxhash

from mirrorlake.archive.envelope import FileSum
from mirrorlake.archive.seal import READ_BYTES, blocks_of


class SummingFile:
    """Writes to a file and sums up what it writes.

    Args:
        file: takes the bytes in order.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._bytes = 0
        self._hash = xxhash.xxh3_128()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes ``data`` behind what came before.

        Raises:
            StoreUnavailableError, StoreUnusableError: the file's.
        """
        self._file.write(data)
        self._hash.update(data)
        self._bytes += len(data)

    def sum(self) -> FileSum:
        """Returns the sum of all that was written."""
        return FileSum(bytes=self._bytes, checksum=self._hash.hexdigest())


def sum_of(file: BinaryIO, *, read_bytes: int = READ_BYTES) -> FileSum:
    """Reads a file from its start to its end and returns its sum.

    Args:
        file: seekable.
        read_bytes: what is read at a time.
    """
    file.seek(0)
    total, found = 0, xxhash.xxh3_128()
    for data in blocks_of(file, read_bytes):
        found.update(data)
        total += len(data)
    return FileSum(bytes=total, checksum=found.hexdigest())
