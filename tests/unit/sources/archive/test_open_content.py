"""A segment that is open across leases: who is handed what, whose turn it keeps, and when it is closed."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest

from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.errors import ChainBrokenError
from mirrorlake.offsets import OffsetRange
from mirrorlake.sources.archive import open_content
from mirrorlake.sources.archive.content import Content, Piece
from mirrorlake.sources.archive.open_content import LeftOpen, OpenContent

PLACE = ("orders/0", "segment")


def run(body: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(body, 10)

    asyncio.run(bounded())


def piece(start: int, end: int) -> Piece:
    return Piece(covered=OffsetRange(start_offset=start, end_offset=end), items=(), size_bytes=0)


class Held:
    """Content that waits until it may go on."""

    def __init__(self, ends: Sequence[int], *, is_free: bool = True) -> None:
        self.ends = [*ends]
        self.position = 0
        self.is_closed = False
        self.go_on = threading.Event()
        if is_free:
            self.go_on.set()

    def next_piece(self) -> Piece | None:
        assert self.go_on.wait(5)
        assert not self.is_closed
        if not self.ends:
            raise ChainBrokenError("damaged")
        start, self.position = self.position, self.ends.pop(0)
        return piece(start, self.position)

    def close(self) -> None:
        self.is_closed = True


def opened(held: Held, threads: StoreThreads, *, start: int = 0) -> OpenContent:
    def make(_: Callable[[], bool]) -> tuple[Content, SegmentFooter | None]:
        return held, None

    return OpenContent("key", make, OffsetRange(start_offset=start, end_offset=100), threads)


@pytest.fixture
def threads() -> Iterator[StoreThreads]:
    made = StoreThreads()
    yield made
    made.close()


def test_whoever_gives_up_waiting_leaves_the_piece_to_the_next_one(threads: StoreThreads) -> None:
    async def body() -> None:
        held = Held([10, 20], is_free=False)
        content, left = opened(held, threads), LeftOpen()
        waiting = asyncio.create_task(content.piece())
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert content.is_at_work
        left.leave(PLACE, content)
        held.go_on.set()

        taken = left.take(PLACE, 0)
        assert taken is content
        assert len(left) == 0
        first = await content.piece()
        assert first is await content.piece()
        assert first is not None
        content.taken(first)
        second = await content.piece()
        assert second is not None
        assert [str(each.covered) for each in (first, second)] == ["[0, 10)", "[10, 20)"]

    run(body())


def test_what_is_left_of_a_piece_is_handed_out_in_its_place_and_then_what_follows(threads: StoreThreads) -> None:
    async def body() -> None:
        content = opened(Held([10, 20]), threads)
        assert await content.piece() is not None
        rest = piece(4, 10)
        content.put_back(rest)
        assert [content.serves(at) for at in (0, 4, 10)] == [False, True, False]
        assert await content.piece() is rest
        content.taken(rest)
        follows = await content.piece()
        assert follows is not None
        assert str(follows.covered) == "[10, 20)"

    run(body())


def test_an_error_that_nobody_waited_for_is_told_to_the_next_one(threads: StoreThreads) -> None:
    async def body() -> None:
        held = Held([], is_free=False)
        content = opened(held, threads)
        waiting = asyncio.create_task(content.piece())
        await asyncio.sleep(0.01)
        waiting.cancel()
        held.go_on.set()
        while content.is_at_work:
            await asyncio.sleep(0.01)
        for _ in range(2):
            with pytest.raises(ChainBrokenError):
                await content.piece()

    run(body())


def test_one_that_stands_elsewhere_is_closed_and_its_turn_is_given_back(threads: StoreThreads) -> None:
    async def body() -> None:
        left, held, freed = LeftOpen(), Held([10, 20]), list[int]()
        left.begin(lambda: freed.append(1))
        content = opened(held, threads)
        await content.piece()
        left.leave(PLACE, content)
        assert left.take(("orders/0", "another"), 5) is None
        assert (len(left), held.is_closed) == (1, False)
        assert left.take(PLACE, 5) is None
        assert (len(left), held.is_closed, freed) == (0, True, [1])

    run(body())


def test_one_whose_segment_is_covered_by_another_is_closed_where_that_is_read(threads: StoreThreads) -> None:
    async def body() -> None:
        left, held = LeftOpen(), Held([10])
        left.leave(PLACE, opened(held, threads, start=40))
        assert left.take(("orders/1", "segment"), 40) is None
        assert left.take(("orders/0", "merged"), 30) is None
        assert len(left) == 1
        assert left.take(("orders/0", "merged"), 40) is None
        assert len(left) == 0

    run(body())


def test_two_that_stand_at_two_positions_of_a_segment_are_each_taken_by_their_own(threads: StoreThreads) -> None:
    async def body() -> None:
        left = LeftOpen()
        behind, ahead = opened(Held([10]), threads), opened(Held([60]), threads, start=50)
        left.leave(PLACE, behind)
        left.leave(PLACE, ahead)
        assert left.take(PLACE, 50) is ahead
        assert left.take(PLACE, 0) is behind

    run(body())


def test_room_is_made_by_the_oldest_that_is_opened_again_as_easily(threads: StoreThreads) -> None:
    async def body() -> None:
        left = LeftOpen()
        slow, at_work = Held([10]), Held([10], is_free=False)
        easy = [Held([10]), Held([10])]
        contents = [opened(each, threads) for each in (slow, at_work, *easy)]
        for number, each in enumerate(contents):
            asking = asyncio.create_task(each.piece())
            await asyncio.sleep(0.01)
            if number == 1:
                asking.cancel()
            else:
                await asking
            left.leave((number,), each)
        contents[0].piece_seconds = 2.0
        closed = []
        for _ in range(3):
            left.make_room()
            closed.append([each.is_closed for each in (slow, at_work, *easy)])
        assert closed == [[False, False, True, False]] + [[False, False, True, True]] * 2
        at_work.go_on.set()
        left.close()
        assert slow.is_closed

    run(body())


def test_one_that_is_closed_while_a_thread_is_at_it_is_closed_by_that(threads: StoreThreads) -> None:
    async def body() -> None:
        held = Held([10], is_free=False)
        content = opened(held, threads)
        waiting = asyncio.create_task(content.piece())
        await asyncio.sleep(0.01)
        waiting.cancel()
        content.close()
        assert not held.is_closed
        held.go_on.set()
        while not held.is_closed:
            await asyncio.sleep(0.01)

    run(body())


def test_what_nobody_asks_for_is_closed_after_a_while(threads: StoreThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_content, "LEFT_SECONDS", 0.05)

    async def body() -> None:
        left, held, freed = LeftOpen(), Held([10]), list[int]()
        left.begin(lambda: freed.append(1))
        content = opened(held, threads)
        await content.piece()
        left.leave(PLACE, content)
        while not held.is_closed:
            await asyncio.sleep(0.01)
        assert (len(left), freed) == (0, [1])

    run(body())
