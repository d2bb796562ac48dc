"""Merges and retires archives while the service runs, when their schedules say so; no lease waits for it.

One thread looks at the clock. What is due is done in a thread of its own, one at a time of a destination and a few of
all; a merge's tasks run in the engine's batch slots, beside the leases. Nothing is remembered: a moment that passes
while a destination is busy, or while nobody runs, is not made up for, as the next run finds all there is to do.
"""

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Self

import structlog

from mirrorlake.clock import Clock, utc_text
from mirrorlake.errors import MirrorlakeError
from mirrorlake.pipeline.batch_jobs import BatchStoppedError
from mirrorlake.pipeline.lease_job import EngineDiedError
from mirrorlake.schedule import Appointment
from mirrorlake.service.archives.scheduled import KeepingJob, KeepingOutcome, KeepingResult, KeepingWork
from mirrorlake.service.sight.keeping_board import KeepingBoard

_log = structlog.get_logger("mirrorlake")

RUNS_AT_ONCE = 4
"""Destinations that are looked at side by side: a first merge of a year's files must not keep the others for hours."""

LOOK_SECONDS = 0.5
"""Between two looks at the clock: a schedule has whole seconds, and the machine's clock may be set meanwhile."""

STOP_SECONDS_MAX = 2.0
"""A run that is in a request to its store then is left to the end of the process, which any step of it bears."""

_WORDS = {
    KeepingWork.MERGE: ("segments merged", "merging failed"),
    KeepingWork.RETAIN: ("segments retired", "retention failed"),
}

Destination = tuple[str, str]


class ArchiveKeeper:
    """Keeps the schedules of archives. Use as a context manager.

    Args:
        jobs: what is to be done when.
        do: does one, and returns what it did; see `ScheduledKeeping.do`.
        is_ours: tells whether this process is the one that serves a mirror, by its name.
        board: is told what is done.
        clock: tells the time.
        on_engine_dead: called where the engine turns out to be gone.
    """

    def __init__(
        self,
        jobs: list[KeepingJob],
        *,
        do: Callable[[KeepingJob], KeepingOutcome],
        is_ours: Callable[[str], bool],
        board: KeepingBoard,
        clock: Clock,
        on_engine_dead: Callable[[], None],
    ) -> None:
        self._do = do
        self._is_ours = is_ours
        self._board = board
        self._clock = clock
        self._on_engine_dead = on_engine_dead
        self._waiting = [(job, Appointment.after(job.schedule, clock.now_seconds())) for job in jobs]
        self._running: dict[Destination, threading.Thread] = {}
        self._is_over = threading.Event()
        self._has_news = threading.Event()
        self._thread = threading.Thread(target=self._work, name="archive-keeper", daemon=True)
        for job, appointment in self._waiting:
            board.planned(job.key, appointment.due_seconds)

    @property
    def is_stopping(self) -> bool:
        """Whether no work is to be begun any more."""
        return self._is_over.is_set()

    def __enter__(self) -> Self:
        if self._waiting:
            first = min(appointment.due_seconds for _, appointment in self._waiting)
            _log.info("archives are kept by schedules", schedules=len(self._waiting), first=_time(first))
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends; runs under way are waited for, `STOP_SECONDS_MAX` at most."""
        self._is_over.set()
        self._has_news.set()
        if not self._waiting:
            return
        give_up_at = self._clock.elapsed_seconds() + STOP_SECONDS_MAX
        for thread in (self._thread, *self._running.values()):
            thread.join(max(0.0, give_up_at - self._clock.elapsed_seconds()))

    def _work(self) -> None:
        while not self._is_over.is_set():
            try:
                self.look()
            except Exception:  # noqa: BLE001  A thread that ended would leave archives to grow in silence.
                _log.exception("the schedules of archives could not be looked at, trying again")
            self._has_news.wait(LOOK_SECONDS)
            self._has_news.clear()

    def look(self) -> None:
        """Begins whatever is due and free, once."""
        now_seconds = self._clock.now_seconds()
        self._running = {key: thread for key, thread in self._running.items() if thread.is_alive()}
        # The longest overdue first, and of one destination in the order of its jobs, which sorting keeps.
        for index in sorted(range(len(self._waiting)), key=lambda each: self._waiting[each][1].due_seconds):
            job, appointment = self._waiting[index]
            appointment = appointment.seen_at(now_seconds)
            if appointment.is_due(now_seconds) and self._may_begin(job):
                appointment = Appointment.after(job.schedule, now_seconds)
                self._begin(job)
            self._waiting[index] = job, appointment
            self._board.planned(job.key, appointment.due_seconds)

    def _may_begin(self, job: KeepingJob) -> bool:
        return len(self._running) < RUNS_AT_ONCE and job.key[:2] not in self._running and not self.is_stopping

    def _begin(self, job: KeepingJob) -> None:
        if not self._is_ours(job.mirror.name):
            # Whoever owns it does it; this process may have to wait for the ownership, and then it does.
            _log.debug("left to the owner of the mirror", mirror=job.mirror.name, work=job.work.value)
            return
        name = f"{job.work}-{job.mirror.name}"
        thread = threading.Thread(target=partial(self._run, job), name=name, daemon=True)
        self._running[job.key[:2]] = thread
        thread.start()

    def _run(self, job: KeepingJob) -> None:
        began, elapsed = self._clock.now_seconds(), self._clock.elapsed_seconds()
        self._board.began(job.key, began)
        try:
            outcome = self._do(job)
        except BatchStoppedError:
            outcome = KeepingOutcome(result=KeepingResult.STOPPED)
        except MirrorlakeError as error:
            outcome = KeepingOutcome.failed(error)
            if isinstance(error, EngineDiedError) and not self.is_stopping:
                self._on_engine_dead()
        except Exception as error:  # noqa: BLE001  Whatever it is, it is shown, and tried again next time.
            _log.exception("an archive's schedule failed unexpectedly", **_facts(job))
            outcome = KeepingOutcome.failed(MirrorlakeError(f"unexpected: {error!r}"))
        seconds = self._clock.elapsed_seconds() - elapsed
        self._board.ended(job.key, outcome, now_seconds=self._clock.now_seconds(), seconds=seconds)
        if not (self.is_stopping and outcome.error is not None):  # what a stop breaks off is no failure
            _say(job, outcome, seconds=seconds)
        self._has_news.set()


def _time(seconds: float) -> str:
    return "never" if math.isinf(seconds) else utc_text(int(seconds * 1000))


def _facts(job: KeepingJob) -> dict[str, str]:
    return {"mirror": job.mirror.name, "destination": job.destination.label}


def _say(job: KeepingJob, outcome: KeepingOutcome, *, seconds: float) -> None:
    """Says what was done, and the first of what failed; a run that found nothing to do is for who debugs."""
    done, failed = _WORDS[job.work]
    if outcome.result is KeepingResult.STOPPED:
        _log.info("stopped, and continued by the next run", **_facts(job), work=job.work.value)
        return
    numbers = {"files": outcome.files, "bytes": outcome.size_bytes}
    if job.work is KeepingWork.MERGE:
        numbers |= {"into": outcome.made, "into_bytes": outcome.made_bytes, "leftovers": outcome.leftovers}
    tell = _log.info if outcome.did_something else _log.debug
    tell(done, **_facts(job), **numbers, seconds=round(seconds, 1))
    if outcome.error is not None:
        hint = {"hint": outcome.error.hint} if outcome.error.hint else {}
        _log.warning(
            f"{failed}, and is tried again next time",
            **_facts(job),
            failures=outcome.failures,
            error=outcome.error.message,
            kind=type(outcome.error).__name__,
            **hint,
        )
