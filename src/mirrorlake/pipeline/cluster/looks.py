"""Looks at executors: whether each of them has what leases need, told by itself, and how far its clock is from ours."""

import contextlib
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import structlog

from mirrorlake.errors import OutcomeUnknownError, StartStoppedError
from mirrorlake.moments import CLOCK_DIFFERENCE_SECONDS_MAX
from mirrorlake.pipeline.cluster import check
from mirrorlake.pipeline.cluster.executors import Executor, ExecutorSilentError, ExecutorUnusableError
from mirrorlake.pipeline.cluster.needs import Needs
from mirrorlake.pipeline.cluster.task_attempts import TaskAttempt, attempts_of
from mirrorlake.pipeline.lease_job import CRASHED, RETRIED, LeaseRow, java_cause, run_lease

CHECK_SECONDS_MAX = 60.0
"""For a worker to look at its host; loading what leases need comes before that and is not counted."""

AT_ONCE_MAX = 16
"""So many executors are looked at at one time."""

OWN_FAILURES = 2
"""So many workers of an executor must fail before they are its answer: one may have died by chance."""

_POLL_SECONDS = 0.2
_CLOCK_ROUNDS = 3
_TRIES = 3
_JOB_GROUP = "spark.jobGroup.id"
_log = structlog.get_logger(__name__)


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


def check_executors(
    spark: Any,
    executors: Sequence[Executor],
    needs: Needs,
    *,
    python: str,
    is_stopping: Callable[[], bool],
    seconds_max: float,
) -> list[Checked]:
    """Looks at executors, all at one time, and so warms them up: each has loaded what leases need then.

    One that dies meanwhile, or from which no answer comes in time, is left out with a warning, and its look is ended:
    whether it is fit is unknown, and whoever watches executors looks at it again.

    Args:
        spark: the session.
        executors: to be looked at.
        needs: what each must have.
        python: that they start, for messages.
        is_stopping: asked again and again.
        seconds_max: for all of it: Spark tries for minutes to start a worker where none can be started.

    Returns:
        What those said that answered, in the order in which they were given; all of them are fit.

    Raises:
        ExecutorUnusableError: what is wrong with which host, all of it: one of them at least is not fit, by its own
            answer or its own workers' ends.
        ExecutorSilentError: no answer came from any of them.
        StartStoppedError: ``is_stopping`` said so.
    """
    is_over = threading.Event()
    pool = ThreadPoolExecutor(min(AT_ONCE_MAX, max(1, len(executors))), "executor-check")
    try:
        asked = [
            pool.submit(check_executor, spark, each, needs, python=python, is_over=is_over.is_set) for each in executors
        ]
        give_up_at = time.monotonic() + seconds_max
        while not all(each.done() for each in asked) and time.monotonic() < give_up_at:
            if is_stopping():
                raise StartStoppedError("stopped while executors were looked at")
            time.sleep(_POLL_SECONDS)
    finally:
        is_over.set()
        pool.shutdown(wait=False, cancel_futures=True)
    troubles = [
        _trouble(future) if future.done() else _late(spark, executor, python, seconds_max)
        for executor, future in zip(executors, asked, strict=True)
    ]
    found = [future.result() for future, trouble in zip(asked, troubles, strict=True) if trouble is None]
    _judge([each for each in troubles if each is not None], are_all=not found)
    return found


def _judge(troubles: Sequence[BaseException], *, are_all: bool) -> None:
    """Raises what ends a start, of what looks did not tell; only says it where each of it is no answer."""
    if not troubles:
        return
    text, hint = "\n".join(str(each) for each in troubles), "see docs/cluster.md: what executors need"
    if not all(isinstance(each, ExecutorSilentError) for each in troubles):
        raise ExecutorUnusableError(text, hint=hint)
    if are_all:
        raise ExecutorSilentError(text, hint=hint)
    for each in troubles:
        _log.warning("the start continues without an executor from which no answer came", error=str(each))


def _trouble(looked: Future[Checked]) -> BaseException | None:
    """Returns why a look failed, None where it did not; one that was given up has not begun."""
    if looked.cancelled():
        return ExecutorSilentError("executors were left that nobody had looked at")
    return looked.exception()


def _late(spark: Any, executor: Executor, python: str, seconds: float) -> ExecutorUnusableError:
    """Ends a look; returns what is known of who has not answered: what Spark noted of the tasks it failed."""
    failures = _own_failures(spark, executor)
    with contextlib.suppress(Exception):  # a JVM that is gone: whoever asks it next says so
        cancel_look(spark, executor)
    if not failures:
        return ExecutorSilentError(f"the executor on {executor.address} did not answer within {seconds:.0f} s")
    return ExecutorUnusableError(_cannot_run(executor, python, failures[-1]))


def _cannot_run(executor: Executor, python: str, cause: str) -> str:
    return f"the executor on {executor.address} cannot run leases with {python}: {cause}{_remedy(cause)}"


def _remedy(cause: str) -> str:
    """Returns what to do about a Python that does not start, as a sentence's end; empty where that is not known."""
    if "No module named" in cause:
        return "; install what the driver has into that Python, or name one that has it in `spark.pyspark.python`"
    if "Cannot run program" in cause:
        return "; name a Python that is there in `spark.pyspark.python`"
    return ""


