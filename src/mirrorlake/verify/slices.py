"""How a range is cut into what tasks read: slices of whole blocks, and parts of a few blocks in detail. Pure."""

from collections.abc import Iterable, Sequence

from mirrorlake.offsets import OffsetRange
from mirrorlake.verify.digest import BLOCK_OFFSETS

SLICE_OFFSETS = 256 * BLOCK_OFFSETS
"""What one task reads: about a million offsets, so that tasks stay short and a progress bar moves."""

BLOCKS_IN_DETAIL = 16
"""What one task looks at record by record: memory stays small, and a cleaned topic does not take a task a block."""


def slices(offsets: OffsetRange) -> Iterable[OffsetRange]:
    """Yields a range, cut at multiples of ``SLICE_OFFSETS``, so that no block is split."""
    start = offsets.start_offset
    while start < offsets.end_offset:
        end = min(offsets.end_offset, (start // SLICE_OFFSETS + 1) * SLICE_OFFSETS)
        yield OffsetRange(start_offset=start, end_offset=end)
        start = end


def parts_of(blocks: Sequence[int], offsets: OffsetRange) -> Iterable[OffsetRange]:
    """Yields ranges that hold all of ``blocks``, each of a bounded length, within ``offsets``."""
    first = None
    for block in blocks:
        if first is not None and block - first < BLOCKS_IN_DETAIL:
            continue
        first = block
        last = max(each for each in blocks if each - first < BLOCKS_IN_DETAIL)
        yield OffsetRange(
            start_offset=max(offsets.start_offset, first * BLOCK_OFFSETS),
            end_offset=min(offsets.end_offset, (last + 1) * BLOCK_OFFSETS),
        )
