"""``archive erase``: looks for keys in every segment, plans each partition, and lets batch tasks do what is planned."""

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.cleaning import Cleaned, due_covered, finished_merges
from mirrorlake.archive.maintenance.erase_audit import audit_folder
from mirrorlake.archive.maintenance.erase_plan import plan_erasure
from mirrorlake.archive.maintenance.erased_keys import Key
from mirrorlake.archive.maintenance.making import SourceChangedError
from mirrorlake.archive.maintenance.on_hold import holds_of, labels_of
from mirrorlake.archive.maintenance.scanning import Scanned
from mirrorlake.archive.maintenance.snapshot_erase_plan import plan_snapshot_erasure
from mirrorlake.archive.maintenance.snapshot_publication import may_be_followed_by
from mirrorlake.archive.maintenance.work import CleanTask, EraseTask, ScanTask, TaskResult
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.clock import Clock
from mirrorlake.errors import MirrorlakeError, PositionMovedError
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.pipeline.batch_jobs import BatchJobs, BatchTask
from mirrorlake.pipeline.task_bounds import seconds_for
from mirrorlake.service.archives.erase_rows import (
    ErasedPartition,
    EraseRow,
    done_row,
    error_row,
    failed_row,
    group_row,
    nothing_row,
    order_of,
    waiting_rows,
)
from mirrorlake.service.archives.merging import WORK, result_of
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.reports import READS_AT_ONCE
from mirrorlake.service.archives.rights import folders_changed, refusals
from mirrorlake.service.states import writer_name

SCAN_BYTES = 256 << 20
"""Bytes of segments that one task looks through: seconds of work, so that a progress bar moves."""

SALT_BYTES = 16

Task = TypeVar("Task", CleanTask, ScanTask, EraseTask)

CHANGED = "the archive changed while it was looked through: run again"


