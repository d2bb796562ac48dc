"""Segments that are open, and what becomes of them when a lease ends before they have handed anything out.

To open a segment may take longer than a lease: its bytes are summed up or downloaded, a snapshot is passed through once
for each piece. So what a lease leaves open in the middle is left to the next one, with the thread that is still at it
and the piece that nobody took; a lease that begins where it stands goes on with it. Who leaves one keeps its turn, so
that no more are open than a lease may have open. What nobody asks for within a while is closed, and its thread ended.
"""

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.sources.archive.content import Content, Piece

LEFT_SECONDS = 60.0
"""How long one is kept that nobody asks for: longer than a partition waits after an error, which is 30 s at most."""

EASY_SECONDS = 1.0
"""A piece that took no longer is made again where the turn is wanted by another partition."""

Place = tuple[Hashable, ...]
"""What is read of which segment, and as what: the partition's folder first."""

Opening = Callable[[Callable[[], bool]], tuple[Content, SegmentFooter | None]]
"""Opens a segment, in a thread; is given what to ask for whether it is still wanted."""


class OpenContent:
    """A segment that is being opened and read by one thread at a time, and closed whoever gives up when.

    Its methods are called in the event loop.

    Args:
        key: of the segment.
        make: opens it.
        offsets: what is wanted of it.
        threads: that it is read in.

    Attributes:
        offset: where the next piece begins, or the one that was made and not taken.
        end_offset: where what is wanted ends, exclusive.
        footer: what the segment says of itself; known with the first piece.
        piece_seconds: how long a piece has taken at most, that with which the segment was opened for one.
    """

    def __init__(self, key: str, make: Opening, offsets: OffsetRange, threads: StoreThreads) -> None:
        self.key = key
        self.offset = offsets.start_offset
        self.end_offset = offsets.end_offset
        self.footer: SegmentFooter | None = None
        self.piece_seconds = 0.0
        self._make = make
        self._threads = threads
        self._clock = SystemClock()
        self._answer: Future[Piece | None] | None = None
        self._content: Content | None = None
        self._gaps: Sequence[Gap] = ()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def is_at_work(self) -> bool:
        """True while a thread reads."""
        return self._answer is not None and not self._answer.done()

    def serves(self, position: int) -> bool:
        """Tells whether the piece that comes next begins there."""
        return self.offset == position < self.end_offset

    async def piece(self) -> Piece | None:
        """Returns the piece that begins at ``offset``, the same one until it is taken; None where there is none.

        Whoever waits may give up; the thread goes on, and the next one to ask is given what it finds.

        Raises:
            MirrorlakeError: see `Content.next_piece`, or the segment cannot be opened.
        """
        if self._answer is None:
            self._answer = self._threads.read(self._next_piece)
        return await asyncio.shield(asyncio.wrap_future(self._answer))

    def taken(self, piece: Piece) -> None:
        """Says that all of the piece was taken: the one behind it comes next."""
        self.offset, self._answer = piece.covered.end_offset, None

    def put_back(self, rest: Piece) -> None:
        """Takes back what is left of the piece, in its place."""
        self.offset, self._answer = rest.covered.start_offset, Future()
        self._answer.set_result(rest)

    def close(self) -> None:
        """Closes it, or has the thread close it that is at it, and end; never waits."""
        self._is_closed = True
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.cancel()  # where it has not begun
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                content, self._content = self._content, None
                if content is not None:
                    content.close()
            finally:
                self._lock.release()

    def _next_piece(self) -> Piece | None:
        began = self._clock.elapsed_seconds()
        try:
            with self._lock:
                if self._is_closed:
                    return None
                piece = self._opened().next_piece() if self._content is None else self._content.next_piece()
                return replace(piece, gaps=self._gaps) if piece is not None and self._gaps else piece
        finally:
            self.piece_seconds = max(self.piece_seconds, self._clock.elapsed_seconds() - began)
            if self._is_closed:
                self._close_if_idle()

    def _opened(self) -> Content:
        self._content, self.footer = self._make(lambda: self._is_closed)
        gaps = self.footer.gaps if self.footer is not None else ()
        self._gaps = [gap for gap in gaps if gap.kind is not GapKind.ABSENT]
        return self._content


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Left:
    place: Place
    content: OpenContent


class LeftOpen:
    """What leases of one worker have left open of an archive. Called in the worker's event loop."""

    def __init__(self) -> None:
        self._left: dict[_Left, asyncio.TimerHandle] = {}
        self._freed: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._left)

    def begin(self, freed: Callable[[], None]) -> None:
        """Begins a lease: ``freed`` is called for each turn that is given back by what is closed from now on."""
        self._freed = freed

    def leave(self, place: Place, content: OpenContent) -> None:
        """Takes what is open, with its turn; the other side of `take`."""
        left = _Left(place=place, content=content)
        self._left[left] = asyncio.get_running_loop().call_later(LEFT_SECONDS, self._close, left)

    def take(self, place: Place, position: int) -> OpenContent | None:
        """Returns what was left open of a place and goes on at a position, with its turn; None where there is none.

        What nobody will ask for any more is closed then: what stands elsewhere in the same segment, or at the position
        in a segment that another one covers now.
        """
        found = [left for left in self._left if left.place == place and left.content.serves(position)]
        if found:
            self._left.pop(found[0]).cancel()
            return found[0].content
        for left in [*self._left]:
            is_here = left.place[0] == place[0] and left.content.serves(position)
            if is_here or left.place == place:
                self._close(left)
        return None

    def make_room(self) -> None:
        """Closes the oldest that is opened again as easily: no thread is at work, and no piece has taken long."""
        easy = (
            left for left in self._left if not left.content.is_at_work and left.content.piece_seconds <= EASY_SECONDS
        )
        if (left := next(easy, None)) is not None:
            self._close(left)

    def close(self) -> None:
        """Closes all, and ends their threads."""
        for left in [*self._left]:
            self._close(left)

    def _close(self, left: _Left) -> None:
        if (timer := self._left.pop(left, None)) is not None:
            timer.cancel()
            left.content.close()
            self._freed()
