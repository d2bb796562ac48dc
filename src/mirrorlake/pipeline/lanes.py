"""Lanes: driver threads that each run one lease after another, whatever happens to the others."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import structlog

from mirrorlake.clock import Clock, SystemClock
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.pipeline.engine import Engine
from mirrorlake.pipeline.lease_job import EngineDiedError, LeaseRow

WATCHDOG_SECONDS = 5.0
"""A worker is killed so long after its lease should have ended; work that is merely late ends before."""

LOST_LEASES_MAX = 3
"""Leases in a row from which a lane got nothing back, for nothing of theirs: Spark is of no more use to it."""

OVERDUE_SECONDS = 60.0
"""A lease whose worker should have been killed so long ago is lost, for now: the JVM is frozen, or has forgotten it."""

OVERDUE_LOOKS = 10
"""So many looks in a row must find every lane so: a driver that was frozen itself sees old leases at its first look."""

_log = structlog.get_logger(__name__)

LeaseRunner = Callable[["Lease"], list[LeaseRow]]
"""Runs one lease to its end. Raises OutcomeUnknownError or EngineDiedError (see ``lease_job.run_lease``)."""

ThreadFactory = Callable[[Callable[[], None], str], threading.Thread]
"""Makes, but does not start, a thread from what it runs and a name."""


@dataclass(slots=True, eq=False)
class Prolonged:
    """By how many seconds a lease that runs was prolonged until now; its source adds to them."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One task's worth of work.

    Attributes:
        work: ``module:function``, called in a Python worker with ``plan``.
        plan: bytes that mean something to the work only.
        description: for people, in logs and in Spark's job list.
        seconds: after which the work ends itself; the worker is killed some seconds later.
        prolonged: both come so much later.
    """

    work: str
    plan: bytes
    description: str
    seconds: float
    prolonged: Prolonged = field(default_factory=Prolonged)


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
    lost: int = 0
    overdue_at: float | None = None
    prolonged: Prolonged = field(default_factory=Prolonged)
    thread: threading.Thread | None = None
    rest_until: float = field(default=0.0)


class LanePool:
    """A fixed number of lanes over one source of leases.

    A lane asks the source, runs the lease, hands its outcome back, and asks again; with nothing to do it
    waits until :meth:`wake` or ``idle_seconds``. A failed job, or an error of the source, rests that lane
    alone. An engine from which no lane gets anything back any more is as good as dead, though its JVM lives.

    Args:
        lanes: how many.
        source: what to do.
        run: runs one lease; blocks.
        on_engine_dead: called once when the JVM is gone, or of no use, from a lane's thread or the one that looks;
            every lane ends then.
        is_engine_alive: asked after each failure, because a dying JVM shows itself in many ways.
        may_give_up: asked before an engine that lives is given up; otherwise lanes go on trying, ever more slowly.
        idle_seconds: how long an idle lane waits before it asks again unasked.
        back_off: rests after failures.
        clock: for rests and deadlines.
        thread_factory: makes a lane's thread; Spark needs its own kind (see ``EngineSession.lane_thread``).
    """

    def __init__(
        self,
        *,
        lanes: int,
        source: LeaseSource,
        run: LeaseRunner,
        on_engine_dead: Callable[[], None],
        is_engine_alive: Callable[[], bool] = lambda: True,
        may_give_up: Callable[[], bool] = lambda: True,
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
        self._may_give_up = may_give_up
        self._idle_seconds = idle_seconds
        self._back_off = back_off or BackOff()
        self._clock = clock or SystemClock()
        self._lanes = [_Lane(index) for index in range(lanes)]
        self._thread_factory = thread_factory or _plain_thread
        self._changed = threading.Condition()
        self._wakes = 0
        self._is_dead = False
        self._is_useless = False
        self._overdue_looks = 0
        # No lease begins from then on; None while no stop was asked for.
        self._last_start: float | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._last_start is not None

    @property
    def is_engine_dead(self) -> bool:
        """Whether the JVM was found gone, or of no use."""
        return self._is_dead

    @property
    def is_engine_useless(self) -> bool:
        """Whether every lane lost its leases although the JVM lives."""
        return self._is_useless

    def start(self) -> None:
        """Starts all lanes, or reports the engine dead where that is what it finds. Not idempotent."""
        for lane in self._lanes:
            thread = self._thread_factory(partial(self._work, lane), f"lane-{lane.index}")
            thread.daemon = True
            try:
                thread.start()
            except EngineDiedError:
                self._engine_died()
                return
            lane.thread = thread

    def wake(self) -> None:
        """Lets every idle lane ask the source at once. A lane at rest after a failure goes on resting."""
        with self._changed:
            self._wakes += 1
            self._changed.notify_all()

    def look(self) -> None:
        """Gives the engine up where every lane is in a lease that is long overdue; to be called now and then."""
        with self._changed:
            self._overdue_looks = self._overdue_looks + 1 if self._loses_everything() else 0
            is_useless = self._overdue_looks >= OVERDUE_LOOKS and not self._is_dead
        if is_useless:
            self._engine_useless()

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
        lane.prolonged = lease.prolonged
        lane.overdue_at = self._clock.elapsed_seconds() + lease.seconds + WATCHDOG_SECONDS + OVERDUE_SECONDS
        try:
            outcome = self._run(lease)
            lane.failures = 0
            self._something_came_back()
        except MirrorlakeError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001
            _log.exception("lease failed unexpectedly", lane=lane.index, lease=lease.description)
            outcome = OutcomeUnknownError(f"a lease failed: {error!r}", lease=lease.description)
        lane.overdue_at = None
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
            elif self._lost(lane):
                self._engine_useless()

    def _failed(self, lane: _Lane) -> None:
        lane.failures += 1
        lane.rest_until = self._clock.elapsed_seconds() + self._back_off.seconds(lane.failures)

    def _something_came_back(self) -> None:
        with self._changed:
            for lane in self._lanes:
                lane.lost = 0

    def _lost(self, lane: _Lane) -> bool:
        """Counts a lease from which nothing came back; returns whether that is all that any lane gets."""
        with self._changed:
            lane.lost += 1
            return self._loses_everything()

    def _loses_everything(self) -> bool:
        """Whether every lane that has had anything to do lost its last leases; one that runs may yet bring rows."""
        now = self._clock.elapsed_seconds()
        concerned = [lane for lane in self._lanes if lane.lost or lane.overdue_at is not None]
        return bool(concerned) and all(
            lane.lost >= LOST_LEASES_MAX
            or (lane.overdue_at is not None and now >= lane.overdue_at + lane.prolonged.seconds)
            for lane in concerned
        )

    def _engine_useless(self) -> None:
        if not self._may_give_up():
            return
        _log.error(
            "Spark brings nothing back from any lease",
            lost={f"lane {lane.index}": lane.lost for lane in self._lanes},
            hint="the errors above say why; it is started again",
        )
        self._is_useless = True
        self._engine_died()

    def _engine_died(self) -> None:
        with self._changed:
            is_news = not self._is_dead
            self._is_dead = True
            self._changed.notify_all()
        if is_news:
            self._on_engine_dead()


def engine_lanes(
    engine: Engine,
    *,
    lanes: int,
    source: LeaseSource,
    on_engine_dead: Callable[[], None],
    may_give_up: Callable[[], bool] = lambda: True,
    idle_seconds: float = 0.5,
    watchdog_seconds: float = WATCHDOG_SECONDS,
) -> LanePool:
    """Returns lanes that run their leases on an engine; not started yet."""

    def run(lease: Lease) -> list[LeaseRow]:
        return engine.run_lease(
            lease.work,
            lease.plan,
            description=lease.description,
            seconds_max=lease.seconds + watchdog_seconds,
            seconds_more=lambda: lease.prolonged.seconds,
        )

    return LanePool(
        lanes=lanes,
        source=source,
        run=run,
        on_engine_dead=on_engine_dead,
        is_engine_alive=engine.is_alive,
        may_give_up=may_give_up,
        idle_seconds=idle_seconds,
        thread_factory=engine.lane_thread,
    )


def _plain_thread(target: Callable[[], None], name: str) -> threading.Thread:
    return threading.Thread(target=target, name=name)
