"""The chain of a partition's segments, checked by names alone: it starts at 0, without hole or overlap.

A segment wholly inside another is covered by it, whatever wrote either: the larger one counts, and the smaller one
may be there or not. So merging needs no mark of its own. Retention may have taken the beginning, and left a floor.

Pure: listings go in, values or errors come out.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from mirrorlake.archive.names import (
    RESERVED_MARK,
    ClaimName,
    SegmentName,
    dangling_name,
    foreign_name,
    other_format,
    padded,
    parse_claim_name,
    parse_floor_name,
    parse_segment_name,
    special_name,
)
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.object_store import ObjectInfo

STAGED_MARK = ".tmp."
"""Names that hold it are of files being written, by us or by mirror-v3; they may have been copied here."""

Refuse = Callable[[ChainBrokenError], None]
"""Told of what is wrong with a chain. Where it returns, the walk goes on with what comes next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One published segment, as a listing shows it."""

    name: SegmentName
    size_bytes: int
    # A listing's word on when: the same segment has another time where an archive was copied.
    modified_seconds: float | None = field(default=None, compare=False)
    """When it was published, in Unix seconds by the store's clock; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A checked chain, or the checked end of one.

    Holds no list of segments, so that its size does not grow with the archive's; `walk_chain` gives them.
    """

    position: int
    """The next offset the archive needs."""
    tail: Segment | None
    """The last segment; None where there is none."""
    segment_count: int
    """Segments of the listing this came from, covered ones left out: all of the chain, or those at the end."""
    claims: tuple[ClaimName, ...]
    """Claims of that listing, by offset and revision; those below the position are leftovers."""
    start_offset: int = 0
    """Where the chain begins; above 0 only where its beginning was retired. 0 where only its end was read."""
    floor: int = 0
    """What had to be known to find it whole: whatever ends at or below was retired, even where it is still there."""

    @property
    def start_after(self) -> str:
        """The name after which a listing holds the tail, whatever follows it, and all claims."""
        return tail_start_after(self.tail)


def tail_start_after(tail: Segment | None) -> str:
    """Returns the name after which a listing holds ``tail`` and whatever follows; all where there is none."""
    # The bare offset sorts after every name with a lower one, and before every name that begins with it.
    return padded(tail.name.from_offset) if tail else ""


def check_chain(objects: Iterable[ObjectInfo], *, extension: str, where: str, floor: int = 0) -> Chain:
    """Checks a whole partition and returns where the archive goes on.

    Args:
        objects: all objects of the partition's folder, in the order of a listing.
        extension: what this mirror writes; a chain never mixes formats.
        where: the folder, for messages.
        floor: of the partition, as it was read before ``objects`` were listed.

    Raises:
        ChainBrokenError: the chain does not start at 0 or the floor; a hole, an overlap, another extension; a name
            that is none of ours; everything is gone, or the floor is above all that is there.
    """
    kept = _Bookkeeping()
    segments = _Noted(_parsed(kept.without(objects), extension=extension, where=where))
    first, last, count = None, None, 0
    for last in _chained(segments, floor, where=where):
        first = first or last
        count += 1
    newest = last or segments.newest
    position = newest.name.end_offset if newest else 0
    if (highest := max([floor, *kept.floors])) > position:
        raise _without_newest(newest, highest, where)
    return Chain(
        position=position,
        tail=newest,
        segment_count=count,
        claims=tuple(sorted(kept.claims)),
        start_offset=first.name.from_offset if first else 0,
        floor=floor,
    )


def check_tail(known: Segment, objects: Iterable[ObjectInfo], *, extension: str, where: str) -> Chain:
    """Checks that the last known segment still is what it was, and follows what came after it.

    Args:
        known: the tail of an earlier check.
        objects: the folder's objects after `tail_start_after` of ``known``, in the order of a listing.
        extension: what this mirror writes.
        where: the folder, for messages.

    Raises:
        ChainBrokenError: the known segment is gone, replaced, or of another size; a name that is none of ours, or
            another extension, follows.
        PositionMovedError: the known segment is gone but others have followed it, or a larger one covers it, as
            happens where it was merged meanwhile; or what follows is no chain, which may be for the same reason, or
            because the folder was listed while it changed: check the whole chain.
    """
    kept = _Bookkeeping()
    segments = uncovered(_parsed(kept.without(objects), extension=extension, where=where))
    first = next(segments, None)
    if first is None:
        raise _gone_or_altered(known, [], where)
    if first.name.from_offset >= known.name.end_offset:
        raise PositionMovedError(f"{where}: {known.name} is gone, and {first.name} has followed it")
    if first.name != known.name and _covers(first, known):
        raise PositionMovedError(f"{where}: {first.name} covers {known.name}")
    if first != known:
        raise _gone_or_altered(known, [first], where)
    tail, count = known, 1
    for segment in segments:
        if segment.name.from_offset != tail.name.end_offset:
            raise PositionMovedError(_broken(tail, segment, tail.name.end_offset, where).message)
        tail, count = segment, count + 1
    position = tail.name.end_offset
    return Chain(position=position, tail=tail, segment_count=count, claims=tuple(sorted(kept.claims)))


def stop_at_first(error: ChainBrokenError) -> NoReturn:
    """Raises what is wrong."""
    raise error


def walk_chain(
    objects: Iterable[ObjectInfo],
    *,
    extension: str,
    where: str,
    floor: int = 0,
    refuse: Refuse = stop_at_first,
) -> Iterator[Segment]:
    """Yields the segments that make up the chain in order, checking each against the one before.

    Claims, reserved and staged names are passed over, and so is what was retired, and what a larger segment covers.

    Args:
        objects: all objects of the partition's folder, in the order of a listing.
        extension: what its segments should be.
        where: the folder, for messages.
        floor: of the partition, as it was read before ``objects`` were listed.
        refuse: told of what is wrong; segments that overlap are yielded all the same where it returns.

    Raises:
        ChainBrokenError: see `check_chain`; raised when the walk gets there, unless ``refuse`` does otherwise.
    """
    return _chained(
        _parsed(objects, extension=extension, where=where, refuse=refuse), floor, where=where, refuse=refuse
    )


def uncovered(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yields the segments that no other one covers: those not wholly inside a larger one.

    Both their starts and their ends grow. Holds one segment at a time, however many there are.

    Args:
        segments: in the order of their names: by start, then by end.
    """
    largest: Segment | None = None
    for segment in segments:
        if largest is not None and not _covers(segment, largest):
            if _covers(largest, segment):
                continue
            yield largest
        largest = segment
    if largest is not None:
        yield largest