def check_executor(
    spark: Any, executor: Executor, needs: Needs, *, python: str, is_over: Callable[[], bool] = bool
) -> Checked:
    """Looks at one executor. Must not be asked about the same one at one time.

    Once ``is_over`` says so it is not asked again where no answer came.

    Raises:
        ExecutorUnusableError: it said itself that it is not fit, or could not start workers.
        ExecutorSilentError: no answer came from it, whatever another one said in its place.
        EngineDiedError: as `run_lease`.
    """
    row = _ask(spark, executor, check.WORK, pickle.dumps(needs), python, is_over)
    where = where_is(executor, str(row["host"]))
    wrong = row["wrong"]
    assert isinstance(wrong, list)
    if wrong:
        raise ExecutorUnusableError(f"the executor on {where} cannot run leases: {'; '.join(wrong)}")
    offset, error_seconds = _clock_offset(lambda: _now_of(_ask(spark, executor, check.CLOCK, b"", python, is_over)))
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


def cancel_look(spark: Any, executor: Executor) -> bool:
    """Ends the wait for an executor's answer; returns whether a task of the look is under way on it.

    What that task does is not ended by this: a worker that hangs goes on hanging.
    """
    group = place_of(executor)
    under_way = [each for each in attempts_of(spark, group, settle_seconds=0.0) if each.is_running]
    spark.sparkContext.cancelJobGroup(group)
    return any(each.executor == executor.id for each in under_way)


def say_ready(checked: Sequence[Checked]) -> None:
    """Logs the executors of a start."""
    _log.info(
        "executors ready",
        executors=len(checked),
        slots=sum(each.executor.slots for each in checked),
        hosts=", ".join(sorted({where_is(each.executor, each.host) for each in checked})),
        clocks_differ_seconds=round(max((abs(each.offset_seconds) for each in checked), default=0.0), 3),
    )


def where_is(executor: Executor, host: str) -> str:
    """Returns a host's name and address, for messages."""
    return host if host == executor.address else f"{host} ({executor.address})"


def place_of(executor: Executor) -> str:
    """Returns an executor as Spark's scheduler writes places; the job group of what it is asked has this name too."""
    return f"executor_{executor.address}_{executor.id}"


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


def _ask(spark: Any, executor: Executor, work: str, plan: bytes, python: str, is_over: Callable[[], bool]) -> LeaseRow:
    """Runs work on one executor, and again where no answer came from it, some times.

    Raises:
        ExecutorUnusableError: the work failed there.
        ExecutorSilentError: no answer came from it.
        EngineDiedError: as `run_lease`.
    """
    silent = ExecutorSilentError("")
    for _ in range(_TRIES):
        try:
            return _ask_once(spark, executor, work, plan, python)
        except ExecutorSilentError as error:
            silent = error
        if is_over():
            break
    raise silent


def _ask_once(spark: Any, executor: Executor, work: str, plan: bytes, python: str) -> LeaseRow:
    """Runs work on one executor; Spark waits some seconds for a free slot there before it takes another."""
    place = place_of(executor)
    spark.sparkContext.setLocalProperty(_JOB_GROUP, place)
    try:
        (row,) = run_lease(
            spark,
            work,
            plan,
            description=f"look at the executor on {executor.address}",
            seconds_max=CHECK_SECONDS_MAX,
            place=place,
        )
    except OutcomeUnknownError as error:
        raise _failed(spark, executor, python, error.message) from error
    if row["kind"] == RETRIED:
        raise _failed(spark, executor, python, "a worker died")
    if row["kind"] == CRASHED:
        if not _answered(spark, executor):
            raise _silent(executor, f"elsewhere the look failed: {row['message']}")
        raise ExecutorUnusableError(_cannot_run(executor, python, str(row["message"])))
    if row["executor"] not in ("", executor.id):
        raise ExecutorSilentError(f"the executor on {executor.address} has no free slot")
    return row


def _failed(spark: Any, executor: Executor, python: str, why: str) -> ExecutorUnusableError:
    """Returns the error of a look whose workers failed: of this executor where it were its own, else of none."""
    failures = _own_failures(spark, executor)
    if len(failures) >= OWN_FAILURES:
        return ExecutorUnusableError(_cannot_run(executor, python, failures[-1]))
    return _silent(executor, failures[-1] if failures else why)


def _silent(executor: Executor, why: str) -> ExecutorSilentError:
    return ExecutorSilentError(f"the executor on {executor.address} did not answer: {why}")


def _own_failures(spark: Any, executor: Executor) -> list[str]:
    """Returns why tasks of looks at an executor failed, of those that failed on itself, oldest first."""
    return [java_cause(each.error) for each in _own(spark, executor) if each.has_failed]


def _answered(spark: Any, executor: Executor) -> bool:
    """Returns whether the newest task of a look at an executor ended on itself."""
    attempts = attempts_of(spark, place_of(executor))
    return bool(attempts) and attempts[-1].executor == executor.id and attempts[-1].has_ended


def _own(spark: Any, executor: Executor) -> list[TaskAttempt]:
    return [each for each in attempts_of(spark, place_of(executor)) if each.executor == executor.id]
