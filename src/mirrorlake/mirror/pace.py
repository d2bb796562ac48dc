"""How fast a lease may read for a mirror: a debt that every delivery adds to, and that time takes away.

While there is a debt nothing more is asked for; a delivery that makes one is taken whole. So what a lane reads in any
time for a mirror is at most what its share of the limit allows in that time, and one round of answers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mirrorlake.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceOrder:
    """What a lease is told of a mirror's limit: bytes per second, above zero, and the debt it begins with, in bytes."""

    bytes_per_second: float
    debt_bytes: float = 0.0


class Timer(Protocol):
    """Calls something later; the event loop's ``call_later``."""

    def __call__(self, delay: float, callback: Callable[[], None], /) -> object:
        """Calls ``callback`` once, after ``delay`` seconds."""
        ...


class Pace:
    """The debt of one mirror in one lease. Belongs to the lease's event loop.

    Args:
        order: what the driver says.
        clock: by which the debt shrinks.
        call_later: wakes who waits for the debt to be gone.
    """

    def __init__(self, order: PaceOrder, *, clock: Clock, call_later: Timer) -> None:
        self._rate = order.bytes_per_second
        self._debt = order.debt_bytes
        self._at = clock.elapsed_seconds()
        self._clock = clock
        self._call_later = call_later
        self._followers: list[Callable[[], None]] = []
        self._is_timed = False

    def follow(self, changed: Callable[[], None]) -> None:
        """Has ``changed`` called whenever the debt is gone."""
        self._followers.append(changed)

    @property
    def left_bytes(self) -> float:
        """The debt that is left now, in bytes."""
        return max(0.0, self._debt - self._rate * (self._clock.elapsed_seconds() - self._at))

    @property
    def is_open(self) -> bool:
        """True where more may be asked for; where not, those that follow are called once it may."""
        left = self.left_bytes
        if left <= 0:
            return True
        if not self._is_timed:
            self._is_timed = True
            self._call_later(left / self._rate, self._wake)
        return False

    def took(self, read_bytes: int) -> None:
        """Adds bytes that were read, as they came: batches with their headers, still compressed."""
        self._debt = self.left_bytes + read_bytes
        self._at = self._clock.elapsed_seconds()

    def _wake(self) -> None:
        self._is_timed = False
        for changed in self._followers:
            changed()
