"""Bytes on their way into a bucket: in a local file without a name, then put in one conditional request.

The file has no name from the start, so nothing of it stays, however its writer dies. It is mapped for the request, so
a segment takes no memory of its own (measured: 256 MiB put, resident memory unchanged).
"""

import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from mirrorlake.stores.descriptor_file import DescriptorFile
from mirrorlake.stores.os_errors import os_errors_as_ours

Content = bytes | mmap.mmap


class StagedUpload:
    """One object that nobody sees yet.

    Args:
        prefix: the folder it will be published in.
        put: makes content the object of a key, if there is none.
    """

    def __init__(self, prefix: str, put: Callable[[str, Content], None]) -> None:
        self._prefix = prefix
        self._put = put
        folder = Path(tempfile.gettempdir())
        with os_errors_as_ours(folder), tempfile.TemporaryFile(buffering=0) as unnamed:
            self._file: DescriptorFile | None = DescriptorFile(os.dup(unnamed.fileno()), folder)

    @property
    def file(self) -> BinaryIO:
        """Takes the content; unbuffered, so write in large pieces."""
        assert self._file is not None, "staged object used after publish or discard"
        return cast("BinaryIO", self._file)

    def reread(self) -> BinaryIO:
        """Returns what was written; see `StagedObject.reread`."""
        assert self._file is not None, "staged object used after publish or discard"
        with os_errors_as_ours(Path(tempfile.gettempdir())):
            # The position is the writer's too, who writes nothing more.
            written = os.fdopen(os.dup(self._file.fileno()), "rb")
            written.seek(0)
        return written

    def publish(self, key: str) -> None:
        """Makes the content the object ``key``; see `StagedObject.publish`."""
        assert self._file is not None, "staged object published twice"
        assert key.rpartition("/")[0] == self._prefix, "published into another folder than staged in"
        try:
            size_bytes = self._file.tell()
            content = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) if size_bytes else b""
            self._put(key, content)
        finally:
            self.discard()

    def discard(self) -> None:
        """Lets go of the file, and with it of the bytes."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
