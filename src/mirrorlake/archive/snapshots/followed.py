"""Snapshots that newer ones have followed, or an eraser has replaced: which of them may go, and when.

Every snapshot is whole, so the newest says all; a plain reader of the folder who also meets older ones has every key
more than once. An old one stays until a later one has been there for a while, for who is reading it, and until the
newest was read back. Only what says of itself that it is a snapshot of the same source goes; what says nothing stays.
"""

import uuid
from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime
from functools import cache

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.holds import announced, delete_dead_announcements, read_holds, topic_folder
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import check_snapshot_content, read_snapshot_footer
from mirrorlake.clock import SystemClock
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.object_store import ObjectMissingError

GRACE_SECONDS = 600.0
"""How long a snapshot has been there before older ones go: who listed the folder before has read them by then."""


def followed_snapshots(
    folder: SnapshotPartition, *, kept: int, origin: Origin, now_seconds: float
) -> tuple[Segment, ...]:
    """Returns the snapshots that may be removed, the oldest first, none where anything is held; reads footers only.

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
    if not snapshots[:-kept] or read_holds(folder.store, topic_folder(folder.prefix)).labels(folder.partition):
        return ()
    newest = read_snapshot_footer(folder.store, folder.prefix, snapshots[-1])
    if newest is None or not Origin.of(newest).agrees_with(origin):
        return ()
    older = snapshots[: min(_last_settled(folder, snapshots, now_seconds), len(snapshots) - kept)]
    older += [each for each, counting in folder.replaced() if counting in older]
    older.sort(key=lambda each: each.name)
    return tuple(snapshot for snapshot in older if _says_origin(folder, snapshot, origin))


def remove_followed(folder: SnapshotPartition, *, kept: int, origin: Origin, now_seconds: float) -> tuple[Segment, ...]:
    """Removes what `followed_snapshots` returns, once the newest snapshot was read back whole; returns what went.

    What a run that died had announced goes too, also where nothing else does.

    Safe beside writers, who need the newest alone, and beside who places a hold. Idempotent.

    Raises:
        ChainBrokenError: the newest is damaged, and nothing was removed; or see `followed_snapshots`.
        MirrorlakeError: the store could not be read, or refuses; some may have gone.
    """
    delete_dead_announcements(folder.store, folder.prefix, now_seconds=now_seconds)
    removable = followed_snapshots(folder, kept=kept, origin=origin, now_seconds=now_seconds)
    if not removable:
        return ()
    check_snapshot_content(folder, folder.snapshots()[-1])
    end = removable[-1].name.end_offset
    elapsed_seconds, token = SystemClock().elapsed_seconds, uuid.uuid4().hex
    with announced(folder.store, folder.prefix, end, token=token, elapsed_seconds=elapsed_seconds) as holds:
        if holds.labels(folder.partition):
            return ()
        for snapshot in removable:
            folder.store.delete(f"{folder.prefix}/{snapshot.name}")
    return removable


def _last_settled(folder: SnapshotPartition, snapshots: Sequence[Segment], now_seconds: float) -> int:
    """Returns the index of the last snapshot that has been there for `GRACE_SECONDS`; 0 where none has.

    Where snapshots come faster than that it is never the newest. Those before it are older, if clocks were right; if
    not, an earlier one is found, or none.
    """

    @cache
    def age_seconds(snapshot: Segment) -> float | None:
        try:
            footer = read_snapshot_footer(folder.store, folder.prefix, snapshot)
            made_at = None if footer is None else datetime.fromisoformat(footer.envelope.created_at)
            return None if made_at is None else now_seconds - made_at.timestamp()
        except (ChainBrokenError, ObjectMissingError, ValueError):
            return None  # it does not say when it was made, as mirror-v3's do not

    def is_fresh(snapshot: Segment) -> bool:
        age = age_seconds(snapshot)
        return age is not None and age < GRACE_SECONDS

    last = bisect_left(snapshots, True, key=is_fresh) - 1
    age = age_seconds(snapshots[last]) if last > 0 else None
    return last if age is not None and age >= GRACE_SECONDS else 0


def _says_origin(folder: SnapshotPartition, snapshot: Segment, origin: Origin) -> bool:
    try:
        footer = read_snapshot_footer(folder.store, folder.prefix, snapshot)
    except (ChainBrokenError, ObjectMissingError):
        return False  # damaged, no snapshot, or gone: for `archive check` to tell
    return footer is not None and Origin.of(footer).agrees_with(origin)
