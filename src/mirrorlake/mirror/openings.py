"""How many partitions of a lease are opened at a time.

To open a partition takes some requests on both sides. All of a thousand at once would be done at one time, and that may
be when their lease is over: nothing was begun then, and the next lease fares no better. A few at a time, those that are
begun are soon done, and each lease gets on.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

AT_ONCE = 64
"""Enough to keep both sides busy, and few enough to be done within a second on a machine that is busy."""


class Openings:
    """The turns of one lease. Belongs to its event loop.

    Args:
        turn_seconds_max: a turn that takes longer is over for others: somebody does not answer, and that holds up none
            but itself.
        at_once: how many turns of one key are taken at a time.
    """

    def __init__(self, *, turn_seconds_max: float, at_once: int = AT_ONCE) -> None:
        self._turn_seconds_max = turn_seconds_max
        self._free: dict[Hashable, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(at_once))

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Waits for a turn, in the order of calls, and ends it at the end of the block, or when it took too long.

        Args:
            key: of those that share turns: who asks the same clusters and stores.
        """
        free = self._free[key]
        await free.acquire()
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                free.release()

        timer = asyncio.get_running_loop().call_later(self._turn_seconds_max, end)
        try:
            yield
        finally:
            timer.cancel()
            end()
