"""Putting a snapshot without some keys into the place of one with them, beside writers, readers and other erasers.

A name means one content for ever, so the new one has another name, with the same end: the position stays, and of two
that end at one offset the one that begins last counts (`archive.snapshots.chain`). Before this it was written, hidden,
and proven (`snapshot_erasing`). Order of effects:

1. announce it, and read the holds (`holds`); 2. look whether the old one still counts; 3. write the audit object;
4. create the new one if absent, compare its bytes, and look whether the old one lies there still; 5. delete the old
one; 6. withdraw the announcement; 7. confirm: list the claims of the position, then the snapshots, and that the old one
is gone: a store may say that it has deleted it, and keep it.

A crash before 4 leaves a hidden file, which is swept, and an audit object of an attempt that came to nothing; from 4 on
the new one counts, to readers and writers alike, and the next run deletes the old one (`clean_snapshots`).

**The writer of the next snapshot** merges the newest with what came since, and must not publish what it made of the
old one. It claims the position first, and then lists: where the snapshot that it read is gone, or another one counts in
its place, it publishes nothing and reads again. So whoever saw the old one there had claimed before 5. A claim that is
there in 7 may be of such a writer; one that is gone by then was followed by a snapshot, which the second listing shows.
Where there is either, the records are not called erased, and the next run looks into what was published.

**Two erasers** of one snapshot make the same name, which only one can create. Who comes so late that the old one is
gone takes its own back in 4, or in 7 where another one counts.

``test_erase_snapshot_model.py`` tries every interleaving.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import FileSum
from mirrorlake.archive.maintenance.cleaning import Cleaned, check_gone
from mirrorlake.archive.maintenance.holds import announced, delete_dead_announcements
from mirrorlake.archive.maintenance.look import MERGE_SECONDS_MAX, is_live
from mirrorlake.archive.maintenance.proof import prove_same_file
from mirrorlake.archive.names import SegmentName, parse_claim_name
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import check_snapshot_content, read_snapshot_footer
from mirrorlake.clock import Clock, SystemClock
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectExistsError, StagedObject


class SnapshotEraseStep(StrEnum):
    """The steps that touch the store; the crash point is called with the next one before it happens."""

    ANNOUNCE = "announce what is deleted"
    LOOK = "look at the snapshots"
    RECORD = "write the audit object"
    PUBLISH = "publish the snapshot without the records"
    DELETE = "delete the one with them"
    WITHDRAW = "withdraw the announcement"
    CONFIRM = "confirm that it stands"


class SnapshotPublication:
    """Puts a snapshot of the next name into the place of another one, or deletes one that has been followed.

    Args:
        folder: where both lie.
        snapshot: the one that is to go.
        name: of the one in its place; None where it has been followed and nothing comes in its place.
        token: of this attempt alone; see `RetireName`.
        clock: tells when.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        folder: SnapshotPartition,
        snapshot: Segment,
        name: SegmentName | None,
        *,
        token: str,
        clock: Clock,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._folder = folder
        self._snapshot = snapshot
        self._name = name
        self._token = token
        self._clock = clock
        self._crash_point = crash_point
        self._was_newest = False

    def replace(self, staged: StagedObject | None, expected: FileSum | None, *, record: Callable[[], None]) -> None:
        """Takes steps 1 to 7. What it returns from is done.

        Args:
            staged: the new snapshot; None where the old one is deleted for good.
            expected: its length and checksum.
            record: writes the audit object.

        Raises:
            PositionMovedError: a hold, another eraser, or the writer of the next snapshot stands against it: run again.
            ChainBrokenError: what was published is not what was written; nothing was deleted.
            MirrorlakeError: the store could not be read, or refuses.
        """
        elapsed_seconds, end = SystemClock().elapsed_seconds, self._snapshot.name.end_offset
        store, prefix = self._folder.store, self._folder.prefix
        self._crash_point(SnapshotEraseStep.ANNOUNCE)
        with announced(store, prefix, end, token=self._token, elapsed_seconds=elapsed_seconds) as holds:
            labels = holds.labels(self._folder.partition)
            obstacle = f"held by {', '.join(labels)}" if labels else self._obstacle()
            if not obstacle:
                self._crash_point(SnapshotEraseStep.RECORD)
                record()
                obstacle = self._publish(staged, expected)
            if not obstacle:
                self._crash_point(SnapshotEraseStep.DELETE)
                store.delete(f"{prefix}/{self._snapshot.name}")
            self._crash_point(SnapshotEraseStep.WITHDRAW)
        if obstacle:
            raise PositionMovedError(f"{prefix}/{self._snapshot.name} is not erased now: {obstacle}")
        self._confirm()

    def _obstacle(self) -> str:
        self._crash_point(SnapshotEraseStep.LOOK)
        snapshots = self._folder.snapshots()
        if self._snapshot not in snapshots:
            return "it was removed or rewritten meanwhile"
        self._was_newest = self._snapshot == snapshots[-1]
        if self._name is None and self._was_newest:
            return "it is the newest snapshot"
        return ""

    def _publish(self, staged: StagedObject | None, expected: FileSum | None) -> str:
        if staged is None:
            return ""
        assert expected is not None, "a snapshot that was written was summed up"
        self._crash_point(SnapshotEraseStep.PUBLISH)
        key = f"{self._folder.prefix}/{self._name}"
        try:
            staged.publish(key)
            prove_same_file(self._folder, key, expected)
        except ObjectExistsError:
            return "another eraser was here meanwhile"
        except PositionMovedError as error:  # gone again: rewritten by the next one
            return error.message
        return "" if self._is_in_time() else "it was removed meanwhile"

    def _is_in_time(self) -> bool:
        """Tells whether the old snapshot lies beside the new one; takes the new one back where it came too late.

        Where the old one was removed meanwhile, others may have erased from it, or from what they put in its place.
        """
        replaced = {each.name for each, _ in self._folder.replaced()}
        if self._snapshot.name in replaced:
            return True
        if self._folder.snapshots()[-1].name != self._name:
            self._folder.store.delete(f"{self._folder.prefix}/{self._name}")
        return False

    def _confirm(self) -> None:
        """Checks that nobody has published what was made of the old snapshot, or may do so, and that it is gone.

        Raises:
            PositionMovedError: somebody may have, or the store still lists it.
        """
        self._crash_point(SnapshotEraseStep.CONFIRM)
        prefix, end = self._folder.prefix, self._snapshot.name.end_offset
        claimed = self._claimed_seconds() if self._was_newest else []
        snapshots = self._folder.snapshots()
        if self._name is not None and self._name not in {each.name for each in snapshots}:
            if self._name in {each.name for each, _ in self._folder.replaced()}:
                self._folder.store.delete(f"{prefix}/{self._name}")
            raise PositionMovedError(f"{prefix}/{self._name} was rewritten or removed meanwhile: run again")
        if self._was_newest and snapshots[-1].name.end_offset > end:
            raise PositionMovedError(f"{prefix}: {snapshots[-1].name} was written meanwhile: run again, for it as well")
        check_gone(self._folder, [self._snapshot.name])
        if claimed:
            raise claimed_error(self._folder, snapshots[-1], claimed)

    def _claimed_seconds(self) -> list[float | None]:
        return live_claims(self._folder, self._snapshot.name.end_offset, now_seconds=self._clock.now_seconds())


