"""The records that change a view, reduced to the latest of every key within a bounded memory.

What does not fit goes to disk as a sorted run, in a file without a name: a crash leaves nothing behind.
"""

import io
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from mirrorlake.archive.snapshots.latest import latest_per_key, merge_runs
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.stores.os_errors import os_errors_as_ours

CHANGES_BYTES_MAX = 32 << 20
"""What records weigh that are held before they are reduced; sorting takes twice that."""

ROW_BYTES = 64
"""What a record weighs beside its bytes."""

CHUNK_BYTES = 1 << 20
"""What is read of a run at a time: a merge of ``RUNS_MAX`` holds so much of each."""

RUNS_MAX = 16
"""Runs of one level; as many are merged into one of the next, so that files and memory grow with the logarithm."""

FRAGMENT_BYTES = 1 << 20
"""What a run is cut into where it travels from one process to another, however large a record is."""

_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("timestamp_type", pa.int8()),
        pa.field("size", pa.int64()),
        pa.field("key", pa.large_binary()),
        pa.field("value", pa.large_binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)


class Changes:
    """Takes records in offset order and gives them back as runs. Close it, or its files stay open.

    Args:
        bytes_max: what is held in memory.
        runs_max: runs of a level.
    """

    def __init__(self, *, bytes_max: int = CHANGES_BYTES_MAX, runs_max: int = RUNS_MAX) -> None:
        self._bytes_max = bytes_max
        self._runs_max = runs_max
        self._pending: list[RecordColumns] = []
        self._pending_bytes = 0
        self._levels: list[list[_StoredRun]] = []

    def add(self, records: RecordColumns) -> None:
        """Takes the next records; no key may be null.

        Raises:
            StoreUnavailableError, StoreUnusableError: the folder for temporary files is full or refuses.
        """
        for part in _parts(records, self._bytes_max):
            self._pending.append(part)
            self._pending_bytes += weight(part)
            if self._pending_bytes >= self._bytes_max:
                self._reduce()

    def runs(self) -> list[Iterable[RecordColumns]]:
        """Returns everything taken so far as runs, oldest first; each can be read once."""
        stored: list[Iterable[RecordColumns]] = [run for level in reversed(self._levels) for run in level]
        return [*stored, _parts(latest_per_key(RecordColumns.concat(self._pending)), CHUNK_BYTES)]

    def take_run(self, fragments: Iterable[bytes]) -> None:
        """Takes a run as `run_fragments` made it; its records are newer than all that were taken before.

        Raises:
            StoreUnavailableError, StoreUnusableError: the folder for temporary files is full or refuses.
        """
        assert not self._pending, "runs and records are not mixed"
        self._keep(_StoredRun.of_fragments(fragments), level=0)

    @property
    def held_bytes(self) -> int:
        """What is in memory at the moment."""
        return self._pending_bytes

    @property
    def stored_runs(self) -> int:
        """Runs on disk at the moment."""
        return sum(map(len, self._levels))

    def close(self) -> None:
        """Drops everything."""
        self._pending = []
        for level in self._levels:
            for run in level:
                run.close()
        self._levels = []

    def _reduce(self) -> None:
        reduced = latest_per_key(RecordColumns.concat(self._pending))
        self._pending, self._pending_bytes = [reduced], weight(reduced)
        if self._pending_bytes > self._bytes_max // 2:
            self._keep(_StoredRun([reduced]), level=0)
            self._pending, self._pending_bytes = [], 0

    def _keep(self, run: "_StoredRun", *, level: int) -> None:
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(run)
        if len(self._levels[level]) >= self._runs_max:
            self._keep(_StoredRun(merge_runs(self._levels[level])), level=level + 1)
            for run in self._levels[level]:
                run.close()
            self._levels[level] = []


class _StoredRun:
    """A run in a file that goes away by itself."""

    def __init__(self, chunks: Iterable[RecordColumns] = (), *, fragments: Iterable[bytes] | None = None) -> None:
        with os_errors_as_ours(Path(tempfile.gettempdir())):
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="mirrorlake-run-")  # noqa: SIM115 - see `close`
            try:
                for fragment in run_fragments(chunks) if fragments is None else fragments:
                    self._file.write(fragment)
                self._file.flush()
            except BaseException:
                self._file.close()
                raise

    @classmethod
    def of_fragments(cls, fragments: Iterable[bytes]) -> "_StoredRun":
        """Returns the run that somebody else has cut into fragments."""
        return cls(fragments=fragments)

    def __iter__(self) -> Iterator[RecordColumns]:
        with os_errors_as_ours(Path(tempfile.gettempdir())):
            self._file.seek(0)
            with pa.ipc.open_stream(self._file) as reader:
                for batch in reader:
                    yield _to_columns(batch)

    def close(self) -> None:
        self._file.close()


def run_fragments(chunks: Iterable[RecordColumns]) -> Iterator[bytes]:
    """Yields a run as bytes, in order, for `Changes.take_run` to put together: none above `FRAGMENT_BYTES`.

    However large the chunks are that come, they are cut to `CHUNK_BYTES`, to within one record.
    """
    made = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(made, _SCHEMA, options=options) as writer:
        for chunk in chunks:
            for part in _parts(chunk, CHUNK_BYTES):
                writer.write_batch(_to_batch(part))
                if made.tell() >= FRAGMENT_BYTES:
                    yield from _cut(made)
    yield from _cut(made)


def _cut(made: io.BytesIO) -> Iterator[bytes]:
    """Yields what was written, and empties it."""
    content = made.getvalue()
    made.seek(0)
    made.truncate()
    for start in range(0, len(content), FRAGMENT_BYTES):
        yield content[start : start + FRAGMENT_BYTES]


def weight(records: RecordColumns) -> int:
    """Returns about what records take in memory, in bytes."""
    return int(records.weights(record_bytes=ROW_BYTES).sum())


def _parts(records: RecordColumns, bytes_max: int) -> Iterator[RecordColumns]:
    """Yields the records in parts of at most so many bytes, or of one record."""
    ends = np.cumsum(records.weights(record_bytes=ROW_BYTES))
    row, done = 0, 0
    while row < len(records):
        stop = max(row + 1, int(np.searchsorted(ends, done + bytes_max, side="right")))
        yield records.slice(row, stop)
        row, done = stop, int(ends[stop - 1])


def _to_batch(records: RecordColumns) -> pa.RecordBatch:
    numbers = (records.offsets, records.timestamps, records.timestamp_types, records.sizes)
    return pa.RecordBatch.from_arrays(
        [*(pa.array(each) for each in numbers), records.keys, records.values, records.headers], schema=_SCHEMA
    )


def _to_columns(batch: pa.RecordBatch) -> RecordColumns:
    return RecordColumns(
        offsets=batch.column("offset").to_numpy(),
        timestamps=batch.column("timestamp").to_numpy(),
        timestamp_types=batch.column("timestamp_type").to_numpy(),
        keys=batch.column("key"),
        values=batch.column("value"),
        headers=batch.column("headers"),
        sizes=batch.column("size").to_numpy(),
    )