def floor_of(objects: Iterable[ObjectInfo]) -> int:
    """Returns the highest floor among objects of a partition's folder, other names passed over; 0 without any."""
    return max((offset for info in objects if (offset := parse_floor_name(info.name)) is not None), default=0)


def leading_segments(objects: Iterable[ObjectInfo], *, extension: str, where: str) -> Iterator[Segment]:
    """Yields the segments a listing begins with, up to the first other name of ours; sorted names put them first.

    Raises:
        ChainBrokenError: another extension, or a name that is none of ours.
    """
    plain = itertools.takewhile(lambda info: not info.name.startswith(RESERVED_MARK), objects)
    return _parsed(plain, extension=extension, where=where)


def end_above(objects: Iterable[ObjectInfo], from_offset: int, *, behind: Segment | None, where: str) -> int | None:
    """Returns the highest end offset among segments that end above ``from_offset``, or None where a new one may begin.

    Looks at segments of every extension: whoever wrote them has the position moved.

    Args:
        objects: the folder's objects after `tail_start_after` of ``behind``, in the order of a listing.
        from_offset: where the new one would begin.
        behind: the segment it would follow; None for the first of an archive.
        where: the folder, for messages.

    Raises:
        ChainBrokenError: a name that is none of ours; or ``behind`` is gone or altered, and nothing has followed it.
    """
    segments = list(_parsed(objects, extension=None, where=where))
    if ends := [segment.name.end_offset for segment in segments if segment.name.end_offset > from_offset]:
        return max(ends)
    if behind is not None and behind not in segments:
        raise _gone_or_altered(behind, [segment for segment in segments if segment.name == behind.name], where)
    return None


