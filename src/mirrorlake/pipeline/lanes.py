"""Lanes: driver threads that each run one lease after another, whatever happens to the others."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import structlog

from mirrorlake.clock import Clock, SystemClock
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.pipeline.lease_job import EngineDiedError, LeaseRow, run_lease
from mirrorlake.pipeline.session import EngineSession

WATCHDOG_SECONDS = 5.0
"""A worker is killed so long after its lease should have ended; work that is merely late ends before."""

_log = structlog.get_logger(__name__)

LeaseRunner = Callable[["Lease"], list[LeaseRow]]
"""Runs one lease to its end. Raises OutcomeUnknownError or EngineDiedError (see ``lease_job.run_lease``)."""

ThreadFactory = Callable[[Callable[[], None], str], threading.Thread]
"""Makes, but does not start, a thread from what it runs and a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One task's worth of work.

    Attributes:
        work: ``module:function``, called in a Python worker with ``plan``.
        plan: bytes that mean something to the work only.
        description: for people, in logs and in Spark's job list.
        seconds: after which the work ends itself; the worker is killed some seconds later.
    """

    work: str
    plan: bytes
    description: str
    seconds: float


class LeaseSource(Protocol):
    """Says what each lane does next. Called from the lanes' threads, so it must be thread-safe and quick."""

    def next_lease(self, lane_index: int) -> Lease | None:
        """Returns the lane's next lease, or None when there is nothing to do now."""
        ...

    def lease_ended(self, lane_index: int, lease: Lease, outcome: list[LeaseRow] | MirrorlakeError) -> None:
        """Takes the rows of a lease, or the error of a job that brought none: its outcome is unknown."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """How long a lane rests after failures in a row: doubling, bounded.

    Attributes:
        first_seconds: after the first failure.
        most_seconds: never more than this.
    """

    first_seconds: float = 0.5
    most_seconds: float = 30.0

    def seconds(self, failures: int) -> float:
        """Returns the rest after so many failures in a row, none without a failure."""
        if failures == 0:
            return 0.0
        return float(min(self.most_seconds, self.first_seconds * 2 ** min(failures - 1, 30)))


@dataclass(slots=True)
class _Lane:
    index: int
    failures: int = 0
    thread: threading.Thread | None = None
    rest_until: float = field(default=0.0)


class LanePool:
    """A fixed number of lanes over one source of leases.

    A lane asks the source, runs the lease, hands its outcome back, and asks again; with nothing to do it
    waits until :meth:`wake` or ``idle_seconds``. A failed job, or an error of the source, rests that lane
    alone.

    Args:
        lanes: how many.
        source: what to do.
        run: runs one lease; blocks.
        on_engine_dead: called once, from a lane's thread, when the JVM is gone; every lane ends then.
        is_engine_alive: asked after each failure, because a dying JVM shows itself in many ways.
        idle_seconds: how long an idle lane waits before it asks again unasked.
        back_off: rests after failures.
        clock: for rests and deadlines.
        thread_factory: makes a lane's thread; Spark needs its own kind (see :func:`spark_lanes`).
    """

    def __init__(
        self,
        *,
        lanes: int,
        source: LeaseSource,
        run: LeaseRunner,
        on_engine_dead: Callable[[], None],
        is_engine_alive: Callable[[], bool] = lambda: True,
        idle_seconds: float = 0.5,
        back_off: BackOff | None = None,
        clock: Clock | None = None,
        thread_factory: ThreadFactory | None = None,
    ) -> None:
        assert lanes >= 1
        self._source = source
        self._run = run
        self._on_engine_dead = on_engine_dead
        self._is_engine_alive = is_engine_alive
        self._idle_seconds = idle_seconds
        self._back_off = back_off or BackOff()
        self._clock = clock or SystemClock()
        self._lanes = [_Lane(index) for index in range(lanes)]
        self._thread_factory = thread_factory or _plain_thread
        self._changed = threading.Condition()
        self._wakes = 0
        self._is_dead = False
        # No lease begins from then on; None while no stop was asked for.
        self._last_start: float | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._last_start is not None

    @property
    def is_engine_dead(self) -> bool:
        """Whether a lane found the JVM gone."""
        return self._is_dead

    def start(self) -> None:
        """Starts all lanes. Not idempotent."""
        for lane in self._lanes:
            lane.thread = self._thread_factory(partial(self._work, lane), f"lane-{lane.index}")
            lane.thread.daemon = True
            lane.thread.start()

    def wake(self) -> None:
        """Lets every idle lane ask the source at once. A lane at rest after a failure goes on resting."""
        with self._changed:
            self._wakes += 1
            self._changed.notify_all()

    def stop(self, deadline_seconds: float, *, drain: bool = True) -> bool:
        """Lets the lanes come to an end, and waits for it. Cancels nothing. Idempotent.

        Args:
            deadline_seconds: leases may begin, and are waited for, until then.
            drain: lanes go on asking until the source has nothing for them, which is how it gets everything
                due flushed; otherwise each ends with the lease it is in.

        Returns:
            Whether every lane has ended; those that have not go on in daemon threads.
        """
        give_up_at = self._clock.elapsed_seconds() + deadline_seconds
        with self._changed:
            last_start = give_up_at if drain else float("-inf")
            # A second call may bring the end nearer, never put it off.
            self._last_start = last_start if self._last_start is None else min(last_start, self._last_start)
            self._changed.notify_all()
        for lane in self._lanes:
            if lane.thread is not None:
                lane.thread.join(max(0.0, give_up_at - self._clock.elapsed_seconds()))
        return not any(lane.thread.is_alive() for lane in self._lanes if lane.thread is not None)

    def _work(self, lane: _Lane) -> None:
        while self._may_begin(lane):
            wakes = self._wakes
            lease = self._ask(lane)
            if lease is not None:
                self._run_one(lane, lease)
            elif self.is_stopping and lane.failures == 0:
                return
            else:
                self._idle(wakes)

    def _may_begin(self, lane: _Lane) -> bool:
        """Rests after failures, then returns whether another lease may begin."""
        with self._changed:
            while not self._is_over():
                rest = lane.rest_until - self._clock.elapsed_seconds()
                if rest <= 0:
                    return True
                self._changed.wait(rest)
            return False

    def _is_over(self) -> bool:
        if self._is_dead:
            return True
        return self._last_start is not None and self._clock.elapsed_seconds() >= self._last_start

    def _idle(self, wakes: int) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._wakes != wakes or self.is_stopping or self._is_dead, self._idle_seconds
            )

    def _ask(self, lane: _Lane) -> Lease | None:
        try:
            lease = self._source.next_lease(lane.index)
        except Exception:  # noqa: BLE001  One lane's trouble, whatever it is, never ends the lane.
            _log.exception("lane could not get a lease", lane=lane.index)
            self._failed(lane)
            return None
        if lease is None:
            lane.failures = 0
        return lease

    def _run_one(self, lane: _Lane, lease: Lease) -> None:
        outcome: list[LeaseRow] | MirrorlakeError
        try:
            outcome = self._run(lease)
            lane.failures = 0
        except MirrorlakeError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001
            _log.exception("lease failed unexpectedly", lane=lane.index, lease=lease.description)
            outcome = OutcomeUnknownError(f"a lease failed: {error!r}", lease=lease.description)
        try:
            self._source.lease_ended(lane.index, lease, outcome)
        except Exception:  # noqa: BLE001
            _log.exception("outcome of a lease was not taken", lane=lane.index, lease=lease.description)
            self._failed(lane)
            return
        if isinstance(outcome, MirrorlakeError):
            self._failed(lane)
            if isinstance(outcome, EngineDiedError) or not self._is_engine_alive():
                self._engine_died()

    def _failed(self, lane: _Lane) -> None:
        lane.failures += 1
        lane.rest_until = self._clock.elapsed_seconds() + self._back_off.seconds(lane.failures)

    def _engine_died(self) -> None:
        with self._changed:
            is_news = not self._is_dead
            self._is_dead = True
            self._changed.notify_all()
        if is_news:
            self._on_engine_dead()


def spark_lanes(
    session: EngineSession,
    *,
    lanes: int,
    source: LeaseSource,
    on_engine_dead: Callable[[], None],
    idle_seconds: float = 0.5,
    watchdog_seconds: float = WATCHDOG_SECONDS,
) -> LanePool:
    """Returns lanes that run their leases on a session; not started yet."""

    def run(lease: Lease) -> list[LeaseRow]:
        return run_lease(
            session.spark,
            lease.work,
            lease.plan,
            description=lease.description,
            seconds_max=lease.seconds + watchdog_seconds,
        )

    return LanePool(
        lanes=lanes,
        source=source,
        run=run,
        on_engine_dead=on_engine_dead,
        is_engine_alive=session.is_alive,
        idle_seconds=idle_seconds,
        thread_factory=_spark_thread,
    )


def _spark_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Returns a thread with a JVM thread of its own, so that job descriptions of lanes do not mix."""
    from pyspark import InheritableThread

    thread: threading.Thread = InheritableThread(target, name=name)
    return thread


def _plain_thread(target: Callable[[], None], name: str) -> threading.Thread:
    return threading.Thread(target=target, name=name)
