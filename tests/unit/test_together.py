"""Side by side: results in order, the first error as it is, and nothing that goes on behind it."""

import ast
import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import mirrorlake
from mirrorlake.errors import MirrorlakeError, TransientError
from mirrorlake.together import all_of, all_to_the_end, both
from support.python_sources import parsed


async def answered(value: str, steps: int = 1) -> str:
    for _ in range(steps):
        await asyncio.sleep(0)
    return value


async def refused(error: Exception, steps: int = 1) -> str:
    await answered("", steps)
    raise error


class Unending:
    """Goes on until it is cancelled, and then needs some time to end."""

    has_ended = False

    async def run(self) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await answered("", 5)
            self.has_ended = True
        raise AssertionError


def test_results_come_in_the_order_of_what_was_asked_whoever_answers_first() -> None:
    async def run() -> None:
        assert await all_of(answered(text, steps) for text, steps in (("a", 5), ("b", 1), ("c", 3))) == ["a", "b", "c"]
        assert await all_of([]) == []
        assert await both(answered("a", 5), asyncio.sleep(0, result=1)) == ("a", 1)

    asyncio.run(run())


def test_the_first_error_is_raised_as_it_is_when_all_others_have_ended() -> None:
    first, cause = MirrorlakeError("first"), TransientError("cause")
    first.__cause__ = cause

    async def run(*, of_two: bool) -> None:
        slow = Unending()
        failing: Callable[[], Coroutine[Any, Any, object]] = lambda: both(slow.run(), refused(first))  # noqa: E731
        if not of_two:
            more = refused(MirrorlakeError("second"), 50)
            failing = lambda: all_of([answered("a"), slow.run(), more, refused(first)])  # noqa: E731
        with pytest.raises(MirrorlakeError) as raised:
            await failing()
        assert (raised.value, raised.value.__cause__) == (first, cause)
        assert slow.has_ended
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(run(of_two=False))
    asyncio.run(run(of_two=True))


def test_who_is_cancelled_has_cancelled_all_of_them() -> None:
    async def run() -> None:
        slow = [Unending(), Unending()]
        waiting = asyncio.create_task(all_of(each.run() for each in slow))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [each.has_ended for each in slow] == [True, True]

    asyncio.run(run())


def test_what_may_not_be_cut_off_ends_by_itself_before_the_first_error_is_raised() -> None:
    done: list[str] = []

    async def slowly() -> None:
        await asyncio.sleep(0.01)
        done.append("the slow one")

    async def refusing(error: MirrorlakeError) -> None:
        raise error

    first, second = MirrorlakeError("the first"), MirrorlakeError("the second")
    with pytest.raises(MirrorlakeError) as raised:
        asyncio.run(all_to_the_end([slowly(), refusing(first), refusing(second)]))
    assert raised.value is first
    assert done == ["the slow one"]


def test_nothing_is_gathered_that_goes_on_when_one_of_it_fails() -> None:
    """`asyncio.gather` raises the first error and leaves the others to themselves, unless it returns exceptions."""
    strays = [
        f"{module.name}:{node.lineno}"
        for module in Path(mirrorlake.__file__).parent.rglob("*.py")
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] == "gather"
        and not any(each.arg == "return_exceptions" for each in node.keywords)
    ]

    assert strays == []
