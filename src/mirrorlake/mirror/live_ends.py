"""Wakes the copies of a lease when its live time, or what reads for them, is over: one timer and one task for all.

A lease of a thousand partitions has a thousand copies that wait for the same two things. Each with a timer and a task
of its own, that took longer than all else that is to be done for a quiet one.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from mirrorlake.mirror.lease_time import LeaseTime


class LiveEnds:
    """Who waits in one lease. Belongs to its event loop.

    Args:
        time: of the lease.
    """

    def __init__(self, time: LeaseTime) -> None:
        self._time = time
        self._sleepers: dict[int, Callable[[], None]] = {}
        self._sleepers_of: dict[asyncio.Event, dict[int, Callable[[], None]]] = {}
        self._watches: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        time.recalled.add_done_callback(self._recalled)

    @property
    def are_early(self) -> bool:
        """True once the live time was ended before its time, as where the lease is recalled."""
        return self._time.recalled.done()

    async def wait(self, running: "asyncio.Task[Any]", over: asyncio.Event) -> None:
        """Returns when ``running`` has ended, ``over`` is set, or the live time is over; at once where one is true."""
        if running.done() or over.is_set() or self._time.live_is_over:
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(_: object = None) -> None:
            if not woken.done():
                woken.set_result(None)

        key = id(woken)
        running.add_done_callback(wake)
        of_reader = self._of(over)
        self._sleepers[key] = of_reader[key] = wake
        self._set_timer()
        try:
            await woken
        finally:
            running.remove_done_callback(wake)
            del self._sleepers[key], of_reader[key]

    async def close(self) -> None:
        """Ends what waits for readers; call when nobody waits here any more."""
        if self._timer is not None:
            self._timer.cancel()
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    def _of(self, over: asyncio.Event) -> dict[int, Callable[[], None]]:
        """Returns those who wait for a reader; it is watched from the first of them on."""
        if over not in self._sleepers_of:
            self._sleepers_of[over] = {}
            self._watches.append(asyncio.create_task(self._watch(over, self._sleepers_of[over])))
        return self._sleepers_of[over]

    async def _watch(self, over: asyncio.Event, sleepers: dict[int, Callable[[], None]]) -> None:
        await over.wait()
        for wake in list(sleepers.values()):
            wake()

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._time.live_seconds_left(), self._look)

    def _look(self) -> None:
        """Wakes everybody where it is time; the loop's clock may be ahead of the lease's by a millisecond."""
        self._timer = None
        if self._time.live_is_over:
            self._wake_all()
        else:
            self._set_timer()

    def _recalled(self, _: "asyncio.Future[None]") -> None:
        self._wake_all()

    def _wake_all(self) -> None:
        for wake in list(self._sleepers.values()):
            wake()
