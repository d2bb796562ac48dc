"""The executors of a cluster: waited for, looked at one by one, and watched while they come and go."""

import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import structlog

from mirrorlake.errors import MirrorlakeError, StartStoppedError
from mirrorlake.moments import CLOCK_DIFFERENCE_SECONDS_MAX
from mirrorlake.pipeline.cluster import check
from mirrorlake.pipeline.cluster.needs import Needs
from mirrorlake.pipeline.lease_job import CRASHED, RETRIED, LeaseRow, java_cause, run_lease
from mirrorlake.repeated import RepeatedInThread

CHECK_SECONDS_MAX = 60.0
"""For a worker to look at its host; loading what leases need comes before that and is not counted."""

WATCH_SECONDS = 2.0
SETTLED_SECONDS = 5.0
"""With fewer slots than wanted, the start goes on when none was added for so long."""

_POLL_SECONDS = 0.2
_CLOCK_ROUNDS = 3
_AT_ONCE_MAX = 16
_TASKS_MAX = 10
_TRIES = 3
_JOB_GROUP = "spark.jobGroup.id"
_log = structlog.get_logger(__name__)


class ExecutorUnusableError(MirrorlakeError):
    """There are no executors, or one of them lacks what leases need."""


class ExecutorBusyError(ExecutorUnusableError):
    """An executor had no free slot to be looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """One executor as the driver knows it. ``address`` is that of its host."""

    id: str
    address: str
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What an executor said of itself.

    ``offset_seconds`` is how far its clock is ahead of the driver's, known to ``offset_error_seconds``.
    """

    executor: Executor
    host: str
    python: str
    offset_seconds: float
    offset_error_seconds: float


def living(spark: Any) -> list[Executor]:
    """Returns the executors that are registered now."""
    found = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    summaries = [found.apply(index) for index in range(found.size())]
    return [
        Executor(id=each.id(), address=_host(each.hostPort()), slots=each.totalCores())
        for each in summaries
        if each.id() != "driver"
    ]


def await_executors(
    find: Callable[[], Sequence[Executor]],
    *,
    master: str,
    slots: int,
    give_up_at: float,
    timeout_seconds: float,
    is_stopping: Callable[[], bool],
    settled_seconds: float = SETTLED_SECONDS,
) -> Sequence[Executor]:
    """Waits until executors have so many slots, or until no more of them come; returns them.

    Args:
        find: returns those that are there.
        master: for messages.
        slots: wanted.
        give_up_at: reading of ``time.monotonic`` after which none at all is an error.
        timeout_seconds: the whole start's, for messages.
        is_stopping: asked again and again.
        settled_seconds: for which nothing changes when no more of them come.

    Raises:
        ExecutorUnusableError: there is none in time.
        StartStoppedError: ``is_stopping`` said so.
    """
    seen: set[str] = set()
    changed_at = time.monotonic()
    while True:
        if is_stopping():
            raise StartStoppedError("stopped while executors were waited for")
        found = find()
        if {each.id for each in found} != seen:
            seen, changed_at = {each.id for each in found}, time.monotonic()
        there = sum(each.slots for each in found)
        if there >= slots:
            return found
        now = time.monotonic()
        if found and (now > give_up_at or now - changed_at > settled_seconds):
            _log.warning("fewer slots than lanes and batch slots", slots=there, wanted=slots, executors=len(found))
            return found
        if not found and now > give_up_at:
            raise ExecutorUnusableError(
                f"no executors from {master} after {timeout_seconds:.0f} s",
                hint="its workers have no free cores, or less free memory than spark.executor.memory asks for, or "
                "cannot reach this process at spark.driver.host; their logs say which",
            )
        time.sleep(_POLL_SECONDS)


def check_executors(
    spark: Any, executors: Sequence[Executor], needs: Needs, *, python: str, is_stopping: Callable[[], bool]
) -> list[Checked]:
    """Looks at executors, all at one time, and so warms them up: each has loaded what leases need then.

    Raises:
        ExecutorUnusableError: what is wrong with which host, all of it.
        StartStoppedError: ``is_stopping`` said so.
    """
    pool = ThreadPoolExecutor(min(_AT_ONCE_MAX, max(1, len(executors))), "executor-check")
    try:
        asked = [pool.submit(check_executor, spark, each, needs, python=python) for each in executors]
        while not all(each.done() for each in asked):
            if is_stopping():
                raise StartStoppedError("stopped while executors were looked at")
            time.sleep(_POLL_SECONDS)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    troubles = [str(trouble) for each in asked if (trouble := each.exception()) is not None]
    if troubles:
        raise ExecutorUnusableError("\n".join(troubles), hint="see docs/cluster.md: what executors need")
    return [each.result() for each in asked]


def check_executor(spark: Any, executor: Executor, needs: Needs, *, python: str) -> Checked:
    """Looks at one executor; as `check_executors`."""
    try:
        row = _ask(spark, executor, check.WORK, pickle.dumps(needs))
    except ExecutorBusyError:
        raise
    except MirrorlakeError as error:
        raise ExecutorUnusableError(
            f"the executor on {executor.address} cannot run leases with {python}: {error.message}"
        ) from error
    where = _where(executor, str(row["host"]))
    wrong = row["wrong"]
    assert isinstance(wrong, list)
    if wrong:
        raise ExecutorUnusableError(f"the executor on {where} cannot run leases: {'; '.join(wrong)}")
    offset, error_seconds = _clock_offset(lambda: _now_of(_ask(spark, executor, check.CLOCK, b"")))
    if abs(offset) - error_seconds > CLOCK_DIFFERENCE_SECONDS_MAX:
        raise ExecutorUnusableError(
            f"the clock on {where} is {abs(offset):.1f} s {'ahead of' if offset > 0 else 'behind'} the driver's; "
            f"{CLOCK_DIFFERENCE_SECONDS_MAX:.0f} s are allowed"
        )
    return Checked(
        executor=executor,
        host=str(row["host"]),
        python=str(row["python"]),
        offset_seconds=offset,
        offset_error_seconds=error_seconds,
    )


