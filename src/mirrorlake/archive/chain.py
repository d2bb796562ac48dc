"""The chain of a partition's segments, checked by names alone: it starts at 0, without hole or overlap.

Merged segments may stand for some of level 0, and retention may have taken the beginning: see `Upkeep`.

Pure: listings go in, values or errors come out.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from mirrorlake.archive.names import (
    RESERVED_MARK,
    ClaimName,
    SegmentName,
    level_folder,
    padded,
    parse_claim_name,
    parse_floor_name,
    parse_segment_name,
)
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.object_store import ObjectInfo

STAGED_MARK = ".tmp."
"""Names that hold it are of files being written, by us or by mirror-v3; they may have been copied here."""

Refuse = Callable[[ChainBrokenError], None]
"""Told of what is wrong with a chain. Where it returns, the walk goes on with what comes next."""

_EXAMPLE = SegmentName(from_offset=0, to_offset=99, extension="parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One published segment, as a listing shows it. ``level`` 0 is the mirror's, 1 and above are merged."""

    name: SegmentName
    size_bytes: int
    level: int = 0

    @property
    def path(self) -> str:
        """The key below the partition's folder."""
        return f"{level_folder(self.level)}/{self.name}" if self.level else str(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What merging and retention have done to a partition: why segments of level 0 may rightly be missing.

    Nobody can see it in the same instant as level 0. So what looks broken counts only where the upkeep is the same
    before and after the look; `ArchivedPartition` does it so.
    """

    floor: int = 0
    """Whatever ends at or below was retired, even where it is still there."""
    merged: tuple[Segment, ...] = ()
    """Segments of level 1 and above, by start, the highest level first. Fewer than level 0 had, by far."""


NO_UPKEEP = Upkeep()
"""Nothing was merged, nothing was retired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A checked chain, or the checked end of one.

    Holds no list of segments, so that its size does not grow with the archive's; `walk_chain` gives them.
    """

    position: int
    """The next offset the archive needs."""
    tail: Segment | None
    """The last segment, of level 0 always; None where there is none."""
    segment_count: int
    """Segments of the listing this came from: all of the chain, or those at the end."""
    claims: tuple[ClaimName, ...]
    """Claims of that listing, by offset and generation; those below the position are leftovers."""
    start_offset: int = 0
    """Where the chain begins; above 0 only where its beginning was retired. 0 where only its end was read."""
    upkeep: Upkeep = NO_UPKEEP
    """What had to be known to find it whole."""

    @property
    def start_after(self) -> str:
        """The name after which a listing holds the tail, whatever follows it, and all claims."""
        return tail_start_after(self.tail)


def tail_start_after(tail: Segment | None) -> str:
    """Returns the name after which a listing holds ``tail`` and whatever follows; all where there is none."""
    # The bare offset sorts after every name with a lower one, and before every name that begins with it.
    return padded(tail.name.from_offset) if tail else ""


def check_chain(objects: Iterable[ObjectInfo], *, extension: str, where: str, upkeep: Upkeep = NO_UPKEEP) -> Chain:
    """Checks a whole partition and returns where the archive goes on.

    Args:
        objects: all objects of the partition's folder, in the order of a listing; level 0, that is.
        extension: what this mirror writes; a chain never mixes formats.
        where: the folder, for messages.
        upkeep: what was read before ``objects`` were listed.

    Raises:
        ChainBrokenError: the chain does not start at 0 or the floor; a hole, an overlap, a duplicate, another
            extension; a name that is none of ours; the newest segment of level 0 is gone.
    """
    claims: list[ClaimName] = []
    level0 = _Noted(_parsed(_without_claims(objects, claims), extension=extension, where=where))
    first, last, count = None, None, 0
    for last in _chained(level0, upkeep, where=where):
        first = first or last
        count += 1
    tail = level0.last
    position = last.name.end_offset if last else upkeep.floor
    if position != (tail.name.end_offset if tail else 0):
        raise _without_tail(last, tail, position, where)
    start_offset = first.name.from_offset if first else 0
    return Chain(
        position=position,
        tail=tail,
        segment_count=count,
        claims=tuple(sorted(claims)),
        start_offset=start_offset,
        upkeep=upkeep,
    )


def check_tail(known: Segment, objects: Iterable[ObjectInfo], *, extension: str, where: str) -> Chain:
    """Checks that the last known segment still is what it was, and follows what came after it.

    Args:
        known: the tail of an earlier check.
        objects: the folder's objects after `tail_start_after` of ``known``, in the order of a listing.
        extension: what this mirror writes.
        where: the folder, for messages.

    Raises:
        ChainBrokenError: the known segment is gone, replaced, or of another size; or what follows is broken.
        PositionMovedError: the known segment is gone but others have followed it, as happens where it was
            merged meanwhile: check the whole chain.
    """
    claims: list[ClaimName] = []
    segments = _parsed(_without_claims(objects, claims), extension=extension, where=where)
    first = next(segments, None)
    if first is None:
        raise ChainBrokenError(
            f"{where}: {known.name} is gone, and it was the last segment",
            hint="put it back; or, if it was removed on purpose, restart to go on from the segment before it",
            missing=str(known.name),
        )
    if first.name.from_offset >= known.name.end_offset:
        raise PositionMovedError(f"{where}: {known.name} is gone, and {first.name} has followed it")
    if first != known:
        raise ChainBrokenError(
            f"{where}: {known.name} ({known.size_bytes} bytes) was the last segment, and now "
            f"{first.name} ({first.size_bytes} bytes) stands in its place",
            hint="segments never change: put the one that was written back",
            expected=str(known.name),
            found=str(first.name),
        )
    return _summary(_followed(segments, previous=known, where=where), tail=known, claims=claims)


def stop_at_first(error: ChainBrokenError) -> NoReturn:
    """Raises what is wrong."""
    raise error


def walk_chain(
    objects: Iterable[ObjectInfo],
    *,
    extension: str,
    where: str,
    upkeep: Upkeep = NO_UPKEEP,
    refuse: Refuse = stop_at_first,
) -> Iterator[Segment]:
    """Yields the segments that make up the chain in order, checking each against the one before.

    Claims, reserved and staged names are passed over, and so is what was retired or merged into a higher level.

    Args:
        objects: all objects of the partition's folder, in the order of a listing.
        extension: what its segments should be.
        where: the folder, for messages.
        upkeep: what was read before ``objects`` were listed.
        refuse: told of what is wrong; segments that overlap are yielded all the same where it returns.

    Raises:
        ChainBrokenError: see `check_chain`; raised when the walk gets there, unless ``refuse`` does otherwise.
    """
    level0 = _parsed(objects, extension=extension, where=where, refuse=refuse)
    return _chained(level0, upkeep, where=where, refuse=refuse)


def merged_segments(objects: Iterable[ObjectInfo], *, level: int, extension: str, where: str) -> Iterator[Segment]:
    """Yields the segments of one folder of merged ones; what they say together is for `check_chain`.

    Raises:
        ChainBrokenError: another extension, or a name that is none of ours.
    """
    for segment in _parsed(objects, extension=extension, where=where):
        yield Segment(name=segment.name, size_bytes=segment.size_bytes, level=level)


def upkeep_of(merged: Iterable[Segment], floors: Iterable[ObjectInfo]) -> Upkeep:
    """Returns the upkeep that merged segments and floor markers tell of; the highest floor holds.

    Args:
        merged: of all levels, listed from level 1 upwards.
        floors: listed after the merged ones; other names among them are passed over.
    """
    offsets = (parse_floor_name(info.name) for info in floors)
    return Upkeep(
        floor=max((offset for offset in offsets if offset is not None), default=0),
        merged=tuple(sorted(merged, key=_chain_order)),
    )


def leading_segments(objects: Iterable[ObjectInfo], *, extension: str, where: str) -> Iterator[Segment]:
    """Yields the segments a listing begins with, up to the first other name of ours; sorted names put them first.

    Raises:
        ChainBrokenError: another extension, or a name that is none of ours.
    """
    plain = itertools.takewhile(lambda info: not info.name.startswith(RESERVED_MARK), objects)
    return _parsed(plain, extension=extension, where=where)


def end_at_or_above(objects: Iterable[ObjectInfo], from_offset: int, *, where: str) -> int | None:
    """Returns the highest end offset among segments that end above ``from_offset``, or None.

    Looks at segments of every extension: whoever wrote them has the position moved.

    Raises:
        ChainBrokenError: a name that is none of ours.
    """
    ends = (segment.name.end_offset for segment in _parsed(objects, extension=None, where=where))
    return max((end for end in ends if end > from_offset), default=None)


def _summary(segments: Iterable[Segment], *, tail: Segment, claims: list[ClaimName]) -> Chain:
    count = 1
    for segment in segments:
        tail = segment
        count += 1
    return Chain(position=tail.name.end_offset, tail=tail, segment_count=count, claims=tuple(sorted(claims)))


def _without_claims(objects: Iterable[ObjectInfo], claims: list[ClaimName]) -> Iterator[ObjectInfo]:
    for info in objects:
        if claim := parse_claim_name(info.name):
            claims.append(claim)
        else:
            yield info


def _parsed(
    objects: Iterable[ObjectInfo], *, extension: str | None, where: str, refuse: Refuse = stop_at_first
) -> Iterator[Segment]:
    for info in objects:
        if info.name.startswith(RESERVED_MARK) or STAGED_MARK in info.name:
            continue
        name = parse_segment_name(info.name)
        if name is None:
            refuse(_foreign(info.name, where))
        elif extension is not None and name.extension != extension:
            refuse(_other_format(name, extension, where))
        else:
            yield Segment(name=name, size_bytes=info.size_bytes)


def _foreign(name: str, where: str) -> ChainBrokenError:
    return ChainBrokenError(
        f"{where}: {name!r} is not a name mirrorlake writes (its segments are named like {_EXAMPLE})",
        hint="move it out of the folder",
        name=name,
    )


def _other_format(name: SegmentName, extension: str, where: str) -> ChainBrokenError:
    return ChainBrokenError(
        f"{where}: {name} is {name.extension}, and this mirror writes {extension}",
        hint=f"set `format: {name.extension}`, or choose another destination name for {extension}",
        name=str(name),
        expected=extension,
        found=name.extension,
    )


class _Noted:
    """Segments as they pass, and the last of them."""

    def __init__(self, segments: Iterator[Segment]) -> None:
        self._segments = segments
        self.last: Segment | None = None

    def __iter__(self) -> Iterator[Segment]:
        return self

    def __next__(self) -> Segment:
        self.last = next(self._segments)
        return self.last


def _chain_order(segment: Segment) -> tuple[int, int]:
    return segment.name.from_offset, -segment.level


def _chained(
    level0: Iterable[Segment], upkeep: Upkeep, *, where: str, refuse: Refuse = stop_at_first
) -> Iterator[Segment]:
    """Yields the chain out of all levels: of two that hold the same offsets, the one of the higher level."""
    previous: Segment | None = None
    for segment in heapq.merge(level0, upkeep.merged, key=_chain_order):
        if segment.name.end_offset <= upkeep.floor:
            continue
        if previous is None:
            if segment.name.from_offset > upkeep.floor:
                refuse(_broken(None, segment, upkeep.floor, where))
        elif segment.name.from_offset != previous.name.end_offset:
            # Sorted by start, so one that ends within the last of the chain lies wholly inside it.
            if segment.level < previous.level and segment.name.end_offset <= previous.name.end_offset:
                continue
            refuse(_broken(previous, segment, previous.name.end_offset, where))
        yield segment
        if previous is None or segment.name.end_offset > previous.name.end_offset:
            previous = segment


def _without_tail(last: Segment | None, tail: Segment | None, position: int, where: str) -> ChainBrokenError:
    until = last.path if last else f"everything below the floor {position}"
    newest = f"the newest left is {tail.name}" if tail else "none is left"
    return ChainBrokenError(
        f"{where}: {until} reaches offset {position}, and the segment of level 0 that ends there or later is gone "
        f"({newest})",
        hint="put it back: merging and retention never take the newest one",
        expected=position,
        found=tail.name.end_offset if tail else 0,
    )


def _followed(segments: Iterable[Segment], *, previous: Segment, where: str) -> Iterator[Segment]:
    for segment in segments:
        if segment.name.from_offset != previous.name.end_offset:
            raise _broken(previous, segment, previous.name.end_offset, where)
        yield segment
        previous = segment


def _broken(previous: Segment | None, segment: Segment, expected: int, where: str) -> ChainBrokenError:
    if previous is None:
        return ChainBrokenError(
            f"{where}: the chain starts with {segment.path} instead of at offset {expected}",
            hint="put the segments before it back, or choose another destination name to start anew",
            expected=expected,
            found=segment.name.from_offset,
        )
    is_hole = segment.name.from_offset > expected
    return ChainBrokenError(
        f"{where}: {segment.path} {'leaves a hole after' if is_hole else 'overlaps'} {previous.path}: "
        f"expected a segment from {expected}",
        hint="put the missing segments back" if is_hole else "remove the one that should not be there",
        previous=previous.path,
        found=segment.path,
        expected=expected,
    )


def segments_of(
    objects: Iterable[ObjectInfo],
    claims: list[ClaimName],
    *,
    extension: str,
    where: str,
    refuse: Refuse = stop_at_first,
) -> Iterator[Segment]:
    """Yields the segments of a folder, whatever follows what; claims are put into ``claims`` on the way.

    Raises:
        ChainBrokenError: another extension, or a name that is none of ours; unless ``refuse`` does otherwise.
    """
    return _parsed(_without_claims(objects, claims), extension=extension, where=where, refuse=refuse)
