"""Digests of the gaps of a range, block by block, so that only those that differ are looked at one by one. Pure."""

from collections.abc import Iterable, Sequence

import xxhash

from mirrorlake.offsets import FOLLOWING_KINDS, Gap, OffsetRange, gaps_within
from mirrorlake.verify.digest import BLOCK_OFFSETS

UNSAID = -1
"""Stands for the digest of a block of which some offsets' gaps are not said."""


def joined(gaps: Iterable[Gap]) -> list[Gap]:
    """Returns gaps that are neither ``absent`` nor ``filtered`` in order, with those of one kind that touch as one."""
    found: list[Gap] = []
    for gap in sorted(gap for gap in gaps if gap.kind not in FOLLOWING_KINDS):
        last = found[-1] if found else None
        if last is not None and last.kind is gap.kind and gap.offsets.start_offset <= last.offsets.end_offset:
            end = max(last.offsets.end_offset, gap.offsets.end_offset)
            found[-1] = Gap(offsets=OffsetRange(start_offset=last.offsets.start_offset, end_offset=end), kind=gap.kind)
        else:
            found.append(gap)
    return found


def gap_digests(gaps: Sequence[Gap], unsaid: Sequence[OffsetRange]) -> dict[int, int]:
    """Returns a digest for each block that has a gap that is not ``absent``, and `UNSAID` where gaps are not said.

    Args:
        gaps: as `joined` returns them.
        unsaid: offsets of which it is not said why they hold no record.
    """
    texts: dict[int, xxhash.xxh3_64] = {}
    for gap in gaps:
        for block in blocks_of(gap.offsets):
            held = OffsetRange(start_offset=block * BLOCK_OFFSETS, end_offset=(block + 1) * BLOCK_OFFSETS)
            for part in gaps_within([gap], held):
                text = f"{part.offsets.start_offset} {part.offsets.end_offset} {part.kind.value};"
                texts.setdefault(block, xxhash.xxh3_64()).update(text.encode())
    found = {block: text.intdigest() for block, text in texts.items()}
    return found | {block: UNSAID for each in unsaid for block in blocks_of(each)}


def differing_gaps(a: dict[int, int], b: dict[int, int]) -> list[int]:
    """Returns the blocks of which both sides say all gaps, and not the same, ascending."""
    return sorted(
        block
        for block in a.keys() | b.keys()
        if UNSAID not in (a.get(block), b.get(block)) and a.get(block) != b.get(block)
    )


def blocks_of(offsets: OffsetRange) -> range:
    """Returns the blocks that have some of a range."""
    if not offsets:
        return range(0)
    return range(offsets.start_offset // BLOCK_OFFSETS, (offsets.end_offset - 1) // BLOCK_OFFSETS + 1)
