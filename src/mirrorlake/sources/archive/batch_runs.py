"""Reads a file of record batches in runs: as much as a piece holds, from a place where a batch begins."""

from collections.abc import Callable
from typing import BinaryIO

from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.batch_header import PREFIX, PREFIX_BYTES
from mirrorlake.sources.archive.piece_buffers import PieceBuffers

REST_BYTES_MAX = 1 << 20
"""What is kept of a batch that a run ends in; a larger one is read again."""


class BatchRuns:
    """Reads runs of one file, none of which is read again where they follow one another.

    Args:
        file: whose reads are right as far as they go; where the next of its bytes are not, it raises.
        file_bytes: how long it is.
        unit_bytes: it is read from a multiple of these on, up to one or to the end.
        run_bytes: of a run, unless a batch is larger.
        buffers: of so many bytes, for runs; None for memory of their own.
        broken: makes an error of what is wrong with the file.
    """

    def __init__(
        self,
        file: BinaryIO,
        file_bytes: int,
        *,
        unit_bytes: int,
        run_bytes: int,
        buffers: PieceBuffers | None,
        broken: Callable[[str], ChainBrokenError],
    ) -> None:
        self._file = file
        self._file_bytes = file_bytes
        self._unit_bytes = unit_bytes
        self._run_bytes = run_bytes
        self._buffers = buffers
        self._broken = broken
        self._rest_at = 0
        self._rest = b""

    def run_at(self, at: int) -> tuple[memoryview, bytearray | None]:
        """Returns the run from a place on, with one whole batch at least, and the buffer it lies in, if it is in one.

        Of what follows up to a place where the file is not right, that is: the next run then tells.

        Raises:
            ChainBrokenError: the batch there is not right as far as the file can tell, or not whole.
        """
        if at >= self._file_bytes:
            return memoryview(b""), None
        rest = self._rest if self._rest_at == at else b""
        self._rest = b""
        begin = at + len(rest) if rest else at - at % self._unit_bytes
        skipped = 0 if rest else at - begin
        wanted = self._wanted(begin, self._run_bytes - len(rest))
        data, buffer = self._memory(len(rest) + wanted)
        view = memoryview(data)[: len(rest) + wanted]
        view[: len(rest)] = rest
        view = view[skipped : len(rest) + self._fill(view[len(rest) :], begin)]
        while (needed := _first_bytes(view)) > len(view):
            if needed > self._file_bytes - at:
                raise self._broken("ends inside a record batch")
            begin = at + len(view)
            larger = memoryview(bytearray(len(view) + self._wanted(begin, needed - len(view) + self._unit_bytes - 1)))
            larger[: len(view)] = view
            view, buffer = larger[: len(view) + self._fill(larger[len(view) :], begin)], None
        return view, buffer

    def keep(self, rest: memoryview, at: int) -> None:
        """Keeps what was read and not used, which begins at a place and goes up to where reading goes on."""
        if len(rest) <= REST_BYTES_MAX:
            self._rest, self._rest_at = bytes(rest), at

    def _wanted(self, begin: int, room: int) -> int:
        """Returns how many bytes are read from a place on, at least a unit, where there is so much room for them."""
        units = max(1, room // self._unit_bytes)
        return min(units * self._unit_bytes, self._file_bytes - begin)

    def _memory(self, size_bytes: int) -> tuple[bytearray, bytearray | None]:
        buffers = self._buffers
        # A buffer counts as a whole: for much less it would take memory from others.
        if buffers is not None and buffers.buffer_bytes // 2 < size_bytes <= buffers.buffer_bytes:
            buffer = buffers.taken()
            return buffer, buffer
        return bytearray(size_bytes), None

    def _fill(self, view: memoryview, at: int) -> int:
        """Reads into the view and returns how much of it is right, which is something."""
        self._file.seek(at)
        done = 0
        while done < len(view):
            try:
                count = self._file.readinto(view[done:])  # type: ignore[attr-defined]  # every store's file has it
            except ChainBrokenError:
                if not done:
                    raise
                break
            if not count:
                raise self._broken("is shorter than it was when it was listed")
            done += count
        return done


def _first_bytes(view: memoryview) -> int:
    """Returns how long the first batch is, as far as the view shows it."""
    return PREFIX_BYTES + (PREFIX.unpack_from(view, 0)[1] if len(view) >= PREFIX_BYTES else 0)
