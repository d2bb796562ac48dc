"""The answer to one request, in the buffer it was received into."""

from types import TracebackType

from mirrorlake.kafka.wire.buffers import BufferPool


class Frame:
    """The body of an answer. Give it back with `release` (or ``with``) when nothing of it is needed any more.

    Attributes:
        view: the body, after the response header; writable, so that batches can be changed in place. Slices
            of it must not be used after `release`.
    """

    __slots__ = ("_buffer", "_pool", "view")

    def __init__(self, buffer: bytearray, start: int, stop: int, pool: BufferPool | None) -> None:
        self._buffer: bytearray | None = buffer
        self._pool = pool
        self.view = memoryview(buffer)[start:stop]

    def skip_tagged_fields(self) -> bool:
        """Moves past the tagged fields (KIP-482) that end a flexible response header; False if they are cut.

        Brokers send none so far, so the count is one zero byte.
        """
        if not self.view or self.view[0] != 0:
            return False
        self.view = self.view[1:]
        return True

    def release(self) -> None:
        """Gives the buffer back to its pool. Idempotent."""
        buffer, self._buffer = self._buffer, None
        if buffer is None:
            return
        self.view.release()
        if self._pool is not None:
            self._pool.release(buffer)

    def __enter__(self) -> "Frame":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        # A request that was cancelled in the moment its answer came leaves a frame that nobody holds.
        if self._buffer is not None:
            self.release()
