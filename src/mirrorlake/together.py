"""Coroutines that are done side by side, and that have all ended when one of them fails.

What `asyncio.gather` leaves behind then goes on with a client that its owner is about to close: it opens connections
which nobody closes, and Python says so in words of its own.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
One = TypeVar("One")
Two = TypeVar("Two")


async def all_of(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Returns what coroutines return, in their order; they run side by side.

    Where one raises, or the caller is cancelled, the others are cancelled; all have ended when this raises.

    Raises:
        Exception: what the first one to fail raised, as it is.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in coroutines]
    except BaseExceptionGroup as failed:
        first = failed.exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise first  # behind the block, or it would be told as an error that another one caused


async def all_to_the_end(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs coroutines side by side of which none may be cut off in the middle; returns when all have ended.

    Raises:
        Exception: what the first of them, in their order, raised; only when the others have ended by themselves.
    """
    for failure in await asyncio.gather(*coroutines, return_exceptions=True):
        if failure is not None:
            raise failure


async def both(one: Coroutine[Any, Any, One], two: Coroutine[Any, Any, Two]) -> tuple[One, Two]:
    """Returns what two coroutines return that run side by side; as `all_of` where one fails."""

    async def kept(coroutine: Coroutine[Any, Any, T], place: list[T]) -> None:
        place.append(await coroutine)

    first: list[One] = []
    second: list[Two] = []
    await all_of((kept(one, first), kept(two, second)))
    return first[0], second[0]
