"""The names of a folder of snapshots: they may leave holes, and never overlap; the newest is what counts. Pure.

Older snapshots may be removed by hand at any time, so nothing follows from what is missing below the newest.
"""

from collections.abc import Iterable, Iterator

from mirrorlake.archive.chain import Chain, Refuse, Segment, segments_of, stop_at_first
from mirrorlake.archive.names import ClaimName
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.object_store import ObjectInfo


def check_snapshots(objects: Iterable[ObjectInfo], *, extension: str, where: str) -> Chain:
    """Checks a whole folder of snapshots and returns where its mirror goes on: after the newest.

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
        ChainBrokenError: it is gone and nothing has followed it, or something else stands in its place; what follows
            overlaps, or has another extension or a name that is none of ours.
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
    if first != known and first.name.from_offset < known.name.end_offset:
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
    """Yields all snapshots of a folder in order, checking each against the one before.

    Raises:
        ChainBrokenError: see `check_snapshots`; unless ``refuse``, which is told of it, does otherwise.
    """
    return _apart(segments_of(objects, [], extension=extension, where=where, refuse=refuse), where, refuse)


def _apart(segments: Iterable[Segment], where: str, refuse: Refuse) -> Iterator[Segment]:
    newest: Segment | None = None
    for segment in segments:
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
        yield segment
        if newest is None or segment.name.end_offset > newest.name.end_offset:
            newest = segment


def _summary(segments: Iterable[Segment], claims: list[ClaimName], where: str) -> Chain:
    newest: Segment | None = None
    count = 0
    for segment in _apart(segments, where, stop_at_first):
        newest = segment
        count += 1
    position = newest.name.end_offset if newest else 0
    return Chain(position=position, tail=newest, segment_count=count, claims=tuple(sorted(claims)))
