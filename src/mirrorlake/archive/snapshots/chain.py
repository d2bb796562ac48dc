"""The names of a folder of snapshots: they may leave holes, and never overlap; the newest is what counts. Pure.

Older snapshots may be removed by hand at any time, so nothing follows from what is missing below the newest.

Of several that end at one offset the one that begins last counts, and is the last in the order of names: an eraser puts
a snapshot without some keys into the place of another one so, and then deletes that.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from mirrorlake.archive.chain import Chain, Refuse, Segment, end_above, segments_of, stop_at_first
from mirrorlake.archive.names import ClaimName, SegmentName
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.object_store import ObjectInfo


def replacing_name(name: SegmentName) -> SegmentName | None:
    """Returns the next name that ends where this one does and counts in its place; None where there is none.

    The range shrinks by its first offset, so that the order of names stays that of offsets. A range of one offset
    cannot.
    """
    return replace(name, from_offset=name.from_offset + 1) if name.from_offset < name.to_offset else None


def replaces(one: Segment, other: Segment) -> bool:
    """Tells whether one snapshot counts in the place of another one."""
    return one.name.end_offset == other.name.end_offset and one.name.from_offset > other.name.from_offset


def check_snapshots(objects: Iterable[ObjectInfo], *, extension: str, where: str) -> Chain:
    """Checks a whole folder of snapshots and returns where its mirror goes on: after the newest one that counts.

    Args:
        objects: all objects of the folder, in the order of a listing.
        extension: what this mirror writes.
        where: the folder, for messages.

    Raises:
        ChainBrokenError: two overlap; another extension; a name that is none of ours.
    """
    claims: list[ClaimName] = []
    return _summary(segments_of(objects, claims, extension=extension, where=where), claims, where)


def check_newest(known: Segment, objects: Iterable[ObjectInfo], *, extension: str, where: str) -> Chain:
    """Checks that the newest snapshot known still is what it was, and follows what came after it.

    Args:
        known: the newest of an earlier check.
        objects: the folder's objects after `tail_start_after` of ``known``, in the order of a listing.
        extension: what this mirror writes.
        where: the folder, for messages.

    Raises:
        ChainBrokenError: it is gone and nothing has followed it or counts in its place, or something else stands
            there; what follows overlaps, or has another extension or a name that is none of ours.
    """
    claims: list[ClaimName] = []
    found = list(segments_of(objects, claims, extension=extension, where=where))
    if not found:
        raise ChainBrokenError(
            f"{where}: {known.name} is gone, and it was the newest snapshot",
            hint="put it back; or, if it was removed on purpose, restart to continue from the one before it",
            missing=str(known.name),
        )
    first = found[0]
    if first != known and first.name.from_offset < known.name.end_offset and not replaces(first, known):
        raise ChainBrokenError(
            f"{where}: {known.name} ({known.size_bytes} bytes) was the newest snapshot, and now {first.name} "
            f"({first.size_bytes} bytes) is in its place",
            hint="snapshots never change: put the one that was written back",
            expected=str(known.name),
            found=str(first.name),
        )
    return _summary(found, claims, where)


def walk_snapshots(
    objects: Iterable[ObjectInfo], *, extension: str, where: str, refuse: Refuse = stop_at_first
) -> Iterator[Segment]:
    """Yields the snapshots of a folder that count in order, checking each against the one before.

    Raises:
        ChainBrokenError: see `check_snapshots`; unless ``refuse``, which is told of it, does otherwise.
    """
    return _apart(segments_of(objects, [], extension=extension, where=where, refuse=refuse), where, refuse)


def replaced_snapshots(
    objects: Iterable[ObjectInfo], *, extension: str, where: str
) -> tuple[tuple[Segment, Segment], ...]:
    """Returns each snapshot that does not count any more with the one that does in its place, in the order of names.

    Args:
        objects: all objects of the folder, in the order of a listing.
        extension: what its mirror writes.
        where: the folder, for messages.

    Raises:
        ChainBrokenError: another extension, or a name that is none of ours.
    """
    found = list(segments_of(objects, [], extension=extension, where=where))
    counts = {each.name.end_offset: each for each in found}
    return tuple((each, counts[each.name.end_offset]) for each in found if each != counts[each.name.end_offset])


def end_above_view(
    objects: Iterable[ObjectInfo], from_offset: int, *, behind: Segment | None, where: str
) -> int | None:
    """Returns the highest end offset above ``from_offset``, or None where a snapshot may begin; see `end_above`.

    Raises:
        PositionMovedError: another snapshot counts in the place of ``behind``: what was made of that is not wanted.
        ChainBrokenError: see `end_above`.
    """
    found = list(objects)
    if behind is not None:
        for each in segments_of(found, [], extension=None, where=where):
            if replaces(each, behind):
                raise PositionMovedError(f"{where}: {behind.name} was rewritten, and {each.name} is in its place")
    return end_above(found, from_offset, behind=behind, where=where)


def _apart(segments: Iterable[Segment], where: str, refuse: Refuse) -> Iterator[Segment]:
    newest: Segment | None = None
    held: Segment | None = None
    for segment in segments:
        if held is not None and replaces(segment, held):
            newest = segment if newest == held else newest
            held = segment
            continue
        if newest is not None and segment.name.from_offset < newest.name.end_offset:
            refuse(
                ChainBrokenError(
                    f"{where}: snapshot {segment.name} overlaps {newest.name}: expected one from "
                    f"{newest.name.end_offset} on, or none",
                    hint="remove the one that should not be there; every snapshot is whole, so none depends on another",
                    previous=str(newest.name),
                    found=str(segment.name),
                    expected=newest.name.end_offset,
                )
            )
        if held is not None:
            yield held
        held = segment
        if newest is None or segment.name.end_offset > newest.name.end_offset:
            newest = segment
    if held is not None:
        yield held


def _summary(segments: Iterable[Segment], claims: list[ClaimName], where: str) -> Chain:
    newest: Segment | None = None
    count = 0
    for segment in _apart(segments, where, stop_at_first):
        newest = segment
        count += 1
    position = newest.name.end_offset if newest else 0
    return Chain(position=position, tail=newest, segment_count=count, claims=tuple(sorted(claims)))
