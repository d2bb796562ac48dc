"""An event loop in a thread of its own, for the driver's questions to the clusters."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class ControlLoop:
    """Runs coroutines for threads that have no event loop. Use as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="control-loop", daemon=True)

    def __enter__(self) -> "ControlLoop":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._cancel_all(), timeout_seconds=10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10.0)
        if not self._thread.is_alive():
            self._loop.close()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Starts a coroutine and returns its future; cancelling the future cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call(self, coroutine: Coroutine[Any, Any, T], *, timeout_seconds: float | None = None) -> T:
        """Runs a coroutine to its end and returns its result, or raises what it raised."""
        return self.start(coroutine).result(timeout_seconds)

    async def _cancel_all(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
