"""Which segment of a partition serves which offset, and up to where one follows the other. Pure.

A source is read up to the first hole of its chain, and no further: what lies behind it waits until it is closed. A hole
is nothing that the archive says: a file that has not come yet, or was lost. What the archive says are gaps, which lie
inside of segments. A mirror that passes over holes after some time sees all segments, and the holes between them.

Several formats may lie in one folder, and files that a larger one covers (a merge, an overlap of two writers that was
cleared): of two that cover one another either will do, as both hold the same range.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mirrorlake.archive.chain import Segment, segments_of, uncovered
from mirrorlake.archive.names import EXTENSIONS, SegmentName, parse_floor_name
from mirrorlake.errors import ChainBrokenError
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.object_store import ObjectInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentChain:
    """The segments of a partition that follow one another from the floor on, as one listing showed them.

    Only where it was asked to go on behind them has it ``holes`` between its segments.

    Takes 25 bytes a segment. ``hole`` are offsets that no segment has although a later one, or the topic's record, says
    that they were archived; ``overlap`` says that what follows the end has other offsets of it too. At most one of both
    is set, and nothing behind it is part of this.

    Attributes:
        start: where the first begins, or the floor where there is none; below the floor where it reaches over it.
        end: where the last one ends (exclusive); ``start`` where there is none.
        floor: of the partition: what ends at or below it was retired.
        hole: the first offsets that are missing.
        overlap: what is wrong with what comes next.
        holes: offsets between ``start`` and ``end`` that no segment has, in order.
        has_more: whether segments lie behind ``hole`` or ``overlap``.
    """

    start: int = 0
    end: int = 0
    floor: int = 0
    hole: OffsetRange | None = None
    overlap: ChainBrokenError | None = None
    holes: tuple[OffsetRange, ...] = ()
    has_more: bool = False
    _starts: "array[int]" = field(default_factory=lambda: array("q"), repr=False)
    _ends: "array[int]" = field(default_factory=lambda: array("q"), repr=False)
    _sizes: "array[int]" = field(default_factory=lambda: array("q"), repr=False)
    _extensions: bytearray = field(default_factory=bytearray, repr=False)

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def is_settled(self) -> bool:
        """True where one listing shows nothing that a second one might not."""
        return self.hole is None and self.overlap is None and not self.holes

    @property
    def is_bare(self) -> bool:
        """True where the folder shows no segment above the floor, neither in the chain nor behind it."""
        return not len(self) and not self.has_more

    @property
    def last(self) -> Segment | None:
        """The last segment."""
        return self._segment(len(self) - 1) if len(self) else None

    def at(self, position: int) -> Segment | None:
        """Returns the segment that holds an offset; None where none does."""
        number = bisect_right(self._starts, position) - 1
        return self._segment(number) if number >= 0 and position < self._ends[number] else None

    def overlapping(self, offsets: OffsetRange) -> Iterator[Segment]:
        """Yields the segments that hold some of a range, in order."""
        for number in range(max(0, bisect_right(self._starts, offsets.start_offset) - 1), len(self)):
            if self._starts[number] >= offsets.end_offset:
                return
            if self._ends[number] > offsets.start_offset:
                yield self._segment(number)

    def says_the_same(self, other: "SegmentChain") -> bool:
        """Tells whether two listings have shown the same end, and the same wrong with it."""
        problems = [(each.hole, each.holes, each.overlap.message if each.overlap else "") for each in (self, other)]
        return problems[0] == problems[1] and (self.start, self.end) == (other.start, other.end)

    def followed_by(self, objects: Iterable[ObjectInfo], *, where: str) -> "SegmentChain | None":
        """Returns the chain with what a listing shows from the last segment on; None where only a whole one tells.

        Args:
            objects: the folder's after the bare start of the last segment's name, in the order of a listing; it must
                show that one as it was, and the floor.
            where: the folder, for messages.

        Raises:
            ChainBrokenError: a name that is none of ours.
        """
        last = self.last
        if last is None or not self.is_settled:
            return None
        noted = _Floors()
        segments = uncovered(segments_of(noted.without(objects), [], extension=None, where=where))
        first = next(segments, None)
        if first != last:
            return None
        grown = _Growing(start=self.start, end=self.end)
        for each in segments:
            if not grown.takes(each):
                break
        for _ in segments:
            pass  # the floor is behind all of them
        if noted.highest != self.floor:
            return None
        if not grown.starts and grown.is_settled:
            return self
        return SegmentChain(
            start=self.start,
            end=grown.end,
            floor=self.floor,
            hole=grown.hole,
            overlap=grown.overlap(where),
            has_more=not grown.is_settled,
            _starts=self._starts + grown.starts,
            _ends=self._ends + grown.ends,
            _sizes=self._sizes + grown.sizes,
            _extensions=self._extensions + grown.extensions,
        )

    def _segment(self, number: int) -> Segment:
        name = SegmentName(
            from_offset=self._starts[number],
            to_offset=self._ends[number] - 1,
            extension=EXTENSIONS[self._extensions[number]],
        )
        return Segment(name=name, size_bytes=self._sizes[number])


def chain_of(
    objects: Iterable[ObjectInfo], *, where: str, reached: int = 0, crosses_holes: bool = False
) -> SegmentChain:
    """Returns the chain that a listing of a whole folder shows.

    Args:
        objects: all of the folder, in the order of a listing.
        where: the folder, for messages.
        reached: the position that was seen of the partition once; what is missing below it is a hole.
        crosses_holes: goes on behind a hole where segments follow.

    Raises:
        ChainBrokenError: a name that is none of ours, or what no reader can read.
    """
    noted = _Floors()
    grown: _Growing | None = None
    # Floors come last in a listing, and what lies below one may have holes: so runs are told apart first.
    runs: list[_Growing] = []
    for each in uncovered(segments_of(noted.without(objects), [], extension=None, where=where)):
        if grown is None or not grown.takes(each):
            grown = _Growing(start=each.name.from_offset, end=each.name.from_offset)
            grown.takes(each)
            runs.append(grown)
    floor = noted.highest
    kept = [run for run in runs if run.end > floor]
    if crosses_holes and kept:
        return _with_holes(kept, floor=floor, reached=reached, where=where)
    first = kept[0] if kept else None
    if first is None or first.start > floor:
        end = floor
        hole_end = first.start if first is not None else max(reached, end)
        hole = OffsetRange(start_offset=end, end_offset=hole_end) if hole_end > end else None
        return SegmentChain(start=floor, end=end, floor=floor, hole=hole, has_more=first is not None)
    return _whole(first, kept[1] if len(kept) > 1 else None, floor=floor, reached=reached, where=where)


def _whole(run: "_Growing", behind: "_Growing | None", *, floor: int, reached: int, where: str) -> SegmentChain:
    retired = bisect_right(run.ends, floor)  # ends at or below the floor
    start = run.starts[retired]
    hole, overlap = None, None
    if behind is not None and behind.start > run.end:
        hole = OffsetRange(start_offset=run.end, end_offset=behind.start)
    elif behind is not None:
        overlap = _overlap(where, run.end, behind.start)
    elif reached > run.end:
        hole = OffsetRange(start_offset=run.end, end_offset=reached)
    return SegmentChain(
        start=start,
        end=run.end,
        floor=floor,
        hole=hole,
        overlap=overlap,
        has_more=behind is not None,
        _starts=run.starts[retired:],
        _ends=run.ends[retired:],
        _sizes=run.sizes[retired:],
        _extensions=run.extensions[retired:],
    )


def _with_holes(kept: Sequence["_Growing"], *, floor: int, reached: int, where: str) -> SegmentChain:
    first = kept[0]
    retired = bisect_right(first.ends, floor)
    start = min(floor, first.starts[retired])
    starts, ends, sizes = first.starts[retired:], first.ends[retired:], first.sizes[retired:]
    extensions, end = first.extensions[retired:], first.end
    holes = [OffsetRange(start_offset=floor, end_offset=first.start)] if first.start > floor else []
    overlap = None
    for run in kept[1:]:
        if run.start < end:
            overlap = _overlap(where, end, run.start)
            break
        holes.append(OffsetRange(start_offset=end, end_offset=run.start))
        starts, ends, sizes = starts + run.starts, ends + run.ends, sizes + run.sizes
        extensions, end = extensions + run.extensions, run.end
    is_short = overlap is None and reached > end
    return SegmentChain(
        start=start,
        end=end,
        floor=floor,
        hole=OffsetRange(start_offset=end, end_offset=reached) if is_short else None,
        overlap=overlap,
        holes=tuple(holes),
        has_more=overlap is not None,
        _starts=starts,
        _ends=ends,
        _sizes=sizes,
        _extensions=extensions,
    )


class _Growing:
    """A run of segments, each beginning where the one before ends."""

    def __init__(self, *, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.starts = array("q")
        self.ends = array("q")
        self.sizes = array("q")
        self.extensions = bytearray()
        self.hole: OffsetRange | None = None
        self._overlapping: int | None = None

    def takes(self, segment: Segment) -> bool:
        """Takes the segment where it follows; else notes what is wrong, and returns False."""
        name = segment.name
        if name.from_offset != self.end:
            if name.from_offset > self.end:
                self.hole = OffsetRange(start_offset=self.end, end_offset=name.from_offset)
            else:
                self._overlapping = name.from_offset
            return False
        self.starts.append(name.from_offset)
        self.ends.append(name.end_offset)
        self.sizes.append(segment.size_bytes)
        self.extensions.append(EXTENSIONS.index(name.extension))
        self.end = name.end_offset
        return True

    @property
    def is_settled(self) -> bool:
        """True where nothing was found wrong."""
        return self.hole is None and self._overlapping is None

    def overlap(self, where: str) -> ChainBrokenError | None:
        """Returns the error of a segment that has offsets of the one before; None where none has."""
        return None if self._overlapping is None else _overlap(where, self.end, self._overlapping)


class _Floors:
    """Floors of a listing, taken out of it as it passes."""

    def __init__(self) -> None:
        self.highest = 0

    def without(self, objects: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
        """Yields the other objects."""
        for info in objects:
            if (floor := parse_floor_name(info.name)) is not None:
                self.highest = max(self.highest, floor)
            else:
                yield info


def _overlap(where: str, end: int, start: int) -> ChainBrokenError:
    return ChainBrokenError(
        f"{where}: the segment from offset {start} on overlaps the one that ends at {end}, and neither holds the other",
        hint="which of them is right is not known: move the one that should not be there out of the folder; all below "
        f"{end} was read",
        expected=end,
        found=start,
    )
