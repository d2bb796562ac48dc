"""Reused receive buffers with a bound on their bytes.

Fresh memory costs page faults and cold cache lines on every fetch; a few buffers that go round stay in cache.
The bound is what keeps a task's memory flat: whoever finds no buffer waits in line, and the line is first
come, first served, so that a large frame is not starved by small ones.
"""

from collections import deque
from collections.abc import Callable

FRAME_BYTES_MAX = 128 << 20
"""Largest frame accepted. Brokers send a whole first batch whatever the fetch limits say, so this must be
above any source's ``max.message.bytes``; anything larger is taken for a peer that does not speak Kafka."""


class BufferTicket:
    """A place in the line for a buffer; `cancel` leaves the line."""

    __slots__ = ("granted", "size_bytes")

    def __init__(self, size_bytes: int, granted: Callable[[bytearray], None]) -> None:
        self.size_bytes = size_bytes
        self.granted: Callable[[bytearray], None] | None = granted

    def cancel(self) -> None:
        """Leaves the line. Idempotent; without effect after the buffer was handed over."""
        self.granted = None


class BufferPool:
    """Reused buffers of one size, and larger ones made to measure, with a bound on all of them together.

    Not thread-safe: one pool belongs to one event loop. A single buffer above the bound is handed out when
    nothing else is in use, so that one huge batch slows things down but cannot stop them.

    Args:
        total_bytes_max: bound on the bytes of all buffers, in use and kept.
        buffer_bytes: size of the reused buffers.
        frame_bytes_max: largest frame a connection with this pool accepts.
    """

    __slots__ = (
        "_in_use_bytes",
        "_kept",
        "_line",
        "buffer_bytes",
        "frame_bytes_max",
        "lost_buffers",
        "total_bytes_max",
    )

    def __init__(self, total_bytes_max: int, buffer_bytes: int, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        if not 0 < buffer_bytes <= total_bytes_max:
            raise ValueError(f"buffers of {buffer_bytes} bytes do not fit into {total_bytes_max} bytes")
        self.total_bytes_max = total_bytes_max
        self.buffer_bytes = buffer_bytes
        self.frame_bytes_max = frame_bytes_max
        self.lost_buffers = 0
        """Buffers given back while views of them were alive. They are left to those views and never
        reused."""
        self._in_use_bytes = 0
        self._kept: list[bytearray] = []
        self._line: deque[BufferTicket] = deque()

    @property
    def in_use_bytes(self) -> int:
        """Bytes of the buffers handed out and not given back."""
        return self._in_use_bytes

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return sum(ticket.granted is not None for ticket in self._line)

    def acquire(self, size_bytes: int) -> bytearray | None:
        """Returns a buffer of at least ``size_bytes``, or None where none is free or others were first."""
        self._forget_cancelled()
        return None if self._line else self._take(size_bytes)

    def wait(self, size_bytes: int, granted: Callable[[bytearray], None]) -> BufferTicket:
        """Stands in line; ``granted`` gets the buffer from inside a later `release`, so it must be quick."""
        ticket = BufferTicket(size_bytes, granted)
        self._line.append(ticket)
        return ticket

    def release(self, buffer: bytearray) -> None:
        """Takes a buffer back and hands it, or its room, to those who wait.

        A buffer that is still looked at through a memoryview is not used again: a stale view then shows old
        bytes, never those of another frame.
        """
        self._in_use_bytes -= len(buffer)
        if len(buffer) == self.buffer_bytes:
            if is_viewed(buffer):
                self.lost_buffers += 1
            else:
                self._kept.append(buffer)
        self._serve_line()

    def _serve_line(self) -> None:
        self._forget_cancelled()
        while self._line and (buffer := self._take(self._line[0].size_bytes)) is not None:
            granted = self._line.popleft().granted
            assert granted is not None
            granted(buffer)
            self._forget_cancelled()

    def _forget_cancelled(self) -> None:
        while self._line and self._line[0].granted is None:
            self._line.popleft()

    def _take(self, size_bytes: int) -> bytearray | None:
        if size_bytes <= self.buffer_bytes and self._kept:
            self._in_use_bytes += self.buffer_bytes
            return self._kept.pop()  # the one used last: its lines are the likeliest to be in cache
        size = max(size_bytes, self.buffer_bytes)
        if self._in_use_bytes and self._in_use_bytes + size > self.total_bytes_max:
            return None
        while self._kept and self._in_use_bytes + len(self._kept) * self.buffer_bytes + size > self.total_bytes_max:
            self._kept.pop(0)
        self._in_use_bytes += size
        return bytearray(size)


def is_viewed(buffer: bytearray) -> bool:
    """Returns whether a memoryview of a buffer is alive."""
    # CPython refuses to resize a bytearray while anything exports its memory. One byte less and more stays in
    # place.
    try:
        buffer.pop()
    except BufferError:
        return True
    buffer.append(0)
    return False
