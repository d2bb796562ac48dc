"""Digests of ranges of records: small enough to travel, exact enough to find the first offset that differs.

A partition's offsets are cut into blocks of ``BLOCK_OFFSETS``. A block's digest covers its records' hashes in
order (``kafka.records.hashes``: offset, timestamp, key, value, headers), so equal digests mean equal records at equal
offsets, and the first block that differs holds the first record that does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import xxhash

from mirrorlake.kafka.records.codec import RecordColumns, record_hashes

BLOCK_OFFSETS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The records of one block: how many, and a digest of their hashes in offset order."""

    records: int
    digest: int


@dataclass(slots=True)
class _Open:
    records: int = 0
    state: "xxhash.xxh3_64" = field(default_factory=xxhash.xxh3_64)


class BlockDigests:
    """Digests the records of one range as they come, in offset order. Memory: one small state per block."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Open] = {}
        self.records = 0

    def add(self, columns: RecordColumns) -> None:
        """Takes the next records; a block may come in several pieces."""
        if not len(columns):
            return
        hashes = record_hashes(columns).astype("<u8", copy=False)
        blocks = columns.offsets // BLOCK_OFFSETS
        starts = np.flatnonzero(np.diff(blocks, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(blocks)], strict=True):
            block = self._blocks.setdefault(int(blocks[start]), _Open())
            block.records += int(stop - start)
            block.state.update(hashes[start:stop].tobytes())
        self.records += len(columns)

    def blocks(self) -> dict[int, Block]:
        """Returns the digests by block number; blocks without a record are absent."""
        return {
            number: Block(records=block.records, digest=block.state.intdigest())
            for number, block in self._blocks.items()
        }


def differing_blocks(source: Mapping[int, Block], copy: Mapping[int, Block]) -> list[int]:
    """Returns the blocks that are not the same on both sides, ascending."""
    return sorted(n for n in source.keys() | copy.keys() if source.get(n) != copy.get(n))
