"""Reads one archived partition: segments become pieces in threads, one ahead, and pieces become deliveries."""

import asyncio
import contextlib
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.archive.source_continuity import SourceContinuity, check_by_next
from mirrorlake.clock import Clock
from mirrorlake.destinations.interface import Delivery
from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError, TopicRecreatedError
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition, gaps_within
from mirrorlake.sources.archive.archive import Found
from mirrorlake.sources.archive.content import Content, Piece
from mirrorlake.sources.archive.folder import Hole
from mirrorlake.sources.archive.open_content import OpenContent, Place
from mirrorlake.sources.archive.opened_segment import OpenSegment
from mirrorlake.sources.archive.reads import TURN_SECONDS, ArchiveReads, EndableReader, PieceFrame
from mirrorlake.sources.mark import SourceMark
from mirrorlake.sources.source import Taker
from mirrorlake.stores.object_store import ObjectMissingError

if TYPE_CHECKING:
    from mirrorlake.sources.archive.work import ArchiveSourceWork

LOOK_AGAIN_SECONDS = 1.0
"""How often an archive that was read to its end is looked at for more: a listing of a few names."""

HeldPiece = tuple[Piece, PieceFrame]

Look = Callable[[bool], Awaitable[Found]]
"""Looks at the partition; True lists all of it anew."""