class _Bookkeeping:
    """Claims and floors of a listing, taken out of it as it passes."""

    def __init__(self) -> None:
        self.claims: list[ClaimName] = []
        self.floors: list[int] = []

    def without(self, objects: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
        """Yields the other objects."""
        for info in objects:
            if claim := parse_claim_name(info.name):
                self.claims.append(claim)
            elif (floor := parse_floor_name(info.name)) is not None:
                self.floors.append(floor)
            else:
                yield info


def _parsed(
    objects: Iterable[ObjectInfo], *, extension: str | None, where: str, refuse: Refuse = stop_at_first
) -> Iterator[Segment]:
    for info in objects:
        if info.name.startswith(RESERVED_MARK) or STAGED_MARK in info.name:
            continue
        name = parse_segment_name(info.name)
        if info.is_dangling:
            refuse(dangling_name(info.name, where))
        elif info.is_special:
            refuse(special_name(info.name, where))
        elif name is None:
            refuse(foreign_name(info.name, where))
        elif extension is not None and name.extension != extension:
            refuse(other_format(name, extension, where))
        else:
            yield Segment(name=name, size_bytes=info.size_bytes, modified_seconds=info.modified_seconds)


class _Noted:
    """Segments as they pass, and the one of them that ends last."""

    def __init__(self, segments: Iterator[Segment]) -> None:
        self._segments = segments
        self.newest: Segment | None = None

    def __iter__(self) -> Iterator[Segment]:
        for segment in self._segments:
            if self.newest is None or segment.name.end_offset > self.newest.name.end_offset:
                self.newest = segment
            yield segment


def _covers(large: Segment, small: Segment) -> bool:
    return large.name.from_offset <= small.name.from_offset and small.name.to_offset <= large.name.to_offset


def _chained(
    segments: Iterable[Segment], floor: int, *, where: str, refuse: Refuse = stop_at_first
) -> Iterator[Segment]:
    """Yields the chain: what no larger segment covers and no floor has retired, each from the end of the one before."""
    previous: Segment | None = None
    for segment in uncovered(segments):
        if segment.name.end_offset <= floor:
            continue
        if previous is None:
            if segment.name.from_offset > floor:
                refuse(_broken(None, segment, floor, where))
        elif segment.name.from_offset != previous.name.end_offset:
            refuse(_broken(previous, segment, previous.name.end_offset, where))
        yield segment
        previous = segment


def _without_newest(newest: Segment | None, floor: int, where: str) -> ChainBrokenError:
    left = f"the newest left is {newest.name}" if newest else "none is left"
    return ChainBrokenError(
        f"{where}: retention deleted all below offset {floor}, and the segment that reached to there is gone ({left})",
        hint="put it back: retention never takes the newest one",
        expected=floor,
        found=newest.name.end_offset if newest else 0,
    )


def _gone_or_altered(known: Segment, in_its_place: Sequence[Segment], where: str) -> ChainBrokenError:
    for found in in_its_place:
        return ChainBrokenError(
            f"{where}: {known.name} ({known.size_bytes} bytes) was the last segment, and now "
            f"{found.name} ({found.size_bytes} bytes) is in its place",
            hint="segments never change: put the one that was written back",
            expected=str(known.name),
            found=str(found.name),
        )
    return ChainBrokenError(
        f"{where}: {known.name} is gone, and it was the last segment",
        hint="put it back; or, if it was removed on purpose, restart to continue from the segment before it",
        missing=str(known.name),
    )


def _broken(previous: Segment | None, segment: Segment, expected: int, where: str) -> ChainBrokenError:
    if previous is None:
        return ChainBrokenError(
            f"{where}: the chain starts with {segment.name} instead of at offset {expected}",
            hint="put the segments before it back, or choose another destination name to start anew",
            expected=expected,
            found=segment.name.from_offset,
        )
    is_hole = segment.name.from_offset > expected
    return ChainBrokenError(
        f"{where}: {segment.name} {'leaves a hole after' if is_hole else 'overlaps'} {previous.name}: "
        f"expected a segment from {expected}",
        hint="put the missing segments back" if is_hole else "remove the one that should not be there",
        previous=str(previous.name),
        found=str(segment.name),
        expected=expected,
    )


def segments_of(
    objects: Iterable[ObjectInfo],
    claims: list[ClaimName],
    *,
    extension: str | None,
    where: str,
    refuse: Refuse = stop_at_first,
) -> Iterator[Segment]:
    """Yields the segments of a folder, whatever follows what; claims are put into ``claims`` on the way.

    ``extension`` None takes those of every format.

    Raises:
        ChainBrokenError: another extension, or a name that is none of ours; unless ``refuse`` does otherwise.
    """
    kept = _Bookkeeping()
    kept.claims = claims
    return _parsed(kept.without(objects), extension=extension, where=where, refuse=refuse)
