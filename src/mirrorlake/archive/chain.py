"""The chain of a partition's segments, checked by names alone: it starts at 0, without hole or overlap.

Pure: listings go in, values or errors come out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mirrorlake.archive.names import (
    RESERVED_MARK,
    ClaimName,
    SegmentName,
    padded,
    parse_claim_name,
    parse_segment_name,
)
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.object_store import ObjectInfo

STAGED_MARK = ".tmp."
"""Names that hold it are of files being written, by us or by mirror-v3; they may have been copied here."""

_EXAMPLE = SegmentName(from_offset=0, to_offset=99, extension="parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One published segment, as a listing shows it."""

    name: SegmentName
    size_bytes: int


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
    """Segments of the listing this came from: all of them, or those at the end."""
    claims: tuple[ClaimName, ...]
    """Claims of that listing, by offset and generation; those below the position are leftovers."""

    @property
    def start_after(self) -> str:
        """The name after which a listing holds the tail, whatever follows it, and all claims."""
        return tail_start_after(self.tail)


def tail_start_after(tail: Segment | None) -> str:
    """Returns the name after which a listing holds ``tail`` and whatever follows; all where there is none."""
    # The bare offset sorts after every name with a lower one, and before every name that begins with it.
    return padded(tail.name.from_offset) if tail else ""


def check_chain(objects: Iterable[ObjectInfo], *, extension: str, where: str) -> Chain:
    """Checks a whole partition folder and returns where the archive goes on.

    Args:
        objects: all objects of the folder, in the order of a listing.
        extension: what this mirror writes; a chain never mixes formats.
        where: the folder, for messages.

    Raises:
        ChainBrokenError: the chain does not start at 0; a hole, an overlap, a duplicate, another extension; a
            name that is none of ours.
    """
    claims: list[ClaimName] = []
    segments = walk_chain(_without_claims(objects, claims), extension=extension, where=where)
    return _summary(segments, tail=None, claims=claims)


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


def walk_chain(objects: Iterable[ObjectInfo], *, extension: str, where: str) -> Iterator[Segment]:
    """Yields the segments of a whole folder in order, checking each against the one before.

    Claims, reserved and staged names are passed over.

    Raises:
        ChainBrokenError: see `check_chain`; raised when the walk gets there.
    """
    return _followed(_parsed(objects, extension=extension, where=where), previous=None, where=where)


def end_at_or_above(objects: Iterable[ObjectInfo], from_offset: int, *, where: str) -> int | None:
    """Returns the highest end offset among segments that end above ``from_offset``, or None.

    Looks at segments of every extension: whoever wrote them has the position moved.

    Raises:
        ChainBrokenError: a name that is none of ours.
    """
    ends = (segment.name.end_offset for segment in _parsed(objects, extension=None, where=where))
    return max((end for end in ends if end > from_offset), default=None)


def _summary(segments: Iterable[Segment], *, tail: Segment | None, claims: list[ClaimName]) -> Chain:
    count = 1 if tail else 0
    for segment in segments:
        tail = segment
        count += 1
    position = tail.name.end_offset if tail else 0
    return Chain(position=position, tail=tail, segment_count=count, claims=tuple(sorted(claims)))


def _without_claims(objects: Iterable[ObjectInfo], claims: list[ClaimName]) -> Iterator[ObjectInfo]:
    for info in objects:
        if claim := parse_claim_name(info.name):
            claims.append(claim)
        else:
            yield info


def _parsed(objects: Iterable[ObjectInfo], *, extension: str | None, where: str) -> Iterator[Segment]:
    for info in objects:
        if info.name.startswith(RESERVED_MARK) or STAGED_MARK in info.name:
            continue
        name = parse_segment_name(info.name)
        if name is None:
            raise ChainBrokenError(
                f"{where}: {info.name!r} is not a name mirrorlake writes (its segments are named like {_EXAMPLE})",
                hint="move it out of the folder",
                name=info.name,
            )
        if extension is not None and name.extension != extension:
            raise ChainBrokenError(
                f"{where}: {name} is {name.extension}, and this mirror writes {extension}",
                hint=f"set `format: {name.extension}`, or choose another destination name for {extension}",
                name=info.name,
                expected=extension,
                found=name.extension,
            )
        yield Segment(name=name, size_bytes=info.size_bytes)


def _followed(segments: Iterable[Segment], *, previous: Segment | None, where: str) -> Iterator[Segment]:
    for segment in segments:
        expected = previous.name.end_offset if previous else 0
        if segment.name.from_offset != expected:
            raise _broken(previous, segment, expected, where)
        yield segment
        previous = segment


def _broken(previous: Segment | None, segment: Segment, expected: int, where: str) -> ChainBrokenError:
    if previous is None:
        return ChainBrokenError(
            f"{where}: the chain starts with {segment.name} instead of at offset 0",
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
