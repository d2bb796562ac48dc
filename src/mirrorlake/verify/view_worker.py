"""One task of the verification of a view: digests the latest record of every key, next to the source or the copy.

The source's records are reduced as a snapshot's are, within the same memory. Keys are spread over buckets by their
hash; a bucket's digest is the sum of its records' hashes, so the order in which they come is of no matter.
"""

import asyncio
import pickle
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mirrorlake.archive.maintenance.erase_audit import read_erasures
from mirrorlake.archive.snapshots.changes import Changes
from mirrorlake.archive.snapshots.latest import merge_runs, without_tombstones
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import read_view
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.records.codec import RecordColumns, record_hashes
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX, allow
from mirrorlake.kinds.copies import SnapshotSide
from mirrorlake.offsets import OffsetRange
from mirrorlake.stores.opening import open_store
from mirrorlake.verify.cleaned import Trace, key_hash, traces_of
from mirrorlake.verify.digest import Block
from mirrorlake.verify.erasures import Erasures
from mirrorlake.verify.worker import DigestResult, SourceSide, source_log

BUCKETS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTask:
    """What one task digests: the view of ``offsets``. Of ``buckets`` it returns every record's trace instead.

    With them it also tells which of these records audit objects beside the snapshots of ``erased_from``, the other
    side, name as erased there. ``largest_batch_bytes`` is what one record batch may decompress to.
    """

    side: SourceSide | SnapshotSide
    offsets: OffsetRange
    buckets: frozenset[int] = frozenset()
    erased_from: SnapshotSide | None = None
    largest_batch_bytes: int = DECOMPRESSED_BYTES_MAX


def work(plan: bytes) -> list[dict[str, object]]:
    """Runs the pickled ``ViewTask``; returns one mapping ``{"kind": "digest", "result": DigestResult}``."""
    task: ViewTask = pickle.loads(plan)
    allow(task.largest_batch_bytes)
    try:
        if isinstance(task.side, SnapshotSide):
            result = _digest(_snapshot_view(task.side, task.offsets.end_offset), task)
        else:
            result = asyncio.run(_digest_source(task.side, task))
    except MirrorlakeError as error:
        result = DigestResult(error=error)
    return [{"kind": "digest", "result": result}]


async def _digest_source(side: SourceSide, task: ViewTask) -> DigestResult:
    changes = Changes()
    try:
        async with source_log(side) as log:
            async for columns in log.read_range(task.offsets):
                changes.add(_with_key(columns))
        return _digest(merge_runs(changes.runs()), task)
    finally:
        changes.close()


def _snapshot_view(side: SnapshotSide, end_offset: int) -> Iterable[RecordColumns]:
    """Returns the view up to an offset: the newest when the range was settled, which others may have followed since.

    Of a later one the records below the offset are fewer: it has the later records of their keys.
    """
    folder = _folder(side)
    wanted = next((each for each in folder.snapshots() if each.name.end_offset >= end_offset), None)
    return [] if wanted is None else read_view(folder.store, folder.prefix, wanted, is_compared=False)


def _folder(side: SnapshotSide) -> SnapshotPartition:
    return SnapshotPartition(
        open_store(side.store),
        destination_name=side.destination_name,
        partition=side.partition,
        extension=side.extension,
    )


def _digest(view: Iterable[RecordColumns], task: ViewTask) -> DigestResult:
    records = np.zeros(BUCKETS, np.int64)
    sums = np.zeros(BUCKETS, np.uint64)
    traces: list[Trace] = []
    erased: list[OffsetRange] = []
    erasures = Erasures(read_erasures(_folder(task.erased_from)) if task.buckets and task.erased_from else ())
    for chunk in view:
        columns = _within(without_tombstones(chunk), task.offsets)
        if not len(columns):
            continue
        buckets = np.array([key_hash(key) % BUCKETS for key in columns.keys.to_pylist()], np.int64)
        if task.buckets:
            rows = np.flatnonzero(np.isin(buckets, list(task.buckets)))
            asked = columns.relocated(rows, columns.offsets[rows])
            traces += traces_of(asked)
            erased += erasures.named(asked)
        np.add.at(records, buckets, 1)
        np.add.at(sums, buckets, record_hashes(columns))
    blocks = {
        int(bucket): Block(records=int(records[bucket]), digest=int(sums[bucket])) for bucket in np.flatnonzero(records)
    }
    return DigestResult(records=int(records.sum()), blocks=blocks, traces=tuple(traces), erased=tuple(erased))


def _within(columns: RecordColumns, offsets: OffsetRange) -> RecordColumns:
    is_in = (columns.offsets >= offsets.start_offset) & (columns.offsets < offsets.end_offset)
    return _rows(columns, is_in)


def _with_key(columns: RecordColumns) -> RecordColumns:
    return _rows(columns, columns.keys.is_valid().to_numpy(zero_copy_only=False))


def _rows(columns: RecordColumns, is_wanted: np.ndarray) -> RecordColumns:
    rows = np.flatnonzero(is_wanted)
    return columns if len(rows) == len(columns) else columns.relocated(rows, columns.offsets[rows])
