"""Batch work: many small tasks that may be repeated, in slots of their own, on as many executors as there are.

Beside leases, which run where the lanes put them, an engine has slots for work that is not copying: to compare, to
merge, to delete. Each task is one Spark job with a single Python task, as a lease is; what its work is belongs to who
asks. A task must do no harm when it is run again, *even while it still runs*: an executor that is lost to the driver
may be alive behind a cut network, and finish what it was given long after another one has. Work that must not begin
late carries a `Moment` in its plan and looks at it itself.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

import structlog

from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.pipeline.engine import Engine
from mirrorlake.pipeline.lease_job import CRASHED, LOST_ON, RETRIED, UNCHECKED, EngineDiedError, LeaseRow

TRIES_MAX = 3
"""So often a task begins whose worker or executor is lost, before that is its outcome."""

UNCHECKED_SECONDS_MAX = 120.0
"""For so long a task may come to executors that were not looked at yet, without a try being counted."""

HANGING_HINT = "where processes or filesystems of that host hang, mend it or take it out of the cluster; run this again"

_REST_SECONDS = 1.0  # between two tries; Spark needs that to notice that a worker's host is of no more use
_POLL_SECONDS = 0.1
_log = structlog.get_logger(__name__)


class BatchTaskFailedError(MirrorlakeError):
    """The work of a batch task raised something that is no error of ours, or gave no rows that can be read."""


class BatchStoppedError(MirrorlakeError):
    """Batch work was asked to stop before it was done: what it did not come to is left as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """One task.

    Attributes:
        work: ``module:function``, called in a Python worker with ``plan``; returns mappings that can be pickled.
        plan: bytes that mean something to the work only.
        description: for people, in errors, logs and Spark's job list.
        seconds_max: the worker ends itself, hard, when the work has not returned after so many seconds, and the task
            counts as lost, as it does where no worker begins with it (see ``task_bounds``).
    """

    work: str
    plan: bytes
    description: str
    seconds_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """A task that has ended, and the rows of its work or the error that it ended with."""

    task: BatchTask
    outcome: list[LeaseRow] | MirrorlakeError


