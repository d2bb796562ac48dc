"""Whether a copy may have missed that its source deleted keys. Decides nothing: it is said, as nobody can mend it here.

A compacted source keeps a tombstone for ``delete.retention.ms`` at least, and its cleaner never passes the last stable
offset (`mirrorlake.archive.snapshots.tombstones`). So where that was at or below a position at some time, whoever reads
on from there within that long reads every tombstone. Who comes later may find the key's record and its tombstone gone,
and keeps a record that no reader of the source sees. All that is left of both is an offset without a record; where
every offset has one, nothing was missed. What the source's log start has passed may have been a tombstone too.
"""

from mirrorlake.archive.snapshots.tombstones import SnapshotRule, may_miss_tombstones
from mirrorlake.destinations.interface import NOTHING_HELD
from mirrorlake.mirror.told_progress import ToldProgress
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import GapKind


class DeletionWatch:
    """Follows one copy. All times but record times are readings of the driver's clock.

    ``is_doubted`` is True from when deletions may have been missed until the copy has read on in time again.
    """

    __slots__ = ("_absent", "_ahead", "_is_begun", "_is_fresh", "_truncated", "_whole_at_seconds", "is_doubted")

    def __init__(self) -> None:
        self.is_doubted = False
        self._is_begun = False
        self._is_fresh = True
        self._whole_at_seconds: float | None = None
        self._ahead: tuple[float, int] | None = None
        self._absent = self._truncated = 0

    def saw_end(self, end: int, *, reached: int | None, now_seconds: float) -> None:
        """Takes the source's last stable offset as it is now, and how far the copy is known to be.

        A copy that keeps up, and is never quite there when somebody looks, is known to have what was there a while ago.
        """
        if reached is None or not self._is_begun:
            return
        if self._ahead is not None and reached >= self._ahead[1]:
            self._is_whole_at(self._ahead[0])
            self._ahead = None
        if reached >= end:
            self._is_whole_at(now_seconds)
        elif self._ahead is None:
            self._ahead = (now_seconds, end)

    def got_on(
        self,
        done: LeaseRow | ToldProgress,
        *,
        kept_seconds: float | None,
        now_seconds: float,
        wall_seconds: float,
    ) -> bool:
        """Takes what a lease has done so far; True where deletions may be missing from here on, and were not before.

        Args:
            done: since the lease began.
            kept_seconds: for how long the source keeps tombstones; None where it removes nothing by key.
            now_seconds: the clock.
            wall_seconds: the time it is, in Unix seconds.
        """
        if done.position is None:
            return False
        self._begin(done.held_until_ms, now_seconds, wall_seconds)
        absent = done.gap_offsets.get(GapKind.ABSENT.value, 0)
        has_lost, self._absent = absent > self._absent, absent
        truncated = done.gap_offsets.get(GapKind.TRUNCATED.value, 0)
        has_passed, self._truncated = truncated > self._truncated, truncated
        if has_passed and kept_seconds is not None and not self._is_fresh:
            is_new, self.is_doubted = not self.is_doubted, True
            return is_new
        since = self._whole_at_seconds
        if not may_miss_tombstones(
            SnapshotRule(tombstones_kept_seconds=kept_seconds),
            complete_since_ms=None if since is None else round(since * 1000),
            now_ms=round(now_seconds * 1000),
        ):
            self.is_doubted = False
            return False
        is_new = has_lost and not self.is_doubted
        self.is_doubted |= has_lost
        return is_new

    def lease_ended(self) -> None:
        """Takes that the next lease counts from nothing."""
        self._absent = self._truncated = 0
        self._is_fresh = self._is_fresh and not self._is_begun

    def _begin(self, held_until_ms: int | None, now_seconds: float, wall_seconds: float) -> None:
        """Takes, once, what the copy was found to hold: its newest record was at the source's end when it came there.

        A copy that holds nothing has nothing to delete: it is as one that was read from the log's start, from now on.
        """
        if self._is_begun:
            return
        self._is_begun = True
        # A copy of which nobody knows what it holds may be empty: then the source only began further up.
        self._is_fresh = held_until_ms in (None, NOTHING_HELD)
        if held_until_ms is not None:
            age_seconds = 0.0 if held_until_ms == NOTHING_HELD else wall_seconds - held_until_ms / 1000
            self._is_whole_at(now_seconds - age_seconds)

    def _is_whole_at(self, seconds: float) -> None:
        before = self._whole_at_seconds
        self._whole_at_seconds = seconds if before is None else max(before, seconds)
