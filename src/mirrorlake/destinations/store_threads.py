"""Threads that wait for the stores of archives, while the encoder's one goes on.

Publishing a finished segment and looking where an archive ends are waiting: for the disk, or for several requests to a
bucket. A finished segment is a file, no encoder is open for it; how many there may be at one time is bounded, and the
encoder waits where it has more.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

PUBLICATIONS_MAX = 4
"""Finished segments of one worker on their way at one time, of different partitions; as many files beside the open one.

A bucket takes 30 to 200 ms for the requests of a small segment, which is encoded in 5 to 20.
"""

LOOKS_MAX = 8
"""Archives whose end is looked at at one time: a request or a few each, and many partitions are opened at once."""

READS_MAX = 8
"""Segments that are read at one time: four of an archive. They may take long, so that no look waits behind them."""


class StoreThreads:
    """The threads of one worker process."""

    def __init__(self, publications_max: int = PUBLICATIONS_MAX) -> None:
        self._publishers = ThreadPoolExecutor(publications_max, thread_name_prefix="publisher")
        self._lookers = ThreadPoolExecutor(LOOKS_MAX, thread_name_prefix="looker")
        self._readers = ThreadPoolExecutor(READS_MAX, thread_name_prefix="segment reader")
        self._room = threading.BoundedSemaphore(publications_max)

    def publish(self, work: Callable[[], T]) -> "Future[T]":
        """Starts a publication, and returns at once where there is room; else when one before has ended.

        Raises:
            RuntimeError: the worker is being closed.
        """
        self._room.acquire()
        try:
            running = self._publishers.submit(work)
        except BaseException:
            self._room.release()
            raise
        running.add_done_callback(lambda _: self._room.release())
        return running

    async def look(self, work: Callable[[], T]) -> T:
        """Returns what a look at a store finds; it changes nothing, so whoever gives up waiting leaves it alone."""
        return await asyncio.get_running_loop().run_in_executor(self._lookers, work)

    def read(self, work: Callable[[], T]) -> "Future[T]":
        """Starts to read something, and returns at once.

        Raises:
            RuntimeError: the worker is being closed.
        """
        return self._readers.submit(work)

    def close(self) -> None:
        """Takes no more; what is on its way ends by itself, and its outcome is in the store."""
        for threads in (self._publishers, self._lookers, self._readers):
            threads.shutdown(wait=False, cancel_futures=True)
