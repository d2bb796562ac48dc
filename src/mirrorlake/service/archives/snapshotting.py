"""``archive snapshot``: plans every partition from one look at it, and lets a shuffle make what is planned."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import structlog

from mirrorlake.archive.names import partition_prefix
from mirrorlake.archive.root_marker import ensure_root_marker
from mirrorlake.archive.snapshots.taking import TakenSnapshot
from mirrorlake.archive.topic_record import TopicRecord, record_topic
from mirrorlake.clock import Clock
from mirrorlake.config.resolved import Configuration
from mirrorlake.config.spark.settings import is_local
from mirrorlake.errors import ConfigurationError, MirrorlakeError, OutcomeUnknownError, PositionMovedError
from mirrorlake.pipeline.cluster.needs import RootSeen
from mirrorlake.pipeline.engine import Engine, EngineBuilder, settings_of
from mirrorlake.pipeline.task_bounds import seconds_for
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.reports import READS_AT_ONCE
from mirrorlake.service.archives.rights import refusals
from mirrorlake.service.archives.snapshot_options import SnapshotOptions
from mirrorlake.service.archives.snapshot_plan import (
    PART_BYTES_MAX,
    HeldSnapshot,
    PlannedSnapshot,
    pickled_plan,
    plan_snapshot,
)
from mirrorlake.service.archives.snapshot_target import FolderAddress, newest_by
from mirrorlake.sources.archive.snapshot_work import SnapshotResult
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings

READ = "mirrorlake.sources.archive.snapshot_work:read_part"
MERGE = "mirrorlake.sources.archive.snapshot_work:make_snapshots"
PRELOAD = (
    "mirrorlake.freed_memory:keep_freed_memory",
    "mirrorlake.sources.archive.snapshot_work",
    "mirrorlake.kafka.records.codec:warm",
)

JOB_BYTES_MAX = 8 << 30
"""What one job reads, to within one partition: so much of the disk it may take for what it brings together."""

JOB_PARTITIONS_MAX = 100
"""And so many partitions: their plans, of a few kilobytes each, travel with the code of the tasks."""

NAMES_SHOWN = 5
"""Of the topics whose snapshots would go to one folder."""

TRIES_MAX = 3
"""So often a partition is planned where another run was there first, or had claimed an end."""

_SPARK_CONF = {"spark.shuffle.compress": "false", "spark.shuffle.spill.compress": "false"}
"""What is shuffled is compressed: doing it once more takes a sixth of the time."""

Cell = str | int | None
_log = structlog.get_logger("mirrorlake")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """One partition: what is read of it, and the snapshot that was made.

    ``result`` is `planned`, `made`, `nothing` or `failed`. ``size_bytes`` are those of the files read.
    """

    planned: PlannedSnapshot
    result: str
    done: TakenSnapshot | None = None
    reason: str = ""
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, Cell]:
        """Returns the row of ``archive snapshot --format json``; ``error`` is present exactly where it failed."""
        place, plan, done = self.planned.place, self.planned.plan, self.done
        row: dict[str, Cell] = {
            "name": place.name,
            "partition": place.partition,
            "store": place.store.where(""),
            "mirror": place.mirror,
            "start": plan.read.start_offset if plan else None,
            "end": plan.read.end_offset if plan else None,
            "bytes": self.planned.size_bytes if plan else None,
            "snapshot": plan.store.where(f"{plan.name}/{plan.partition}") if plan else None,
            "records": done.records if done else None,
            "output_bytes": done.size_bytes if done else None,
            "result": self.result,
            "reason": self.reason or None,
        }
        if self.error is not None:
            row["error"] = str(self.error)
        return row


def plan_snapshots(places: Sequence[ArchivePlace], options: SnapshotOptions, *, clock: Clock) -> list[PlannedSnapshot]:
    """Looks at every partition and plans it; changes nothing. Folders that snapshots go to are no archives to take."""
    made = {(place.store, options.name_for(place.name)) for place in places} if options.store is None else set()
    taken = [place for place in places if not (place.are_snapshots and (place.store, place.name) in made)]
    if error := _one_folder_of_several(taken, options):
        return [PlannedSnapshot(place=place, failure=error) for place in taken if not place.are_snapshots]
    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="snapshot-plan") as pool:
        return list(pool.map(lambda place: plan_snapshot(place, options, clock=clock), taken))


def _one_folder_of_several(places: Sequence[ArchivePlace], options: SnapshotOptions) -> ConfigurationError | None:
    names = sorted({place.name for place in places if not place.are_snapshots})
    if len({options.name_for(name) for name in names}) == len(names):
        return None
    return ConfigurationError(
        f"snapshots of {', '.join(names[:NAMES_SHOWN])} would go to one folder, {options.name_for(names[0])}",
        hint="write {topic} in `--to`, or name one `--topic`",
    )


def with_rights(planned: Sequence[PlannedSnapshot]) -> list[PlannedSnapshot]:
    """Returns the plans; where a right is missing in the folder a snapshot goes to, that is its failure instead."""
    asked = [
        (number, (each.plan.store, (partition_prefix(each.plan.name, each.plan.partition),)))
        for number, each in enumerate(planned)
        if each.plan is not None
    ]
    refused = dict(refusals(asked))
    return [
        replace(each, plan=None, failure=refused[number]) if number in refused else each
        for number, each in enumerate(planned)
    ]


def planned_row(planned: PlannedSnapshot) -> SnapshotRow:
    """Returns what ``--dry-run`` shows of a partition."""
    if planned.failure is not None:
        return SnapshotRow(planned=planned, result="failed", error=planned.failure)
    return SnapshotRow(planned=planned, result="nothing" if planned.plan is None else "planned", reason=planned.reason)


def finish_dead_runs(planned: Sequence[PlannedSnapshot], *, writer: str, clock: Clock) -> None:
    """Does what runs that died have left undone where snapshots go. Idempotent.

    Claims below the position and staged files are deleted; a snapshot that is there is recorded, as `archive check`
    could not tell its loss else. Safe beside live writers. What cannot be done now stays for the next run, with a
    warning.

    Args:
        planned: what was found.
        writer: of the records.
        clock: dates them.
    """
    for each in planned:
        if (folder := each.folder) is None:
            continue
        try:
            opened = folder.open()
            opened.sweep(opened.read_chain())
        except MirrorlakeError as error:
            _log.warning("leftovers of a snapshot stay", path=folder.store.where(folder.name), error=str(error))
        if each.held is not None:
            _record(folder, each.held, each.record, writer=writer, clock=clock)


class SnapshotRun:
    """Makes what was planned.

    Args:
        planned: as `plan_snapshots` returned them.
        options: by which they were planned.
        engine: runs the shuffles.
        clock: tells when, where a partition is planned anew.
        progressed: called with the number of input bytes that have been dealt with.
    """

    def __init__(
        self,
        planned: Sequence[PlannedSnapshot],
        *,
        options: SnapshotOptions,
        engine: Engine,
        clock: Clock,
        progressed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._planned = planned
        self._options = options
        self._engine = engine
        self._clock = clock
        self._progressed = progressed

    def run(self) -> list[SnapshotRow]:
        """Returns a row for each snapshot, and for each partition of which none was made.

        A partition in which another run was first is planned anew, and so is one that took a dead run's end.
        """
        finish_dead_runs(self._planned, writer=self._options.writer, clock=self._clock)
        rows = [planned_row(each) for each in self._planned if each.plan is None]
        waiting = [each for each in self._planned if each.plan is not None]
        for tries_left in reversed(range(TRIES_MAX)):
            again: list[tuple[PlannedSnapshot, bool]] = []
            for planned, result in self._results(waiting):
                is_beaten = isinstance(result.error, PositionMovedError) and tries_left > 0
                if not is_beaten:
                    rows.append(_done_row(planned, result))
                if is_beaten or (planned.is_adopted and result.done is not None):
                    again.append((planned, is_beaten))
            waiting = []
            for planned, is_beaten in again if tries_left else ():
                anew = plan_snapshot(planned.place, self._options, clock=self._clock)
                if anew.plan is not None:
                    waiting.append(anew)
                elif anew.failure is not None:
                    rows.append(planned_row(anew))
                elif is_beaten:
                    rows.append(self._made_before(planned) or planned_row(anew))
        return rows

    def _made_before(self, planned: PlannedSnapshot) -> SnapshotRow | None:
        """Returns the row of a snapshot that a task has made before Spark ran it again; None where another run did.

        Spark runs a task again where its executor is lost, and a whole shuffle may begin again.
        """
        plan, folder = planned.plan, planned.folder
        assert plan is not None
        assert folder is not None
        try:
            done = newest_by(folder, plan.writer, plan.offsets)
        except MirrorlakeError:
            return None  # the look before has found it there: that is said
        if done is None:
            return None
        _record_made(planned, self._clock)
        return SnapshotRow(planned=planned, result="made", done=done, reason=planned.reason)

    def _results(self, waiting: Sequence[PlannedSnapshot]) -> Iterator[tuple[PlannedSnapshot, SnapshotResult]]:
        for job in jobs_of(waiting):
            yield from self._job(job)

    def _job(self, job: Sequence[PlannedSnapshot]) -> Iterator[tuple[PlannedSnapshot, SnapshotResult]]:
        slots = max(1, self._engine.slots)
        pickled = [pickled_plan(each, bucket=bucket, slots=slots) for bucket, each in enumerate(job)]
        plans, orders = [plan for plan, _ in pickled], [order for _, parts in pickled for order in parts]
        first = job[0].place
        description = f"snapshot of {first.where}" + (f" and {len(job) - 1} others" if len(job) > 1 else "")
        largest_file = max((segment.size_bytes for each in job for segment in each.segments), default=0)
        found: dict[int, SnapshotResult] = {}
        lost: MirrorlakeError = OutcomeUnknownError("the task that makes the snapshot was lost", task=description)
        try:
            rows = self._engine.run_shuffle(
                READ,
                MERGE,
                orders,
                plans=plans,
                description=description,
                # A part is one file at least, however large. What is merged is no more than what was read of it.
                read_seconds_max=seconds_for(size_bytes=PART_BYTES_MAX + largest_file),
                merge_seconds_max=seconds_for(size_bytes=max(each.size_bytes for each in job)),
            )
            results = [row["result"] for row in rows]
            found = {each.bucket: each for each in results if isinstance(each, SnapshotResult)}
        except OutcomeUnknownError as error:
            lost = error
        for bucket, planned in enumerate(job):
            result = found.get(bucket, SnapshotResult(bucket=bucket, error=lost))
            if result.done is not None:
                _record_made(planned, self._clock)
            self._progressed(planned.size_bytes)
            yield planned, result


def _record_made(planned: PlannedSnapshot, clock: Clock) -> None:
    plan, folder = planned.plan, planned.folder
    assert plan is not None
    assert folder is not None
    held = HeldSnapshot(origin=plan.origin, end_offset=plan.offsets.end_offset)
    _record(folder, held, planned.record, writer=plan.writer, clock=clock)


def _record(
    folder: FolderAddress, held: HeldSnapshot, record: TopicRecord | None, *, writer: str, clock: Clock
) -> None:
    """Writes the markers that tell what is there, should it be gone; a snapshot stands without them."""
    seen = TopicRecord(
        cluster_id=held.origin.cluster_id,
        topic=held.origin.topic,
        topic_id=held.origin.topic_id,
        partitions=record.partitions if record is not None else 0,
        format="parquet",
        holds_snapshots=True,
        configs=record.configs if record is not None else {},
        reached={folder.partition: held.end_offset},
        writer=writer,
    )
    now_seconds = clock.now_seconds()
    try:
        store = open_store(folder.store)
        ensure_root_marker(store, writer=writer, now_seconds=now_seconds)
        record_topic(store, folder.name, seen, now_seconds=now_seconds)
    except MirrorlakeError as error:
        _log.warning(
            "the snapshot's markers could not be written", path=folder.store.where(folder.name), error=str(error)
        )


def jobs_of(waiting: Sequence[PlannedSnapshot]) -> Iterator[list[PlannedSnapshot]]:
    """Yields the plans in jobs of at most `JOB_BYTES_MAX`, or of one partition. Pure."""
    job: list[PlannedSnapshot] = []
    size_bytes = 0
    for each in waiting:
        if job and (size_bytes + each.size_bytes > JOB_BYTES_MAX or len(job) == JOB_PARTITIONS_MAX):
            yield job
            job, size_bytes = [], 0
        job.append(each)
        size_bytes += each.size_bytes
    if job:
        yield job


def _done_row(planned: PlannedSnapshot, result: SnapshotResult) -> SnapshotRow:
    if result.error is not None:
        return SnapshotRow(planned=planned, result="failed", error=result.error)
    return SnapshotRow(planned=planned, result="made", done=result.done, reason=planned.reason)


@contextmanager
def snapshot_engine(config: Configuration, build: EngineBuilder, options: SnapshotOptions) -> Iterator[Engine]:
    """Starts an engine for shuffles, and stops it.

    Executors must see the folder that snapshots go to, as they must those of the configuration's mirrors.

    Raises:
        JavaUnusableError: Spark cannot start.
        ExecutorUnusableError: a cluster has no executors, or they lack what tasks need.
    """
    batch_slots = 0 if is_local(config.engine.master) else config.engine.batch_slots
    settings = settings_of(config, preload=PRELOAD, batch_slots=batch_slots)
    settings = replace(settings, uses_sql=True, spark_conf={**_SPARK_CONF, **settings.spark_conf})
    target = options.store.settings if options.store is not None else None
    if isinstance(target, FilesystemSettings) and not is_local(config.engine.master):
        roots = (*settings.needs.roots, RootSeen.look(str(target.root)))
        settings = replace(settings, needs=replace(settings.needs, roots=tuple(dict.fromkeys(roots))))
    engine = build(settings)
    try:
        yield engine
    finally:
        engine.stop()
