"""Reads through the data source as Spark makes them, without a JVM: planned, pickled, read task by task."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from pyspark.sql.datasource import Filter, InputPartition

from mirrorlake.spark_source.columns import schema_of
from mirrorlake.spark_source.options import read_options
from mirrorlake.spark_source.source import FilteredReader
from mirrorlake.stores.object_store import ObjectInfo, ObjectStore


class Read:
    """One batch read: planned when it is made.

    Args:
        options: as a user sets them, with underscores for dots.
        filters: as Spark pushes them.
    """

    def __init__(self, options: dict[str, str], *filters: Filter) -> None:
        read = read_options(options)
        self._names = read.columns
        reader = FilteredReader(read, read.columns)
        reader.pushFilters(list(filters))
        self.tasks: list[InputPartition] = pickle.loads(pickle.dumps(reader.partitions()))
        self._reader: FilteredReader = pickle.loads(pickle.dumps(reader))

    @property
    def pieces(self) -> list[Any]:
        return [piece for task in self.tasks for piece in task.value]

    def table(self) -> pa.Table:
        batches = [batch for task in self.tasks for batch in self._reader.read(task)]
        return pa.Table.from_batches(batches, schema=schema_of(self._names))

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table().to_pylist()
        return found


class WatchedStore:
    """A store that notes which objects are opened and how many bytes are read, and does something before an opening."""

    def __init__(self, store: ObjectStore, *, before_open: Callable[[str], None] = lambda _key: None) -> None:
        self._store = store
        self._before_open = before_open
        self.opened: list[str] = []
        self.bytes_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def open(self, key: str) -> BinaryIO:
        self._before_open(key)
        found = self._store.open(key)
        self.opened.append(key)
        return _WatchedFile(found, self)  # type: ignore[return-value]

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return self._store.list(prefix, start_after=start_after)


class _WatchedFile:
    def __init__(self, file: BinaryIO, store: WatchedStore) -> None:
        self._file = file
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._store.bytes_read += len(data)
        return data


def offsets_in(rows: Sequence[dict[str, Any]]) -> list[int]:
    return [row["offset"] for row in rows]
