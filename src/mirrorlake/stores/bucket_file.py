"""An object of a bucket as a seekable file that asks for few, large ranges.

Files of an archive are read from their ends: the first request brings the last bytes, where Parquet keeps its footer,
and with them the size.
"""

from typing import TYPE_CHECKING

import obstore

from mirrorlake.errors import StoreUnavailableError
from mirrorlake.stores.bucket_clients import BucketClient
from mirrorlake.stores.bucket_errors import LIBRARY_ERRORS, bucket_error, bucket_errors_as_ours, cause_of
from mirrorlake.stores.sized_file import SizedFile

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from obstore import GetOptions

TAIL_BYTES = 64 * 1024
"""Read with the first request: the footer of nearly every segment."""
READ_AHEAD_BYTES = 1024 * 1024
"""Least size of a range asked for afterwards."""


class BucketFile(SizedFile):
    """One object, opened for reading; reads return all that is asked for, short at the end only.

    Args:
        client: asks for the ranges.
        path: the object's whole key.
        where: how people write the place of the object; for messages.

    Raises:
        ObjectMissingError: there is none.
    """

    def __init__(self, client: BucketClient, path: str, *, where: str) -> None:
        super().__init__(0)
        self._client = client
        self._path = path
        self._where = where
        self._e_tag: str | None = None
        self._tail_start, self._tail = 0, b""
        self._window_start, self._window = 0, b""
        self._size_bytes = self._open()

    def _open(self) -> int:
        with bucket_errors_as_ours(self._where):
            if isinstance(self._client, obstore.store.AzureStore):
                return self._open_by_size()  # ranges counted from the end are unknown there
            try:
                found = obstore.get(self._client, self._path, options={"range": {"suffix": TAIL_BYTES}})
            except obstore.exceptions.GenericError as error:
                if "non-partial" not in str(error):
                    raise
                return self._open_by_size()  # an empty object has no range
            self._tail = bytes(found.bytes())
            self._tail_start = found.range[0]
            self._e_tag = found.meta["e_tag"]
            return found.meta["size"]

    def _open_by_size(self) -> int:
        meta = obstore.head(self._client, self._path)
        self._e_tag = meta["e_tag"]
        size_bytes = meta["size"]
        if size_bytes:
            self._tail_start = max(0, size_bytes - TAIL_BYTES)
            self._tail = self._get(self._tail_start, size_bytes)
        return size_bytes

    def _get(self, start: int, end: int) -> bytes:
        # An object never changes; should somebody have put another in its place, no mixture of both is read.
        options: GetOptions = {"range": (start, end)}
        if self._e_tag:
            options["if_match"] = self._e_tag
        try:
            data = bytes(obstore.get(self._client, self._path, options=options).bytes())
        except obstore.exceptions.PreconditionError as error:
            raise StoreUnavailableError(f"{self._where} was replaced while it was read") from cause_of(error)
        if len(data) != end - start:
            raise StoreUnavailableError(f"{self._where}: {len(data)} bytes of the range {start}-{end} came")
        return data

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fills the buffer as far as the object reaches."""
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._size_bytes - self._position))
        done = 0
        while done < wanted:
            piece = self._piece(wanted - done)
            view[done : done + len(piece)] = piece
            done += len(piece)
            self._position += len(piece)
        return done

    def readall(self) -> bytes:
        """Returns the rest."""
        rest = bytearray(max(0, self._size_bytes - self._position))
        self.readinto(rest)
        return bytes(rest)

    def _piece(self, wanted: int) -> memoryview:
        """Returns at least one byte and at most ``wanted`` from the position on."""
        for start, held in ((self._tail_start, self._tail), (self._window_start, self._window)):
            at = self._position - start
            if 0 <= at < len(held):
                return memoryview(held)[at : at + wanted]
        # What the tail holds is not asked for again.
        end = self._tail_start if self._position < self._tail_start else self._size_bytes
        end = min(end, self._position + max(wanted, READ_AHEAD_BYTES))
        try:
            self._window = self._get(self._position, end)
        except LIBRARY_ERRORS as error:
            raise bucket_error(error, self._where) from cause_of(error)
        self._window_start = self._position
        return memoryview(self._window)[:wanted]
