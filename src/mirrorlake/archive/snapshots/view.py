"""The view a snapshot holds: read as a run, and checked while it is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import numpy as np

from mirrorlake.archive.blocks.seen_file import SeenFile
from mirrorlake.archive.chain import Segment, segments_of
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.name_check import check_range_named
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.same_range import confirm_same_range
from mirrorlake.archive.names import ClaimName
from mirrorlake.archive.schemas.id_counts import check_schema_ids
from mirrorlake.archive.snapshots.latest import is_run, last_key
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counting import SchemaIdCounter
from mirrorlake.kafka.schema_ids.counts import sides_of
from mirrorlake.stores.object_store import ObjectStore


def read_snapshot_footer(store: ObjectStore, prefix: str, snapshot: Segment) -> SegmentFooter | None:
    """Returns what a snapshot says of itself; None where mirror-v3 wrote it.

    Raises:
        ChainBrokenError: it is no snapshot, or not the one its name says.
        ObjectMissingError: it is gone.
    """
    key = f"{prefix}/{snapshot.name}"
    with ParquetSegmentReader(store.open(key), where=key) as reader:
        footer = reader.footer
    if footer is None:
        return None
    if footer.snapshot is None:
        raise ChainBrokenError(
            f"{key} is a segment of an archive of every record, and `compaction: log` writes snapshots",
            hint="leave `compaction` out to continue the archive, or choose another destination name for snapshots",
            key=key,
        )
    if footer.offsets != snapshot.name.offsets:
        raise ChainBrokenError(
            f"{key} says of itself that it covers {footer.offsets}, its name says {snapshot.name.offsets}",
            hint="the file was renamed or swapped: put the right one back",
            key=key,
        )
    return footer


def read_view(
    store: ObjectStore, prefix: str, snapshot: Segment, *, below: int | None = None, is_compared: bool = True
) -> Iterator[RecordColumns]:
    """Yields the view in the order of its keys, in pieces of bounded size.

    What is yielded was compared with the checksums that the file says of itself: a view is what the next one is made
    of, and a byte that was changed here would be right there. One by mirror-v3 says none.

    Args:
        store: where it lives.
        prefix: the partition's folder.
        snapshot: which.
        below: leaves out records at or above this offset; None for none.
        is_compared: False for who compares the records with others, to tell which of them differ.

    Raises:
        ChainBrokenError: damaged, or of another range than its name says; or not sorted by key, a null key, a
            tombstone where it does not say that it holds them, or a record past its range.
        ObjectMissingError: it is gone.
    """
    key = f"{prefix}/{snapshot.name}"
    after: bytes | None = None
    opened = _compared(store, key) if is_compared else ParquetSegmentReader(store.open(key), where=key)
    with opened as reader:
        check_range_named(key, reader.footer)
        state = reader.footer.snapshot if reader.footer is not None else None
        takes_tombstones = state is not None and state.holds_tombstones
        for columns in reader.stored():
            if not len(columns):
                continue
            _check(columns, after, snapshot, key, takes_tombstones=takes_tombstones)
            after = last_key(columns)
            yield columns if below is None else _below(columns, below)


@contextmanager
def _compared(store: ObjectStore, key: str) -> Iterator[ParquetSegmentReader]:
    """Opens a snapshot of which nothing is read that was not compared before; those without block checksums as a whole.

    Raises:
        ChainBrokenError: damaged.
    """
    seen = SeenFile.of(store.open(key), where=key)
    with ParquetSegmentReader(cast(BinaryIO, seen), where=key) as reader:
        if (sums := reader.block_sums()) is not None:
            seen.compare_with(sums, than="it says of itself")
        else:
            reader.check_bytes()
        yield reader


def confirm_same_snapshot(store: ObjectStore, key: str, snapshot: Segment, expected: SegmentFooter) -> None:
    """Checks that a snapshot somebody else published covers the range of the source that ours does.

    Raises:
        ChainBrokenError: another range or source, or not a whole snapshot.
    """
    prefix = key.rpartition("/")[0]
    if read_snapshot_footer(store, prefix, snapshot) is not None:
        confirm_same_range(store, key, expected)
        return
    for _ in read_view(store, prefix, snapshot):
        pass  # by mirror-v3: whole and in order is all that can be asked; its name holds the range


def check_snapshots_content(folder: SnapshotPartition) -> int:
    """Reads every snapshot of a partition and compares it with its own footer; returns how many were read.

    Raises:
        ChainBrokenError: one was changed, cut or swapped, or is no snapshot; the text names it.
        MirrorlakeError: the store could not be read.
    """
    claims: list[ClaimName] = []
    count = 0
    objects = folder.store.list(folder.prefix)
    for snapshot in segments_of(objects, claims, extension=folder.extension, where=folder.prefix):
        check_snapshot_content(folder, snapshot)
        count += 1
    return count


def check_snapshot_content(folder: SnapshotPartition, snapshot: Segment) -> SegmentFooter | None:
    """Reads one snapshot whole and compares it with its own footer, which is returned; None where mirror-v3 wrote it.

    Raises:
        ChainBrokenError: it was changed, cut or swapped, or is no snapshot; the text names it.
        MirrorlakeError: the store could not be read.
    """
    footer = read_snapshot_footer(folder.store, folder.prefix, snapshot)
    if footer is not None:
        key = f"{folder.prefix}/{snapshot.name}"
        with ParquetSegmentReader(folder.store.open(key), where=key) as reader:
            counter = SchemaIdCounter(sides_of(footer.schema_ids))
            reader.check_content(each=counter.take)
        check_schema_ids(footer.schema_ids, counter.counts, where=key)
    for _ in read_view(folder.store, folder.prefix, snapshot):
        pass  # checked on the way
    return footer


def _check(columns: RecordColumns, after: bytes | None, snapshot: Segment, key: str, *, takes_tombstones: bool) -> None:
    flaw = ""
    if not is_run(columns, after=after):
        flaw = "its records are not in the order of their keys, or one has no key"
    elif columns.values.null_count and not takes_tombstones:
        flaw = "it holds a tombstone"
    elif int(columns.offsets.max()) >= snapshot.name.end_offset:
        flaw = f"it holds offset {int(columns.offsets.max())}, which is past its end"
    if flaw:
        raise ChainBrokenError(
            f"{key} is not a snapshot: {flaw}",
            hint="if it is an archive of every record, leave `compaction` out or choose another destination name; if "
            "it is damaged, remove it: the one before it is whole, and what came later is read from the source again",
            key=key,
        )


def _below(columns: RecordColumns, end_offset: int) -> RecordColumns:
    rows = np.flatnonzero(columns.offsets < end_offset)
    return columns if len(rows) == len(columns) else columns.relocated(rows, columns.offsets[rows])
