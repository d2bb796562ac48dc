"""Snapshots that newer ones have followed: which of them may go, and when.

Every snapshot is whole, so the newest says all; a plain reader of the folder who also meets older ones has every key
more than once. An old one stays until the newest has been there for a while, for who is reading it, and until the
newest was read back. Only what says of itself that it is a snapshot of the same source goes; what says nothing stays.
"""

from datetime import datetime

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import check_snapshot_content, read_snapshot_footer
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.object_store import ObjectMissingError

GRACE_SECONDS = 600.0
"""How long a snapshot has been the newest before older ones go: who listed the folder before has read them by then."""


def followed_snapshots(
    folder: SnapshotPartition, *, kept: int, origin: Origin, now_seconds: float
) -> tuple[Segment, ...]:
    """Returns the snapshots that may be removed, the oldest first; reads footers only.

    Args:
        folder: where they lie.
        kept: how many stay, the newest among them; at least 1.
        origin: whose views they are.
        now_seconds: the wall clock, in Unix seconds.

    Raises:
        ChainBrokenError: the folder's names are not those of snapshots.
        MirrorlakeError: the store could not be read.
    """
    assert kept >= 1, "the newest snapshot is the position"
    snapshots = folder.snapshots()
    older, newest = snapshots[:-kept], snapshots[-1:]
    if not older or not _is_settled(folder, newest[0], origin, now_seconds):
        return ()
    return tuple(snapshot for snapshot in older if _says_origin(folder, snapshot, origin))


def remove_followed(folder: SnapshotPartition, *, kept: int, origin: Origin, now_seconds: float) -> tuple[Segment, ...]:
    """Removes what `followed_snapshots` returns, once the newest snapshot was read back whole; returns what went.

    Safe beside writers: they need the newest alone. Idempotent.

    Raises:
        ChainBrokenError: the newest is damaged, and nothing was removed; or see `followed_snapshots`.
        MirrorlakeError: the store could not be read, or refuses; some may have gone.
    """
    removable = followed_snapshots(folder, kept=kept, origin=origin, now_seconds=now_seconds)
    if removable:
        check_snapshot_content(folder, folder.snapshots()[-1])
    for snapshot in removable:
        folder.store.delete(f"{folder.prefix}/{snapshot.name}")
    return removable


def _is_settled(folder: SnapshotPartition, newest: Segment, origin: Origin, now_seconds: float) -> bool:
    footer = read_snapshot_footer(folder.store, folder.prefix, newest)
    if footer is None or not Origin.of(footer).agrees_with(origin):
        return False
    try:
        made_seconds = datetime.fromisoformat(footer.envelope.created_at).timestamp()
    except ValueError:
        return False
    return now_seconds - made_seconds >= GRACE_SECONDS


def _says_origin(folder: SnapshotPartition, snapshot: Segment, origin: Origin) -> bool:
    try:
        footer = read_snapshot_footer(folder.store, folder.prefix, snapshot)
    except (ChainBrokenError, ObjectMissingError):
        return False  # damaged, no snapshot, or gone: for `archive check` to tell
    return footer is not None and Origin.of(footer).agrees_with(origin)
