"""Publishing one segment so that of several writers one wins, and the chain stays one chain.

The protocol, for the segment that begins at ``from``; ``tests/unit/archive/test_publish_model.py`` tries every
interleaving and crash:

1. create the claim of ``from`` if absent, with the planned ``to``; where one exists, its ``to`` is adopted, if it is
   for a segment of the same source and format;
2. list: where any segment ends above ``from``, stand down; where the one that ends at ``from`` is gone, so
   that this one would leave a hole, refuse;
3. create the segment ``from``-``to`` if absent; where it exists, an equal one was published;
4. delete the claim.

Why it holds: a claim is deleted only when a segment at or above its ``from`` exists, so whoever can still
make another claim of that ``from`` sees that segment in step 2. Until then there is one readable claim, and
every segment from ``from`` ends where it says. A crash anywhere leaves a claim, which the next writer adopts,
or a claim below the position, which is swept.

Two sources never share a chain: whoever begins a segment behind another has looked whose that is (``newest``), and
of the first one the claim says it.

A claim that cannot be read (an empty file after a power loss, a stray touch) is void for everyone who reads
it, because objects never change: the claim is then made under the next revision of the name. Nobody deletes
it before a segment exists, so nobody can make it again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from mirrorlake.archive.chain import Segment, end_above, tail_start_after
from mirrorlake.archive.claims import RangeClaim, check_claim, decode_claim, encode_claim
from mirrorlake.archive.looks import settled
from mirrorlake.archive.names import CLAIM_REVISION_MAX, ClaimName, SegmentName, padded
from mirrorlake.archive.origin import Origin
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import ObjectExistsError, ObjectInfo, ObjectMissingError, ObjectStore, StagedObject


class EndAbove(Protocol):
    """Returns the highest end offset above an offset, None where the next segment may begin; see `end_above`."""

    def __call__(
        self, objects: Iterable[ObjectInfo], from_offset: int, /, *, behind: Segment | None, where: str
    ) -> int | None:
        """Returns it."""


ConfirmEqual = Callable[[str], None]
"""Called with the key of a segment that was there already. Returns if it covers the same range of the same
source, and raises ``ChainBrokenError`` where it does not, or is not a whole segment."""


class Step(StrEnum):
    """The steps that touch the store; the crash point is called with the next one before it happens."""

    CREATE_CLAIM = "create claim"
    READ_CLAIM = "read claim"
    LIST_TAIL = "list tail"
    WITHDRAW_CLAIM = "withdraw claim"
    PUBLISH_SEGMENT = "publish segment"
    CONFIRM_SEGMENT = "confirm segment"
    DELETE_CLAIM = "delete claim"


class State(StrEnum):
    """What a publication has reached; it only moves on in this order, or ends in ``STOOD_DOWN``."""

    OPEN = "open"
    CLAIMED = "claimed"
    PUBLISHED = "published"
    RELEASED = "released"
    STOOD_DOWN = "stood down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """The segment ends where it was planned to: publish it."""

    to_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """Another writer's claim says where the segment ends: cut there instead, then publish.

    If the source cannot give the range any more, the gap policy fills it: the end stays.
    """

    to_offset: int
    raw_bytes: int
    writer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StandDown:
    """The position has moved to ``position`` at least: drop the staged bytes and read the chain again."""

    position: int


class SegmentPublication:
    """One attempt to publish the segment of a partition that begins at ``from_offset``.

    Use: ``stage``, write, ``claim`` when the end is known, write more or anew where another end was adopted,
    ``publish``, ``release``. Best claim when all is written: a claim whose writer dies makes the next one cut
    there. Any error leaves the store so that a new attempt, by anyone, goes on rightly.

    Args:
        store: where the archive lives.
        prefix: the partition's folder.
        from_offset: the archive's position as last read.
        extension: the format's.
        origin: whose records the segment will hold.
        writer: names this writer in its claims.
        end_above: tells from a listing where the position is; snapshots' differs.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        store: ObjectStore,
        prefix: str,
        *,
        from_offset: int,
        extension: str,
        origin: Origin,
        writer: str,
        end_above: EndAbove = end_above,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self.from_offset = from_offset
        self.state = State.OPEN
        self.segment_name: SegmentName | None = None
        self._store = store
        self._prefix = prefix
        self._extension = extension
        self._origin = origin
        self._writer = writer
        self._end_above = end_above
        self._crash_point = crash_point
        self._claim_keys: list[str] = []
        self._is_claim_mine = False

    def stage(self) -> StagedObject:
        """Returns a place to write the segment before its end is known."""
        return self._store.stage(self._prefix, padded(self.from_offset))

    def claim(
        self, planned_to_offset: int, *, raw_bytes: int, behind: Segment | None = None
    ) -> Claimed | Adopted | StandDown:
        """Settles where the segment ends (steps 1 and 2).

        Args:
            planned_to_offset: last offset of the segment if nobody has claimed another, inclusive.
            raw_bytes: record bytes of the planned range, at most ``SEGMENT_RAW_BYTES_MAX``.
            behind: the segment that ends at ``from_offset``, as last seen; None for the first of an archive, and
                where it is not known.

        Raises:
            ChainBrokenError: the claim is damaged or for another format, or too many claims are unreadable; or the
                segment before is gone or altered: two listings, one after the other, do not have it.
            OtherSourceError, TopicRecreatedError: the claim is for a segment of another source.
            PositionMovedError: the claim vanished and no segment explains it; or another snapshot counts in the place
                of ``behind``; try again.
            TransientError, PermanentError: the store's; a claim of ours may stay behind, which is harmless.
        """
        assert self.state is State.OPEN, f"claim after {self.state}"
        own = RangeClaim(
            to_offset=SegmentName(
                from_offset=self.from_offset, to_offset=planned_to_offset, extension=self._extension
            ).to_offset,
            extension=self._extension,
            raw_bytes=raw_bytes,
            writer=self._writer,
            origin=self._origin,
        )
        claim = self._settle_claim(own)
        self._crash_point(Step.LIST_TAIL)
        if (position := self._position_above(behind)) is not None:
            return self._stand_down(position)
        if claim is None:
            raise PositionMovedError(f"{self._prefix}: the claim of offset {self.from_offset} came and went")
        if claim is not own:
            check_claim(claim, self._claim_keys[-1], extension=self._extension, origin=self._origin)
        self.state = State.CLAIMED
        self.segment_name = SegmentName(
            from_offset=self.from_offset, to_offset=claim.to_offset, extension=self._extension
        )
        if claim.to_offset == planned_to_offset:
            return Claimed(to_offset=claim.to_offset)
        return Adopted(to_offset=claim.to_offset, raw_bytes=claim.raw_bytes, writer=claim.writer)

    def claim_exactly(self, to_offset: int, *, raw_bytes: int, whose: str, behind: Segment | None = None) -> None:
        """Settles that the segment ends at ``to_offset``, inclusive: for a writer that cannot cut elsewhere any more.

        Args:
            to_offset: last offset of what was written.
            raw_bytes: see ``claim``.
            whose: whose position it is, for messages.
            behind: see ``claim``.

        Raises:
            PositionMovedError: another writer published, or claimed another end; read the position again.
            ChainBrokenError, TransientError, PermanentError: see ``claim``.
        """
        settled = self.claim(to_offset, raw_bytes=raw_bytes, behind=behind)
        if isinstance(settled, StandDown):
            raise PositionMovedError(
                f"another writer has moved the {whose} position from {self.from_offset} to {settled.position}"
            )
        if isinstance(settled, Adopted):
            raise PositionMovedError(
                f"writer {settled.writer} has claimed offsets {self.from_offset} to {settled.to_offset}, "
                f"we had cut at {to_offset}"
            )

    def publish(self, staged: StagedObject, *, confirm_equal: ConfirmEqual) -> bool:
        """Makes the staged bytes the segment (step 3). They must cover exactly the range that was settled.

        Returns:
            True where this writer published it, False where an equal one was there.

        Raises:
            ChainBrokenError: a segment of this name is there and is not what it should be.
            StoreUnavailableError: unknown whether it is published; read the chain again, then decide.
        """
        assert self.state is State.CLAIMED, f"publish after {self.state}"
        key = f"{self._prefix}/{self.segment_name}"
        self._crash_point(Step.PUBLISH_SEGMENT)
        try:
            staged.publish(key)
            is_ours = True
        except ObjectExistsError:
            self._crash_point(Step.CONFIRM_SEGMENT)
            confirm_equal(key)
            is_ours = False
        self.state = State.PUBLISHED
        return is_ours

    def release(self) -> None:
        """Deletes the claim (step 4). Where this fails the segment stands all the same, and a sweep finds it."""
        assert self.state is State.PUBLISHED, f"release after {self.state}"
        self._delete_claims(Step.DELETE_CLAIM)
        self.state = State.RELEASED

    def _settle_claim(self, own: RangeClaim) -> RangeClaim | None:
        """Returns the one readable claim of this offset, ours where none was; None where it vanished."""
        for revision in range(CLAIM_REVISION_MAX + 1):
            name = ClaimName(from_offset=self.from_offset, revision=revision)
            content = encode_claim(own, name)
            key = f"{self._prefix}/{name}"
            self._claim_keys.append(key)
            self._crash_point(Step.CREATE_CLAIM)
            try:
                self._store.create(key, content)
            except ObjectExistsError:
                self._crash_point(Step.READ_CLAIM)
                try:
                    found = self._store.read(key)
                except ObjectMissingError:
                    return None
                # Equal content is ours too: a store may do the create, lose the answer, and say "exists".
                self._is_claim_mine = found == content
                if claim := decode_claim(found, name):
                    return claim
            else:
                self._is_claim_mine = True
                return own
        raise ChainBrokenError(
            f"{self._prefix}: {CLAIM_REVISION_MAX + 1} unreadable claims of offset {self.from_offset}",
            hint=f"stop every writer of this archive, then delete {self._claim_keys[0]} and its revisions",
            key=self._claim_keys[0],
        )

    def _position_above(self, behind: Segment | None) -> int | None:
        # One narrow listing: segments that begin lower end lower, as the chain was checked; and merging and
        # retention leave the newest segment alone, so that it is always in here.
        start_after = tail_start_after(behind) or padded(self.from_offset)

        def look() -> int | None:
            objects = self._store.list(self._prefix, start_after=start_after)
            return self._end_above(objects, self.from_offset, behind=behind, where=self._prefix)

        return settled(look, where=self._prefix)

    def _stand_down(self, position: int) -> StandDown:
        if self._is_claim_mine:
            self._delete_claims(Step.WITHDRAW_CLAIM)
        self.state = State.STOOD_DOWN
        return StandDown(position=position)

    def _delete_claims(self, step: Step) -> None:
        # Newest first: should we die between two, what stays is unreadable or decides nothing.
        for key in reversed(self._claim_keys):
            self._crash_point(step)
            self._store.delete(key)
