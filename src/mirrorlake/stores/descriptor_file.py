"""A file to write into, whose errors are ours and whose writes are whole."""

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorlake.stores.os_errors import os_errors_as_ours, store_error

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class DescriptorFile(io.RawIOBase):
    """A write-only file over a descriptor, which it closes; ``path`` is for messages.

    Closed, it refuses everything: the number of its descriptor may be another file's, or a connection's, by then, and
    a library's writer may end its file when it is freed, long after it was dropped (Parquet's does).
    """

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._path = path
        self._written_bytes = 0

    def writable(self) -> bool:
        """Returns True."""
        return True

    def fileno(self) -> int:
        """Returns the descriptor."""
        self._check_open()
        return self._descriptor

    def tell(self) -> int:
        """Returns how many bytes were written."""
        return self._written_bytes

    def write(self, data: "ReadableBuffer", /) -> int:
        """Writes all of ``data``."""
        self._check_open()
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            try:
                done += os.write(self._descriptor, view[done:])
            except OSError as error:
                raise store_error(error, self._path) from error
        self._written_bytes += done
        return done

    def sync(self) -> None:
        """Makes what was written durable."""
        self._check_open()
        with os_errors_as_ours(self._path):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Closes the descriptor; without effect the second time."""
        if not self.closed:
            super().close()
            with os_errors_as_ours(self._path):
                os.close(self._descriptor)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"write to a closed file: {self._path}")
