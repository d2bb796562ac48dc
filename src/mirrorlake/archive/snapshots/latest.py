"""The latest record of every key: of records as they come, and of runs that are sorted by key. Pure.

A run is records in the order of their keys' bytes, every key once. All of a partition's records need not be in memory
to reduce them to one run: parts of them are reduced, and the runs merged chunk by chunk.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.kafka.records.columns import RecordColumns


def latest_per_key(records: RecordColumns) -> RecordColumns:
    """Returns of every key the last record there is, in the order of the keys' bytes; tombstones count as records.

    No key may be null.
    """
    if len(records) < 2:
        return records
    order = pc.array_sort_indices(records.keys)  # a stable sort: records of one key stay in their order
    keys = records.keys.take(order)
    is_last = np.ones(len(records), np.bool_)
    is_last[:-1] = pc.not_equal(keys[:-1], keys[1:]).to_numpy(zero_copy_only=False)
    rows = order.to_numpy().astype(np.int64)[is_last]
    return records.relocated(rows, records.offsets[rows])


def merge_runs(runs: Sequence[Iterable[RecordColumns]]) -> Iterator[RecordColumns]:
    """Yields the run of several: of every key the record of the last run that has it.

    Holds one chunk of each run at a time.

    Args:
        runs: oldest first; each in chunks.
    """
    heads = [_Head(iter(run)) for run in runs]
    while heads := [head for head in heads if head.has_rows()]:
        # Up to here no run has a key that is not among the chunks at hand, and one chunk at least is used up.
        bound = min(head.last_key for head in heads)
        parts = [part for head in heads if len(part := head.take_through(bound))]
        yield parts[0] if len(parts) == 1 else latest_per_key(RecordColumns.concat(parts))


def without_tombstones(records: RecordColumns) -> RecordColumns:
    """Returns the records whose value is not null."""
    if not records.values.null_count:
        return records
    rows = np.flatnonzero(records.values.is_valid().to_numpy(zero_copy_only=False))
    return records.relocated(rows, records.offsets[rows])


def is_run(records: RecordColumns, *, after: bytes | None) -> bool:
    """Tells whether the keys grow, are never null, and the first is above ``after``; None is below every key."""
    keys = records.keys
    if not len(keys):
        return True
    if keys.null_count or (after is not None and keys[0].as_py() <= after):
        return False
    return bool(pc.all(pc.less(keys[:-1], keys[1:])).as_py() in (True, None))


def last_key(records: RecordColumns) -> bytes:
    """Returns the key of the last record, of which there must be one."""
    return _key(records.keys, len(records) - 1)


def _key(keys: pa.LargeBinaryArray, row: int) -> bytes:
    key = keys[row].as_py()
    assert isinstance(key, bytes), "a run has no null key"
    return key


class _Head:
    """What is left of a run's chunk at hand."""

    def __init__(self, chunks: Iterator[RecordColumns]) -> None:
        self._chunks = chunks
        self._records = RecordColumns.empty()
        self.last_key = b""

    def has_rows(self) -> bool:
        """Takes the next chunk where none is left; False at the run's end."""
        while not len(self._records):
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._records = chunk
            if len(chunk):
                self.last_key = last_key(chunk)
        return True

    def take_through(self, bound: bytes) -> RecordColumns:
        """Returns the records up to the key ``bound``, which go from the chunk."""
        records = self._records
        stop = len(records)
        if self.last_key > bound:
            stop = bisect_right(range(stop), bound, key=lambda row: _key(records.keys, row))
        self._records = records.slice(stop, len(records))
        return records.slice(0, stop)
