"""A running Spark session under the engine: leases and shuffles of it, and an orderly end."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import structlog

from mirrorlake.errors import ExecutorUncheckedError, OutcomeUnknownError
from mirrorlake.pipeline.cluster.master import MasterWatch
from mirrorlake.pipeline.cluster.task_attempts import attempts_of_tag
from mirrorlake.pipeline.cluster.watch import ExecutorWatch
from mirrorlake.pipeline.jvm import Jvm
from mirrorlake.pipeline.lease_files import LeaseFiles
from mirrorlake.pipeline.lease_job import LOST_ON, RETRIED, UNCHECKED, EngineDiedError, LeaseRow, jvm_answers, run_lease
from mirrorlake.pipeline.overdue import GRACE_SECONDS, OverdueJobs, Watched
from mirrorlake.pipeline.pyspark_globals import forget_gateway, stop_spark
from mirrorlake.pipeline.run_folder import RunFolder
from mirrorlake.pipeline.shuffle_job import run_shuffle
from mirrorlake.pipeline.task_bounds import TASK_SECONDS

WARM_UP_SECONDS_MAX = 60.0

SHUFFLE_TRIES_MAX = 3
"""So often a shuffle begins whose tasks come to executors that nobody has looked at, before its outcome is unknown."""

LOOKS_SECONDS_MAX = 120.0
"""For looks at executors, before a shuffle begins again."""

_log = structlog.get_logger(__name__)


class Jobs:
    """Spark without SQL, until somebody wants SQL.

    A ``SparkSession`` makes the JVM load the classes of Catalyst, and what Scala knows of types: 30 MB, and a second of
    CPU at the start. Leases are jobs over RDDs and need none of it.

    Attributes:
        sparkContext: PySpark's, under the name it has in a ``SparkSession``: what needs no more takes either.
    """

    def __init__(self, context: Any) -> None:
        self.sparkContext = context
        self._lock = threading.Lock()
        self._session: Any = None

    @property
    def session(self) -> Any:
        """The ``SparkSession`` over this context, made when it is first asked for, from any thread."""
        from pyspark.sql import SparkSession

        with self._lock:
            if self._session is None:
                self._session = SparkSession.builder.getOrCreate()
            return self._session

    def stop(self) -> None:
        """Stops Spark, as either would."""
        (self.sparkContext if self._session is None else self._session).stop()


class EngineSession:
    """A running session and all that belongs to it.

    Attributes:
        jobs: the door to Spark.
        jvm: the process under it.
        lease_files: what passes between the driver and leases of this session that run.
        executors: looks at those of a cluster; None on one machine.
    """

    def __init__(
        self,
        jobs: Jobs,
        jvm: Jvm,
        folder: RunFolder,
        lease_files: LeaseFiles,
        executors: ExecutorWatch | None = None,
        master: MasterWatch | None = None,
        *,
        slots: int,
    ) -> None:
        self.jobs = jobs
        self.jvm = jvm
        self.lease_files = lease_files
        self.executors = executors
        self._folder = folder
        self._slots = slots
        self._overdue = OverdueJobs(self._give_up)
        self._overdue.__enter__()
        self._master = master
        for watch in (executors, master):
            if watch is not None:
                watch.__enter__()

    @property
    def spark(self) -> Any:
        """The ``SparkSession``, for SQL; made when it is first asked for."""
        return self.jobs.session

    @property
    def clock_offsets(self) -> Mapping[str, float]:
        """By how many seconds the clock of each executor is ahead of this machine's; none without a cluster."""
        return dict(self.executors.clock_offsets) if self.executors is not None else {}

    @property
    def slots(self) -> int:
        """How many tasks run at one time; of a cluster those of the executors that are there now."""
        return self._slots if self.executors is None else self.executors.slots

    def is_alive(self) -> bool:
        """Returns whether the JVM still runs."""
        return self.jvm.is_alive()

    def answers(self) -> bool:
        """Asks the JVM whether Spark still runs, and returns that; hangs as long as the JVM does."""
        return not self.jobs.sparkContext._jsc.sc().isStopped()

    def warm_up(self) -> None:
        """Runs an empty lease, so that the next finds the daemon with its modules, the JVM with its classes."""
        self.run_lease("builtins:list", b"", description="warm-up", seconds_max=WARM_UP_SECONDS_MAX)

    def run_lease(
        self,
        work: str,
        plan: bytes,
        *,
        description: str,
        seconds_max: float | None = None,
        seconds_more: Callable[[], float] = float,
    ) -> list[LeaseRow]:
        """Runs ``work(plan)`` in a Python worker and returns its rows (see ``lease_job.run_lease``).

        Of a cluster only on executors that were looked at: until then one that joins does nothing that it is given. One
        with ``seconds_max`` is given up where it has not ended `GRACE_SECONDS` after these and the ``seconds_more`` it
        was prolonged by: what it did is unknown, and it may still run.
        """
        if seconds_max is None:
            return self._run_lease(work, plan, description, None, "")
        with self._overdue.watched(seconds_max, seconds_more=seconds_more) as job:
            try:
                return self._run_lease(work, plan, description, seconds_max, job.tag)
            except OutcomeUnknownError as error:
                if not job.is_given_up:
                    raise
                raise OutcomeUnknownError(
                    f"a job was given up that had not ended {GRACE_SECONDS:.0f} s after its worker must have ended "
                    f"itself: {_why_given_up(job)}",
                    hint="there are too few executors, or processes of theirs are frozen or wait for a filesystem",
                    lease=description,
                ) from error

    def _run_lease(
        self, work: str, plan: bytes, description: str, seconds_max: float | None, tag: str
    ) -> list[LeaseRow]:
        watch = self.executors
        rows: list[LeaseRow] = run_lease(
            self.jobs,
            work,
            plan,
            description=description,
            seconds_max=seconds_max,
            executors=None if watch is None else watch.checked,
            tag=tag,
        )
        if watch is not None and any(row.get("kind") == UNCHECKED for row in rows):
            watch.look_now()
        if tag and watch is not None and any(row.get("kind") == RETRIED for row in rows):
            lost_on = next((watch.where(each.executor) for each in attempts_of_tag(self.jobs, tag)), "")
            return [{**row, LOST_ON: lost_on} if lost_on else row for row in rows]
        return rows

    def _give_up(self, job: Watched) -> bool:
        """Ends a job whose task has been under way for too long, or got no slot; returns whether it did.

        One whose task had to wait for its slot has its time yet. Executors on which one was under way for too long
        hang. Of a shuffle these are replaced, and Spark runs what they ran elsewhere: the job is left to go on.
        """
        began_by = time.time() - job.patience_seconds - job.seconds_more()
        running = [each for each in attempts_of_tag(self.jobs, job.tag) if each.is_running]
        hanging = sorted({each.executor for each in running if each.began_seconds <= began_by})
        watch, is_shuffle = self.executors, job.is_shuffle
        if not hanging and (running or is_shuffle):
            return False
        if watch is not None:
            job.hung_on = tuple(watch.where(each) for each in hanging)
            for executor in hanging:
                watch.hangs(executor)
            if is_shuffle:
                return False
        self.jobs.sparkContext.cancelJobsWithTag(job.tag)
        return True

    def run_shuffle(
        self,
        read: str,
        merge: str,
        orders: Sequence[bytes],
        *,
        plans: Sequence[bytes],
        description: str,
        read_seconds_max: float = TASK_SECONDS,
        merge_seconds_max: float = TASK_SECONDS,
    ) -> list[LeaseRow]:
        """Runs ``read`` of each order, and ``merge`` of the blocks of all buckets (see ``shuffle_job.run_shuffle``).

        Of a cluster only on executors that had been looked at when it began. Where Spark gives it up because others are
        all there is, these are looked at and it begins again, `SHUFFLE_TRIES_MAX` times in all.
        """
        watch, tries = self.executors, 0
        while True:
            tries += 1
            try:
                allowed = None if watch is None else watch.checked
                with self._overdue.watched(max(read_seconds_max, merge_seconds_max), is_shuffle=True) as job:
                    return run_shuffle(
                        self.jobs,
                        read,
                        merge,
                        orders,
                        plans=plans,
                        description=description,
                        executors=allowed,
                        read_seconds_max=read_seconds_max,
                        merge_seconds_max=merge_seconds_max,
                        tag=job.tag,
                    )
            except ExecutorUncheckedError as error:
                if watch is None or tries == SHUFFLE_TRIES_MAX:
                    raise OutcomeUnknownError(error.message, lease=description) from error
                _log.warning("a shuffle begins again", job=description, why=error.message, tries=tries)
                watch.await_looks(LOOKS_SECONDS_MAX)

    def lane_thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Returns a thread with a JVM thread of its own; see `lane_thread`."""
        return lane_thread(self.jobs, target, name)

    def stop(self, timeout_seconds: float = 20.0) -> None:
        """Ends session, JVM and workers within about ``timeout_seconds``. Idempotent.

        Order of effects: Spark stops (running tasks are killed), the JVM ends or is killed, the folder goes.
        """
        give_up_at = time.monotonic() + timeout_seconds
        self._end_watch()
        self.jvm.mute()
        stop_spark(self.jobs, self.jvm, timeout_seconds / 2)
        self.jvm.stop(max(1.0, give_up_at - time.monotonic()))
        forget_gateway()
        self._folder.close()

    def abandon(self) -> None:
        """Kills what is left of a dead session and removes its folder; asks Spark nothing. Idempotent."""
        self.jvm.kill()
        self._end_watch()
        self._folder.close()

    def _end_watch(self) -> None:
        self._overdue.__exit__()
        watches = (self._master, self.executors)
        self._master = self.executors = None
        for watch in watches:
            if watch is not None:
                watch.__exit__()

    def __enter__(self) -> "EngineSession":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _why_given_up(job: Watched) -> str:
    if job.hung_on:
        return f"it hangs on {', '.join(job.hung_on)}"
    return "it got no slot, no worker began with it, or one hangs"


def lane_thread(jobs: Any, target: Callable[[], None], name: str) -> threading.Thread:
    """Returns a thread whose job descriptions and groups do not mix with those of others; see ``Engine.lane_thread``.

    To make its JVM thread asks the JVM, in the thread that starts it and in itself. A JVM that is gone then is found as
    one that goes in a lease: an error of a connection would end the process, or the lane, and nothing would start Spark
    again.

    Args:
        jobs: the door to Spark.
        target: what it runs, also where the JVM goes before it begins: the first lease of it finds that.
        name: of thread and job group.
    """
    from pyspark import InheritableThread

    begun = threading.Event()

    def work() -> None:
        jobs.sparkContext.setLocalProperty("spark.jobGroup.id", name)
        begun.set()
        target()

    class LaneThread(InheritableThread):  # type: ignore[misc]  # PySpark says no type of it
        def start(self) -> None:
            with jvm_answers():
                super().start()

        def run(self) -> None:
            try:
                with jvm_answers():
                    super().run()
            except EngineDiedError:
                if begun.is_set():
                    raise
                target()

    thread: threading.Thread = LaneThread(work, name=name)
    return thread
