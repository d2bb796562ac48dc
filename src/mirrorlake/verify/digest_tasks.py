"""The tasks that read one side of a row: what they are told of the copy, and what they find.

A task knows what the copy changes of records, and which have a dead letter. What goes wrong with it is in its result.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mirrorlake.destinations.transform import Times, Transform
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName, unknown_ids
from mirrorlake.kinds.copies import ArchiveSide, KafkaSide, MappedSide, SnapshotSide
from mirrorlake.kinds.kafka import provenance_of
from mirrorlake.kinds.registry import kind_of
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.offsets import OffsetRange
from mirrorlake.pipeline.batch_jobs import BatchTask
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.pipeline.task_bounds import seconds_for
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.lettered import LetteredRows, LettersTask
from mirrorlake.verify.unnamed import UnnamedTask
from mirrorlake.verify.worker import DigestResult, DigestTask, SourceSide

WORK = "mirrorlake.verify.worker:work"

Side = SourceSide | KafkaSide | MappedSide | ArchiveSide

RunTask = Callable[[BatchTask], list[LeaseRow]]
"""Runs one batch task and returns its rows (see `BatchJobs.run`)."""

IdsOf = Callable[[StatusRow, Sequence[SchemaName]], SchemaIdMap | None]
"""A row, and ids that its records have → what schema ids are at its destination; None where records keep theirs."""


def kept(_row: StatusRow, _ids: Sequence[SchemaName]) -> None:
    """Stands for rows whose records all keep their schema ids."""


class DigestTasks:
    """Has the sides of rows read.

    Args:
        run_task: runs one task.
        letters: the dead letters of rows, whose records are at no copy.
        largest_batch_bytes: what one record batch may decompress to.
        ids_of: what schema ids of a row's records are at its destination, the ids that are given among them; None where
            records keep theirs.
    """

    def __init__(self, run_task: RunTask, letters: LetteredRows, *, largest_batch_bytes: int, ids_of: IdsOf) -> None:
        self._run_task = run_task
        self._letters = letters
        self.largest_batch_bytes = largest_batch_bytes
        self._ids_of = ids_of

    def run(self, task: BatchTask) -> DigestResult:
        """Runs a task of any work whose result is a digest; its error, or that it was lost, is in the result."""
        try:
            rows = self._run_task(task)
        except MirrorlakeError as error:
            return DigestResult(error=error)
        found = rows[0].get("result") if rows else None
        if isinstance(found, DigestResult):
            return found
        return DigestResult(error=OutcomeUnknownError(f"a verification task was lost: {rows}"))

    def run_plan(self, task: LettersTask | UnnamedTask, what: str, *, offsets: int) -> DigestResult:
        """Runs a task of the worker that reads about so many offsets."""
        return self.run(
            BatchTask(work=WORK, plan=plan_bytes(task), description=what, seconds_max=seconds_for(offsets=offsets))
        )

    def digest(self, row: StatusRow, task: DigestTask) -> DigestResult:
        """Returns what a side of a row holds, whatever schema ids its records turn out to have."""
        task = replace(task, largest_batch_bytes=self.largest_batch_bytes)
        what, seconds_max = f"verify {task.side.partition} {task.offsets}", seconds_for(offsets=len(task.offsets))
        unknown: tuple[SchemaName, ...] = ()
        while True:
            try:
                lettered = self._letters.of(row, task.offsets)
                task = replace(task, transform=self._transform(row, unknown), lettered=lettered)
            except MirrorlakeError as error:
                return DigestResult(error=error)
            plan = plan_bytes(task)
            result = self.run(BatchTask(work=WORK, plan=plan, description=what, seconds_max=seconds_max))
            # Each round asks about ids that none before has asked about, so there is an end.
            unknown = unknown_ids(result.error)
            if not unknown:
                return result

    def _transform(self, row: StatusRow, ids: Sequence[SchemaName]) -> Transform:
        """Returns what the copy changes of records, as far as it matters to who compares them.

        Raises:
            MirrorlakeError: what schema ids mean could not be found out.
        """
        keeps_times = kind_of(row.target.destination).keeps_times(row.target)
        times = Times.SOURCE if keeps_times else Times.BROKERS
        return Transform(
            times=times,
            schema_ids=self._ids_of(row, ids),
            compares_ids=True,
            keeps=row.target.keeps,
            takes=row.target.takes,
            projects=row.target.projects,
            provenance=provenance_of(row.target),
        )

    def asked(
        self, row: StatusRow, side: Side, offsets: OffsetRange, *, latest_of: frozenset[int] = frozenset()
    ) -> DigestResult:
        """Returns what a side of a row holds in detail, or the highest offsets of the keys that are given.

        Raises:
            MirrorlakeError: it could not be read.
        """
        task = DigestTask(side=side, offsets=offsets, in_detail=not latest_of, latest_of=latest_of)
        result = self.digest(row, task)
        if result.error is not None:
            raise result.error
        return result


def source_side(row: StatusRow) -> SourceSide:
    """Returns the source partition of a row."""
    return SourceSide(source_work=row.target.source_work, partition=row.target.source)


def copy_side(row: StatusRow) -> Side:
    """Returns the copy of a row, which is no view."""
    side = kind_of(row.target.destination).copy_side(row)
    assert not isinstance(side, SnapshotSide), "views are compared apart"
    return side
