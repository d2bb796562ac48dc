"""A file of which nothing is handed out, once it was compared as a whole, but the bytes that were compared."""

import io
from typing import TYPE_CHECKING, BinaryIO, cast

from mirrorlake.archive.blocks.compared_file import ComparedFile
from mirrorlake.archive.blocks.sums import BLOCK_BYTES, BlockSummer, BlockSums
from mirrorlake.stores.sized_file import SizedFile

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class SeenFile(SizedFile):
    """Sums up the blocks of a file while it is read from its start to its end; `compare_with` such sums later.

    A file is compared with its checksum by one reading and decoded by another one, of the same lease or of a later
    one, and may change in between.

    Args:
        file: seekable, closed with this.
        file_bytes: how long it is.
        where: names it in messages.
    """

    def __init__(self, file: BinaryIO, *, file_bytes: int, where: str) -> None:
        super().__init__(file_bytes)
        self._file = file
        self._where = where
        self.begin_sums()

    @classmethod
    def of(cls, file: BinaryIO, *, where: str) -> "SeenFile":
        """Returns one of a file as long as that is, where no listing has told its length before."""
        return cls(file, file_bytes=file.seek(0, io.SEEK_END), where=where)

    @property
    def file_bytes(self) -> int:
        """How long the file is."""
        return self._size_bytes

    def begin_sums(self) -> None:
        """Forgets what was read so far: what is compared is summed up, and no reading before that."""
        self._summer: BlockSummer | None = BlockSummer(BLOCK_BYTES)
        self._summed_bytes = 0

    def sums(self) -> BlockSums | None:
        """Returns the checksums of its blocks; None where it was not read since from its start to its end, in order."""
        return self._summer.sums() if self._summer is not None and self._summed_bytes == self._size_bytes else None

    def compare_with(self, sums: BlockSums, *, than: str) -> None:
        """Hands out only what has these sums from now on; ``than`` says in messages what they are of."""
        compared = ComparedFile(self._file, file_bytes=self._size_bytes, blocks=sums, where=self._where, than=than)
        self._file = cast(BinaryIO, compared)
        self._summer = None  # each block is summed up to be compared

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fills the start of the buffer and returns how much of it, 0 at the end alone.

        Raises:
            ChainBrokenError: it is not what was compared.
            MirrorlakeError: the store's.
        """
        view = memoryview(buffer).cast("B")
        self._go_there()
        count: int = self._file.readinto(view)  # type: ignore[attr-defined]  # every store's file has it
        self._took(view[:count])
        return count

    def read(self, size: int = -1, /) -> bytes:
        """Returns the next bytes, as many as asked for but at the end; see `readinto`."""
        left = max(0, self._size_bytes - self._position)
        wanted = left if size < 0 else min(size, left)
        parts: list[bytes] = []
        while wanted > 0:
            self._go_there()
            if not (data := self._file.read(wanted)):
                break
            self._took(memoryview(data))
            parts.append(data)
            wanted -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Closes the file."""
        super().close()
        self._file.close()

    def _go_there(self) -> None:
        if self._file.tell() != self._position:
            self._file.seek(self._position)

    def _took(self, data: memoryview) -> None:
        if self._summer is not None and self._position == self._summed_bytes:
            self._summer.update(data)
            self._summed_bytes += len(data)
        self._position += len(data)