class ExecutorWatch(RepeatedInThread):
    """Says which executors come and go, and looks at those that come; one that is not fit is taken off.

    Use as a context manager.

    Args:
        spark: the session.
        checked: those that were looked at already.
        needs: what others must have.
        python: that they start.
    """

    def __init__(self, spark: Any, checked: Sequence[Checked], needs: Needs, *, python: str) -> None:
        super().__init__("executor-watch", seconds=WATCH_SECONDS)
        self._spark = spark
        self._needs = needs
        self._python = python
        self._known: dict[str, Executor] = {each.executor.id: each.executor for each in checked}
        self.clock_offsets: dict[str, float] = {each.executor.id: each.offset_seconds for each in checked}

    def _begin(self) -> None:
        """Nothing: those of the start were looked at."""

    def _round(self) -> None:
        try:
            now = {each.id: each for each in living(self._spark)}
        except Exception:  # noqa: BLE001  A JVM that dies fails in many ways; others look after that.
            return
        for gone in self._known.keys() - now.keys():
            _log.warning("executor lost", host=self._known.pop(gone).address, executor=gone)
            self.clock_offsets.pop(gone, None)
        for new in sorted(now.keys() - self._known.keys()):
            self._known[new] = now[new]
            self._look_at(now[new])

    def _look_at(self, executor: Executor) -> None:
        try:
            found = check_executor(self._spark, executor, self._needs, python=self._python)
        except ExecutorBusyError:
            del self._known[executor.id]  # looked at in the next round
            return
        except ExecutorUnusableError as error:
            if self._is_over.is_set() or all(each.id != executor.id for each in _living_or_none(self._spark)):
                return  # it went while it was asked
            _log.error("executor taken off", executor=executor.id, error=error.message)
            self._spark.sparkContext._jsc.sc().killExecutor(executor.id)
            return
        self.clock_offsets[executor.id] = found.offset_seconds
        _log.info("executor ready", host=_where(executor, found.host), executor=executor.id, slots=executor.slots)


def say_ready(checked: Sequence[Checked]) -> None:
    """Logs the executors of a start."""
    _log.info(
        "executors ready",
        executors=len(checked),
        slots=sum(each.executor.slots for each in checked),
        hosts=", ".join(sorted({_where(each.executor, each.host) for each in checked})),
        clocks_differ_seconds=round(max((abs(each.offset_seconds) for each in checked), default=0.0), 3),
    )


def _clock_offset(ask: Callable[[], float], clock: Callable[[], float] = time.time) -> tuple[float, float]:
    """Returns how far another clock is ahead of ours, and how well that is known: from the quickest of some answers."""
    best = (0.0, float("inf"))
    for _ in range(_CLOCK_ROUNDS):
        before = clock()
        there = ask()
        after = clock()
        half = (after - before) / 2
        if half < best[1]:
            best = (there - (before + half), half)
    return best


def _now_of(row: LeaseRow) -> float:
    now = row["now_seconds"]
    assert isinstance(now, float)
    return now


def _ask(spark: Any, executor: Executor, work: str, plan: bytes) -> LeaseRow:
    """Runs work on one executor; Spark waits some seconds for a free slot there before it takes another.

    Raises:
        ExecutorUnusableError: the work failed there.
        ExecutorBusyError: it had no free slot.
        OutcomeUnknownError, EngineDiedError: as `run_lease`.
    """
    for _ in range(_TRIES):
        row = _ask_once(spark, executor, work, plan)
        if row["executor"] in ("", executor.id):
            return row
    raise ExecutorBusyError(f"the executor on {executor.address} has no free slot")


def _ask_once(spark: Any, executor: Executor, work: str, plan: bytes) -> LeaseRow:
    place = f"executor_{executor.address}_{executor.id}"
    spark.sparkContext.setLocalProperty(_JOB_GROUP, place)
    (row,) = run_lease(
        spark,
        work,
        plan,
        description=f"look at the executor on {executor.address}",
        seconds_max=CHECK_SECONDS_MAX,
        place=place,
    )
    if row["kind"] == RETRIED:  # perhaps elsewhere: it may not be where the first one died
        raise ExecutorUnusableError(_why_it_died(spark, place))
    if row["kind"] == CRASHED:
        raise ExecutorUnusableError(str(row["message"]))
    return row


def _why_it_died(spark: Any, group: str) -> str:
    """Returns what Spark noted of the last task of a job group that failed."""
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()
    for job in context.statusTracker().getJobIdsForGroup(group):
        for stage in context.statusTracker().getJobInfo(job).stageIds:
            tasks = store.taskList(stage, 0, _TASKS_MAX)
            said = [tasks.apply(index).errorMessage() for index in range(tasks.size())]
            if causes := [each.get() for each in said if each.isDefined()]:
                return java_cause(str(causes[-1]))
    return "its first worker died"


def _living_or_none(spark: Any) -> list[Executor]:
    try:
        return living(spark)
    except Exception:  # noqa: BLE001  as above
        return []


def _where(executor: Executor, host: str) -> str:
    return host if host == executor.address else f"{host} ({executor.address})"


def _host(host_port: str) -> str:
    """Returns the host of ``host:port``; right after its registration an executor has no port yet."""
    host, colon, port = host_port.rpartition(":")
    return host if colon and port.isdigit() else host_port
