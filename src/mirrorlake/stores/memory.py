"""A store in memory, with the same promises as the real ones; for tests, models and trying things out."""

import io
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from mirrorlake.stores.object_store import (
    ObjectExistsError,
    ObjectInfo,
    ObjectMissingError,
    check_key,
    check_key_part,
    check_prefix,
)


class MemoryStore:
    """Objects in a dictionary.

    Args:
        objects: what it holds at first, by key.
    """

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self.objects: dict[str, bytes] = dict(objects or {})

    @property
    def listing_page_objects(self) -> int | None:
        """None: it is all there."""
        return None

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yields the objects directly in ``prefix``; see `ObjectStore.list`."""
        lead = _lead(prefix)
        for key in sorted(self.objects, key=str.encode):
            name = key[len(lead) :]
            if key.startswith(lead) and "/" not in name and name.encode() > start_after.encode():
                yield ObjectInfo(key=key, size_bytes=len(self.objects[key]))

    def folders(self, prefix: str) -> Iterator[str]:
        """Yields the names of the folders in ``prefix``; see `ObjectStore.folders`."""
        lead = _lead(prefix)
        below = (key[len(lead) :] for key in self.objects if key.startswith(lead))
        yield from sorted({name.partition("/")[0] for name in below if "/" in name}, key=str.encode)

    def read(self, key: str) -> bytes:
        """Returns the whole object; see `ObjectStore.read`."""
        try:
            return self.objects[check_key(key)]
        except KeyError:
            raise ObjectMissingError(f"no object {key}", key=key) from None

    def open(self, key: str) -> BinaryIO:
        """Returns the object as a file; see `ObjectStore.open`."""
        return io.BytesIO(self.read(key))

    def create(self, key: str, data: bytes) -> None:
        """Writes the object if there is none; see `ObjectStore.create`."""
        if check_key(key) in self.objects:
            raise ObjectExistsError(f"{key} exists already", key=key)
        self.objects[key] = data

    def delete(self, key: str) -> None:
        """Removes the object; see `ObjectStore.delete`."""
        self.objects.pop(check_key(key), None)

    def stage(self, prefix: str, name: str) -> "MemoryStagedObject":
        """Returns a place to write; see `ObjectStore.stage`."""
        check_prefix(prefix)
        check_key_part(name, what="staged object")
        return MemoryStagedObject(self, prefix)

    def sweep_staged(self, prefix: str) -> int:
        """Finds nothing: what is staged dies with its writer."""
        check_prefix(prefix)
        return 0

    def probe(self) -> None:
        """Passes: a dictionary can do all that is asked."""


class MemoryStagedObject:
    """Bytes of a `MemoryStore` nobody sees yet."""

    def __init__(self, store: MemoryStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._file: io.BytesIO | None = io.BytesIO()

    @property
    def file(self) -> BinaryIO:
        """Takes the content."""
        assert self._file is not None, "staged object used after publish or discard"
        return self._file

    def reread(self) -> BinaryIO:
        """Returns what was written; see `StagedObject.reread`."""
        assert self._file is not None, "staged object used after publish or discard"
        return io.BytesIO(self._file.getvalue())

    def publish(self, key: str) -> None:
        """Makes the bytes the object ``key``; see `StagedObject.publish`."""
        assert self._file is not None, "staged object published twice"
        assert key.rpartition("/")[0] == self._prefix, "published into another folder than staged in"
        data, self._file = self._file.getvalue(), None
        self._store.create(key, data)

    def discard(self) -> None:
        """Forgets the bytes."""
        self._file = None


def _lead(prefix: str) -> str:
    return f"{check_prefix(prefix)}/" if prefix else ""