class BatchJobs:
    """Runs tasks, a bounded number at one time, from as many threads as ask.

    Args:
        engine: that runs them.
        slots: how many may run at one time, asked again before each one begins (see `slots_beside`, `all_slots`).
        is_stopping: asked while anything is waited for. Once it says so no task begins, and who waits gets a
            `BatchStoppedError` at once; a task that runs goes on until it or the engine ends.
        tries_max: so often a task begins that is lost.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        slots: Callable[[], int],
        is_stopping: Callable[[], bool] = bool,
        tries_max: int = TRIES_MAX,
        rest_seconds: float = _REST_SECONDS,
    ) -> None:
        assert tries_max >= 1
        self._engine = engine
        self._slots = slots
        self._is_stopping = is_stopping
        self._tries_max = tries_max
        self._rest_seconds = rest_seconds
        self._running = 0
        self._changed = threading.Condition()

    @property
    def slots(self) -> int:
        """How many tasks may run at one time now; at least one."""
        return max(1, self._slots())

    def run(self, task: BatchTask) -> list[LeaseRow]:
        """Runs one task as soon as a slot is free; returns the rows of its work.

        A task whose worker or executor is lost begins again, ``tries_max`` times in all. Errors of its work do not
        repeat it.

        Raises:
            BatchTaskFailedError: the work raised an error.
            OutcomeUnknownError: it was lost ``tries_max`` times; each of them may have done something.
            EngineDiedError: the engine is gone; the same holds.
            BatchStoppedError: ``is_stopping`` said so before it began, or before it began again.
        """
        lost = hint = ""
        unchecked_until = time.monotonic() + UNCHECKED_SECONDS_MAX
        tries = 0
        while tries < self._tries_max:
            if lost:
                self._rest(task)
            rows, lost, hint = self._try(task)
            if not lost:
                return _checked(task, rows)
            _log.warning("batch task lost", task=task.description, why=lost, tries=tries + 1)
            # One that came to an executor nobody has looked at yet did not begin.
            is_unchecked = any(row.get("kind") == UNCHECKED for row in rows)
            tries += 0 if is_unchecked and time.monotonic() < unchecked_until else 1
        raise OutcomeUnknownError(f"a batch task was lost {tries} times: {lost}", hint=hint, task=task.description)

    def _try(self, task: BatchTask) -> tuple[list[LeaseRow], str, str]:
        """Runs a task once, in a slot; returns its rows, why it was lost, empty where it was not, and a hint."""
        self._take_slot(task)
        began = time.monotonic()
        try:
            rows = self._engine.run_lease(
                task.work, task.plan, description=task.description, seconds_max=task.seconds_max
            )
        except EngineDiedError:
            raise
        except OutcomeUnknownError as error:
            return [], error.message, error.hint
        finally:
            self._give_slot_back()
        lost = _why_lost(rows)
        if lost and time.monotonic() - began >= task.seconds_max:
            return rows, f"{lost}, after more than {task.seconds_max:.0f} s", HANGING_HINT
        return rows, lost, ""

    def results(self, tasks: Iterable[BatchTask], *, at_once: int | None = None) -> Iterator[BatchResult]:
        """Runs tasks side by side and yields a result of each as it ends, in whatever order they do.

        ``tasks`` is read in the caller's thread and never further ahead than there are slots, or ``at_once`` where that
        is less, so it may be long and may be found out bit by bit. An error of one task is its outcome, and the others
        continue. Who closes the iterator before its end begins no further task.

        Raises:
            EngineDiedError: the engine is gone; tasks without a result have an unknown outcome.
            BatchStoppedError: ``is_stopping`` said so; likewise.
        """
        waiting: SimpleQueue[BatchTask | None] = SimpleQueue()
        ended: SimpleQueue[BatchResult] = SimpleQueue()
        threads: list[threading.Thread] = []
        under_way = 0
        try:
            for task in tasks:
                while under_way and (under_way >= min(self.slots, at_once or self.slots) or not ended.empty()):
                    yield self._next(ended)
                    under_way -= 1
                self._check_stop()
                waiting.put(task)
                under_way += 1
                if len(threads) < under_way:
                    threads.append(self._start_thread(len(threads), waiting, ended))
            while under_way:
                yield self._next(ended)
                under_way -= 1
        finally:
            _empty(waiting)
            for _ in threads:
                waiting.put(None)

    def _start_thread(
        self, number: int, waiting: "SimpleQueue[BatchTask | None]", ended: SimpleQueue[BatchResult]
    ) -> threading.Thread:
        thread = self._engine.lane_thread(partial(self._serve, waiting, ended), f"batch-{number}")
        thread.daemon = True
        thread.start()
        return thread

    def _serve(self, waiting: "SimpleQueue[BatchTask | None]", ended: SimpleQueue[BatchResult]) -> None:
        while (task := waiting.get()) is not None:
            ended.put(BatchResult(task=task, outcome=self._outcome(task)))

    def _outcome(self, task: BatchTask) -> list[LeaseRow] | MirrorlakeError:
        try:
            return self.run(task)
        except MirrorlakeError as error:
            return error
        except Exception as error:  # noqa: BLE001  Whoever waits for the result must get one.
            _log.exception("batch task failed unexpectedly", task=task.description)
            return OutcomeUnknownError(f"a batch task failed: {error!r}", task=task.description)

    def _next(self, ended: SimpleQueue[BatchResult]) -> BatchResult:
        while True:
            try:
                result = ended.get(timeout=_POLL_SECONDS)
            except Empty:
                self._check_stop()
                continue
            if isinstance(result.outcome, EngineDiedError | BatchStoppedError):
                raise result.outcome
            return result

    def _take_slot(self, task: BatchTask) -> None:
        with self._changed:
            while True:
                self._check_stop(task)
                if self._running < self.slots:
                    self._running += 1
                    return
                self._changed.wait(_POLL_SECONDS)

    def _give_slot_back(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify()

    def _rest(self, task: BatchTask) -> None:
        until = time.monotonic() + self._rest_seconds
        while (left := until - time.monotonic()) > 0:
            self._check_stop(task)
            time.sleep(min(_POLL_SECONDS, left))

    def _check_stop(self, task: BatchTask | None = None) -> None:
        if self._is_stopping():
            what = "batch work" if task is None else task.description
            raise BatchStoppedError(f"stopped before it was done: {what}")


def slots_beside(engine: Engine, lanes: int) -> Callable[[], int]:
    """Returns the slots of batch work beside so many lanes: what an engine has more, and one at least.

    They are fewer while an executor is lost, so that leases need not wait for its batch tasks, and more where a cluster
    gives more executors than were asked for.
    """
    return lambda: max(1, engine.slots - lanes)


def all_slots(engine: Engine) -> Callable[[], int]:
    """Returns the slots of batch work on an engine that has no lanes: all there are, as executors come and go."""
    return lambda: engine.slots


def _why_lost(rows: list[LeaseRow]) -> str:
    """Returns why a task that came back has not been run to its end; empty where it has."""
    kinds = {row.get("kind") for row in rows}
    if RETRIED in kinds:
        where = next((f" on {row[LOST_ON]}" for row in rows if LOST_ON in row), "")
        return f"its worker died or was ended{where}"
    return "its executor has just joined and was not looked at yet" if UNCHECKED in kinds else ""


def _checked(task: BatchTask, rows: list[LeaseRow]) -> list[LeaseRow]:
    for row in rows:
        if row.get("kind") == CRASHED:
            _log.error("batch task crashed", task=task.description, traceback=row["traceback"])
            raise BatchTaskFailedError(f"{row['error_type']}: {row['message']}", task=task.description)
    return rows


def _empty(waiting: "SimpleQueue[BatchTask | None]") -> None:
    # Not `empty` and then `get`: a worker may take the last one between the two, and `get` would wait for ever.
    with contextlib.suppress(Empty):
        while True:
            waiting.get_nowait()
