"""A writer of snapshots that dies at its crash points: run in processes of its own by test_snapshot_crashes.py.

As `archive_writer.py` does: one life after another, until one gets to the end; or a life per crash point of one
snapshot, each with a root of its own.
"""

import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa

from fault.archive_writer import LIVES_MAX, dies_at, dies_sometimes
from mirrorlake.archive.envelope import SnapshotState
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.snapshots.view import Base, OpenSnapshot
from mirrorlake.errors import PositionMovedError
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.crash_points import CrashPoint
from mirrorlake.stores.filesystem import FilesystemStore

KEYS = 7


def source_value(offset: int) -> bytes | None:
    """Every fifth record is a tombstone."""
    return None if offset % 5 == 4 else b"value %d" % offset


def source_records(start_offset: int, end_offset: int) -> RecordColumns:
    """What the source holds."""
    offsets = range(start_offset, end_offset)
    return RecordColumns.of(
        offsets=np.array(offsets, np.int64),
        timestamps=np.array([1_700_000_000_000 + offset for offset in offsets], np.int64),
        timestamp_types=np.zeros(len(offsets), np.int8),
        keys=pa.array([b"key %d" % (offset % KEYS) for offset in offsets], pa.large_binary()),
        values=pa.array([source_value(offset) for offset in offsets], pa.large_binary()),
        headers=pa.array([[] for _ in offsets], HEADERS_TYPE),
    )


def snapshots(root: Path, crash_point: CrashPoint) -> SnapshotPartition:
    store = FilesystemStore(root, crash_point=crash_point)
    return SnapshotPartition(store, destination_name="users", partition=0, extension="parquet")


def write_snapshots(folder: SnapshotPartition, source_end: int, length: int, crash_point: CrashPoint) -> None:
    """Publishes snapshots until the newest has all of the source."""
    settings = ArchiveSettings(
        source=TopicPartition("users", 0),
        destination_name="users",
        compression="zstd-1",
        records_max=length,
        bytes_max=1 << 30,
        cluster_id="cluster",
        topic_id="topic-id",
        writer=f"writer {length}",
    )
    while (chain := folder.read_chain()).position < source_end:
        folder.sweep(chain)
        pending = folder.pending_claim(chain, origin=settings.origin)
        end = pending.to_offset + 1 if pending else min(chain.position + length, source_end)
        snapshot = OpenSnapshot(
            folder,
            settings,
            base=Base(snapshot=chain.tail) if chain.tail else None,
            start_offset=chain.position,
            clock=SystemClock(),
            check_wanted=lambda: None,
            crash_point=crash_point,
        )
        try:
            snapshot.write(source_records(chain.position, end))
            snapshot.publish(end_offset=end, trigger="explicit", state=SnapshotState(complete_since_ms=0))
        except PositionMovedError:
            continue
        finally:
            snapshot.discard()


def live(root: Path, source_end: int, length: int, crash_point: CrashPoint) -> int:
    """Runs one life in a process of its own; returns its exit code, negative where a signal ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            write_snapshots(snapshots(root, crash_point), source_end, length, crash_point)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at_each(root: str, length: int) -> int:
    """Returns the number of lives that were killed; one more was not."""
    for killed in range(LIVES_MAX):
        folder = Path(root) / str(killed)
        folder.mkdir()
        # The second snapshot dies: there is a view to go on from.
        assert live(folder, length, length, lambda _: None) == 0
        code = live(folder, 2 * length, length, dies_at(killed + 1))
        if code == 0:
            return killed
        assert code == -signal.SIGKILL
    raise AssertionError("no life got to the end")


def die_at_random(root: str, source_end: int, length: int, seed: int, probability: float) -> int:
    """Returns 0 when a life got to the end."""
    for life in range(LIVES_MAX):
        crash_point = dies_sometimes(seed * LIVES_MAX + life, probability)
        code = live(Path(root), source_end, length, crash_point)
        if code != -signal.SIGKILL:
            return code
    return 2
