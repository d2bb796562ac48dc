"""`archive snapshot` as its rows tell it, run on an engine of the test; and a dictionary that does the same."""

from collections.abc import Mapping

from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import check_snapshots_content, read_view
from mirrorlake.clock import SystemClock
from mirrorlake.pipeline.engine import Engine
from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.snapshot_options import SnapshotOptions
from mirrorlake.service.archives.snapshotting import SnapshotRow, SnapshotRun, plan_snapshots
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from support.records import Record
from support.segments import records_of


def place_at(settings: StoreSettings, name: str = "orders", partition: int = 0) -> ArchivePlace:
    return ArchivePlace(store=settings, name=name, partition=partition)


def take(
    *places: ArchivePlace, engine: Engine | None = None, options: SnapshotOptions | None = None
) -> list[SnapshotRow]:
    """Plans and makes the snapshots, without Spark unless told otherwise."""
    asked = options or SnapshotOptions(writer="test")
    running = engine or InProcessEngine(SessionSettings(lanes=2, batch_slots=0))
    try:
        planned = plan_snapshots(places, asked, clock=SystemClock())
        return SnapshotRun(planned, options=asked, engine=running, clock=SystemClock()).run()
    finally:
        if engine is None:
            running.stop()


def snapshots_at(settings: StoreSettings, name: str = "orders.snapshot", partition: int = 0) -> SnapshotPartition:
    """The folder, whose files are all read and compared with what they say of themselves."""
    folder = SnapshotPartition(open_store(settings), destination_name=name, partition=partition, extension="parquet")
    check_snapshots_content(folder)
    return folder


def taken(settings: StoreSettings, name: str = "orders.snapshot", partition: int = 0) -> list[tuple[int, Record]]:
    """What the newest snapshot holds, in the order of the file, each record with its offset."""
    folder = snapshots_at(settings, name, partition)
    newest = folder.read_chain().tail
    assert newest is not None
    return [pair for columns in read_view(folder.store, folder.prefix, newest) for pair in records_of(columns).items()]


def latest_below(
    records: Mapping[int, Record], end: int | None = None, *, tombstones: bool = False
) -> list[tuple[int, Record]]:
    """The same by a dictionary: Python compares bytes as unsigned numbers, and a shorter one first."""
    held: dict[bytes, tuple[int, Record]] = {}
    for offset in sorted(records):
        key = records[offset].key
        if end is None or offset < end:
            assert key is not None
            held[key] = (offset, records[offset])
    return [held[key] for key in sorted(held) if tombstones or held[key][1].value is not None]
