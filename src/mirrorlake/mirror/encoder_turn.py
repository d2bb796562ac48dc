"""The one encoder of a task (law 8), and a partition's turn at it.

A turn is taken before archives are read for, and given back when they rest.
"""

import asyncio
from collections.abc import Awaitable, Callable

from mirrorlake.mirror.lease_time import LeaseTime


class Encoder:
    """Is held by one partition at a time, which alone has files open.

    Args:
        time: of the lease: nobody waits past its live time.
    """

    def __init__(self, time: LeaseTime) -> None:
        self._time = time
        self._semaphore = asyncio.Semaphore(1)
        self._waiting: set[asyncio.Timeout] = set()

    @property
    def is_held(self) -> bool:
        """True where whoever wants it now has to wait."""
        return self._semaphore.locked()

    async def take(self) -> bool:
        """Waits for the encoder as long as a segment may be begun; returns whether it was taken."""
        try:
            async with asyncio.timeout(self._time.seconds_to_begin()) as patience:
                self._waiting.add(patience)
                try:
                    await self._semaphore.acquire()
                finally:
                    self._waiting.discard(patience)
        except TimeoutError:
            return False
        if not self._time.may_begin():
            self._semaphore.release()
            return False
        return True

    def release(self) -> None:
        """Lets the next one have it."""
        self._semaphore.release()

    def turn(self) -> "EncoderTurn":
        """Returns a partition's turn, not taken."""
        return EncoderTurn(self.take, self.release)

    def end_waiting(self) -> None:
        """Those who wait do not get it any more; call when the live time was ended early."""
        for patience in self._waiting:
            if not patience.expired():
                patience.reschedule(asyncio.get_running_loop().time())


class EncoderTurn:
    """Holds the encoder for one partition, or does not.

    Args:
        take: waits for the encoder; returns whether it was taken.
        release: lets the next one have it.
    """

    def __init__(self, take: Callable[[], Awaitable[bool]], release: Callable[[], None]) -> None:
        self._take = take
        self._release = release
        self._is_held = False

    async def take(self) -> bool:
        """Waits for the encoder as long as something may be begun; returns whether it is held."""
        if not self._is_held:
            self._is_held = await self._take()
        return self._is_held

    def give_back(self) -> None:
        """Lets the next one have it; without effect where it is not held."""
        if self._is_held:
            self._is_held = False
            self._release()
