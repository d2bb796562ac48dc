"""What Spark noted of the tasks of jobs: where each attempt ran, since when, and how it ended."""

import time
from dataclasses import dataclass
from typing import Any

SETTLE_SECONDS_MAX = 2.0
"""Spark notes what happened in a thread of its own, some milliseconds late."""

_POLL_SECONDS = 0.05
_ATTEMPTS_MAX = 10
_TASKS_MAX = 500  # Spark keeps no more of a stage (`spark.ui.retainedTasks`)
_EXECUTOR_LOST = "ExecutorLostFailure"  # how the reason begins that Spark gives for tasks of an executor that is gone


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """One attempt of a task.

    Attributes:
        executor: the id of the executor that ran it.
        status: Spark's word for how it is or ended.
        error: what Spark says of its end, empty where it says nothing.
        began_seconds: when the driver gave it away, by the driver's wall clock.
    """

    executor: str
    status: str
    error: str
    began_seconds: float = 0.0

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return self.status == "RUNNING"

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself without a result.

        One that was killed by order has not failed, nor one that is gone with its executor: that says nothing of what
        its worker would have done.
        """
        return self.status == "FAILED" and not self.error.startswith(_EXECUTOR_LOST)

    @property
    def has_ended(self) -> bool:
        """Whether it ended with a result."""
        return self.status == "SUCCESS"


def attempts_of(spark: Any, group: str, *, settle_seconds: float = SETTLE_SECONDS_MAX) -> list[TaskAttempt]:
    """Returns the attempts of all tasks of a job group, oldest first; none where the JVM does not answer.

    Args:
        spark: the session.
        group: of jobs that have ended, or else they are as far as Spark has noted.
        settle_seconds: for so long the end of each of them is waited for.
    """
    try:
        tracker, store = spark.sparkContext.statusTracker(), spark.sparkContext._jsc.sc().statusStore()
        jobs = sorted(tracker.getJobIdsForGroup(group))
        stages = [stage for job in jobs for stage in _settled(tracker, job, settle_seconds)]
        return [attempt for stage in stages for attempt in _of_stage(store, stage)]
    except Exception:  # noqa: BLE001  Of a JVM that does not answer nothing is known.
        return []


def attempts_of_tag(spark: Any, tag: str) -> list[TaskAttempt]:
    """Returns the attempts of all tasks of jobs with a tag, as far as Spark has noted them; none as `attempts_of`."""
    try:
        tracker, context = spark.sparkContext.statusTracker(), spark.sparkContext._jsc.sc()
        found = [tracker.getJobInfo(job) for job in sorted(context.statusTracker().getJobIdsForTag(tag))]
        stages = [stage for info in found if info is not None for stage in info.stageIds]
        return [attempt for stage in stages for attempt in _of_newest_run(context.statusStore(), stage)]
    except Exception:  # noqa: BLE001  Of a JVM that does not answer nothing is known.
        return []


def _settled(tracker: Any, job: int, seconds: float) -> list[int]:
    """Returns the stages of a job, once Spark has noted its end; of one that goes on after a while what there is."""
    give_up_at = time.monotonic() + seconds
    while (info := tracker.getJobInfo(job)) is not None and info.status == "RUNNING" and time.monotonic() < give_up_at:
        time.sleep(_POLL_SECONDS)
    return [] if info is None else list(info.stageIds)


def _of_newest_run(store: Any, stage: int) -> list[TaskAttempt]:
    """Returns the attempts of a stage's tasks since it was submitted last: again where output of it was lost."""
    run = store.lastStageAttempt(stage).attemptId()
    return _of_stage(store, stage, run=run, attempts_max=_TASKS_MAX)


def _of_stage(store: Any, stage: int, *, run: int = 0, attempts_max: int = _ATTEMPTS_MAX) -> list[TaskAttempt]:
    tasks = store.taskList(stage, run, attempts_max)
    in_order = sorted((tasks.apply(index) for index in range(tasks.size())), key=lambda each: int(each.attempt()))
    return [_attempt(each) for each in in_order]


def _attempt(task: Any) -> TaskAttempt:
    error = task.errorMessage()
    return TaskAttempt(
        executor=str(task.executorId()),
        status=str(task.status()),
        error=str(error.get()) if error.isDefined() else "",
        began_seconds=task.launchTime().getTime() / 1000,
    )
