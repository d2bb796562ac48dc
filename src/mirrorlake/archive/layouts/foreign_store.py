"""A store that shows another program's archive as one of mirrorlake's; nothing can be written to it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import BinaryIO, Never

from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.errors import UnsupportedError
from mirrorlake.stores.object_store import ObjectInfo, ObjectMissingError, ObjectStore, StagedObject


class ForeignStore(ABC):
    """Shows folders ``{topic}/{partition}`` of segments that follow one another, whatever lies there really.

    Names of segments are those that mirrorlake would give them, ``.parquet``, apart from one another: where files share
    offsets, each name holds what the ones before it leave. Messages name the files as they are.

    Args:
        store: holds the files.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def listing_page_objects(self) -> int | None:
        """As of the store below."""
        return self._store.listing_page_objects

    @abstractmethod
    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yields the segments of a partition, and its floor where it has one; see `ObjectStore.list`.

        Raises:
            ChainBrokenError: a name that the layout does not have.
        """

    @abstractmethod
    def folders(self, prefix: str) -> Iterator[str]:
        """Yields topics in the root, partitions in a topic, and nothing below; see `ObjectStore.folders`."""

    @abstractmethod
    def open(self, key: str) -> BinaryIO:
        """Returns the file that serves a segment; see `ObjectStore.open`."""

    @abstractmethod
    def reader(self, key: str, opened: BinaryIO | None) -> SegmentReader:
        """Returns the reader of a segment, compared with the name its file has.

        Args:
            key: of the segment.
            opened: its file, where the caller has it open; it is the reader's from now on.

        Raises:
            ObjectMissingError: there is none.
            ChainBrokenError: the file is damaged, or says that it is another one.
        """

    def read(self, key: str) -> bytes:
        """Has no small objects.

        Raises:
            ObjectMissingError: always.
        """
        raise ObjectMissingError(f"no object {key}", key=key)

    def create(self, key: str, data: bytes) -> None:
        """Raises ``UnsupportedError``."""
        del data
        self._refuse(key)

    def delete(self, key: str) -> None:
        """Raises ``UnsupportedError``."""
        self._refuse(key)

    def stage(self, prefix: str, name: str) -> StagedObject:
        """Raises ``UnsupportedError``."""
        self._refuse(f"{prefix}/{name}")

    def sweep_staged(self, prefix: str) -> int:
        """Raises ``UnsupportedError``."""
        self._refuse(prefix)

    def probe(self) -> None:
        """Raises ``UnsupportedError``."""
        self._refuse("it")

    @staticmethod
    def _refuse(what: str) -> Never:
        raise UnsupportedError(f"an archive of another program is only read, and {what} was to be changed")
