"""A file of which nothing is handed out but what was compared with the checksum of its block."""

import io
from typing import TYPE_CHECKING, BinaryIO

from mirrorlake.archive.blocks.sums import BlockSums
from mirrorlake.archive.seal import filled_from
from mirrorlake.errors import ChainBrokenError
from mirrorlake.stores.sized_file import SizedFile

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class ComparedFile(SizedFile):
    """Reads a file whose blocks have checksums.

    Who reads whole blocks, from where one begins, is given as many as were asked for, straight from the file. Of any
    other read the block it begins in is held, and gives what it can. So reads may return less than is asked for; they
    return nothing at the end of the file alone. What is handed out is what was compared: it is not read again.

    Args:
        file: seekable, closed with this.
        file_bytes: how long it has to be.
        blocks: the checksums.
        where: names it in messages.
        than: says there what the checksums are of.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        file_bytes: int,
        blocks: BlockSums,
        where: str,
        than: str = "its description says",
    ) -> None:
        super().__init__(file_bytes)
        self._file = file
        self._blocks = blocks
        self._where = where
        self._than = than
        self._held_number = -1
        self._held = memoryview(b"")
        self._is_of_length = False

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fills the start of the buffer and returns how much of it.

        Raises:
            ChainBrokenError: the block that comes next is not right, or the file is not as long as it should be.
            MirrorlakeError: the store's.
        """
        view = memoryview(buffer).cast("B")
        self._check_length()
        if whole := self._whole_bytes(len(view)):
            right = self._read_blocks(view[:whole])
        else:
            part = self._rest_of_block()[: len(view)]
            view[: len(part)] = part
            right = len(part)
        self._position += right
        return right

    def read(self, size: int = -1, /) -> bytes:
        """Returns the next bytes; see `readinto`."""
        if size < 0:
            return self.readall()
        self._check_length()
        whole = self._whole_bytes(size)
        data: bytes | memoryview = b""
        if whole:
            self._file.seek(self._position)
            data = self._file.read(whole)
        if len(data) == whole > 0:
            right = self._right_bytes(memoryview(data))
            data = data if right == whole else data[:right]
        else:
            data = self._rest_of_block()[:size]
        self._position += len(data)
        return bytes(data)

    def close(self) -> None:
        """Closes the file."""
        super().close()
        self._file.close()

    def _whole_bytes(self, wanted: int) -> int:
        """Returns how many of the next bytes are blocks that are wanted whole."""
        left = max(0, self._size_bytes - self._position)
        if self._position % self._blocks.block_bytes:
            return 0
        return left if wanted >= left else wanted // self._blocks.block_bytes * self._blocks.block_bytes

    def _rest_of_block(self) -> memoryview:
        """Returns what is left of the block at the position; nothing behind the end."""
        if self._position >= self._size_bytes:
            return memoryview(b"")
        number, inside = divmod(self._position, self._blocks.block_bytes)
        if number != self._held_number:
            at = number * self._blocks.block_bytes
            block = memoryview(bytearray(min(self._blocks.block_bytes, self._size_bytes - at)))
            self._fill(block, at)
            if not self._blocks.holds(number, block):
                raise self._changed(number)
            self._held_number, self._held = number, block
        return self._held[inside:]

    def _read_blocks(self, view: memoryview) -> int:
        """Fills the view with the whole blocks that come next, and returns how much of it is right."""
        self._fill(view, self._position)
        return self._right_bytes(view)

    def _fill(self, view: memoryview, at: int) -> None:
        if not filled_from(self._file, view, at=at):
            raise self._broken("is shorter than it was when it was opened")

    def _right_bytes(self, view: memoryview) -> int:
        """Returns how many of the bytes at the position are those of blocks up to the first that is not right.

        Raises:
            ChainBrokenError: the first one is not.
        """
        block_bytes = self._blocks.block_bytes
        first = self._position // block_bytes
        for start in range(0, len(view), block_bytes):
            number = first + start // block_bytes
            if not self._blocks.holds(number, view[start : start + block_bytes]):
                if not start:
                    raise self._changed(number)
                return start
        return len(view)

    def _check_length(self) -> None:
        if self._is_of_length:
            return
        if (found := self._file.seek(0, io.SEEK_END)) != self._size_bytes:
            raise self._broken(f"has {found} bytes, its description says {self._size_bytes}")
        self._is_of_length = True

    def _changed(self, number: int) -> ChainBrokenError:
        start = number * self._blocks.block_bytes
        end = min(start + self._blocks.block_bytes, self._size_bytes)
        return self._broken(f"has other bytes from {start} to {end - 1} than {self._than}")

    def _broken(self, what: str) -> ChainBrokenError:
        return ChainBrokenError(
            f"{self._where} {what}",
            hint="the file was changed, cut or swapped: put it back from a copy, with its description in `_meta` where "
            "it has one; nothing of it from there on was used",
            key=self._where,
        )
