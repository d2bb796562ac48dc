"""A lease that goes on: the driver allows it a later end in a file, and the worker takes it where nothing has changed.

What a lease reads when it begins is read again before that. It is asked of all partitions at once, in a few requests,
and nothing is closed and opened: of a thousand quiet partitions that is a tenth of what a new lease costs, and none of
the others waits meanwhile. Whatever is not as this lease has left it, or cannot be asked, lets the lease end when it
would have ended: the next one opens everything anew, and says what is wrong.
"""

import asyncio
import contextlib
import os
import traceback
from collections.abc import Awaitable, Callable

from mirrorlake.clock import Clock
from mirrorlake.mirror.lease_message import read_message, write_message
from mirrorlake.mirror.lease_time import LeaseTime
from mirrorlake.moments import Moment


def write_renewal(file: str, until: Moment) -> None:
    """Allows the lease that looks at ``file`` to be live until a moment.

    A file that cannot be written costs the lease's going on, and nothing else.
    """
    write_message(file, until)


def read_renewal(file: str) -> Moment | None:
    """Returns until when a lease may be live, as last allowed; None where nothing was, or it cannot be understood."""
    until = read_message(file)
    return until if isinstance(until, Moment) else None


def is_taken(file: str) -> bool:
    """Returns whether nothing allowed in ``file`` is left: its lease takes away what it has gone on by."""
    return not os.path.exists(file)  # noqa: PTH110 - of every lane, twice a second


class Renewals:
    """Has one lease go on where it may and nothing has changed. Belongs to its event loop.

    Args:
        file: where the driver allows it; empty where it never does.
        time: of the lease.
        clock: its clock.
        stands: asks whether everything is as the lease has left it; False where that is not known.
        prolong: lets everything of the lease end so many seconds later.
    """

    def __init__(
        self,
        file: str,
        *,
        time: LeaseTime,
        clock: Clock,
        stands: Callable[[], Awaitable[bool]],
        prolong: Callable[[float], None],
    ) -> None:
        self._file = file
        self._time = time
        self._clock = clock
        self._stands = stands
        self._prolong = prolong
        self._until: Moment | None = None
        self._asking: asyncio.Task[bool] | None = None

    def turn(self, *, is_whole: bool) -> None:
        """Looks whether the lease may go on; to be called now and then while it is live.

        Args:
            is_whole: whether no partition has ended yet: one that has waits for the next lease.
        """
        if not self._file or not is_whole:
            return
        if self._asking is None:
            until = read_renewal(self._file)
            if until is not None and until != self._until:
                self._until = until
                self._asking = asyncio.ensure_future(self._ask())
        elif self._asking.done():
            asked, self._asking = self._asking, None
            if asked.result():
                self._go_on()

    async def _ask(self) -> bool:
        try:
            return await self._stands()
        except Exception:  # noqa: BLE001 - a bug of ours costs the going on, not what the lease copies (law 6)
            traceback.print_exc()
            return False

    def _go_on(self) -> None:
        """Takes what was allowed, where that is later than the end, and the end was not met meanwhile.

        Counted from when it was allowed, and not from now: the driver, and the next owner, wait no longer.
        """
        assert self._until is not None
        # Read in this order: what a process is stopped for in between makes it less, and never more than was allowed.
        left_seconds = self._time.live_until - self._clock.elapsed_seconds()
        seconds = -self._until.seconds_since(self._clock) - left_seconds
        if seconds > 0 and not self._time.live_is_over:
            self._prolong(seconds)
            # So that the driver sees that somebody is there to take it. Where it stays, nothing more is allowed.
            with contextlib.suppress(OSError):
                os.unlink(self._file)  # noqa: PTH108

    async def close(self) -> None:
        """Gives up what is asked; returns when nothing goes on any more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
