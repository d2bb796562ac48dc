"""How long a lease's process got no CPU time: then a missing answer says little of who was asked."""

import time

from mirrorlake.clock import Clock
from mirrorlake.errors import RequestTimeoutError

LATE_SECONDS_MIN = 0.5
"""A wait that ends so much later than asked counts; machines in use are a tenth of that late all the time."""

SAID_SECONDS_MIN = 1.0
"""A lease whose process lacked the CPU for less in all says nothing of it."""


LEASE_WAS_SHORT = "lease_was_short"
"""A fact of errors that say no more than that a lease was over too early."""


class Starvation:
    """What the waits of a lease's event loop tell of the time that its process was not run.

    Args:
        clock: tells how long a wait took.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds = 0.0
        self._begun_at = self._used = self._asked_seconds = 0.0

    @property
    def seconds(self) -> float:
        """For how long it was not run, of all waits so far."""
        return self._seconds

    def wait_begins(self, asked_seconds: float) -> None:
        """Takes that the event loop waits for so long at most from now on."""
        self._asked_seconds, self._used = asked_seconds, time.process_time()
        self._begun_at = self._clock.elapsed_seconds()

    def wait_ended(self) -> None:
        """Takes that this wait is over."""
        took = self._clock.elapsed_seconds() - self._begun_at
        self._seconds += starved_seconds(self._asked_seconds, took, used_seconds=time.process_time() - self._used)


def starved_seconds(asked_seconds: float, took_seconds: float, *, used_seconds: float) -> float:
    """Returns for how long a process was not run in a wait. Pure.

    What it used of the CPU beyond the time of the wait is its own work that made it late: that is no lack of CPU time.

    Args:
        asked_seconds: when the wait was to end at the latest.
        took_seconds: how long it took.
        used_seconds: the CPU-seconds of the whole process meanwhile.
    """
    late = took_seconds - max(0.0, asked_seconds)
    return max(0.0, late - used_seconds) if late >= LATE_SECONDS_MIN else 0.0


def not_answered(who: str, *, starved_seconds: float) -> RequestTimeoutError:
    """Returns that somebody did not answer within a lease; and if this process was not run meanwhile, that too. Pure.

    Args:
        who: a destination or a source, and of what.
        starved_seconds: for how long this process got no CPU time.
    """
    said = f"{who} did not answer within the lease"
    hint = hint_of(starved_seconds) or (
        "where each answer takes long, as over a long way, run it nearer, or give leases more time by `engine.lease`"
    )
    return RequestTimeoutError(said + without_cpu(starved_seconds), hint=hint, **{LEASE_WAS_SHORT: True})


def without_cpu(starved_seconds: float) -> str:
    """Returns how a sentence ends about a lease whose process was not run for so long; empty where that is short."""
    if starved_seconds < SAID_SECONDS_MIN:
        return ""
    return f"; this process had no CPU time for {starved_seconds:.1f} s of it"


def hint_of(starved_seconds: float) -> str:
    """Returns what to do about it; empty where there is nothing to be done."""
    if starved_seconds < SAID_SECONDS_MIN:
        return ""
    return (
        "an answer may have come and not been read: the machine has too little CPU for what runs on it, or the "
        "process was stopped; fewer `engine.lanes` need less of it at a time"
    )
