"""What the newest segment of an archive holds, and whose: to be looked at before anything is written behind it.

A name says where a segment ends, not whose it is. A position taken from names alone would let two sources share one
folder: the first 100 offsets of one, the next 200 of the other, and a whole chain. So whoever goes on behind a segment
has looked at it; as every segment was written so, all of them are of the source of the first. Nor does a name say
where a segment really ends: one that was renamed would be followed by offsets twice, or by a hole nobody sees.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.formats.named_segment import read_named_footer
from mirrorlake.archive.origin import Origin, check_origin
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.errors import ChainBrokenError


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """What a newest segment says: ``origin`` is None where mirror-v3 wrote it, or so it looks."""

    origin: Origin | None
    is_snapshot: bool = False


ReadNewest = Callable[[Segment], Newest]
"""Returns what a segment says of itself; may know it, as a segment never changes."""


def read_newest(folder: PartitionFolder, tail: Segment) -> Newest:
    """Returns what a segment says of itself, see `newest_footer`."""
    footer = newest_footer(folder, tail)
    if footer is None:
        return Newest(origin=None)
    return Newest(origin=Origin.of(footer), is_snapshot=footer.snapshot is not None)


def newest_footer(folder: PartitionFolder, tail: Segment) -> SegmentFooter | None:
    """Returns what a segment says of itself, once its name is what it holds; None where mirror-v3 wrote it.

    Raises:
        MirrorlakeError: see `read_named_footer`.
    """
    is_snapshot = isinstance(folder, SnapshotPartition)
    return read_named_footer(folder.store, folder.prefix, tail, partition=folder.partition, is_snapshot=is_snapshot)


def check_newest(
    folder: PartitionFolder,
    tail: Segment,
    said: Newest,
    *,
    origin: Origin,
    is_snapshot: bool,
    known: Segment | None,
) -> None:
    """Checks that a source's records may be written behind a segment that came since somebody looked.

    Args:
        folder: where it lies.
        tail: the segment.
        said: what it says of itself.
        origin: whose records are to follow.
        is_snapshot: whether a snapshot is to follow, and not every record.
        known: the newest segment as it was looked at before, None where there was none.

    Raises:
        OtherSourceError, TopicRecreatedError: it was written from another source.
        ChainBrokenError: it does not say from which: this mirror did not write it; or see `check_kind`.
    """
    key = f"{folder.prefix}/{tail.name}"
    if said.origin is not None:
        check_origin(said.origin, origin, what=f"{key} was written")
        check_kind(key, is_snapshot=said.is_snapshot, expects_snapshot=is_snapshot)
        return
    raise ChainBrokenError(
        f"{folder.prefix}: {tail.name} was not written by mirrorlake, and "
        + ("nothing was there before" if known is None else f"{known.name} was the last segment"),
        hint="stop the other writer, move the file out of the folder, then restart",
        expected=str(known.name) if known else "",
        found=str(tail.name),
    )


def check_kind(key: str, *, is_snapshot: bool, expects_snapshot: bool) -> None:
    """Checks that a segment is of the kind that is to follow it: every record, or the latest of every key.

    Raises:
        ChainBrokenError: it is of the other.
    """
    if is_snapshot == expects_snapshot:
        return
    held, hint = "every record", "leave `compaction` out"
    if is_snapshot:
        held, hint = "snapshots of the latest record per key", "set `compaction: log`"
    raise ChainBrokenError(
        f"{key} belongs to {held}, and this mirror is configured to write the other kind there",
        hint=f"{hint} to continue this archive, or choose another destination name",
        key=key,
    )
