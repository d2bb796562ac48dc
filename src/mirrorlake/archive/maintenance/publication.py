"""Publishing a merged segment so that two mergers never make a chain that is none, nor bring back what was erased.

Segments of a chain hold one another or are apart; two that overlap in part are refused by every reader. Appending is
ordered by claims of the position; merging is not ordered by anything, so each merger says what it is about to publish:

1. create an object whose name holds the range, and a token of its own;
2. list those of all others: where one is in the way (`_is_in_the_way`), withdraw: delete one's own, publish nothing;
3. look at the chain: where the range is not made up of the very segments that were read, or the newest is among them,
   withdraw;
4. create the segment if absent;
5. delete what was created in 1, and then, by `cleaning`, the inputs.

Why it holds: of two that announced ranges at odds, the later one sees the earlier in step 2, unless that is gone. It
went because its owner withdrew, who then never publishes, or because a segment of the chain held its range: which the
later one sees in step 3, as a segment of the chain goes only once a larger one holds it. So ranges at odds are never
both published, at whatever time; and what a slow merger publishes of a range that a larger segment holds is covered.

An eraser publishes as a merger does, under `_erase-`, a segment without the records it takes out. So what a merger has
read must not be published once they are gone: where one of two is an eraser, any overlap is in the way, one inside the
other too; and step 3 asks for the inputs by name, as a name means one content for ever. Before an eraser says that it
is done, it lists what others have announced and looks at the chain once more (`confirm`): who announces later sees the
new segment in step 3.

An announcement is deleted by its owner, or by anyone where a segment of the chain holds its range or a floor has passed
it. That of a dead merger stays, and who comes next merges all it reaches (`merge_plan`); mergers and erasers wait for
one another for a day. Nothing here needs a condition of the store but that a listing shows what was written before it;
``test_merge_model.py`` and ``test_erase_model.py`` try every interleaving.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import FileSum
from mirrorlake.archive.maintenance.look import are_at_odds, holds, is_live, look_at, name_of, overlap
from mirrorlake.archive.maintenance.proof import prove_same_file
from mirrorlake.archive.names import ERASE_PREFIX, MergeName, parse_merge_name
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.errors import MirrorlakeError, PositionMovedError, StoreUnusableError
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectExistsError, ObjectMissingError, StagedObject


class MergeStepAt(StrEnum):
    """The steps that touch the store; the crash point is called with the next one before it happens."""

    ANNOUNCE = "announce the merge"
    LIST_OTHERS = "list other mergers"
    LOOK = "look at the chain"
    WITHDRAW = "withdraw"
    PUBLISH = "publish the merged segment"
    CONFIRM = "confirm that it stands"
    RELEASE = "delete the announcement"


class MergePublication:
    """One attempt to publish one merged segment: ``stage``, write, ``announce``, ``publish``, ``release``.

    Any error leaves the store so that a new attempt, by anyone, goes on rightly.

    Args:
        archived: the partition.
        inputs: the segments that are read for it: neighbours of the chain.
        token: of this attempt alone; see `MergeName`.
        erases: whether the segment leaves out records of its inputs; then ``confirm`` after ``publish``.
        now_seconds: the wall clock, in Unix seconds.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        archived: ArchivedPartition,
        inputs: Sequence[Segment],
        *,
        token: str,
        erases: bool = False,
        now_seconds: Callable[[], float],
        crash_point: CrashPoint = no_crash,
    ) -> None:
        offsets = OffsetRange(start_offset=inputs[0].name.from_offset, end_offset=inputs[-1].name.end_offset)
        self.segment_name = name_of(offsets, archived.extension)
        self._archived = archived
        self._offsets = offsets
        self._inputs = tuple(each.name for each in inputs)
        self._mine = MergeName(
            from_offset=offsets.start_offset, to_offset=offsets.end_offset - 1, token=token, erases=erases
        )
        self._now_seconds = now_seconds
        self._crash_point = crash_point

    @property
    def key(self) -> str:
        """The key of the merged segment."""
        return f"{self._archived.prefix}/{self.segment_name}"

    def stage(self) -> StagedObject:
        """Returns a place to write the segment; no listing shows it."""
        return self._archived.store.stage(self._archived.prefix, f"merge-{self.segment_name.from_offset}")

    def announce(self) -> None:
        """Takes steps 1 to 3; after them the segment may be published.

        Raises:
            PositionMovedError: another merger or retention was here meanwhile; nothing is to be published.
            MirrorlakeError: the store's; the announcement may stay behind, and the next merger finishes it.
        """
        store, prefix = self._archived.store, self._archived.prefix
        self._crash_point(MergeStepAt.ANNOUNCE)
        # "Exists" is ours: a store may do the create, lose the answer, and say so to the next attempt.
        with contextlib.suppress(ObjectExistsError):
            store.create(f"{prefix}/{self._mine}", b"")
        self._crash_point(MergeStepAt.LIST_OTHERS)
        for other, is_other_live in self._others():
            if _is_in_the_way(other, self._mine, is_live=is_other_live):
                who = "an eraser" if other.erases else "another merger"
                raise self._withdrawn(f"{who} is about to publish {other.offsets}")
        self._crash_point(MergeStepAt.LOOK)
        look = look_at(self._archived)
        if look.holding(self._offsets) is not None:
            raise self._withdrawn("it was merged meanwhile")
        parts = look.parts_of(self._offsets)
        if parts is None or parts[-1] == look.newest or tuple(each.name for each in parts) != self._inputs:
            raise self._withdrawn("its segments were merged or retired meanwhile")

    def publish(self, staged: StagedObject) -> bool:
        """Makes the staged bytes the segment (step 4).

        Returns:
            True where this merger published it, False where one of the same name was there.

        Raises:
            StoreUnavailableError: unknown whether it is published; the next run finds out.
        """
        self._crash_point(MergeStepAt.PUBLISH)
        try:
            staged.publish(self.key)
        except ObjectExistsError:
            return False
        return True

    def check_published(self, expected: FileSum) -> None:
        """Checks that what this merger has published is there, byte for byte as it was read back before.

        Raises:
            ChainBrokenError: it is another file; no input was deleted.
            PositionMovedError: a larger segment has taken its place, or retention has passed it.
            StoreUnusableError: it is not there, and nothing is in its place: the store has lost it.
            MirrorlakeError: the store could not be read.
        """
        try:
            prove_same_file(self._archived, self.key, expected)
        except ObjectMissingError as error:
            raise self._gone() from error

    def _gone(self) -> MirrorlakeError:
        look = look_at(self._archived)
        if self._offsets.end_offset <= look.floor:
            return PositionMovedError(f"{self.key} was retired a moment after it was published")
        held = look.holding(self._offsets)
        if held is not None and held.name != self.segment_name:
            return PositionMovedError(f"{self.key} was merged into {held.name} a moment after it was published")
        return StoreUnusableError(
            f"{self.key} was published, and is not there: the store has lost it",
            hint="no input was deleted. Check that the store keeps each object it has confirmed, then run again",
            key=self.key,
        )

    def confirm(self) -> None:
        """Checks that the published segment is the chain's, and that nobody will put another in its place.

        For an eraser, between ``publish`` and ``release``: whatever is published over the range from now on is made of
        the new segment.

        Raises:
            PositionMovedError: another merger or eraser is at work in the range, or was first: what was published
                stands or is covered, and whoever wants to know that the records are gone looks again.
            MirrorlakeError: the store could not be read.
        """
        self._crash_point(MergeStepAt.CONFIRM)
        # In this order: what is published after the look was announced before it, by who saw the old segments.
        at_work = [
            other
            for other, is_other_live in self._others()
            # What is published inside the new segment is covered by it.
            if is_other_live and _meet(other, self._mine) and not holds(self._mine.offsets, other.offsets)
        ]
        held = look_at(self._archived).holding(self._offsets)
        if at_work or held is None or held.name != self.segment_name:
            what = f"another one is about to publish {at_work[0].offsets}" if at_work else "a larger segment holds it"
            raise PositionMovedError(f"{self._archived.prefix}: {self._offsets} may not be erased yet: {what}")

    def _others(self) -> Iterator[tuple[MergeName, bool]]:
        """Yields what others have announced, and whether they may live."""
        now_seconds = self._now_seconds()
        for info in self._archived.store.list(self._archived.prefix, start_after=ERASE_PREFIX):
            name = parse_merge_name(info.name)
            if name is not None and name != self._mine:
                yield name, is_live(info.modified_seconds, now_seconds)

    def release(self) -> None:
        """Deletes the announcement (step 5)."""
        self._crash_point(MergeStepAt.RELEASE)
        self._archived.store.delete(f"{self._archived.prefix}/{self._mine}")

    def _withdrawn(self, why: str) -> PositionMovedError:
        self._crash_point(MergeStepAt.WITHDRAW)
        self._archived.store.delete(f"{self._archived.prefix}/{self._mine}")
        what = "erased" if self._mine.erases else "merged"
        return PositionMovedError(f"{self._archived.prefix}: {self._offsets} is not {what} now: {why}")


def _is_in_the_way(other: MergeName, mine: MergeName, *, is_live: bool) -> bool:
    """Tells whether what another one announced forbids what this one has announced.

    What a merger publishes has the records that an eraser takes out. So of the two kinds one waits for the other; one
    that counts as dead is passed over, by an eraser only where what it may yet publish would be covered.
    """
    if are_at_odds(other.offsets, mine.offsets):
        return True
    if other.erases == mine.erases or not _meet(other, mine):
        return False
    return is_live or (mine.erases and not holds(mine.offsets, other.offsets))


def _meet(one: MergeName, other: MergeName) -> bool:
    return overlap(one.offsets, other.offsets)
