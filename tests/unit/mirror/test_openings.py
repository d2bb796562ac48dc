"""A lease opens its partitions a few at a time, so that each lease gets on."""

import asyncio

from mirrorlake.mirror.openings import Openings

STEPS = 5
PARTITIONS = 40


async def opened_until_cut_short(*, at_once: int, budget: int) -> int:
    """Opens partitions of some steps each, at one broker that does one step at a time and ``budget`` of them in all."""
    openings, left, opened = Openings(turn_seconds_max=60.0, at_once=at_once), budget, 0
    broker, over = asyncio.Lock(), asyncio.Event()

    async def step() -> None:
        nonlocal left
        async with broker:
            await asyncio.sleep(0)
            if left == 0:
                over.set()
                await asyncio.Event().wait()
            left -= 1

    async def partition() -> None:
        nonlocal opened
        async with openings.turn("broker"):
            for _ in range(STEPS):
                await step()
        opened += 1

    tasks = [asyncio.create_task(partition()) for _ in range(PARTITIONS)]
    await over.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return opened


def test_what_a_lease_has_time_for_is_opened_whole_and_not_a_part_of_everything() -> None:
    budget = STEPS * PARTITIONS // 2
    assert asyncio.run(opened_until_cut_short(at_once=PARTITIONS, budget=budget)) == 0, "all at once: none is done"
    assert asyncio.run(opened_until_cut_short(at_once=4, budget=budget)) >= PARTITIONS // 2 - 4


def test_a_turn_that_takes_too_long_holds_up_nobody() -> None:
    async def run() -> list[str]:
        openings, order = Openings(turn_seconds_max=0.05, at_once=1), []

        async def silent() -> None:
            async with openings.turn("a"):
                await asyncio.Event().wait()

        async def other(name: str, key: str) -> None:
            async with openings.turn(key):
                order.append(name)

        hanging = asyncio.create_task(silent())
        await asyncio.sleep(0)
        await asyncio.gather(other("behind it", "a"), other("of another broker", "b"))
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        await other("once it has ended", "a")
        return order

    assert asyncio.run(run()) == ["of another broker", "behind it", "once it has ended"]


def test_a_turn_that_is_given_up_while_it_is_waited_for_is_nobodys() -> None:
    async def run() -> bool:
        openings = Openings(turn_seconds_max=60.0, at_once=1)

        async def take(begun: asyncio.Event) -> None:
            async with openings.turn("a"):
                begun.set()
                await asyncio.Event().wait()

        first, second, third = asyncio.Event(), asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(take(each)) for each in (first, second, third)]
        await first.wait()
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        tasks[0].cancel()
        await asyncio.wait_for(third.wait(), 10)
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return second.is_set()

    assert asyncio.run(run()) is False
