"""What the readers of an archive share in one lease: how many segments are open at a time, and what pieces may weigh.

A segment that is open holds some megabytes of decoded records, a piece waits until its sinks have sent it. Both are
bounded by the lease's memory, whatever the number of partitions: who finds no room waits in line, and gives its segment
up after a while where others wait.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from mirrorlake.sources.archive.archive import OpenArchive
from mirrorlake.sources.archive.content import PIECE_BYTES
from mirrorlake.sources.archive.open_content import LeftOpen
from mirrorlake.sources.archive.opened_segment import HELD_BYTES_MAX
from mirrorlake.sources.archive.piece_buffers import PieceBuffers
from mirrorlake.sources.source import SharedReads

if TYPE_CHECKING:
    from mirrorlake.sources.archive.work import ArchiveSourceWork

SEGMENT_BYTES = HELD_BYTES_MAX + (48 << 20)
"""What an open segment may hold: a small file whole, a row group, its records, and the next piece."""

SEGMENTS_OPEN_MAX = 4
"""More would not read faster: decoding takes a core each."""

TURN_SECONDS = 1.0
"""How long a reader keeps its segment open while others wait."""


class Turns:
    """Lets some readers have a segment open at a time; first come, first served."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._line: deque[asyncio.Future[None]] = deque()

    @property
    def are_waited_for(self) -> bool:
        """True where somebody waits."""
        return any(not each.done() for each in self._line)

    @property
    def are_free(self) -> bool:
        """True where one can be had at once."""
        return bool(self._free) and not self.are_waited_for

    async def take(self) -> None:
        """Waits for a turn."""
        if self.are_free:
            self._free -= 1
            return
        waiting = asyncio.get_running_loop().create_future()
        self._line.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        """Lets the next one have it."""
        while self._line:
            if not (first := self._line.popleft()).done():
                first.set_result(None)
                return
        self._free += 1


class PieceMemory:
    """Counts the bytes of pieces that somebody holds; whoever would make another waits for room.

    One piece is always let through, so that one that is larger than all of it slows things down but stops nothing.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held_bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_short(self) -> bool:
        """True where no other piece may be made now."""
        return not self._room.is_set()

    async def room(self) -> None:
        """Waits until another piece may be made."""
        await self._room.wait()

    def hold(self, size_bytes: int) -> None:
        """Counts a piece."""
        self._held_bytes += size_bytes
        if self._held_bytes + PIECE_BYTES > self._bytes_max:
            self._room.clear()

    def let_go(self, size_bytes: int) -> None:
        """Counts it no more."""
        self._held_bytes -= size_bytes
        if self._held_bytes + PIECE_BYTES <= self._bytes_max or not self._held_bytes:
            self._room.set()


class PieceFrame:
    """Bytes of a piece that stay until everyone who holds a pin has let go; the first pin is its reader's.

    Args:
        memory: counts them.
        size_bytes: how many.
        buffers: where ``buffer`` goes then.
        buffer: what they lie in, if it is one of those.
    """

    def __init__(
        self,
        memory: PieceMemory,
        size_bytes: int,
        buffers: PieceBuffers | None = None,
        buffer: bytearray | None = None,
    ) -> None:
        self._memory = memory
        self._size_bytes = size_bytes
        self._buffers = buffers
        self._buffer = buffer
        self._pins = 1
        memory.hold(size_bytes)

    def pin(self) -> None:
        """Asks for the bytes to stay."""
        self._pins += 1

    def unpin(self) -> None:
        """Lets go."""
        self._pins -= 1
        if not self._pins:
            # First: whoever waits for room would else take fresh memory.
            if self._buffers is not None and self._buffer is not None:
                self._buffers.give_back(self._buffer)
                self._buffer = None
            self._memory.let_go(self._size_bytes)


class EndableReader:
    """What the reads of a lease know of a reader."""

    is_live: bool
    task: "asyncio.Task[None] | None"

    def end(self) -> None:
        """Ends it."""
        raise NotImplementedError


class ArchiveReads(SharedReads):
    """The readers of one lease from one archive.

    Args:
        memory_bytes_max: what they may hold together, about.
        left: what earlier leases of the worker have left open; each has a turn.
        buffers: the worker's, for pieces; None where each lease has its own.
    """

    def __init__(self, memory_bytes_max: int, left: LeftOpen, buffers: PieceBuffers | None = None) -> None:
        self.buffers = buffers if buffers is not None else PieceBuffers(PIECE_BYTES)
        count = max(1, min(SEGMENTS_OPEN_MAX, memory_bytes_max // 2 // SEGMENT_BYTES))
        self.turns = Turns(max(0, count - len(left)))
        self.left = left
        left.begin(self.turns.give_back)
        self.memory = PieceMemory(max(memory_bytes_max // 2, 2 * PIECE_BYTES))
        self.readers: list[EndableReader] = []
        self._archives: list[OpenArchive] = []

    async def take_turn(self) -> None:
        """Waits for a turn, of what earlier leases have left open too where that costs little."""
        taking = asyncio.ensure_future(self.turns.take())
        try:
            while not taking.done():
                if not self.turns.are_free:
                    self.left.make_room()
                await asyncio.wait([taking], timeout=TURN_SECONDS)
        except asyncio.CancelledError:
            if taking.done() and not taking.cancelled():
                self.turns.give_back()
            taking.cancel()
            raise

    def opened(self, work: "ArchiveSourceWork", make: Callable[[], OpenArchive]) -> OpenArchive:
        """Returns the archive as the lease sees it, made by the first of its partitions."""
        for each in self._archives:
            if each.work is work or each.work == work:
                return each
        self._archives.append(make())
        return self._archives[-1]

    @property
    def show_changes(self) -> bool:
        """False: what is read is what was found when the lease began."""
        return False

    def prolong(self, seconds: float) -> None:
        """Nothing: no lease that reads an archive goes on."""

    def end_live(self) -> None:
        """Ends the live reads now."""
        for reader in self.readers:
            if reader.is_live:
                reader.end()

    async def stop(self) -> None:
        """Ends every read at once.

        A thread that still waits for the store changes nothing, and what it finds is the next lease's.
        """
        for reader in self.readers:
            reader.end()
        for reader in self.readers:
            if reader.task is not None:
                with contextlib.suppress(asyncio.CancelledError):
                    await reader.task
