"""Checksums of the blocks of a file: what is read of it is told from what was changed without reading all of it."""

from dataclasses import dataclass

import xxhash

BLOCK_BYTES = 512 << 10
"""A piece of 4 MiB is nearly full of whole blocks, and 128 MiB are described by 9 kB."""

BLOCK_BYTES_MAX = 4 << 20
"""A reader holds one whole."""

BLOCK_ALGORITHM = "xxh3-128"

_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSums:
    """The XXH3 128-bit hash of each run of ``block_bytes`` of a file, of which the last may be shorter.

    ``digests`` are of 16 bytes, one after another.
    """

    block_bytes: int
    digests: bytes

    def __len__(self) -> int:
        return len(self.digests) // _DIGEST_BYTES

    def holds(self, number: int, data: memoryview) -> bool:
        """Tells whether these are the bytes of a block."""
        start = number * _DIGEST_BYTES
        return xxhash.xxh3_128_digest(data) == self.digests[start : start + _DIGEST_BYTES]

    def continued(self, blocks: int, behind: memoryview) -> "BlockSums":
        """Returns the sums of these first blocks, and of what stands behind them."""
        summer = BlockSummer(self.block_bytes)
        summer.update(behind)
        digests = self.digests[: blocks * _DIGEST_BYTES] + summer.sums().digests
        return BlockSums(block_bytes=self.block_bytes, digests=digests)

    def hexdigests(self) -> list[str]:
        """Returns the checksum of each block: 32 hexadecimal digits."""
        starts = range(0, len(self.digests), _DIGEST_BYTES)
        return [self.digests[start : start + _DIGEST_BYTES].hex() for start in starts]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSums:
    """What a Parquet file says of its bytes beside its seal, so that a part of them can be compared by itself.

    Attributes:
        bytes: how many come before its end, which is its page indexes and footer; its pages are all among them.
        blocks: the checksums of the blocks of these.
        end_seal: of its end; see `mirrorlake.archive.seal`.
    """

    bytes: int
    blocks: BlockSums
    end_seal: str


class BlockSummer:
    """Sums up the bytes of a file block by block, however they come.

    Args:
        block_bytes: of each block but the last.
    """

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._digests = bytearray()
        self._block = xxhash.xxh3_128()
        self._left = block_bytes

    def update(self, data: bytes | bytearray | memoryview) -> None:
        """Takes the next bytes."""
        view = memoryview(data)
        while len(view) >= self._left:
            self._block.update(view[: self._left])
            self._digests += self._block.digest()
            view = view[self._left :]
            self._block.reset()
            self._left = self._block_bytes
        if view:
            self._block.update(view)
            self._left -= len(view)

    def sums(self) -> BlockSums:
        """Returns the sums of all that was taken so far."""
        last = self._block.digest() if self._left < self._block_bytes else b""
        return BlockSums(block_bytes=self._block_bytes, digests=bytes(self._digests) + last)


def block_fields(sums: BlockSums) -> dict[str, object]:
    """Returns the sums as JSON has them: ``blocks`` of ``docs/archive-format.md``."""
    return {"bytes": sums.block_bytes, "algorithm": BLOCK_ALGORITHM, "values": sums.hexdigests()}


def block_sums_in(fields: object, *, file_bytes: int) -> BlockSums:
    """Returns what `block_fields` wrote.

    Args:
        fields: as JSON has them.
        file_bytes: how long the file is.

    Raises:
        KeyError, TypeError, ValueError: they are not of a file of this length.
    """
    if not isinstance(fields, dict) or not isinstance(fields["values"], list):
        raise TypeError(f"not checksums of blocks: {fields!r}")
    block_bytes, values = fields["bytes"], fields["values"]
    if not isinstance(block_bytes, int) or isinstance(block_bytes, bool) or not 0 < block_bytes <= BLOCK_BYTES_MAX:
        raise ValueError(f"blocks of {block_bytes!r} bytes")
    if fields["algorithm"] != BLOCK_ALGORITHM:
        raise ValueError(f"block checksums {fields['algorithm']}")
    if len(values) != -(-file_bytes // block_bytes):
        raise ValueError(f"{len(values)} checksums of blocks of {block_bytes} bytes for {file_bytes} bytes")
    return BlockSums(block_bytes=block_bytes, digests=b"".join(_digest(value) for value in values))


def page_fields(pages: PageSums) -> dict[str, object]:
    """Returns the sums as JSON has them: ``pages`` of ``docs/archive-format.md``."""
    return {"bytes": pages.bytes, "blocks": block_fields(pages.blocks), "end_seal": pages.end_seal}


def page_sums_in(fields: object) -> PageSums:
    """Returns what `page_fields` wrote.

    Raises:
        KeyError, TypeError, ValueError: that is not it.
    """
    if not isinstance(fields, dict):
        raise TypeError(f"not checksums of pages: {fields!r}")
    size, end_seal = fields["bytes"], fields["end_seal"]
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError(f"pages of {size!r} bytes")
    blocks = block_sums_in(fields["blocks"], file_bytes=size)
    return PageSums(bytes=size, blocks=blocks, end_seal=_digest(end_seal).hex())


def _digest(value: object) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    digest = bytes.fromhex(value)
    if digest.hex() != value or len(digest) != _DIGEST_BYTES:
        raise ValueError(f"no checksum of a block: {value!r}")
    return digest