class EraseRun:
    """Takes the records of some keys out of partitions.

    Args:
        places: the partitions.
        keys: whose records; None is the null key.
        jobs: runs the tasks.
        clock: tells when.
        is_dry: plans, and changes nothing.
    """

    def __init__(
        self,
        places: Sequence[ArchivePlace],
        keys: Collection[Key],
        *,
        jobs: BatchJobs,
        clock: Clock,
        is_dry: bool,
    ) -> None:
        self._partitions = [ErasedPartition(place=place) for place in places]
        self._keys = frozenset(keys)
        self._jobs = jobs
        self._clock = clock
        self._is_dry = is_dry
        self._salt = secrets.token_bytes(SALT_BYTES)

    def look(self) -> int:
        """Looks at every partition, once more after what is covered was deleted; returns the bytes to look through."""
        with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="erase-plan") as pool:
            list(pool.map(ErasedPartition.look_again, self._partitions))
        if not self._is_dry:
            self._refuse_without_rights()
            for partition in self._live():
                partition.sweep()
            self._clean()
        return sum(segment.size_bytes for each in self._live() for segment in each.segments())

    def run(self, *, progressed: Callable[[int], None] = lambda _: None) -> list[EraseRow]:
        """Returns a row for each group, for each segment that waits, and for each partition without any of both.

        After ``look``.

        Args:
            progressed: called with the number of bytes that have been looked through.
        """
        self._scan(progressed)
        for partition in self._live():
            self._plan(partition)
        rows = [failed_row(each) for each in self._partitions if each.failure is not None]
        waiting = self._live()
        rows += self._planned(waiting) if self._is_dry else self._erased(waiting)
        return sorted(rows, key=order_of)

    def _live(self) -> list[ErasedPartition]:
        return [each for each in self._partitions if each.failure is None]

    def _refuse_without_rights(self) -> None:
        """Makes a missing right the failure of its partition before anything is looked through."""
        asked = [
            (each, (each.place.store, (*folders_changed(each.archived), audit_folder(each.archived))))
            for each in self._live()
            if each.archived is not None
        ]
        for partition, error in refusals(asked):
            partition.failure = error

    def _clean(self) -> None:
        """Deletes what was covered long enough, and finished announcements: bytes of other runs, and of merges."""
        now_seconds = self._clock.now_seconds()
        asked = [
            (each, CleanTask(folder=each.folder, keep_seconds=each.keep_seconds))
            for each in self._live()
            if each.look is not None
            and (
                due_covered(each.look, keep_seconds=each.keep_seconds, now_seconds=now_seconds)
                or finished_merges(each.look)
                or each.look.retired
            )
        ]
        asked += [
            (each, CleanTask(folder=each.folder, keep_seconds=0.0, are_snapshots=True))
            for each in self._live()
            if each.replaced
        ]
        for partition, _, result in self._results(asked, "delete what is covered in"):
            done = result.done
            if isinstance(done, Cleaned) and done.flaws:
                partition.failure = done.flaws[0]
            elif result.error is not None and not isinstance(result.error, PositionMovedError):
                partition.failure = result.error
            else:
                partition.look_again()

    def _scan(self, progressed: Callable[[int], None]) -> None:
        asked = [
            (
                each,
                ScanTask(folder=each.folder, segments=part, keys=self._keys, are_snapshots=bool(each.snapshots)),
            )
            for each in self._live()
            for part in _parts(each.segments())
        ]
        for partition, task, result in self._results(asked, "look for keys in"):
            progressed(sum(each.size_bytes for each in task.segments))
            if isinstance(result.done, Scanned):
                partition.found |= result.done.records
                if result.done.gone and partition.failure is None:
                    partition.failure = PositionMovedError(f"{partition.place.where}: {CHANGED}")
            else:
                partition.failure = result.error

    def _plan(self, partition: ErasedPartition) -> None:
        assert partition.archived is not None
        try:
            if partition.look is None:
                partition.plan = plan_snapshot_erasure(
                    partition.snapshots, partition.replaced, partition.found, labels=labels_of(partition.archived)
                )
                return
            partition.plan = plan_erasure(
                partition.look,
                partition.found,
                now_seconds=self._clock.now_seconds(),
                keep_seconds=partition.keep_seconds,
                holds=holds_of(partition.archived),
                barriers=partition.barriers,
            )
        except MirrorlakeError as error:
            partition.failure = error

    def _planned(self, partitions: Sequence[ErasedPartition]) -> Iterator[EraseRow]:
        for partition in partitions:
            rows = [group_row(partition, group, "planned") for group in partition.plan.groups]
            rows += waiting_rows(partition)
            yield from rows or [nothing_row(partition)]

    def _erased(self, partitions: Sequence[ErasedPartition]) -> Iterator[EraseRow]:
        scanned = {id(each): each.snapshots for each in partitions}
        for partition in partitions:
            if not partition.plan.groups:
                yield from waiting_rows(partition) or [self._settled(partition)]
        waiting = [each for each in partitions if each.plan.groups]
        while waiting:
            again: dict[int, ErasedPartition] = {}
            rows: list[tuple[ErasedPartition, EraseRow]] = []
            for partition, task, result in self._results(list(self._tasks(waiting)), "erase from"):
                if isinstance(result.error, SourceChangedError):
                    partition.barriers.add(result.error.offset)
                    again[id(partition)] = partition
                else:
                    rows.append((partition, done_row(partition, task, result)))
            yield from (row for _, row in rows)
            for partition in waiting:
                if id(partition) not in again:
                    yield from waiting_rows(partition)
                    if all(row.result == "erased" for each, row in rows if each is partition):
                        yield from self._followed(partition, scanned[id(partition)])
            waiting = self._replanned(list(again.values()))
            yield from (failed_row(each) for each in again.values() if each.failure is not None)
            for partition in again.values():
                if partition.failure is None and not partition.plan.groups:
                    yield from waiting_rows(partition)

    def _replanned(self, partitions: Sequence[ErasedPartition]) -> list[ErasedPartition]:
        """Plans partitions anew in which a change of source was met; what was erased meanwhile is not met again."""
        for partition in partitions:
            partition.look_again()
            if partition.failure is None:
                self._plan(partition)
        return [each for each in partitions if each.failure is None and each.plan.groups]

    def _tasks(self, partitions: Sequence[ErasedPartition]) -> Iterator[tuple[ErasedPartition, EraseTask]]:
        for partition in partitions:
            assert partition.place.destination is not None
            for group in partition.plan.groups:
                yield (
                    partition,
                    EraseTask(
                        folder=partition.folder,
                        inputs=group.inputs,
                        keys=self._keys,
                        compression=partition.place.destination.kept_compression.value,
                        writer=writer_name(),
                        salt=self._salt,
                        is_snapshot=partition.look is None,
                    ),
                )

    def _settled(self, partition: ErasedPartition) -> EraseRow:
        """Returns the row of a partition in which nothing was found: only where it still is what was looked through."""
        before = partition.look
        if before is None:
            return next(self._followed(partition, partition.snapshots), nothing_row(partition))
        partition.look_again()
        if partition.failure is not None or partition.look is None:
            return failed_row(partition)
        known = {each.name for each in before.chain}
        position = before.newest.name.end_offset if before.newest is not None else 0
        is_same = all(each.name in known for each in partition.look.chain if each.name.from_offset < position)
        if is_same and not any(name.erases for name in partition.look.merges):
            return nothing_row(partition)
        return EraseRow(place=partition.place, result="waits", reason=CHANGED)

    def _followed(self, partition: ErasedPartition, scanned: Sequence[Segment]) -> Iterator[EraseRow]:
        """Yields a row where a snapshot has followed those that were looked through, or may, that was made of others.

        Args:
            partition: of snapshots, or of segments, where nothing is to be told.
            scanned: its snapshots when they were looked through.
        """
        folder = partition.archived
        if not scanned or not isinstance(folder, SnapshotPartition):
            return
        newest, now_seconds = scanned[-1], self._clock.now_seconds()
        try:
            error: MirrorlakeError | None = may_be_followed_by(
                folder, newest, held_keys=newest.name in partition.found, now_seconds=now_seconds
            )
        except MirrorlakeError as raised:
            error = raised
        if error is not None:
            yield error_row(partition, error)

    def _results(
        self, asked: Sequence[tuple[ErasedPartition, Task]], what: str
    ) -> Iterator[tuple[ErasedPartition, Task, TaskResult]]:
        """Yields what became of tasks as they end, in whatever order."""
        of: dict[int, tuple[ErasedPartition, Task]] = {}

        def tasks() -> Iterator[BatchTask]:
            for partition, task in asked:
                batch = BatchTask(
                    work=WORK,
                    plan=plan_bytes(task),
                    description=f"{what} {partition.place.where}",
                    seconds_max=seconds_for(size_bytes=_bytes_read(partition, task)),
                )
                of[id(batch)] = partition, task
                yield batch

        for result in self._jobs.results(tasks()):
            partition, task = of.pop(id(result.task))
            yield partition, task, result_of(result.outcome)


def _bytes_read(partition: ErasedPartition, task: Task) -> int:
    """Returns at least so many bytes as a task reads of files."""
    match task:
        case ScanTask():
            return sum(each.size_bytes for each in task.segments)
        case EraseTask():
            return sum(each.size_bytes for each in task.inputs)
        case _:  # what is covered, and what holds it
            return 2 * sum(each.size_bytes for each in partition.segments())


def _parts(segments: Iterator[Segment]) -> Iterator[tuple[Segment, ...]]:
    """Yields the segments in parts of some bytes, in order."""
    part: list[Segment] = []
    size_bytes = 0
    for segment in segments:
        part.append(segment)
        size_bytes += segment.size_bytes
        if size_bytes >= SCAN_BYTES:
            yield tuple(part)
            part, size_bytes = [], 0
    if part:
        yield tuple(part)
