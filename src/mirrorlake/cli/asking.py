"""Running to its end what asks clusters and stores."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def ask(question: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in a loop of its own and returns its result.

    As ``asyncio.run``, and the task has no result of its own: Python writes that out as text when it puts its handler
    of SIGINT back, and throws the text away (``signal._int_to_enum`` in 3.11). With thousands of partitions in it that
    took longer than asking for them.
    """
    found: list[T] = []

    async def keep() -> None:
        found.append(await question)

    asyncio.run(keep())
    return found[0]
