"""What an archive needs of a store, and the two outcomes its callers decide upon.

Keys are relative, ``/``-separated paths: ``orders/0/name``. A prefix is the key of a folder, without a slash
at its end; the empty prefix is the root. Objects are immutable once they can be seen: nothing here replaces
one, so a name, once read, means one content for ever.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from mirrorlake.errors import ConfigurationError, PositionMovedError

KEY_PART_BYTES_MAX = 255
"""The longest name of a file or folder on ext4, XFS, APFS and NTFS, in bytes of UTF-8."""


class ObjectExistsError(PositionMovedError):
    """An object of this key is there already; nothing was written. Two creates of one key never both win."""


class ObjectMissingError(PositionMovedError):
    """No object of this key is there (any more)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """One object of a listing.

    Of a file system ``is_dangling`` is True for a link that leads nowhere, ``is_special`` for a pipe, socket or device:
    nobody can read what they hold. ``modified_seconds`` is when it was written, in Unix seconds by the store's clock;
    None where the store does not say.
    """

    key: str
    size_bytes: int
    is_dangling: bool = False
    is_special: bool = False
    # What a listing says of the object beside its name and size: two that hold the same are equal.
    modified_seconds: float | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]


class StagedObject(Protocol):
    """Bytes on their way into the store; no listing shows them before ``publish``."""

    @property
    def file(self) -> BinaryIO:
        """Takes the content, in order; its methods raise the store's errors as errors of this package."""
        ...

    def reread(self) -> BinaryIO:
        """Returns what was written so far as a seekable file, for the caller to close before ``publish``."""
        ...

    def publish(self, key: str) -> None:
        """Makes the bytes the object ``key``, whole and durable, if no object of that key is there.

        ``key`` lies in the folder the object was staged in. Afterwards the staged object is used up, whatever
        the outcome.

        Raises:
            ObjectExistsError: another writer was first; the staged bytes are gone.
            StoreUnavailableError: it is unknown whether the object is there. Look at the key, then decide.
        """
        ...

    def discard(self) -> None:
        """Forgets the bytes; without effect after ``publish`` or a first ``discard``."""
        ...


class ObjectStore(Protocol):
    """A store with list-after-write consistency and a create that only one writer wins; ``probe`` tests it.

    Every method raises ``StoreUnavailableError`` where the store does not answer or is full,
    ``StoreUnusableError`` where it never will serve (missing, read-only, forbidden), and
    ``ConfigurationError`` for a key no store can hold.
    """

    @property
    def listing_page_objects(self) -> int | None:
        """How many objects of a listing one request brings; None where a listing of any length is one look."""
        ...

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yields the objects directly in the folder ``prefix``, by name in the order of its UTF-8 bytes.

        Objects of folders below it are left out, and so is what is staged. Only names greater than
        ``start_after`` are given (a name, not a key; it need not exist). A missing folder is empty.
        """
        ...

    def folders(self, prefix: str) -> Iterator[str]:
        """Yields the names of the folders directly in ``prefix``, in the order of their UTF-8 bytes."""
        ...

    def read(self, key: str) -> bytes:
        """Returns the whole object; meant for small ones.

        Raises:
            ObjectMissingError: there is none.
        """
        ...

    def open(self, key: str) -> BinaryIO:
        """Returns the object as a seekable file, for the caller to close.

        Raises:
            ObjectMissingError: there is none.
        """
        ...

    def create(self, key: str, data: bytes) -> None:
        """Writes a small object, whole and durable, if none of that key is there.

        Raises:
            ObjectExistsError: another writer was first.
        """
        ...

    def delete(self, key: str) -> None:
        """Removes the object; without effect where it is not there."""
        ...

    def stage(self, prefix: str, name: str) -> StagedObject:
        """Returns a place to write an object of the folder ``prefix`` whose final name is not known yet.

        Args:
            prefix: the folder it will be published in; made here where it does not exist.
            name: what people see in leftovers of a crash; need not be unique.
        """
        ...

    def sweep_staged(self, prefix: str) -> int:
        """Removes what dead writers left staged in ``prefix``, never what a live one is writing.

        Returns:
            How many were removed.
        """
        ...

    def probe(self) -> None:
        """Proves by writing that the store can hold an archive: it takes objects, and a second create loses.

        Raises:
            StoreUnusableError: it cannot, with the reason and what to do.
        """
        ...


def check_key(key: str) -> str:
    """Returns ``key`` if every store can hold it.

    Raises:
        ConfigurationError: it is empty, absolute, leaves the store, or a part of it is too long.
    """
    if not key:
        raise ConfigurationError("an object needs a key, and this one is empty")
    for part in key.split("/"):
        check_key_part(part, what=f"key {key!r}")
    return key


def check_key_part(part: str, *, what: str) -> str:
    """Returns ``part`` if it can be the name of one file or folder in every store.

    Args:
        part: the name.
        what: what it is part of, for the message.

    Raises:
        ConfigurationError: it cannot; the message says why and what to do.
    """
    if reason := _refusal(part):
        raise ConfigurationError(
            f"{what}: {part!r} cannot be a file or folder name: {reason}",
            hint="choose another name for the destination",
            name=part,
        )
    return part


def _refusal(part: str) -> str:
    if not part:
        return "it is empty"
    if part in {".", ".."}:
        return "it would leave its folder"
    if bad := sorted({c for c in part if c in "/\\" or ord(c) < 32 or ord(c) == 127}):
        return f"it holds {', '.join(map(repr, bad))}"
    try:
        size_bytes = len(part.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    return f"it has {size_bytes} bytes, more than {KEY_PART_BYTES_MAX}" if size_bytes > KEY_PART_BYTES_MAX else ""


def check_prefix(prefix: str) -> str:
    """Returns ``prefix`` if every store can hold such a folder; the empty one is the root.

    Raises:
        ConfigurationError: see `check_key`.
    """
    return check_key(prefix) if prefix else prefix


PROBE_NAME = "_mirrorlake-probe-"
"""How the names of a probe's objects begin; they live in the root for the length of the probe."""
