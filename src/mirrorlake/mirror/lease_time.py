"""When the parts of a lease end, in readings of its clock; and that it may be recalled before."""

import asyncio
import os

from mirrorlake.clock import Clock
from mirrorlake.mirror.work import LeasePlan

LOOK_AGAIN_SECONDS = 0.05

RECALLED_SECONDS_MIN = 1.0
"""A lease that is recalled runs so long all the same: one cut short while it reads its positions has only errors."""


class LeaseTime:
    """The time of one lease.

    ``recalled`` is done once the live time was ended early.

    Args:
        plan: how long it may last.
        clock: what its readings are of.
        began_seconds: the clock's reading when the lease began; now where left out.
    """

    def __init__(self, plan: LeasePlan, clock: Clock, *, began_seconds: float | None = None) -> None:
        self.recalled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._plan = plan
        self._clock = clock
        self._started = clock.elapsed_seconds() if began_seconds is None else began_seconds
        self._live_until = self._started + plan.live_seconds
        self._hard_until = self._started + plan.hard_seconds

    @property
    def live_until(self) -> float:
        """The clock's reading at which live reading ends: sooner once the lease is recalled, later where it goes on."""
        return self._live_until

    @property
    def hard_until(self) -> float:
        """Reading of the clock at which everything is dropped."""
        return self._hard_until

    @property
    def live_is_over(self) -> bool:
        """True once live reading has ended."""
        return self._clock.elapsed_seconds() >= self._live_until

    def live_seconds_left(self) -> float:
        """Seconds until live reading ends; afterwards a short while, to look again."""
        return max(LOOK_AGAIN_SECONDS, self._live_until - self._clock.elapsed_seconds())

    def may_begin(self) -> bool:
        """True while a further segment may be begun: within the live time, so that live partitions soon get theirs."""
        return self._clock.elapsed_seconds() < self._live_until

    def seconds_to_begin(self) -> float:
        """Seconds for which ``may_begin`` holds, as long as the lease is not recalled; never negative."""
        return max(0.0, self._live_until - self._clock.elapsed_seconds())

    def is_recalled(self, now: float, *, is_whole: bool) -> bool:
        """Tells whether the live time should end now, before its time.

        Args:
            now: reading of the clock.
            is_whole: whether no partition has ended yet.
        """
        if now >= self._live_until:
            return False
        if not is_whole and now >= self._started + self._plan.unbroken_seconds:
            return True
        file = self._plan.recall_file
        # Four times a second, and a `Path` takes longer to make than to be looked for.
        return bool(file) and now >= self._started + RECALLED_SECONDS_MIN and os.path.exists(file)  # noqa: PTH110

    def prolong(self, seconds: float) -> None:
        """Lets all that has not ended yet end so many seconds later."""
        self._live_until += seconds
        self._hard_until += seconds

    def end_live(self, now: float) -> None:
        """Ends the live time at ``now``; once at most."""
        self._live_until = now
        self.recalled.set_result(None)
