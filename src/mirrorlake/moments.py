"""Moments that two processes can compare, each by its own clocks, on one machine or on two."""

import contextlib
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mirrorlake.clock import Clock

CLOCK_DIFFERENCE_SECONDS_MAX = 1.0
"""By which the wall clocks of a driver and its workers may differ: an executor whose clock differs more is refused, and
whoever waits for the end of a lease waits so much longer."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")


@functools.cache
def this_machine() -> str:
    """Returns what processes have in common whose ``elapsed_seconds`` may be compared; empty where that is not known.

    That is one start of one kernel, and one time namespace, as CLOCK_BOOTTIME can be shifted by one
    (``time_namespaces(7)``). Only Linux tells both; elsewhere moments are compared by the wall clock.
    """
    with contextlib.suppress(OSError):
        return f"{_BOOT_ID.read_text().strip()} {_TIME_NAMESPACE.readlink()}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment as read off the clocks of ``machine``, which is `this_machine` of the process that made it."""

    machine: str
    elapsed_seconds: float
    now_seconds: float

    @classmethod
    def of(cls, clock: Clock, *, in_seconds: float = 0.0) -> Self:
        """Returns the moment ``in_seconds`` from now."""
        return cls(
            machine=this_machine(),
            elapsed_seconds=clock.elapsed_seconds() + in_seconds,
            now_seconds=clock.now_seconds() + in_seconds,
        )

    def seconds_since(self, clock: Clock) -> float:
        """Returns how long ago the moment was, negative where it is still to come.

        On the machine that it was made on exactly, whatever its wall clock does; on another one by the wall clocks of
        the two, and as well as they agree.
        """
        if self.machine and self.machine == this_machine():
            return clock.elapsed_seconds() - self.elapsed_seconds
        return clock.now_seconds() - self.now_seconds
