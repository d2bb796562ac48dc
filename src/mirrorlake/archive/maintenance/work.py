"""Maintenance as batch tasks: one task makes one segment, or deletes what one partition's segments cover.

A task may be run again, even while it still runs: each attempt has a token of its own, and whatever one of them has
done, the other finds.
"""

import pickle
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.cleaning import (
    Cleaned,
    delete_covered,
    delete_orphaned_descriptions,
    delete_retired,
    due_covered,
)
from mirrorlake.archive.maintenance.erased_keys import Key
from mirrorlake.archive.maintenance.erasing import Erased, GroupErase
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merging import GroupMerge, Merged, prove_by_reading
from mirrorlake.archive.maintenance.on_hold import holds_as_they_are
from mirrorlake.archive.maintenance.scanning import Scanned, scan
from mirrorlake.archive.maintenance.snapshot_erasing import SnapshotErase
from mirrorlake.archive.maintenance.snapshot_publication import clean_snapshots
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.clock import SystemClock
from mirrorlake.errors import MirrorlakeError
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderAddress:
    """Where an archived partition lies, and the format of its files."""

    store: StoreSettings
    name: str
    partition: int
    extension: str

    def open(self) -> ArchivedPartition:
        """Returns the archive of it.

        Raises:
            MirrorlakeError: the store's settings cannot be used.
        """
        store = open_store(self.store)
        return ArchivedPartition(store, destination_name=self.name, partition=self.partition, extension=self.extension)

    def open_snapshots(self) -> SnapshotPartition:
        """Returns the same as a folder of snapshots.

        Raises:
            MirrorlakeError: the store's settings cannot be used.
        """
        store = open_store(self.store)
        return SnapshotPartition(store, destination_name=self.name, partition=self.partition, extension=self.extension)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """Neighbours of a chain that become one segment; ``deletes_inputs`` unless they are to stay for a while.

    Without ``tidies_up`` a `CleanTask` comes behind it, and others of the folder.
    """

    folder: FolderAddress
    inputs: tuple[Segment, ...]
    compression: str
    writer: str
    deletes_inputs: bool
    tidies_up: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanTask:
    """Deletes what has been covered for ``keep_seconds``, once it is proven that it is held elsewhere.

    With ``are_snapshots``: the snapshots in whose place an eraser has put others.
    """

    folder: FolderAddress
    keep_seconds: float
    are_snapshots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """Looks for records of some keys in some segments; ``are_snapshots`` where each is a view."""

    folder: FolderAddress
    segments: tuple[Segment, ...]
    keys: frozenset[Key]
    are_snapshots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseTask:
    """Neighbours of a chain that become one segment without the records of some keys; or one snapshot that does."""

    folder: FolderAddress
    inputs: tuple[Segment, ...]
    keys: frozenset[Key]
    compression: str
    writer: str
    salt: bytes
    is_snapshot: bool = False


Task = MergeTask | CleanTask | ScanTask | EraseTask


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What a task did, or the error that it ended with."""

    done: Merged | Cleaned | Scanned | Erased | None = None
    error: MirrorlakeError | None = None


def work(plan: bytes) -> Sequence[Mapping[str, object]]:
    """Runs the pickled task; returns one mapping ``{"kind": "kept", "result": TaskResult}``."""
    task: Task = pickle.loads(plan)
    try:
        result = TaskResult(done=_done(task))
    except MirrorlakeError as error:
        result = TaskResult(error=error)
    return [{"kind": "kept", "result": result}]


def _done(task: Task) -> Merged | Cleaned | Scanned | Erased:
    if isinstance(task, MergeTask):
        return _merge(task)
    if isinstance(task, CleanTask):
        return _clean(task)
    if isinstance(task, ScanTask):
        return scan(task.folder.open(), task.segments, task.keys, are_snapshots=task.are_snapshots)
    return _erase(task)


def _erase(task: EraseTask) -> Erased:
    if task.is_snapshot:
        return _erase_snapshot(task)
    archived = task.folder.open()
    return GroupErase(
        archived,
        task.inputs,
        task.keys,
        compression=task.compression,
        writer=task.writer,
        token=uuid.uuid4().hex,
        salt=task.salt,
        clock=SystemClock(),
        holds=holds_as_they_are(archived),
    ).run()


def _erase_snapshot(task: EraseTask) -> Erased:
    (snapshot,) = task.inputs
    return SnapshotErase(
        folder=task.folder.open_snapshots(),
        snapshot=snapshot,
        keys=task.keys,
        compression=task.compression,
        writer=task.writer,
        token=uuid.uuid4().hex,
        salt=task.salt,
        clock=SystemClock(),
    ).run()


def _merge(task: MergeTask) -> Merged:
    merge = GroupMerge(
        task.folder.open(),
        task.inputs,
        compression=task.compression,
        writer=task.writer,
        token=uuid.uuid4().hex,
        clock=SystemClock(),
    )
    return merge.run(deletes_inputs=task.deletes_inputs, tidies_up=task.tidies_up)


def _clean(task: CleanTask) -> Cleaned:
    if task.are_snapshots:
        folder = task.folder.open_snapshots()
        folder.store.sweep_staged(folder.prefix)
        return clean_snapshots(folder, token=uuid.uuid4().hex, now_seconds=SystemClock().now_seconds())
    archived = task.folder.open()
    look = look_at(archived)
    now_seconds = SystemClock().now_seconds()
    due = due_covered(look, keep_seconds=task.keep_seconds, now_seconds=now_seconds)
    cleaned = delete_covered(
        archived,
        look,
        keep_seconds=task.keep_seconds,
        now_seconds=now_seconds,
        prove=partial(prove_by_reading, archived),
    )
    if not cleaned.flaws:
        gone = [each for _, covered in due for each in covered]
        delete_retired(archived, look)
        delete_orphaned_descriptions(archived, look, gone=[*gone, *look.retired])
    archived.store.sweep_staged(archived.prefix)
    return cleaned
