"""What maintenance sees in a partition's folder, from names alone: the chain, and what lies beside it."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mirrorlake.archive.chain import Segment, check_chain, floor_of, segments_of, walk_chain
from mirrorlake.archive.looks import settled
from mirrorlake.archive.names import (
    MergeName,
    RetireName,
    SegmentName,
    parse_floor_name,
    parse_merge_name,
    parse_retire_name,
)
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.object_store import ObjectInfo

MERGE_SECONDS_MAX = 86400.0
"""Age at which what was announced is taken for a dead merger's: no merge takes a day from its announcement on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredSegment:
    """A segment that lies wholly inside a larger one of the chain, and waits to be deleted."""

    segment: Segment
    cover: Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLook:
    """One partition's folder as one checked listing shows it.

    Attributes:
        where: the folder, for messages.
        floor: whatever ends at or below it was retired.
        chain: the segments that count, in order; the last one is the position's, and nobody's to take.
        covered: segments inside those, in the order of their names.
        retired: segments that end at or below the floor, in the order of their names.
        merges: what mergers and erasers have announced, in the order of names.
        floors: every floor there is, the highest one included, ascending.
        retiring: what retention has announced and not withdrawn.
    """

    where: str
    floor: int = 0
    chain: tuple[Segment, ...] = ()
    covered: tuple[CoveredSegment, ...] = ()
    retired: tuple[Segment, ...] = ()
    merges: tuple[MergeName, ...] = ()
    floors: tuple[int, ...] = ()
    # When each was announced, in Unix seconds by the store's clock; None where that is not known.
    merge_times: tuple[float | None, ...] = field(default=(), compare=False)
    # What retention has announced, and when, likewise.
    retiring: tuple[RetireName, ...] = ()
    retire_times: tuple[float | None, ...] = field(default=(), compare=False)

    @property
    def newest(self) -> Segment | None:
        """The segment that ends at the position; None in an empty folder."""
        return self.chain[-1] if self.chain else None

    def live_merges(self, now_seconds: float) -> tuple[tuple[MergeName, float | None], ...]:
        """Returns what was announced less than a day ago, or nobody knows when, and when that was."""
        times = self.merge_times or (None,) * len(self.merges)
        return tuple(each for each in zip(self.merges, times, strict=True) if is_live(each[1], now_seconds))

    def holding(self, offsets: OffsetRange) -> Segment | None:
        """Returns the segment of the chain that a range lies wholly inside of, or None."""
        index = bisect_right(self.chain, offsets.start_offset, key=lambda each: each.name.from_offset) - 1
        found = self.chain[index] if index >= 0 else None
        return found if found is not None and offsets.end_offset <= found.name.end_offset else None

    def parts_of(self, offsets: OffsetRange) -> tuple[Segment, ...] | None:
        """Returns the segments of the chain that make up a range exactly, or None where they do not."""
        parts = tuple(each for each in self.chain if overlap(each.name.offsets, offsets))
        if not parts:
            return None
        held = (parts[0].name.from_offset, parts[-1].name.end_offset)
        return parts if held == (offsets.start_offset, offsets.end_offset) else None


def look_at(archived: ArchivedPartition) -> FolderLook:
    """Lists a partition's folder and returns what is there; one listing where nothing is wrong with it.

    Raises:
        ChainBrokenError: what is there is no chain, in two looks in a row: see `check_chain`.
        PositionMovedError: it changes faster than it can be looked at.
        MirrorlakeError: the store could not be read.
    """
    return settled(lambda: _look(archived), where=archived.prefix)


def _look(archived: ArchivedPartition) -> FolderLook:
    objects = tuple(archived.store.list(archived.prefix))
    # Of the same listing: whatever vanished while it was taken was retired by a floor that it shows, or the look is
    # refused, and taken again.
    floor = floor_of(objects)
    extension, where = archived.extension, archived.prefix
    check_chain(objects, extension=extension, where=where, floor=floor)
    chain = tuple(walk_chain(objects, extension=extension, where=where, floor=floor))
    merges = sorted(_merges(objects), key=lambda each: each[0])
    retiring = [(name, info.modified_seconds) for info in objects if (name := parse_retire_name(info.name))]
    look = FolderLook(
        where=archived.prefix,
        floor=floor,
        chain=chain,
        merges=tuple(name for name, _ in merges),
        merge_times=tuple(time for _, time in merges),
        retiring=tuple(name for name, _ in retiring),
        retire_times=tuple(time for _, time in retiring),
        floors=tuple(sorted(found for info in objects if (found := parse_floor_name(info.name)) is not None)),
    )
    others = set(segments_of(objects, [], extension=extension, where=where)) - set(chain)
    return _with_others(look, sorted(others, key=lambda each: each.name))


def _with_others(look: FolderLook, others: list[Segment]) -> FolderLook:
    retired, covered = [], []
    for segment in others:
        if segment.name.end_offset <= look.floor:
            retired.append(segment)
        elif (cover := look.holding(segment.name.offsets)) is not None:
            covered.append(CoveredSegment(segment=segment, cover=cover))
    return replace(look, covered=tuple(covered), retired=tuple(retired))


def _merges(objects: Iterable[ObjectInfo]) -> list[tuple[MergeName, float | None]]:
    return [(name, info.modified_seconds) for info in objects if (name := parse_merge_name(info.name))]


def is_live(announced_seconds: float | None, now_seconds: float) -> bool:
    """Tells whether whoever announced something then may still publish it, as far as anybody can tell."""
    return announced_seconds is None or announced_seconds > now_seconds - MERGE_SECONDS_MAX


def overlap(one: OffsetRange, other: OffsetRange) -> bool:
    """Tells whether two ranges have an offset in common."""
    return one.start_offset < other.end_offset and other.start_offset < one.end_offset


def are_at_odds(one: OffsetRange, other: OffsetRange) -> bool:
    """Tells whether two ranges overlap and neither holds the other: segments of both would be no chain."""
    return overlap(one, other) and not (holds(one, other) or holds(other, one))


def holds(large: OffsetRange, small: OffsetRange) -> bool:
    """Tells whether a range has all offsets of another."""
    return large.start_offset <= small.start_offset and small.end_offset <= large.end_offset


def name_of(offsets: OffsetRange, extension: str) -> SegmentName:
    """Returns the name of the segment of a range."""
    return SegmentName(from_offset=offsets.start_offset, to_offset=offsets.end_offset - 1, extension=extension)
