"""Deleting what merging and retention leave behind: covered and retired segments, announcements, descriptions.

What is deleted follows from one look at the folder, and a covered segment goes only once the larger one was proven to
hold what it holds. So whoever runs next finishes what another began, and nothing is remembered between runs: how long
inputs have been covered is told by the age of what covers them.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.maintenance.look import CoveredSegment, FolderLook
from mirrorlake.archive.names import MergeName, SegmentName, parse_segment_name
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, sidecar_folder
from mirrorlake.errors import ChainBrokenError, PositionMovedError

Prove = Callable[[Segment, Sequence[Segment]], None]
"""Called with a segment and those inside of it that are to go. Returns if it holds what they hold, and raises
``ChainBrokenError`` where it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What was deleted; ``flaws`` are covers that do not hold what is inside of them, all of which stays."""

    files: int = 0
    size_bytes: int = 0
    flaws: tuple[ChainBrokenError, ...] = ()


def due_covered(
    look: FolderLook, *, keep_seconds: float, now_seconds: float
) -> tuple[tuple[Segment, tuple[Segment, ...]], ...]:
    """Returns the segments that cover others long enough, each with those others. Pure.

    Args:
        look: the folder.
        keep_seconds: how long what is covered stays beside what covers it.
        now_seconds: the wall clock, in Unix seconds.
    """
    due = [each for each in look.covered if _is_due(each, keep_seconds=keep_seconds, now_seconds=now_seconds)]
    due.sort(key=lambda each: each.cover.name)
    groups = itertools.groupby(due, key=lambda each: each.cover)
    return tuple((cover, tuple(each.segment for each in covered)) for cover, covered in groups)


def delete_covered(
    archived: ArchivedPartition, look: FolderLook, *, keep_seconds: float, now_seconds: float, prove: Prove
) -> Cleaned:
    """Deletes covered segments whose time has come, then announcements and descriptions nobody needs. Idempotent.

    Safe beside writers, readers, other mergers and retention.

    Args:
        archived: the partition.
        look: its folder, as it was looked at.
        keep_seconds: how long what is covered stays.
        now_seconds: the wall clock, in Unix seconds.
        prove: proves that a segment holds what is inside of it.

    Raises:
        MirrorlakeError: the store could not be read, or refuses; some may have gone.
    """
    files, size_bytes, flaws = 0, 0, []
    for cover, covered in due_covered(look, keep_seconds=keep_seconds, now_seconds=now_seconds):
        try:
            prove(cover, covered)
        except ChainBrokenError as error:
            flaws.append(error)
            continue
        for segment in covered:
            archived.store.delete(f"{archived.prefix}/{segment.name}")
        files += len(covered)
        size_bytes += sum(each.size_bytes for each in covered)
    for name in finished_merges(look):
        archived.store.delete(f"{archived.prefix}/{name}")
    return Cleaned(files=files, size_bytes=size_bytes, flaws=tuple(flaws))


def delete_retired(archived: ArchivedPartition, look: FolderLook) -> Cleaned:
    """Deletes what lies at or below the floor, then the lower floors. Idempotent, and safe beside all others.

    Raises:
        MirrorlakeError: the store could not be reached, or refuses; some may have gone.
    """
    for segment in look.retired:
        archived.store.delete(f"{archived.prefix}/{segment.name}")
    return Cleaned(files=len(look.retired), size_bytes=sum(each.size_bytes for each in look.retired))


def check_gone(folder: PartitionFolder, names: Iterable[SegmentName]) -> None:
    """Checks that none of some files is listed any more: a store may say that it has deleted one, and keep it.

    Raises:
        PositionMovedError: one is; whoever deletes it anew may have more luck.
        MirrorlakeError: the store could not be read.
    """
    there = {info.name for info in folder.store.list(folder.prefix)}
    if left := sorted(str(name) for name in names if str(name) in there):
        raise PositionMovedError(
            f"{folder.prefix}: {', '.join(left)} was deleted, as it holds the records, and the store still lists it: "
            "run again"
        )


def finished_merges(look: FolderLook) -> tuple[MergeName, ...]:
    """Returns the announcements that decide nothing any more: of ranges that one segment holds, or a floor passed."""
    return tuple(
        name for name in look.merges if look.holding(name.offsets) is not None or name.offsets.end_offset <= look.floor
    )


def delete_orphaned_descriptions(archived: ArchivedPartition, look: FolderLook, gone: Iterable[Segment] = ()) -> int:
    """Deletes descriptions of segments that were covered or retired and are gone; returns how many.

    A description without a segment at or behind the position stays: its segment may be on its way, or missing.

    Args:
        archived: the partition; one whose format has no descriptions has nothing to delete.
        look: its folder, as it was looked at before anything of it was deleted.
        gone: the segments of it that were deleted since.
    """
    if archived.extension not in FORMATS_WITH_SIDECAR:
        return 0
    deleted = {segment.name for segment in gone}
    there = {each.name for each in look.chain}
    there |= {each.segment.name for each in look.covered} | {each.name for each in look.retired}
    there -= deleted
    count = 0
    for info in tuple(archived.store.list(sidecar_folder(archived.prefix))):
        name = parse_segment_name(".".join(info.name.split(".")[:2]))
        if name is not None and name not in there and _is_passed(look, name):
            archived.store.delete(info.key)
            count += 1
    return count


def _is_passed(look: FolderLook, name: SegmentName) -> bool:
    """Tells whether a segment that is not there can never count again."""
    if name.end_offset <= look.floor:
        return True
    holder = look.holding(name.offsets)
    return holder is not None and holder.name != name


def _is_due(covered: CoveredSegment, *, keep_seconds: float, now_seconds: float) -> bool:
    since = covered.cover.modified_seconds
    return keep_seconds == 0 or (since is not None and since <= now_seconds - keep_seconds)
