"""Cuts what a socket delivers into frames, in pooled buffers; knows no socket, so that any way of cutting can be tried.

A frame is a four-byte length and that many bytes. Frames begin in a small buffer, the head: small answers arrive in it
whole, several with one system call; a large one then gets a buffer of its own and is received straight into that.
"""

import struct
from collections.abc import Callable
from typing import Final

from mirrorlake.kafka.wire.buffers import BufferPool, BufferTicket
from mirrorlake.kafka.wire.frame import Frame

HEAD_BYTES: Final = 4096
"""Size of the head; this much of a large frame is copied once more."""
SMALL_FRAME_BYTES: Final = 64 << 10
"""Frames up to this size get memory of their own and never wait for the pool: an answer to Produce must get through
while fetched data fills the pool, or neither would ever be released."""

_SIZE = struct.Struct(">i")
_CORRELATION_BYTES = 4


class FrameReader:
    """Receives frames. Ask for `room`, fill it from the socket, say how much was `received`, over and over.

    Args:
        buffers: where the room for large frames comes from.
        deliver: takes correlation id and body of each whole frame, in order; it owns the body.
        refuse: is told of a length that cannot be, with the first bytes from there; nothing is read after that.
        resume: is called when a frame that had to wait for a buffer has got one; see `is_waiting`.
    """

    __slots__ = (
        "_buffers",
        "_deliver",
        "_frame",
        "_frame_bytes",
        "_frame_view",
        "_head",
        "_head_bytes",
        "_head_view",
        "_is_closed",
        "_received_bytes",
        "_refuse",
        "_resume",
        "_room",
        "_ticket",
    )

    def __init__(
        self,
        buffers: BufferPool,
        *,
        deliver: Callable[[int, Frame], None],
        refuse: Callable[[int, bytes], None],
        resume: Callable[[], None],
    ) -> None:
        self._buffers = buffers
        self._deliver = deliver
        self._refuse = refuse
        self._resume = resume
        self._head = bytearray(HEAD_BYTES)
        self._head_view = memoryview(self._head)
        self._head_bytes = 0
        self._frame: bytearray | None = None  # of the frame being received, when it did not fit into the head
        self._frame_view: memoryview | None = None
        self._frame_bytes = 0
        self._received_bytes = 0
        self._ticket: BufferTicket | None = None
        self._room = self._head_view[:0]
        self._is_closed = False

    @property
    def is_waiting(self) -> bool:
        """Whether a frame waits for a buffer: nothing may be received until ``resume`` is called."""
        return self._ticket is not None

    @property
    def missing_bytes(self) -> int:
        """How much of a frame that did not fit into the head is still to come; 0 between such frames."""
        return 0 if self._frame is None else self._frame_bytes - self._received_bytes

    @property
    def is_between_frames(self) -> bool:
        """Whether nothing is held of a frame that is still to come."""
        return self._frame is None and not self._head_bytes

    def room(self) -> memoryview:
        """Returns where the next bytes go; never empty, never beyond the end of a large frame. Good for one filling."""
        if self._frame_view is not None:
            self._room = self._frame_view[self._received_bytes : self._frame_bytes]
        else:
            self._room = self._head_view[self._head_bytes :]
        return self._room

    def received(self, size_bytes: int) -> None:
        """Takes in the first bytes of the room, and delivers what has become whole."""
        self._room.release()  # or a buffer released at once would count as still looked at
        if self._frame is None:
            self._head_bytes += size_bytes
            self._read_head()
            return
        self._received_bytes += size_bytes
        if self._received_bytes == self._frame_bytes:
            buffer, view = self._frame, self._frame_view
            assert view is not None
            view.release()
            self._frame = self._frame_view = None
            self._hand_over(buffer, self._frame_bytes)

    def close(self) -> None:
        """Gives back what is held and reads no further. Idempotent."""
        self._is_closed = True
        if self._ticket is not None:
            self._ticket.cancel()
            self._ticket = None
        if self._frame is not None and self._frame_view is not None:
            self._frame_view.release()
            if self._frame_bytes > SMALL_FRAME_BYTES:
                self._buffers.release(self._frame)
        self._frame = self._frame_view = None

    def _read_head(self) -> None:
        """Delivers the whole frames in the head, and finds room for the one that begins there."""
        at = 0
        while self._head_bytes - at >= _SIZE.size and not self._is_closed:
            (size,) = _SIZE.unpack_from(self._head, at)
            start = at + _SIZE.size
            if not _CORRELATION_BYTES <= size <= self._buffers.frame_bytes_max:
                self._is_closed = True
                self._refuse(size, bytes(self._head_view[at : min(self._head_bytes, at + 64)]))
                return
            if self._head_bytes - start < size:
                break
            at = start + size
            self._hand_over(bytearray(self._head_view[start:at]), size)
        rest = self._head_bytes - at
        if at and rest:
            self._head[:rest] = self._head[at : self._head_bytes]
        self._head_bytes = rest
        if rest >= _SIZE.size and not self._is_closed:
            self._begin_frame(_SIZE.unpack_from(self._head)[0])

    def _begin_frame(self, size: int) -> None:
        if size <= SMALL_FRAME_BYTES:
            self._fill_frame(bytearray(size))
        elif (buffer := self._buffers.acquire(size)) is not None:
            self._fill_frame(buffer)
        else:
            self._ticket = self._buffers.wait(size, self._granted)

    def _granted(self, buffer: bytearray) -> None:
        self._ticket = None
        self._fill_frame(buffer)
        self._resume()

    def _fill_frame(self, buffer: bytearray) -> None:
        (self._frame_bytes,) = _SIZE.unpack_from(self._head)
        self._received_bytes = received = self._head_bytes - _SIZE.size
        self._frame = buffer
        self._frame_view = memoryview(buffer)
        self._frame_view[:received] = self._head_view[_SIZE.size : self._head_bytes]
        self._head_bytes = 0

    def _hand_over(self, buffer: bytearray, size: int) -> None:
        pool = self._buffers if size > SMALL_FRAME_BYTES else None
        (correlation_id,) = _SIZE.unpack_from(buffer)
        self._deliver(correlation_id, Frame(buffer, _CORRELATION_BYTES, size, pool))
