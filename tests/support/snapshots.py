"""Snapshots as the tests compare them."""

from collections.abc import Iterable
from pathlib import Path

from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import check_snapshots_content, read_view
from support.copies import Lake, store_of
from support.records import Record
from support.segments import records_of


def snapshots(lake: Lake, topic: str, partition: int = 0) -> SnapshotPartition:
    """The folder of a partition."""
    return SnapshotPartition(store_of(lake), destination_name=topic, partition=partition, extension="parquet")


def view(lake: Lake, topic: str, partition: int = 0) -> dict[int, Record]:
    """The newest snapshot's records by offset, in the order of the file; every file is checked on the way."""
    folder = snapshots(lake, topic, partition)
    check_snapshots_content(folder)
    newest = folder.read_chain().tail
    found: dict[int, Record] = {}
    if newest is not None:
        for columns in read_view(folder.store, folder.prefix, newest):
            found |= records_of(columns)
    return found


def names(root: Path, topic: str, partition: int = 0) -> list[str]:
    """What lies in the folder."""
    folder = root / topic / str(partition)
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def latest(records: Iterable[tuple[int, Record]]) -> dict[int, Record]:
    """What a snapshot of these records holds, in its order: a dictionary's way, everything in memory."""
    held: dict[bytes, tuple[int, Record]] = {}
    for offset, record in records:
        assert record.key is not None
        held[record.key] = (offset, record)
    return {offset: record for _, (offset, record) in sorted(held.items()) if record.value is not None}
