"""Seals: a checksum that stands inside of the bytes it is about.

The bytes hold 32 hexadecimal digits once, the XXH3 128-bit hash of all of them with zeros in the digits' place. So
every byte counts, also those a reader never looks at, and nothing beside the object is needed to check it.
"""

from collections.abc import Callable, Iterator
from io import RawIOBase
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import xxhash

from mirrorlake.archive.blocks.sums import BLOCK_BYTES, BlockSummer, PageSums

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

SEAL_ALGORITHM = "xxh3-128"

OPEN_SEAL = "0" * 32
"""Stands in the seal's place until it is known."""

_QUOTED_OPEN_SEAL = f'"{OPEN_SEAL}"'.encode()

READ_BYTES = 4 << 20
"""What is asked for at a time of a file that may be far away, where each range is a request."""

NEAR_READ_BYTES = 256 << 10
"""The same of a file on a file system: it stays in the processor's cache until it is summed up."""


class Seals(NamedTuple):
    """What a file was sealed with: ``end`` is of its end alone, ``whole`` of all of its bytes."""

    end: str
    whole: str


class SealingFile(RawIOBase):
    """Writes to a file, of which it holds the end back until it can be sealed; the file is not closed.

    Args:
        file: takes the bytes in order; need not seek.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._hash = xxhash.xxh3_128()
        self._blocks = BlockSummer(BLOCK_BYTES)
        self._bytes = 0
        self._end: bytearray | None = None

    def writable(self) -> bool:
        """Returns True."""
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        """Writes ``data``, or holds it back.

        Raises:
            StoreUnavailableError, StoreUnusableError: the file's.
        """
        view = memoryview(data).cast("B")
        if self._end is not None:
            self._end += data
        else:
            self._file.write(data)
            self._hash.update(data)
            self._blocks.update(view)
            self._bytes += len(view)
        return len(view)

    def hold_back(self) -> PageSums:
        """Holds back all that is written from now on, which must be what can be held in memory.

        Returns the sums of what was written so far, with the end not sealed yet.
        """
        self._end = bytearray()
        return PageSums(bytes=self._bytes, blocks=self._blocks.sums(), end_seal=OPEN_SEAL)

    def seal(self) -> Seals:
        """Writes what was held back, with two seals in place of the last two ``OPEN_SEAL`` in quotes there.

        The first of the two is of what was held back, with both open. The second is of all bytes, with that one set.

        Raises:
            StoreUnavailableError, StoreUnusableError: the file's.
        """
        assert self._end is not None, "sealed without an end"
        end = bytes(self._end)
        of_end = xxhash.xxh3_128(end).hexdigest()
        before, place, after = end.rpartition(_QUOTED_OPEN_SEAL)
        end = _with_digits(before, of_end) + place + after
        self._hash.update(end)
        of_whole = self._hash.hexdigest()
        self._file.write(_with_digits(end, of_whole))
        return Seals(end=of_end, whole=of_whole)


def sealed(data: bytes) -> bytes:
    """Returns ``data`` with the seal in place of the last ``OPEN_SEAL`` in quotes in it."""
    return _with_digits(data, xxhash.xxh3_128(data).hexdigest())


def flaw_of(data: bytes, seal: str) -> str | None:
    """Returns what is wrong with sealed bytes, in words, or None where they are intact."""
    return _flaw(xxhash.xxh3_128(), data, seal)


def flaw_of_file(
    file: BinaryIO,
    seal: str,
    *,
    end_bytes: int,
    read_bytes: int = READ_BYTES,
    also: Callable[[memoryview], None] = lambda _: None,
) -> str | None:
    """Reads a sealed file from its start to its end and returns what is wrong, in words; None where it is intact.

    Args:
        file: seekable.
        seal: what it is sealed with.
        end_bytes: how many of its last bytes hold the seal.
        read_bytes: what is read at a time of those before.
        also: takes all bytes too, in order.
    """
    before_bytes = file.seek(0, 2) - end_bytes
    file.seek(0)
    found = xxhash.xxh3_128()
    for data in blocks_of(file, read_bytes, total_bytes=before_bytes):
        found.update(data)
        also(data)
    end = file.read()
    also(memoryview(end))
    return _flaw(found, end, seal)


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


def filled_from(file: BinaryIO, view: memoryview, *, at: int) -> bool:
    """Reads a file's bytes from a place on until a view is full; returns False where the file ends before."""
    file.seek(at)
    done = 0
    while done < len(view):
        count = file.readinto(view[done:])  # type: ignore[attr-defined]  # every store's file has it
        if not count:
            return False
        done += count
    return True


def flaw_of_end(end: bytes, seals: Seals) -> str | None:
    """Returns what is wrong with the end of a file that `SealingFile` has written, in words; None where it is intact.

    Args:
        end: what was held back.
        seals: what it says of itself.
    """
    opened = end
    for seal in seals:
        if end.count(seal.encode()) != 1:
            return f"does not hold its seal {seal} exactly once"
        opened = opened.replace(seal.encode(), OPEN_SEAL.encode())
    actual = xxhash.xxh3_128(opened).hexdigest()
    return None if actual == seals.end else f"has an end with checksum {actual}, it is sealed with {seals.end}"


def flaw_behind(before: xxhash.xxh3_128, end: bytes, seal: str) -> str | None:
    """Returns what is wrong with sealed bytes, in words; None where they are intact.

    Args:
        before: has taken all of them but the last ones.
        end: the last ones, which hold the seal.
        seal: what they are sealed with.
    """
    return _flaw(before.copy(), end, seal)


def _flaw(before: xxhash.xxh3_128, end: bytes, seal: str) -> str | None:
    if end.count(seal.encode()) != 1:
        return f"does not hold its seal {seal} exactly once"
    before.update(end.replace(seal.encode(), OPEN_SEAL.encode()))
    actual = before.hexdigest()
    return None if actual == seal else f"has checksum {actual}, it is sealed with {seal}"


def _with_digits(data: bytes, digits: str) -> bytes:
    # The last one: a topic, too, may be named by as many zeros, and the seal stands behind all that is said.
    before, found, after = data.rpartition(_QUOTED_OPEN_SEAL)
    assert found, "there is no place for a seal"
    return before + f'"{digits}"'.encode() + after