class ArchiveReader(EndableReader):
    """Reads one partition for one taker.

    Args:
        source: the partition.
        work: the archive.
        topic_id: the id the topic must have; empty for any.
        look: looks at the partition.
        reads: the lease's from this archive.
        threads: that wait for the store, and decode.
        clock: tells when reading ends, and how old a hole is.
        until: returns the reading of the clock at which reading ends.
        is_live: whether that is the end of the live time.
    """

    def __init__(
        self,
        source: TopicPartition,
        work: "ArchiveSourceWork",
        *,
        topic_id: str,
        look: Look,
        reads: ArchiveReads,
        threads: StoreThreads,
        clock: Clock,
        until: Callable[[], float],
        is_live: bool,
    ) -> None:
        self.over = asyncio.Event()
        self.source_start: int | None = None
        self.source_end: int | None = None
        self.ended_at: int | None = None
        self.refusal: MirrorlakeError | None = None
        self.is_live = is_live
        self.task: asyncio.Task[None] | None = None
        self._source = source
        self._work = work
        self._topic_id = topic_id
        self._look = look
        self._reads = reads
        self._threads = threads
        self._clock = clock
        self._until = until
        self._changed = asyncio.Event()
        self._found: Found | None = None
        self._looked_seconds = 0.0
        self._content: OpenContent | None = None
        self._checked: OpenContent | None = None
        self._place: Place = ()
        self._turn_since: float | None = None
        self._ahead: asyncio.Task[HeldPiece | None] | None = None
        self._ahead_offset = -1
        self._piece: HeldPiece | None = None
        self._continuity = SourceContinuity()

    # --- the taker's side ---------------------------------------------------------------------------------

    @property
    def has_question(self) -> bool:
        """False: it asks what it must before it believes a listing."""
        return False

    def begin(self, taker: Taker) -> None:
        """Begins to deliver; call once."""
        self.task = asyncio.create_task(self._run(taker))

    def changed(self) -> None:
        """Says that the taker may want more, or is over."""
        self._changed.set()

    def restart(self) -> None:
        """What was read ahead belongs to the old position: it is compared with the taker's before it is delivered."""
        self._changed.set()

    def end(self) -> None:
        """Ends reading; nothing is delivered any more."""
        self.over.set()
        if self.task is not None:
            self.task.cancel()

    async def ask(self) -> None:
        """Has no question."""

    async def explain_out_of_range(self, position: int) -> MirrorlakeError:
        """Returns what is wrong with a position, by a new look at all of the folder."""
        try:
            found = await self._look(True)
        except MirrorlakeError as error:
            return error
        if (missing := found.missing_below(position, self._clock.now_seconds())) is not None:
            return missing
        return explain_out_of_range(self._source, position, found.start, found.end)

    def placed(self, error: MirrorlakeError) -> MirrorlakeError:
        """Returns the error: those of segments name their files."""
        return error

    def mark_after(self, before: SourceMark | None, *, next_offset: int) -> SourceMark | None:
        """Returns no mark: identity and tail are looked at instead."""
        del before, next_offset
        return None

    # --- delivering ---------------------------------------------------------------------------------------

    async def _run(self, taker: Taker) -> None:
        try:
            while not taker.is_over and self._clock.elapsed_seconds() < self._until():
                self._changed.clear()
                if taker.wants_more and await self._delivers(taker):
                    await asyncio.sleep(0)
                    continue
                self._rest()
                await self._pause()
        finally:
            self._leave()
            self.over.set()

    async def _delivers(self, taker: Taker) -> bool:
        """Delivers what comes next, or tells why it cannot be read; then the taker wants no more."""
        try:
            return await self._deliver(taker)
        except MirrorlakeError as error:
            taker.cannot_read_on(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours ends this partition's part, not the others' (law 6)
            traceback.print_exc()
            taker.cannot_read_on(OutcomeUnknownError(f"internal error: {error!r}; please report it"))
        self._drop()
        self._close()
        return False

    async def _pause(self) -> None:
        """Waits until the taker may want more, or it is time to look again."""
        left = max(0.0, self._until() - self._clock.elapsed_seconds())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(LOOK_AGAIN_SECONDS, left)):
                await self._changed.wait()

    async def _deliver(self, taker: Taker) -> bool:
        """Delivers what comes next; returns whether there was something."""
        position = taker.next_offset
        if position >= taker.end_offset:
            return False
        held = await self._next(position)
        if held is None:
            return await self._at_the_end(taker, position)
        if taker.next_offset != position or not taker.wants_more or taker.is_over:
            return True  # it was sent elsewhere meanwhile; what is held is compared with that
        piece, frame = held
        part = piece if piece.covered.end_offset <= taker.end_offset else piece.below(taker.end_offset)
        rest = piece.behind(part)
        frame.pin()
        if rest.covered:
            self._piece = rest, frame
        else:
            self._piece = None
            frame.unpin()
            self._taken(piece)
        assert self._found is not None, "a piece without a look"
        self._note(self._found, position)
        self.refusal = None
        taker.take(
            Delivery(
                covered=part.covered,
                batches=part.items,
                frame=frame,
                log_start_offset=self._found.start,
                end_offset=self._readable_end(self._found, position),
                gaps=tuple(gaps_within(part.gaps, part.covered)),
            )
        )
        return True

    async def _at_the_end(self, taker: Taker, position: int) -> bool:
        """Deals with a position at which nothing is; returns whether something was delivered all the same: a gap."""
        found = self._found
        assert found is not None, "an end without a look"
        self._note(found, position)
        if not found.start <= position <= found.end:
            taker.out_of_range()
        elif (missing := found.view.hole_at(position)) is not None:
            return self._at_a_hole(taker, found, position, missing)
        elif position == found.view.end:
            if found.view.overlap is not None:
                raise found.view.overlap
            hole = found.view.hole
            self.refusal = hole.error(self._clock.now_seconds()) if hole is not None else None
        return False

    def _at_a_hole(self, taker: Taker, found: Found, position: int, missing: Hole) -> bool:
        """Delivers offsets that no segment has as a gap where the plan says so; else waits for them."""
        left = OffsetRange(start_offset=position, end_offset=missing.offsets.end_offset)
        if not self._work.range_of(self._source).passes(left):
            self.refusal = missing.error(self._clock.now_seconds())
            return False
        self.refusal = None
        end = min(left.end_offset, taker.end_offset, found.end)
        if end <= position:
            return False
        covered = OffsetRange(start_offset=position, end_offset=end)
        taker.take(
            Delivery(
                covered=covered,
                batches=(),
                frame=PieceFrame(self._reads.memory, 0),
                log_start_offset=found.start,
                end_offset=self._readable_end(found, end),
                gaps=(Gap(offsets=covered, kind=GapKind.MISSING),),
            )
        )
        return True

    def _note(self, found: Found, position: int) -> None:
        self.source_start, self.source_end = found.start, self._readable_end(found, position)

    def _readable_end(self, found: Found, position: int) -> int:
        """Returns where the log ends for who stands at a position: at the first hole that is still waited for."""
        chosen = self._work.range_of(self._source)
        for hole in found.view.holes:
            start, end = max(position, hole.offsets.start_offset), hole.offsets.end_offset
            if start < end and not chosen.passes(OffsetRange(start_offset=start, end_offset=end)):
                return min(found.end, start)
        return found.end

    # --- reading ------------------------------------------------------------------------------------------

    async def _next(self, position: int) -> HeldPiece | None:
        """Returns the piece that begins at a position; None where nothing is there, as `_found` then says."""
        if self._piece is not None:
            if self._piece[0].covered.start_offset == position:
                return self._piece
            self._drop()
        if self._ahead is not None and self._ahead_offset == position:
            try:
                self._piece = await self._ahead
            finally:
                self._ahead = None
        else:
            self._drop()
            self._piece = await self._make(position)
        return self._piece

    def _taken(self, piece: Piece) -> None:
        """Says that all of a piece was delivered, and begins to read the next one."""
        content = self._content
        if content is None:
            return
        content.taken(piece)
        if content.offset < content.end_offset and not self._gives_way():
            self._ahead_offset = content.offset
            self._ahead = asyncio.create_task(self._make(content.offset))

    async def _make(self, position: int) -> HeldPiece | None:
        """Makes the piece that begins at a position, of whatever segment holds it now."""
        await self._reads.memory.room()
        is_whole = False
        for _ in range(LOOKS_MAX):
            try:
                content = await self._content_at(position, is_whole=is_whole)
                if content is None:
                    return None
                piece = await content.piece()
                if content is not self._checked:
                    self._check_source(content)
            except ObjectMissingError:
                self._close()
                is_whole = True  # a merge may have taken it: another one covers the position then
                continue
            if piece is not None:
                return piece, PieceFrame(self._reads.memory, piece.size_bytes)
            self._close()
        raise moved(str(self._source))

    async def _content_at(self, position: int, *, is_whole: bool) -> OpenContent | None:
        content = self._content
        if content is not None and content.serves(position):
            return content
        self._close()
        found = await self._look_for(position, is_whole=is_whole)
        segment = found.view.serving(position) if found.start <= position < found.end else None
        if segment is None:
            return None
        held = found.view.content_range(segment)
        offsets = OffsetRange(start_offset=position, end_offset=min(held.end_offset, found.end))
        self._place = (found.folder.prefix, segment, offsets.end_offset, self._work.codec, self._work.batch_bytes_max)
        left = self._reads.left.take(self._place, position)
        if left is not None:
            self._turn_since = self._clock.elapsed_seconds()
        else:
            await self._take_turn()
            left = self._opening(found, segment, offsets)
        self._content = left
        return left

    def _opening(self, found: Found, segment: Segment, offsets: OffsetRange) -> OpenContent:
        key = f"{found.folder.prefix}/{segment.name}"
        is_snapshot = found.view.snapshot is not None
        behind = None if is_snapshot else found.view.chain.at(segment.name.end_offset)
        work = self._work

        def opened(is_given_up: Callable[[], bool]) -> tuple[Content, SegmentFooter | None]:
            each = OpenSegment(
                found.folder.store,
                key,
                segment,
                is_snapshot=is_snapshot,
                known=found.folder.known,
                is_given_up=is_given_up,
            )
            try:
                if each.footer is None and behind is not None:
                    check_by_next(found.folder.store, key, f"{found.folder.prefix}/{behind.name}")
                return each.content(offsets, codec=work.codec, batch_bytes_max=work.batch_bytes_max), each.footer
            except BaseException:
                each.close()
                raise

        return OpenContent(key, opened, offsets, self._threads)

    async def _look_for(self, position: int, *, is_whole: bool) -> Found:
        found, now = self._found, self._clock.elapsed_seconds()
        is_served = found is not None and found.start <= position < found.end and found.view.serving(position)
        is_fresh = found is not None and now - self._looked_seconds < LOOK_AGAIN_SECONDS
        if found is None or is_whole or not (is_served or is_fresh):
            found = await self._look(is_whole)
            if not found.start <= position <= found.end:
                found = await self._look(True)
            self._found, self._looked_seconds = found, self._clock.elapsed_seconds()
        return found

    def _check_source(self, content: OpenContent) -> None:
        """Checks whose records a segment holds: those of the topic that is meant, as of the segments before it."""
        key, footer = content.key, content.footer
        for flaw in self._continuity.follow(key, footer):
            raise flaw
        known = footer.envelope.topic_id if footer is not None else None
        if self._topic_id and known and known != self._topic_id:
            raise TopicRecreatedError(
                f"{key} holds records of topic id {known}, and those of {self._topic_id} are copied",
                hint="the topic was recreated or the archive exchanged: name the generation that is meant, or begin a "
                "new copy",
                expected=self._topic_id,
                found=known,
            )
        self._checked = content

    # --- turns --------------------------------------------------------------------------------------------

    async def _take_turn(self) -> None:
        if self._turn_since is None:
            await self._reads.take_turn()
            self._turn_since = self._clock.elapsed_seconds()

    def _gives_way(self) -> bool:
        """Gives the segment up where it was open for long and others wait: no sooner than it took to open it."""
        since, content = self._turn_since, self._content
        seconds = max(TURN_SECONDS, content.piece_seconds if content is not None else 0.0)
        is_long = since is not None and self._clock.elapsed_seconds() - since >= seconds
        if is_long and self._reads.turns.are_waited_for:
            self._close()
            return True
        return False

    def _rest(self) -> None:
        """Lets others have the turn, and the room, while nothing is wanted, or nothing is there."""
        if self._ahead is not None and not self._ahead.done():
            return
        if self._reads.memory.is_short:
            self._drop()
        if self._reads.turns.are_waited_for:
            self._close()

    def _leave(self) -> None:
        """Leaves what is open in the middle to the next lease, with its turn and what was read and not delivered."""
        held, self._piece = self._piece, None
        ahead, self._ahead = self._ahead, None
        content = self._content
        if ahead is not None:
            ahead.add_done_callback(_let_go)
            ahead.cancel()
        if held is not None:
            held[1].unpin()
        if held is not None and content is not None:
            content.put_back(held[0])
        if content is None or content.offset >= content.end_offset:
            self._close()
            return
        self._content, self._turn_since = None, None
        self._reads.left.leave(self._place, content)

    def _drop(self) -> None:
        """Forgets what was read and not delivered."""
        held, self._piece = self._piece, None
        ahead, self._ahead = self._ahead, None
        if held is not None:
            held[1].unpin()
        if ahead is not None:
            ahead.add_done_callback(_let_go)
            ahead.cancel()
        if held is not None or ahead is not None:
            self._close()

    def _close(self) -> None:
        content, self._content = self._content, None
        if content is not None:
            content.close()
        if self._turn_since is not None:
            self._turn_since = None
            self._reads.turns.give_back()


def _let_go(ahead: "asyncio.Task[HeldPiece | None]") -> None:
    """Gives back what was read ahead for nobody; an error of it is nobody's either."""
    if not ahead.cancelled() and ahead.exception() is None and (held := ahead.result()) is not None:
        held[1].unpin()
