"""What readers of an archive share in a lease: turns to have a segment open, and room for pieces."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from mirrorlake.sources.archive.content import PIECE_BYTES
from mirrorlake.sources.archive.open_content import LeftOpen
from mirrorlake.sources.archive.reads import SEGMENT_BYTES, ArchiveReads, PieceFrame, PieceMemory, Turns


def run(body: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(body, 10)

    asyncio.run(bounded())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_turn_is_given_to_who_came_first() -> None:
    async def body() -> None:
        turns, order = Turns(1), []

        async def take(name: str) -> None:
            await turns.take()
            order.append(name)

        await take("a")
        waiting = [asyncio.create_task(take(name)) for name in ("b", "c")]
        await settle()
        assert order == ["a"]
        assert turns.are_waited_for
        turns.give_back()
        await settle()
        assert order == ["a", "b"]
        turns.give_back()
        await asyncio.gather(*waiting)
        assert order == ["a", "b", "c"]
        assert not turns.are_waited_for

    run(body())


def test_who_gives_up_waiting_takes_no_turn_whether_it_was_given_or_not() -> None:
    async def body() -> None:
        turns = Turns(1)
        await turns.take()
        gives_up, granted = asyncio.create_task(turns.take()), asyncio.create_task(turns.take())
        await settle()
        gives_up.cancel()
        await settle()
        turns.give_back()  # to the second, which gives up before it learns of it
        granted.cancel()
        await asyncio.gather(gives_up, granted, return_exceptions=True)
        await turns.take()

    run(body())


def test_a_lease_with_little_memory_has_one_segment_open_and_one_with_much_a_few() -> None:
    async def body() -> None:
        small = ArchiveReads(1 << 20, LeftOpen()).turns
        large = ArchiveReads(100 * SEGMENT_BYTES, LeftOpen()).turns
        await small.take()
        waiting = asyncio.create_task(small.take())
        await settle()
        assert not waiting.done()
        waiting.cancel()
        for _ in range(4):
            await large.take()
        fifth = asyncio.create_task(large.take())
        await settle()
        assert not fifth.done()
        fifth.cancel()

    run(body())


def test_another_piece_waits_until_there_is_room_and_a_large_one_stops_nothing() -> None:
    async def body() -> None:
        memory = PieceMemory(2 * PIECE_BYTES)
        await memory.room()
        first = PieceFrame(memory, 9 * PIECE_BYTES)
        waiting = asyncio.create_task(memory.room())
        first.pin()
        first.unpin()
        await settle()
        assert not waiting.done()
        first.unpin()
        await waiting

    run(body())


def test_pieces_are_counted_together() -> None:
    memory = PieceMemory(3 * PIECE_BYTES)
    frames = [PieceFrame(memory, PIECE_BYTES) for _ in range(2)]
    states = [memory.is_short]
    frames.append(PieceFrame(memory, 1))
    states.append(memory.is_short)
    frames[0].unpin()
    states.append(memory.is_short)

    assert states == [False, True, False]
