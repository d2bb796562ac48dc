"""An archive's store in a bucket of S3, Google Cloud Storage or Azure.

Every write is a create that fails where the key is taken: one request, never tried again by the library. Where its
answer is lost or unclear, the key is looked at and compared with what was sent, and only then decided. Objects are put
whole: an upload in parts has no such condition in the library, and one put holds five times our largest segment.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

import obstore
from obstore.exceptions import AlreadyExistsError, GenericError

from mirrorlake.errors import MirrorlakeError, StoreUnavailableError, StoreUnusableError, UnsupportedError
from mirrorlake.stores.bucket_clients import PUT_BYTES_MAX, BucketClients
from mirrorlake.stores.bucket_errors import LIBRARY_ERRORS, answer_of, bucket_error, bucket_errors_as_ours, cause_of
from mirrorlake.stores.bucket_file import BucketFile
from mirrorlake.stores.object_store import (
    PROBE_NAME,
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    check_key,
    check_key_part,
    check_prefix,
)
from mirrorlake.stores.settings import AzureSettings, BucketSettings, S3Settings
from mirrorlake.stores.staged_upload import Content, StagedUpload

if TYPE_CHECKING:
    from obstore import GetResult, ObjectMeta

PAGE_OBJECTS = 1000
"""Objects of one listing request, as all three kinds of stores have it."""
PUT_PAUSES_SECONDS = (0.1, 0.4, 1.6)
"""Between one attempt of a create and the next; there is one more attempt than pauses."""
PUT_SECONDS_MAX = 30.0
"""No further attempt after so long; the caller backs off then, visibly."""
_COMPARE_BYTES = 4 << 20
_PROBE_OBJECT = "object"
_LAST_IN_FOLDER = "\U0010ffff" * 60
"""Sorts behind every name: with it a listing starts after all that is in a folder."""


def _is_without_range(error: Exception) -> bool:
    """Tells whether there is no range to give: the object is empty, or the store knows no ranges."""
    # Where Azure answers 416, its emulator writes a header that the library cannot read.
    text = str(error)
    return answer_of(error).status == 416 or "non-partial" in text or "CONTENT_RANGE" in text


class BucketStore:
    """Objects are those of a bucket below a prefix; see `ObjectStore` for what each method promises.

    Args:
        settings: which bucket, and how to reach it.
        pause: waits between attempts.
    """

    def __init__(self, settings: BucketSettings, *, pause: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._pause = pause
        self._clients = BucketClients(settings)
        self._root = f"{settings.prefix}/" if settings.prefix else ""

    @property
    def listing_page_objects(self) -> int | None:
        """A thousand; None on Azure, where every listing is read to its end, so that one is cheaper than a search."""
        return None if isinstance(self._settings, AzureSettings) else PAGE_OBJECTS

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yields the objects directly in the folder; see `ObjectStore.list`.

        A thousand objects cost one request. Folders below are passed over, at one more request for each that is longer
        than a page. On Azure everything in and below the folder from there on is listed each time.
        """
        check_prefix(prefix)
        lead = f"{self._root}{prefix}/" if prefix else self._root
        after, last = start_after, b""
        while True:
            skipped = ""
            for page in self._pages(lead, after):
                skipped = ""
                for meta in page:
                    name = meta["path"][len(lead) :]
                    if not name or not meta["path"].startswith(lead):
                        continue  # the mark that some tools make for a folder
                    folder, slash, _ = name.partition("/")
                    skipped = folder if slash else ""
                    if slash:
                        continue
                    if name.encode() <= max(last, start_after.encode()):
                        raise self._unusable("lists objects out of the order of their names")
                    last = name.encode()
                    yield ObjectInfo(
                        key=f"{prefix}/{name}" if prefix else name,
                        size_bytes=meta["size"],
                        modified_seconds=meta["last_modified"].timestamp(),
                    )
                if skipped and len(page) == PAGE_OBJECTS:
                    break
            else:
                return
            after = f"{skipped}/{_LAST_IN_FOLDER}"

    def _pages(self, lead: str, after: str) -> "Iterator[Sequence[ObjectMeta]]":
        folder = lead.removesuffix("/") or None
        with bucket_errors_as_ours(self._settings.where(lead[len(self._root) :])):
            offset = lead + after if after else None
            if not isinstance(self._settings, AzureSettings):
                yield from obstore.list(self._clients.reader, folder, offset=offset, chunk_size=PAGE_OBJECTS)
                return
            # The order of names' bytes cannot be relied upon there, nor that a listing starts where it is asked to: the
            # service knows that since its version of February 2026, emulators pass over it.
            every = obstore.list(self._clients.reader, folder, offset=offset, chunk_size=PAGE_OBJECTS).collect()
            beyond = (meta for meta in every if meta["path"].encode() > (lead + after).encode())
            yield sorted(beyond, key=lambda meta: meta["path"].encode())

    def folders(self, prefix: str) -> Iterator[str]:
        """Yields the names of the folders directly in the folder; see `ObjectStore.folders`."""
        path = (self._root + check_prefix(prefix)).removesuffix("/")
        with bucket_errors_as_ours(self._settings.where(prefix)):
            found = obstore.list_with_delimiter(self._clients.reader, path or None)
        yield from sorted((each.rpartition("/")[2] for each in found["common_prefixes"]), key=str.encode)

    def read(self, key: str) -> bytes:
        """Returns the whole object; see `ObjectStore.read`.

        One of which not all came is asked for once more: cut, it looks like one that is damaged.
        """
        where = self._settings.where(check_key(key))
        with bucket_errors_as_ours(where):
            for _ in range(2):
                found, size_bytes = self._get(self._root + key)
                content = bytes(found.bytes())
                if len(content) == size_bytes:
                    return content
        raise StoreUnavailableError(f"{where} has {size_bytes} bytes, says the store, and {len(content)} came, twice")

    def _get(self, path: str) -> "tuple[GetResult, int]":
        """Returns the answer with an object, and how many bytes the store says it has.

        A range is asked for, as the answer then says the object's length beside its own.
        """
        try:
            found = obstore.get(self._clients.reader, path, options={"range": {"offset": 0}})
        except GenericError as error:
            if not _is_without_range(error):
                raise
            size_bytes = obstore.head(self._clients.reader, path)["size"]
            return obstore.get(self._clients.reader, path), size_bytes
        return found, found.meta["size"]

    def open(self, key: str) -> BinaryIO:
        """Returns the object as a file; see `ObjectStore.open`."""
        path = self._root + check_key(key)
        return cast("BinaryIO", BucketFile(self._clients.reader, path, where=self._settings.where(key)))

    def create(self, key: str, data: bytes) -> None:
        """Writes the object if there is none; see `ObjectStore.create`."""
        self._put(check_key(key), data)

    def delete(self, key: str) -> None:
        """Removes the object; see `ObjectStore.delete`."""
        try:
            with bucket_errors_as_ours(self._settings.where(check_key(key))):
                obstore.delete(self._clients.reader, self._root + key)
        except ObjectMissingError:
            pass

    def stage(self, prefix: str, name: str) -> StagedUpload:
        """Opens a local file without a name; see `ObjectStore.stage`."""
        check_prefix(prefix)
        check_key_part(name, what="staged object")
        return StagedUpload(prefix, self._put)

    def sweep_staged(self, prefix: str) -> int:
        """Finds nothing: what is staged is not in the bucket, and dies with its writer."""
        check_prefix(prefix)
        return 0

    def keeps_versions(self, key: str) -> bool:
        """Tells whether the bucket keeps old versions of objects, as far as the answer about one object says it.

        S3 names the version of an object where versioning is on, or was; of other stores nothing is concluded.

        Raises:
            ObjectMissingError: there is none.
        """
        if not isinstance(self._settings, S3Settings):
            return False
        with bucket_errors_as_ours(self._settings.where(check_key(key))):
            version = obstore.head(self._clients.reader, self._root + key).get("version")
        return version not in (None, "", "null")

    def _put(self, key: str, content: Content) -> None:
        """Creates the object, deciding every unclear outcome by what stands at the key.

        "Exists" from the first attempt is another writer's object, or ours where something between us and the store
        sent the request twice: callers settle that by content, as they do for two writers of one range.

        Raises:
            ObjectExistsError: another object is there.
            StoreUnavailableError: it is not there now, and may yet come to be: a request can be under way.
            UnsupportedError: it is larger than one put can be.
        """
        path, where = self._root + check_key(key), self._settings.where(key)
        if len(content) > PUT_BYTES_MAX:
            raise UnsupportedError(
                f"{where} would have {len(content)} bytes, and one put of an object store holds {PUT_BYTES_MAX}",
                hint="keep what becomes so large in an archive on a filesystem: a snapshot is one file, however many "
                "keys it has; a segment is as large as `flush.max-bytes` lets it",
            )
        give_up_at = time.monotonic() + PUT_SECONDS_MAX
        for attempt in range(len(PUT_PAUSES_SECONDS) + 1):
            try:
                obstore.put(self._clients.writer(len(content)), path, content, mode="create", use_multipart=False)
            except LIBRARY_ERRORS as error:
                # 409 says that somebody else is at work there (S3), or that it exists (Azure): look.
                if isinstance(error, AlreadyExistsError) and attempt == 0 and answer_of(error).status != 409:
                    raise ObjectExistsError(f"{where} exists already", key=key) from cause_of(error)
                unclear = bucket_error(error, where)
                if not isinstance(unclear, StoreUnavailableError):
                    raise unclear from cause_of(error)
                if self._holds(key, content):
                    return
                if attempt == len(PUT_PAUSES_SECONDS) or time.monotonic() > give_up_at:
                    raise unclear from cause_of(error)
                self._pause(PUT_PAUSES_SECONDS[attempt])
            else:
                return

    def _holds(self, key: str, content: Content) -> bool:
        """Tells whether ``content`` is the object ``key``; False where there is none.

        Raises:
            ObjectExistsError: another object is there.
            StoreUnavailableError: that could not be found out.
        """
        where = self._settings.where(key)
        other = ObjectExistsError(f"{where} exists already, and holds something else", key=key)
        try:
            with bucket_errors_as_ours(where):
                found, size_bytes = self._get(self._root + key)
                if size_bytes != len(content):
                    raise other
                done = 0
                for piece in found.stream(min_chunk_size=_COMPARE_BYTES):
                    if content[done : done + len(piece)] != bytes(piece):
                        raise other
                    done += len(piece)
        except ObjectMissingError:
            return False
        if done != size_bytes:
            raise StoreUnavailableError(f"{where} has {size_bytes} bytes, says the store, and {done} came")
        return True

    def probe(self) -> None:
        """Creates one key twice, lists and reads it, and removes it: the second create must lose.

        Raises:
            StoreUnusableError: the bucket is missing, forbidden, ignores the condition of a create, or does not list
                what was just written.
        """
        # In a folder of its own, so that listing it takes one request however much the bucket holds.
        folder = f"{PROBE_NAME}{uuid.uuid4()}"
        key = f"{folder}/{_PROBE_OBJECT}"
        self.create(key, b"first")
        try:
            try:
                self.create(key, b"second")
            except ObjectExistsError:
                pass
            else:
                raise self._unusable("lets a second create of one key win")
            if self.read(key) != b"first":
                raise self._unusable("changed an object that was there already")
            if [info.name for info in self.list(folder)] != [_PROBE_OBJECT]:
                raise self._unusable("does not list an object that was just written")
            if list(self.list(folder, start_after=_PROBE_OBJECT)):
                raise self._unusable("does not start a listing where it is asked to")
        finally:
            self._forget(key)

    def _forget(self, key: str) -> None:
        try:
            self.delete(key)
        except MirrorlakeError as error:
            # An archive deletes its claims, so a store that never deletes is no place for it.
            raise self._unusable("does not let an object be deleted") from error

    def _unusable(self, what: str) -> StoreUnusableError:
        return StoreUnusableError(
            f"the store of {self._settings.where('')} {what}",
            hint="two writers could spoil each other's archive there; use a store with conditional writes "
            "(If-None-Match) and consistent listings",
        )
