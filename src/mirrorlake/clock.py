"""Clocks, passed in wherever time matters, so that tests can own the time."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The two readings of time the package uses."""

    def now_seconds(self) -> float:
        """Returns the wall clock in seconds since the epoch; it may jump."""
        ...

    def elapsed_seconds(self) -> float:
        """Returns a reading that only grows and goes on while the machine sleeps; only differences mean something."""
        ...


def utc_text(time_ms: int) -> str:
    """Returns a wall clock time, in milliseconds since the epoch, as logs write it: ISO 8601 in UTC, whole seconds."""
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# CLOCK_MONOTONIC stops while a laptop or a frozen VM sleeps; a claim must not outlive that sleep.
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's own clocks."""

    def now_seconds(self) -> float:
        """Returns the wall clock in seconds since the epoch."""
        return time.time()

    def elapsed_seconds(self) -> float:
        """Returns CLOCK_BOOTTIME where the platform has it, so that a suspended writer sees its deadline pass."""
        return time.clock_gettime(_ELAPSED)


class ManualClock:
    """A clock that stands still until told; for tests and simulations.

    Args:
        now_seconds: where the wall clock starts.
    """

    def __init__(self, now_seconds: float = 1_700_000_000.0) -> None:
        self._now = now_seconds
        self._elapsed = 0.0

    def now_seconds(self) -> float:
        """Returns the wall clock in seconds since the epoch."""
        return self._now

    def elapsed_seconds(self) -> float:
        """Returns the seconds advanced so far."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        """Moves both readings forward by ``seconds``."""
        self._now += seconds
        self._elapsed += seconds
