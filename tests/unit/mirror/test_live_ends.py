"""The copies of a lease wake when their lease's live time, their reader or they themselves are over."""

import asyncio
from collections.abc import Callable

from mirrorlake.clock import SystemClock
from mirrorlake.mirror.lease_time import LeaseTime
from mirrorlake.mirror.live_ends import LiveEnds
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.moments import Moment

COPIES = 5
LONG_SECONDS = 60.0


def plan(live_seconds: float) -> LeasePlan:
    clock = SystemClock()
    return LeasePlan(
        lease=1,
        lane=0,
        live_seconds=live_seconds,
        unbroken_seconds=live_seconds,
        send_seconds=live_seconds + 0.5,
        hard_seconds=live_seconds + 0.5,
        memory_bytes_max=1 << 20,
        partitions=(),
        begins_by=Moment.of(clock, in_seconds=3600.0),
    )


class Lease:
    """Copies that wait: the even ones for one reader, the odd ones for another."""

    def __init__(self, live_seconds: float) -> None:
        self.time = LeaseTime(plan(live_seconds), SystemClock())
        self.ends = LiveEnds(self.time)
        self.overs = [asyncio.Event(), asyncio.Event()]
        self.running = [asyncio.create_task(asyncio.sleep(LONG_SECONDS)) for _ in range(COPIES)]
        self.waits = [
            asyncio.create_task(self.ends.wait(each, self.overs[n % 2])) for n, each in enumerate(self.running)
        ]

    async def woken(self) -> list[int]:
        await asyncio.sleep(0.01)
        return [n for n, each in enumerate(self.waits) if each.done()]

    async def close(self) -> None:
        for each in [*self.waits, *self.running]:
            each.cancel()
        await asyncio.gather(*self.waits, *self.running, return_exceptions=True)
        await self.ends.close()


def woken_after(act: Callable[[Lease], object], *, live_seconds: float = LONG_SECONDS) -> tuple[list[int], int]:
    """Returns which copies woke by what was done to the lease, and how many tasks were left behind by it."""

    async def run() -> tuple[list[int], int]:
        lease = Lease(live_seconds)
        assert await lease.woken() == []
        act(lease)
        woken = await lease.woken()
        await lease.close()
        return woken, len(asyncio.all_tasks()) - 1

    return asyncio.run(run())


def test_a_copy_that_has_ended_wakes_alone() -> None:
    assert woken_after(lambda lease: lease.running[3].cancel()) == ([3], 0)


def test_a_reader_that_is_over_wakes_those_it_read_for() -> None:
    assert woken_after(lambda lease: lease.overs[0].set()) == ([0, 2, 4], 0)


def test_the_end_of_a_lease_that_is_recalled_wakes_all() -> None:
    assert woken_after(lambda lease: lease.time.end_live(0.0)) == ([0, 1, 2, 3, 4], 0)


def test_all_wake_when_the_live_time_is_over() -> None:
    async def run() -> float:
        lease = Lease(0.2)
        await asyncio.wait_for(asyncio.gather(*lease.waits), timeout=10.0)
        late_seconds = SystemClock().elapsed_seconds() - lease.time.live_until
        await lease.close()
        return late_seconds

    assert asyncio.run(run()) >= 0.0


def test_who_comes_too_late_does_not_wait() -> None:
    async def run() -> None:
        lease = Lease(LONG_SECONDS)
        lease.overs[0].set()
        await lease.ends.wait(lease.running[0], lease.overs[0])
        lease.running[1].cancel()
        await asyncio.gather(lease.running[1], return_exceptions=True)
        await lease.ends.wait(lease.running[1], lease.overs[1])
        lease.time.end_live(0.0)
        await lease.ends.wait(lease.running[2], lease.overs[1])
        await lease.close()

    asyncio.run(asyncio.wait_for(run(), timeout=10.0))