def may_be_followed_by(
    folder: SnapshotPartition, newest: Segment, *, held_keys: bool, now_seconds: float
) -> PositionMovedError | None:
    """Returns why what was found in a folder may not be all: a snapshot made of one that has been erased from since.

    Args:
        folder: where it lies.
        newest: the newest when the folder was looked through.
        held_keys: whether it held the keys; where it did its own erasure has asked for claims.
        now_seconds: the wall clock, in Unix seconds.

    Returns:
        None where there is no such snapshot, nor can be. What came since was made of ``newest``, or of what that had
        been made of: so nothing is said where neither held the keys.

    Raises:
        PositionMovedError: the newest is gone meanwhile.
        MirrorlakeError: the store could not be read.
    """
    if not held_keys:
        footer = read_snapshot_footer(folder.store, folder.prefix, newest)
        if footer is None or footer.snapshot is None or not footer.snapshot.erased:
            return None
    claimed = [] if held_keys else live_claims(folder, newest.name.end_offset, now_seconds=now_seconds)
    later = folder.snapshots()[-1:]
    if later and later[0].name.end_offset > newest.name.end_offset:
        return PositionMovedError(f"{folder.prefix}: {later[0].name} was written meanwhile: run again, for it as well")
    return claimed_error(folder, newest, claimed) if claimed else None


