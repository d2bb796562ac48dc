"""Reads one archived partition: pieces (``piece_reader``), and offsets that no segment has, become deliveries."""

import asyncio
import contextlib
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from mirrorlake.clock import Clock
from mirrorlake.destinations.interface import Delivery
from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition, gaps_within
from mirrorlake.sources.archive.archive import Found
from mirrorlake.sources.archive.folder import Hole
from mirrorlake.sources.archive.piece_reader import LOOK_AGAIN_SECONDS, Look, PieceReader
from mirrorlake.sources.archive.reads import ArchiveReads, EndableReader, PieceFrame
from mirrorlake.sources.mark import SourceMark
from mirrorlake.sources.source import Taker

if TYPE_CHECKING:
    from mirrorlake.sources.archive.work import ArchiveSourceWork


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
        self._look = look
        self._reads = reads
        self._clock = clock
        self._until = until
        self._changed = asyncio.Event()
        self._pieces = PieceReader(
            source, work, topic_id=topic_id, look=look, reads=reads, threads=threads, clock=clock
        )

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
                self._pieces.rest()
                await self._pause()
        finally:
            self._pieces.leave()
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
        self._pieces.drop()
        self._pieces.close()
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
        held = await self._pieces.next(position)
        if held is None:
            return await self._at_the_end(taker, position)
        if taker.next_offset != position or not taker.wants_more or taker.is_over:
            return True  # it was sent elsewhere meanwhile; what is held is compared with that
        piece, frame = held
        part = piece if piece.covered.end_offset <= taker.end_offset else piece.below(taker.end_offset)
        rest = piece.behind(part)
        frame.pin()
        self._pieces.delivered(piece, frame, rest=rest)
        found = self._pieces.found
        assert found is not None, "a piece without a look"
        self._note(found, position)
        self.refusal = None
        taker.take(
            Delivery(
                covered=part.covered,
                batches=part.items,
                frame=frame,
                log_start_offset=found.start,
                end_offset=self._readable_end(found, position),
                gaps=tuple(gaps_within(part.gaps, part.covered)),
            )
        )
        return True

    async def _at_the_end(self, taker: Taker, position: int) -> bool:
        """Deals with a position at which nothing is; returns whether something was delivered all the same: a gap."""
        found = self._pieces.found
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
