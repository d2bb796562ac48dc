"""What `run` does to archives by a schedule: which destination when, and what one run of it did."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mirrorlake.archive.names import partition_prefix
from mirrorlake.clock import Clock
from mirrorlake.config.destinations.archive import ArchiveDestination
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.errors import MirrorlakeError
from mirrorlake.pipeline.batch_jobs import BatchJobs, BatchStoppedError
from mirrorlake.schedule import Schedule
from mirrorlake.service.archives.merging import MergeRow, MergeRun, plan_places, refuse_without_rights
from mirrorlake.service.archives.missing import lost_partitions
from mirrorlake.service.archives.places import ArchivePlace, places_in
from mirrorlake.service.archives.retention import RetainRow, retain
from mirrorlake.stores.settings import StoreSettings

Folder = tuple[StoreSettings, str]
"""A partition's folder: its store, and its key there."""


class KeepingWork(StrEnum):
    """What is done to an archive. In this order where several are due: what goes need not be merged."""

    RETAIN = "retain"
    MERGE = "merge"


class KeepingResult(StrEnum):
    """How one run ended; ``failed`` where something of it failed, and all else was done."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingJob:
    """One destination, what is done to it, and when."""

    mirror: Mirror
    destination: ArchiveDestination
    work: KeepingWork
    schedule: Schedule

    @property
    def key(self) -> tuple[str, str, str]:
        """Mirror, destination, and work: what metrics and listings call it."""
        return self.mirror.name, self.destination.label, self.work.value


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingOutcome:
    """What one run did.

    ``files`` are those that were merged or retired and ``size_bytes`` theirs, ``made`` and ``made_bytes`` the segments
    made of them, ``leftovers`` files that earlier runs had left. ``failures`` counts groups or partitions that failed,
    ``error`` is the first one's. ``doubts`` are the folders that retention left alone, as it is not certain whose they
    are, each with why.
    """

    result: KeepingResult = KeepingResult.DONE
    files: int = 0
    size_bytes: int = 0
    made: int = 0
    made_bytes: int = 0
    leftovers: int = 0
    failures: int = 0
    error: MirrorlakeError | None = None
    doubts: tuple[tuple[str, str], ...] = ()

    @property
    def did_something(self) -> bool:
        """Whether anything is otherwise than before."""
        return bool(self.files or self.leftovers)

    @classmethod
    def failed(cls, error: MirrorlakeError) -> "KeepingOutcome":
        """Returns that of a run that could not begin."""
        return cls(result=KeepingResult.FAILED, failures=1, error=error)


def jobs_of(config: Configuration) -> list[KeepingJob]:
    """Returns what is to be done by a schedule, in the configuration's order."""
    return [
        KeepingJob(mirror=mirror, destination=destination, work=KeepingWork(work), schedule=schedule)
        for mirror in config.enabled_mirrors
        for destination in mirror.archive_destinations
        for work, schedule in destination.schedules.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledKeeping:
    """Does one job at a time, by the same functions that the command line calls. Several threads may call it.

    Attributes:
        config: as a whole: of several mirrors that write to a store, it tells whose a folder is.
        clock: tells how old segments are.
        jobs: runs the tasks of merges.
        gone_roots: returns the stores whose root is not the archive any more that it was, each with its error.
        left_alone: returns the folders that nothing is done to now.
        is_stopping: ends a run between two partitions, or two tasks.
    """

    config: Configuration
    clock: Clock
    jobs: BatchJobs
    gone_roots: Callable[[], Mapping[StoreSettings, MirrorlakeError]]
    left_alone: Callable[[], frozenset[Folder]]
    is_stopping: Callable[[], bool]

    def do(self, job: KeepingJob) -> KeepingOutcome:
        """Does a job once, and returns what it did.

        Raises:
            BatchStoppedError: ``is_stopping`` said so; what was done until then is done, and the next run goes on.
            EngineDiedError: the engine is gone; likewise.
            MirrorlakeError: the store could not be read, or is not the archive it was.
        """
        store = job.destination.store.settings
        if (error := self.gone_roots().get(store)) is not None:
            raise error
        survey = places_in(self.config, store)
        places = self._own(job, [*survey.places, *lost_partitions(survey)])
        unread = [each.error for each in survey.findings if not (each.is_odd_name or each.is_beside)]
        if self.is_stopping():
            raise BatchStoppedError("stopped before anything was done")
        if job.work is KeepingWork.RETAIN:
            return retained(retain(places, clock=self.clock, is_dry=False, is_stopping=self.is_stopping), unread=unread)
        planned = plan_places(places, clock=self.clock, is_stopping=self.is_stopping)
        refuse_without_rights(planned)
        settings = job.destination.merge
        assert settings is not None, "a schedule without settings"
        run = MergeRun(planned, jobs=self.jobs, clock=self.clock, at_once=settings.parallelism)
        return merged(run.run(), unread=unread)

    def _own(self, job: KeepingJob, places: Sequence[ArchivePlace]) -> list[ArchivePlace]:
        left_alone = self.left_alone()
        return [
            place
            for place in places
            if place.mirror == job.mirror.name
            and place.destination == job.destination
            and (place.store, partition_prefix(place.name, place.partition)) not in left_alone
        ]


def merged(rows: Sequence[MergeRow], *, unread: Sequence[MirrorlakeError] = ()) -> KeepingOutcome:
    """Returns what the rows of a merge add up to; ``unread`` are folders that could not be looked into."""
    made = [row for row in rows if row.result == "merged"]
    return _judged(
        KeepingOutcome(
            files=sum(row.inputs for row in made),
            size_bytes=sum(row.size_bytes for row in made),
            made=len(made),
            made_bytes=sum(row.output_bytes or 0 for row in made),
            leftovers=sum(row.inputs for row in rows if row.result == "deleted"),
        ),
        [*unread, *(row.error for row in rows if row.error is not None)],
    )


def retained(rows: Sequence[RetainRow], *, unread: Sequence[MirrorlakeError] = ()) -> KeepingOutcome:
    """Returns what the rows of retention add up to; ``unread`` are folders that could not be looked into."""
    gone = [row for row in rows if row.result == "deleted"]
    return _judged(
        KeepingOutcome(
            files=sum(row.segments for row in gone),
            size_bytes=sum(row.size_bytes for row in gone),
            doubts=tuple(
                (partition_prefix(row.place.name, row.place.partition), row.reason) for row in rows if row.is_doubted
            ),
        ),
        [*unread, *(row.error for row in rows if row.error is not None)],
    )


def _judged(outcome: KeepingOutcome, errors: Sequence[MirrorlakeError]) -> KeepingOutcome:
    if not errors:
        return outcome
    return replace(outcome, result=KeepingResult.FAILED, failures=len(errors), error=errors[0])
