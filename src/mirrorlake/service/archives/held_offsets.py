"""Which offsets of a hold are not in the archive though they were: a hold keeps what is there, and nothing else.

Nothing is concluded from what a listing does not show: that offsets were archived is told by segments behind them, or
by what the topic's record says the partition had reached.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.errors import ChainBrokenError
from mirrorlake.offsets import OffsetRange

NAMED_MAX = 5
"""Ranges that one message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOffsets:
    """What a partition has of a range.

    ``missing`` was archived and is not there, in order. ``is_any_there`` tells whether a segment has any offset of the
    range. ``end`` is where the partition ends, or once did; 0 where nobody knows of a segment.
    """

    missing: tuple[OffsetRange, ...]
    is_any_there: bool
    end: int


def held_offsets(archived: PartitionFolder, offsets: OffsetRange, *, reached: int) -> HeldOffsets:
    """Lists a partition's folder twice where offsets are missing, and returns what both listings show.

    A folder is not listed in one instant; whatever stood there before a listing began is in it.

    Args:
        archived: the partition.
        offsets: the range, from the partition's floor on.
        reached: where the partition ended once, as recorded before this is called; 0 where that is not known.

    Raises:
        MirrorlakeError: the store could not be read.
    """
    found = _look(archived, offsets, reached)
    if not found.missing:
        return found
    again = _look(archived, offsets, reached)
    both = [each for missing in found.missing for each in _common(missing, again.missing)]
    return HeldOffsets(missing=tuple(both), is_any_there=again.is_any_there, end=again.end)


def missing_error(where: str, held: HeldOffsets) -> ChainBrokenError:
    """Returns the error of a hold of a range of which something is missing."""
    named = ", ".join(map(str, held.missing[:NAMED_MAX]))
    more = f" and {len(held.missing) - NAMED_MAX} more ranges" if len(held.missing) > NAMED_MAX else ""
    rest = "what else there is of the range is held" if held.is_any_there else "so nothing is there to be held"
    return ChainBrokenError(
        f"{where}: offsets {named}{more} were archived, and no segment with them is there: {rest}",
        hint="put the segments back, or mount their file system: the hold stays, and keeps them from then on",
        missing=named,
    )


def _look(archived: PartitionFolder, offsets: OffsetRange, reached: int) -> HeldOffsets:
    segments = sorted(archived.survey(refuse=lambda _: None), key=lambda each: each.name)
    if not isinstance(archived, ArchivedPartition):
        segments = segments[-1:]  # a snapshot has the latest of all keys below its end
    there = [_offsets_of(archived, each) for each in segments]
    end = max([reached, *(each.end_offset for each in there)])
    if offsets.start_offset >= end:
        return HeldOffsets(missing=(), is_any_there=False, end=end)
    once = OffsetRange(start_offset=offsets.start_offset, end_offset=min(offsets.end_offset, end))
    return HeldOffsets(missing=tuple(_without(once, there)), is_any_there=any(_common(once, there)), end=end)


def _offsets_of(archived: PartitionFolder, segment: Segment) -> OffsetRange:
    is_whole = not isinstance(archived, ArchivedPartition)
    return OffsetRange(start_offset=0, end_offset=segment.name.end_offset) if is_whole else segment.name.offsets


def _without(offsets: OffsetRange, others: Sequence[OffsetRange]) -> Iterable[OffsetRange]:
    """Yields what of a range is in none of some others, which are in the order of their starts."""
    start = offsets.start_offset
    for other in others:
        if start < min(other.start_offset, offsets.end_offset):
            yield OffsetRange(start_offset=start, end_offset=min(other.start_offset, offsets.end_offset))
        start = max(start, other.end_offset)
    if start < offsets.end_offset:
        yield OffsetRange(start_offset=start, end_offset=offsets.end_offset)


def _common(offsets: OffsetRange, others: Sequence[OffsetRange]) -> list[OffsetRange]:
    """Returns what a range has in common with each of some others, as far as it has anything."""
    pairs = (
        (max(offsets.start_offset, other.start_offset), min(offsets.end_offset, other.end_offset)) for other in others
    )
    return [OffsetRange(start_offset=start, end_offset=end) for start, end in pairs if start < end]
