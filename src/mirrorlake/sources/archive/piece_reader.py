"""The pieces of one archived partition, made in threads: the one that is delivered, and one ahead of it.

A segment is open while pieces of it are made, in turns with the lease's other partitions (``reads``). What is open when
a lease ends is left to the next one (``open_content``).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.archive.source_continuity import SourceContinuity, check_by_next
from mirrorlake.clock import Clock
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.errors import TopicRecreatedError
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.archive.archive import Found
from mirrorlake.sources.archive.content import Content, Piece
from mirrorlake.sources.archive.open_content import OpenContent, Place
from mirrorlake.sources.archive.opened_segment import OpenSegment
from mirrorlake.sources.archive.reads import TURN_SECONDS, ArchiveReads, PieceFrame
from mirrorlake.stores.object_store import ObjectMissingError

if TYPE_CHECKING:
    from mirrorlake.sources.archive.work import ArchiveSourceWork

LOOK_AGAIN_SECONDS = 1.0
"""How often an archive that was read to its end is looked at for more: a listing of a few names."""

HeldPiece = tuple[Piece, PieceFrame]

Look = Callable[[bool], Awaitable[Found]]
"""Looks at the partition; True lists all of it anew."""


class PieceReader:
    """Makes the pieces of one partition, as they are asked for.

    Args:
        source: the partition.
        work: the archive.
        topic_id: the id the topic must have; empty for any.
        look: looks at the partition.
        reads: the lease's from this archive.
        threads: that wait for the store, and decode.
        clock: tells when it is time to look again, and how long a turn was.

    Attributes:
        found: what the last look has found; None before the first.
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
    ) -> None:
        self.found: Found | None = None
        self._source = source
        self._work = work
        self._topic_id = topic_id
        self._look = look
        self._reads = reads
        self._threads = threads
        self._clock = clock
        self._looked_seconds = 0.0
        self._content: OpenContent | None = None
        self._checked: OpenContent | None = None
        self._place: Place = ()
        self._turn_since: float | None = None
        self._ahead: asyncio.Task[HeldPiece | None] | None = None
        self._ahead_offset = -1
        self._piece: HeldPiece | None = None
        self._continuity = SourceContinuity()

    async def next(self, position: int) -> HeldPiece | None:
        """Returns the piece that begins at a position, the same until it is delivered; None where nothing is there.

        ``found`` then says what is.

        Raises:
            MirrorlakeError: it cannot be read; nothing is concluded.
        """
        if self._piece is not None:
            if self._piece[0].covered.start_offset == position:
                return self._piece
            self.drop()
        if self._ahead is not None and self._ahead_offset == position:
            try:
                self._piece = await self._ahead
            finally:
                self._ahead = None
        else:
            self.drop()
            self._piece = await self._make(position)
        return self._piece

    def delivered(self, piece: Piece, frame: PieceFrame, *, rest: Piece) -> None:
        """Says what of a piece was not delivered; where that is nothing, the next one begins to be read."""
        if rest.covered:
            self._piece = rest, frame
            return
        self._piece = None
        frame.unpin()
        self._read_ahead(piece)

    def _read_ahead(self, piece: Piece) -> None:
        """Begins to read the piece behind one that was delivered."""
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
                self.close()
                is_whole = True  # a merge may have taken it: another one covers the position then
                continue
            if piece is not None:
                return piece, PieceFrame(self._reads.memory, piece.size_bytes, self._reads.buffers, piece.buffer)
            self.close()
        raise moved(str(self._source))

    async def _content_at(self, position: int, *, is_whole: bool) -> OpenContent | None:
        content = self._content
        if content is not None and content.serves(position):
            return content
        self.close()
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
        work, buffers = self._work, self._reads.buffers

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
                content = each.content(offsets, codec=work.codec, batch_bytes_max=work.batch_bytes_max, buffers=buffers)
            except BaseException:
                each.close()
                raise
            return content, each.footer

        return OpenContent(key, opened, offsets, self._threads)

    async def _look_for(self, position: int, *, is_whole: bool) -> Found:
        found, now = self.found, self._clock.elapsed_seconds()
        is_served = found is not None and found.start <= position < found.end and found.view.serving(position)
        is_fresh = found is not None and now - self._looked_seconds < LOOK_AGAIN_SECONDS
        if found is None or is_whole or not (is_served or is_fresh):
            found = await self._look(is_whole)
            if not found.start <= position <= found.end:
                found = await self._look(True)
            self.found, self._looked_seconds = found, self._clock.elapsed_seconds()
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
            self.close()
            return True
        return False

    def rest(self) -> None:
        """Lets others have the turn, and the room, while nothing is wanted, or nothing is there."""
        if self._ahead is not None and not self._ahead.done():
            return
        if self._reads.memory.is_short:
            self.drop()
        if self._reads.turns.are_waited_for:
            self.close()

    def leave(self) -> None:
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
            self.close()
            return
        self._content, self._turn_since = None, None
        self._reads.left.leave(self._place, content)

    def drop(self) -> None:
        """Forgets what was read and not delivered."""
        held, self._piece = self._piece, None
        ahead, self._ahead = self._ahead, None
        if held is not None:
            held[1].unpin()
        if ahead is not None:
            ahead.add_done_callback(_let_go)
            ahead.cancel()
        if held is not None or ahead is not None:
            self.close()

    def close(self) -> None:
        """Closes the segment, and gives the turn back."""
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