def claimed_error(folder: SnapshotPartition, snapshot: Segment, claimed: Sequence[float | None]) -> PositionMovedError:
    """Returns the error of claims of the position that were made at these times; ``until_seconds`` is when they end."""
    known = [each for each in claimed if each is not None]
    return PositionMovedError(
        f"{folder.prefix}: a writer has claimed the next snapshot, which may be made of what {snapshot.name} has "
        "replaced: once that is written, or the claim is a day old, run again",
        until_seconds=max(known) + MERGE_SECONDS_MAX if len(known) == len(claimed) else None,
    )


def live_claims(folder: SnapshotPartition, position: int, *, now_seconds: float) -> list[float | None]:
    """Returns when each claim of a position was made whose writer may yet publish; None is not known.

    A writer claims when its view is written, and publishes at once, within its lease: one that was frozen for a day is
    over it.
    """
    return [
        info.modified_seconds
        for info in folder.store.list(folder.prefix, start_after="_")
        if (name := parse_claim_name(info.name)) is not None
        and name.from_offset == position
        and is_live(info.modified_seconds, now_seconds)
    ]


def clean_snapshots(folder: SnapshotPartition, *, token: str, now_seconds: float) -> Cleaned:
    """Deletes what erasers that were killed have left: snapshots in whose place others count. Idempotent.

    Each goes only once the one in its place was read back whole and says that records were erased from it; none where
    anything of the partition is held.

    Args:
        folder: where they lie.
        token: of this run alone; see `RetireName`.
        now_seconds: the wall clock, in Unix seconds.

    Raises:
        MirrorlakeError: the store could not be read, or refuses; some may have gone.
    """
    delete_dead_announcements(folder.store, folder.prefix, now_seconds=now_seconds)
    pairs = folder.replaced()
    flaws: list[ChainBrokenError] = []
    sound: set[SegmentName] = set()
    for counting in dict.fromkeys(counting for _, counting in pairs):
        try:
            check_replacing(folder, counting)
            sound.add(counting.name)
        except ChainBrokenError as error:
            flaws.append(error)
    gone = [each for each, counting in pairs if counting.name in sound]
    if gone:
        elapsed_seconds, end = SystemClock().elapsed_seconds, max(each.name.end_offset for each in gone)
        with announced(folder.store, folder.prefix, end, token=token, elapsed_seconds=elapsed_seconds) as holds:
            gone = [] if holds.labels(folder.partition) else gone
            for each in gone:
                folder.store.delete(f"{folder.prefix}/{each.name}")
    return Cleaned(files=len(gone), size_bytes=sum(each.size_bytes for each in gone), flaws=tuple(flaws))


def check_replacing(folder: SnapshotPartition, snapshot: Segment) -> None:
    """Reads a snapshot whole that counts in the place of another, and checks that an eraser has put it there.

    Raises:
        ChainBrokenError: it is damaged, or does not say that records were erased from it.
        MirrorlakeError: the store could not be read.
    """
    check_says_erased(folder, snapshot)
    check_snapshot_content(folder, snapshot)


def check_says_erased(folder: SnapshotPartition, snapshot: Segment) -> None:
    """Checks that a snapshot which counts in the place of another says that records were erased from it.

    Raises:
        ChainBrokenError: it does not, or is damaged.
        MirrorlakeError: the store could not be read.
    """
    footer = read_snapshot_footer(folder.store, folder.prefix, snapshot)
    if footer is None or footer.snapshot is None or not footer.snapshot.erased:
        raise ChainBrokenError(
            f"{folder.prefix}/{snapshot.name} ends where another snapshot does, and does not say that records were "
            "erased from it",
            hint="move the one of both away that should not be there: nothing was deleted",
            key=f"{folder.prefix}/{snapshot.name}",
        )
