"""The executors of a cluster: found, waited for, and taken off where they are not fit."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from mirrorlake.errors import MirrorlakeError, StartStoppedError

SETTLED_SECONDS = 5.0
"""With fewer slots than wanted, the start goes on when none was added for so long."""

_POLL_SECONDS = 0.2
_log = structlog.get_logger(__name__)


class ExecutorUnusableError(MirrorlakeError):
    """There are no executors, or one of them lacks what leases need."""


class ExecutorSilentError(ExecutorUnusableError):
    """An executor was asked and no answer came from itself: it had no free slot, or the work ended elsewhere.

    Whether it is fit is unknown.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """One executor as the driver knows it. ``address`` is that of its host."""

    id: str
    address: str
    slots: int


def living(spark: Any) -> list[Executor]:
    """Returns the executors that are registered now."""
    found = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    summaries = [found.apply(index) for index in range(found.size())]
    return [
        Executor(id=each.id(), address=_host(each.hostPort()), slots=each.totalCores())
        for each in summaries
        if each.id() != "driver"
    ]


def hold(spark: Any, executor: Executor, why: str) -> None:
    """Has Spark give an executor no further task. What it runs goes on, and it stays registered. Idempotent.

    Spark's name for it is to decommission. Without ``spark.decommission.enabled`` that is all that comes of it; with it
    the executor also ends itself once it has nothing to do.
    """
    jvm = spark.sparkContext._jvm
    info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(why, jvm.scala.Option.empty())
    _backend(spark).decommissionExecutor(executor.id, info, False, False)


def replace(spark: Any, executor: Executor) -> None:
    """Has an executor killed, with what it runs, and another one started where there is room. Idempotent.

    ``SparkContext.killExecutor`` also lowers the number of executors that Spark wants. That is 0 after the first one
    where the number was never asked for, as without dynamic allocation: then no executor is ever started again, of
    whatever later ones die (``CoarseGrainedSchedulerBackend.adjustExecutors`` of Spark 4.3).
    """
    spark.sparkContext._jsc.sc().killAndReplaceExecutor(executor.id)


def _backend(spark: Any) -> Any:
    return spark.sparkContext._jsc.sc().schedulerBackend()


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


def _host(host_port: str) -> str:
    """Returns the host of ``host:port``; right after its registration an executor has no port yet."""
    host, colon, port = host_port.rpartition(":")
    return host if colon and port.isdigit() else host_port
