"""Gives jobs of Spark's up whose task has not ended long after its worker must have ended itself.

A worker's own watchdog (`lease_job`) begins with its work. A task that hangs before that has none: one whose worker is
frozen, or is never forked, as the daemon that should do it waits for a filesystem. Spark waits for it as long as it
lives, and so would whoever waits for its rows.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mirrorlake.repeated import RepeatedInThread

GRACE_SECONDS = 90.0
"""A job is given up so long after its worker must have ended itself. Lanes give the whole engine up before, where every
one of them is in such a job (``lanes.OVERDUE_SECONDS``); a task that had to wait for a slot has long been told that it
comes late."""

LOOKS = 5
"""So many looks in a row must find a job so: a driver that was frozen itself sees old ones at its first look."""

LOOK_SECONDS = 2.0


@dataclass(slots=True)
class Watched:
    """A job that runs.

    Attributes:
        tag: that it bears.
        patience_seconds: for which a task of it may be under way, if it was not prolonged.
        give_up_at: reading of ``time.monotonic`` before which none can have been, if it was not prolonged.
        is_shuffle: of many tasks, which Spark runs elsewhere once the executors they hang on are replaced.
        looks: in a row that found it so late.
        is_given_up: once its end was ordered.
        hung_on: the executors on which tasks of it were under way for too long, for messages.
        seconds_more: by how much it was prolonged until now.
    """

    tag: str
    patience_seconds: float
    give_up_at: float
    is_shuffle: bool = False
    looks: int = 0
    is_given_up: bool = False
    hung_on: tuple[str, ...] = ()
    seconds_more: Callable[[], float] = float


class OverdueJobs(RepeatedInThread):
    """Looks at the jobs that run, in a thread of its own, until closed. Use as a context manager.

    Args:
        end: looks at a job that is so late, and orders its end where it is to end; returns whether it did. Called
            again, now and then, until the job has ended.
    """

    def __init__(self, end: Callable[[Watched], bool]) -> None:
        super().__init__("overdue-jobs", seconds=LOOK_SECONDS)
        self._end = end
        self._numbers = itertools.count(1)
        self._watched: dict[str, Watched] = {}

    @contextmanager
    def watched(
        self, seconds_max: float, *, is_shuffle: bool = False, seconds_more: Callable[[], float] = float
    ) -> Iterator[Watched]:
        """Watches a job for as long as the block takes; it must bear the tag that is given.

        Args:
            seconds_max: after which its worker ends itself.
            is_shuffle: see `Watched`.
            seconds_more: see `Watched`; 0 by default.
        """
        patience_seconds = seconds_max + GRACE_SECONDS
        give_up_at = time.monotonic() + patience_seconds
        job = Watched(
            f"mirrorlake-{next(self._numbers)}", patience_seconds, give_up_at, is_shuffle, seconds_more=seconds_more
        )
        self._watched[job.tag] = job
        try:
            yield job
        finally:
            del self._watched[job.tag]

    def _begin(self) -> None:
        """Nothing: there is no job yet."""

    def _round(self) -> None:
        now = time.monotonic()
        for job in list(self._watched.values()):
            job.looks = job.looks + 1 if now >= job.give_up_at + job.seconds_more() else 0
            if job.looks and job.looks % LOOKS == 0:
                job.is_given_up = self._end(job) or job.is_given_up
