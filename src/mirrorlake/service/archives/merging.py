"""``archive merge``: plans every partition from one look at it, and lets batch tasks do what is planned."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from mirrorlake.archive.looks import why_moved
from mirrorlake.archive.maintenance.cleaning import Cleaned, due_covered, finished_merges
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.making import SourceChangedError
from mirrorlake.archive.maintenance.merge_plan import (
    MERGED_BYTES_MAX,
    MergeGroup,
    MergePlan,
    MergeRules,
    MergeStep,
    plan_merge,
)
from mirrorlake.archive.maintenance.merging import Merged
from mirrorlake.archive.maintenance.work import CleanTask, FolderAddress, MergeTask, TaskResult
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import Clock
from mirrorlake.config.destinations.archive import MergeSettings
from mirrorlake.config.resolved import Configuration
from mirrorlake.config.spark.settings import is_local
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError, PositionMovedError
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.pipeline.batch_jobs import BatchJobs, BatchStoppedError, BatchTask, all_slots
from mirrorlake.pipeline.engine import EngineBuilder, settings_of
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.pipeline.task_bounds import seconds_for
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.recorded_ends import RecordedEnds, recorded_ends
from mirrorlake.service.archives.reports import READS_AT_ONCE
from mirrorlake.service.archives.rights import folders_changed, refusals
from mirrorlake.service.states import writer_name

WORK = "mirrorlake.archive.maintenance.work:work"

PRELOAD = (
    "mirrorlake.freed_memory:keep_freed_memory",
    "mirrorlake.archive.maintenance.work",
    "mirrorlake.kafka.records.codec:warm",
)

Cell = str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRow:
    """One group of one partition, or a partition of which nothing is merged.

    ``result`` is `planned`, `merged`, `deleted` (what was covered already), `nothing` or `failed`. Bytes are those of
    the inputs, ``output_bytes`` of what was made of them.
    """

    place: ArchivePlace
    result: str
    inputs: int = 0
    start: int | None = None
    end: int | None = None
    size_bytes: int = 0
    output_bytes: int | None = None
    reason: str = ""
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, Cell]:
        """Returns the row of ``archive merge --format json``; ``error`` is present exactly where it failed."""
        row: dict[str, Cell] = {
            "name": self.place.name,
            "partition": self.place.partition,
            "store": self.place.store.where(""),
            "mirror": self.place.mirror,
            "inputs": self.inputs,
            "start": self.start,
            "end": self.end,
            "bytes": self.size_bytes,
            "output_bytes": self.output_bytes,
            "result": self.result,
            "reason": self.reason or None,
        }
        if self.error is not None:
            row["error"] = str(self.error)
        return row


@dataclass(slots=True)
class PlannedPartition:
    """One partition as it was looked at, and what is to be done to it; ``failure`` where it could not be looked at.

    ``ends`` is what was recorded of its topic before that look; None compares its end with nothing.
    """

    place: ArchivePlace
    settings: MergeSettings | None = None
    folder: FolderAddress | None = None
    plan: MergePlan = field(default_factory=MergePlan)
    due_files: int = 0
    due_bytes: int = 0
    due_merges: int = 0
    barriers: set[int] = field(default_factory=set)
    ends: RecordedEnds | None = None
    failure: MirrorlakeError | None = None

    @property
    def is_to_clean(self) -> bool:
        """Whether something of it is to be deleted that was covered before."""
        return bool(self.due_files or self.due_merges)

    @property
    def size_bytes(self) -> int:
        """Bytes of all inputs."""
        return sum(group.size_bytes for group in self.plan.groups) + self.due_bytes


def plan_places(
    places: Sequence[ArchivePlace], *, clock: Clock, is_stopping: Callable[[], bool] = bool
) -> list[PlannedPartition]:
    """Looks at every partition and plans it; reads names and the topics' records only, and changes nothing.

    One that ends before where it once did fails: which segments are its newest is not known.

    Raises:
        BatchStoppedError: ``is_stopping`` said so.
    """
    ends = recorded_ends([place for place in places if _settings_of(place) is not None])

    def planned(place: ArchivePlace) -> PlannedPartition:
        if is_stopping():
            raise BatchStoppedError("stopped before every partition was looked at")
        return plan_place(PlannedPartition(place=place, ends=ends), clock=clock)

    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="merge-plan") as pool:
        return list(pool.map(planned, places))


def plan_place(partition: PlannedPartition, *, clock: Clock) -> PlannedPartition:
    """Looks at one partition, again where it was looked at before, and plans it; returns it."""
    place = partition.place
    settings = _settings_of(place)
    if settings is None:
        partition.plan = MergePlan(reason="there is no `merge` at its destination")
        return partition
    try:
        archived = place.open()
        if not isinstance(archived, ArchivedPartition):
            partition.plan = MergePlan(reason="it holds snapshots, and each of them is whole")
            return partition
        look = look_at(archived)
        if partition.ends is not None:
            partition.ends.check(place, look)
    except MirrorlakeError as error:
        partition.failure = error
        return partition
    now_seconds = clock.now_seconds()
    due = due_covered(look, keep_seconds=settings.keep_inputs_seconds, now_seconds=now_seconds)
    # The look itself is forgotten: a service plans thousands of partitions, of as many files each.
    partition.settings = settings
    partition.folder = FolderAddress(
        store=place.store, name=place.name, partition=place.partition, extension=archived.extension
    )
    partition.plan = plan_merge(look, rules_of(settings), now_seconds=now_seconds, barriers=partition.barriers)
    partition.due_files = sum(len(covered) for _, covered in due)
    partition.due_bytes = sum(each.size_bytes for _, covered in due for each in covered)
    partition.due_merges = len(finished_merges(look))
    return partition


def _settings_of(place: ArchivePlace) -> MergeSettings | None:
    return place.destination.merge if place.destination is not None else None


def refuse_without_rights(partitions: Sequence[PlannedPartition]) -> None:
    """Makes a missing right the failure of each partition that something is to be done to, before it is begun.

    A partition in which a merge could publish but not delete would hold everything twice; one refused at the end of a
    merge has cost the merge.
    """
    asked = [
        (each, (each.folder.store, folders_changed(each.folder.open())))
        for each in partitions
        if each.failure is None and each.folder is not None and (each.plan.groups or each.is_to_clean)
    ]
    for partition, error in refusals(asked):
        partition.failure = error


def rules_of(settings: MergeSettings) -> MergeRules:
    """Returns the rules of a destination."""
    return MergeRules(
        steps=tuple(MergeStep(min_age_seconds=age, bytes_max=size) for age, size in settings.steps),
        files_min=settings.files_min,
        files_max=settings.files_max,
        bytes_min=settings.bytes_min,
        keep_inputs_seconds=settings.keep_inputs_seconds,
    )


def planned_rows(partitions: Sequence[PlannedPartition]) -> list[MergeRow]:
    """Returns what `--dry-run` shows: a row for each group, and one for each partition without any."""
    rows: list[MergeRow] = []
    for partition in partitions:
        if partition.failure is not None:
            rows.append(MergeRow(place=partition.place, result="failed", error=partition.failure))
            continue
        if partition.due_files:
            rows.append(
                MergeRow(
                    place=partition.place,
                    result="planned",
                    inputs=partition.due_files,
                    size_bytes=partition.due_bytes,
                    reason="covered by larger segments: to be deleted",
                )
            )
        rows += [_group_row(partition, group, "planned") for group in partition.plan.groups]
        if not partition.plan.groups and not partition.due_files:
            rows.append(MergeRow(place=partition.place, result="nothing", reason=partition.plan.reason))
    return rows


class MergeRun:
    """Does what was planned.

    Args:
        partitions: as `plan_places` returned them.
        jobs: runs the tasks.
        clock: tells when, where a partition is planned anew.
        at_once: how many tasks may run at one time, at most; None for as many as there are slots.
        progressed: called with the number of input bytes that have been dealt with.
    """

    def __init__(
        self,
        partitions: Sequence[PlannedPartition],
        *,
        jobs: BatchJobs,
        clock: Clock,
        at_once: int | None = None,
        progressed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._partitions = partitions
        self._jobs = jobs
        self._clock = clock
        self._at_once = at_once
        self._progressed = progressed

    def run(self) -> list[MergeRow]:
        """Returns a row for each group, each partition cleaned up, and each of which nothing was to be done.

        A group that reaches across a change of source is planned anew in parts, until no group does.
        """
        rows = [row for row in planned_rows(self._partitions) if row.result != "planned"]
        waiting = [each for each in self._partitions if each.failure is None and (each.plan.groups or each.is_to_clean)]
        while waiting:
            again: dict[int, PlannedPartition] = {}
            for partition, group, result in self._results(waiting):
                # A barrier that was there already does not part them: a group that another run began is left as it is.
                if isinstance(result.error, SourceChangedError) and result.error.offset not in partition.barriers:
                    partition.barriers.add(result.error.offset)
                    again[id(partition)] = partition
                else:
                    rows.append(_done_row(partition, group, result))
                    self._progressed(group.size_bytes if group else partition.due_bytes)
            rows += self._tidied([each for each in waiting if _are_tidied_together(each)])
            waiting = [plan_place(each, clock=self._clock) for each in again.values()]
            rows += [row for row in planned_rows(waiting) if row.result == "failed"]
            waiting = [each for each in waiting if each.plan.groups and each.failure is None]
        return rows

    def _tidied(self, partitions: Sequence[PlannedPartition]) -> list[MergeRow]:
        """Deletes what the merges of some partitions have left, by one look at each; returns rows where there was any.

        Inputs are gone with their merges: these are outputs that came too late, announcements and descriptions.
        """
        asked: dict[int, PlannedPartition] = {}

        def tasks() -> Iterator[BatchTask]:
            for partition in partitions:
                task = _clean_task(partition, what="tidy up", size_bytes=0)
                asked[id(task)] = partition
                yield task

        rows = []
        for result in self._jobs.results(tasks(), at_once=self._at_once):
            found = result_of(result.outcome)
            is_news = found.error is not None and not isinstance(found.error, PositionMovedError)
            if is_news or (isinstance(found.done, Cleaned) and (found.done.files or found.done.flaws)):
                rows.append(_done_row(asked[id(result.task)], None, found))
        return rows

    def _results(
        self, partitions: Sequence[PlannedPartition]
    ) -> Iterator[tuple[PlannedPartition, MergeGroup | None, TaskResult]]:
        asked: dict[int, tuple[PlannedPartition, MergeGroup | None]] = {}

        def tasks() -> Iterator[BatchTask]:
            for partition in partitions:
                for task, group in _tasks_of(partition):
                    asked[id(task)] = partition, group
                    yield task

        for result in self._jobs.results(tasks(), at_once=self._at_once):
            yield *asked.pop(id(result.task)), result_of(result.outcome)


def _tasks_of(partition: PlannedPartition) -> Iterator[tuple[BatchTask, MergeGroup | None]]:
    assert partition.folder is not None
    assert partition.settings is not None
    assert partition.place.destination is not None
    keep_seconds = partition.settings.keep_inputs_seconds
    where = partition.place.where
    if partition.is_to_clean:
        yield _clean_task(partition, what="delete what is covered", size_bytes=partition.due_bytes), None
    for group in partition.plan.groups:
        plan = plan_bytes(
            MergeTask(
                folder=partition.folder,
                inputs=group.inputs,
                compression=partition.place.destination.kept_compression.value,
                writer=writer_name(),
                deletes_inputs=keep_seconds == 0,
                tidies_up=not _are_tidied_together(partition),
            )
        )
        seconds_max, what = seconds_for(size_bytes=group.size_bytes), f"merge {where} {group.offsets}"
        yield BatchTask(work=WORK, plan=plan, description=what, seconds_max=seconds_max), group


def _are_tidied_together(partition: PlannedPartition) -> bool:
    """Tells whether one look behind all merges of a partition takes the place of one behind each of them."""
    return len(partition.plan.groups) > 1


def _clean_task(partition: PlannedPartition, *, what: str, size_bytes: int) -> BatchTask:
    assert partition.folder is not None
    assert partition.settings is not None
    plan = plan_bytes(CleanTask(folder=partition.folder, keep_seconds=partition.settings.keep_inputs_seconds))
    # To prove that it is held reads it, and what holds it.
    seconds_max = seconds_for(size_bytes=2 * size_bytes + MERGED_BYTES_MAX)
    return BatchTask(work=WORK, plan=plan, description=f"{what} in {partition.place.where}", seconds_max=seconds_max)


def result_of(outcome: list[LeaseRow] | MirrorlakeError) -> TaskResult:
    """Returns what a batch task of maintenance did, or the error with which it, or the engine, failed."""
    if isinstance(outcome, MirrorlakeError):
        return TaskResult(error=outcome)
    found = outcome[0].get("result") if outcome else None
    if isinstance(found, TaskResult):
        return found
    return TaskResult(error=OutcomeUnknownError(f"a task of maintenance was lost: {outcome}"))


def _done_row(partition: PlannedPartition, group: MergeGroup | None, result: TaskResult) -> MergeRow:
    if isinstance(result.error, PositionMovedError):
        return _group_row(partition, group, "nothing", reason=why_moved(result.error))
    if result.error is not None:
        return _group_row(partition, group, "failed", error=result.error)
    if isinstance(result.done, Cleaned):
        return MergeRow(
            place=partition.place,
            result="failed" if result.done.flaws else "deleted",
            inputs=result.done.files,
            size_bytes=result.done.size_bytes,
            error=result.done.flaws[0] if result.done.flaws else None,
        )
    assert isinstance(result.done, Merged)
    if not result.done.is_ours:
        return _group_row(partition, group, "nothing", reason="another merge of the same range was faster")
    return _group_row(partition, group, "merged", output_bytes=result.done.output_bytes)


def _group_row(
    partition: PlannedPartition,
    group: MergeGroup | None,
    result: str,
    *,
    output_bytes: int | None = None,
    reason: str = "",
    error: MirrorlakeError | None = None,
) -> MergeRow:
    return MergeRow(
        place=partition.place,
        result=result,
        inputs=len(group.inputs) if group else partition.due_files,
        start=group.offsets.start_offset if group else None,
        end=group.offsets.end_offset if group else None,
        size_bytes=group.size_bytes if group else partition.due_bytes,
        output_bytes=output_bytes,
        reason=reason or ("another merger left it unfinished" if group and group.is_unfinished else ""),
        error=error,
    )


@contextmanager
def keeping_jobs(config: Configuration, build: EngineBuilder, *, at_once: int | None) -> Iterator[BatchJobs]:
    """Starts an engine, gives what runs tasks on it, at most ``at_once`` at one time, and stops it.

    Raises:
        JavaUnusableError: Spark cannot start.
        ExecutorUnusableError: a cluster has no executors, or they lack what tasks need.
    """
    batch_slots = 0 if is_local(config.engine.master) else config.engine.batch_slots
    engine = build(settings_of(config, preload=PRELOAD, batch_slots=batch_slots))
    slots = all_slots(engine)
    try:
        yield BatchJobs(engine, slots=slots if at_once is None else lambda: min(slots(), at_once))
    finally:
        engine.stop()
