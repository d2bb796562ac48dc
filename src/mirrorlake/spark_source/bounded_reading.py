"""Gives a read up that brings nothing for too long, instead of waiting as long as a query waits.

What a filesystem or a store does not answer cannot be ended from outside: the thread that waits for it is left alone,
and ends with the worker's process, which Spark ends after an error.
"""

import threading
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")

_CLOSE_SECONDS_MAX = 5.0
"""To close what was read takes no longer, where it answers at all."""


def bounded(batches: Generator[T], seconds_max: float, *, too_late: Callable[[], Exception]) -> Generator[T]:
    """Yields the same, each asked for in a thread of its own; who takes them may take as long as they like.

    Args:
        batches: what is read; closed, in that thread, once nobody wants more.
        seconds_max: for one of them, or for the end.
        too_late: returns what is raised where one does not come in time.

    Raises:
        Exception: what ``batches`` raised, or ``too_late`` returned.
    """
    asked: SimpleQueue[bool] = SimpleQueue()
    answers: SimpleQueue[tuple[list[T], BaseException | None]] = SimpleQueue()

    def serve() -> None:
        while asked.get():
            try:
                answers.put(([next(batches)], None))
            except StopIteration:
                answers.put(([], None))
            except BaseException as error:  # noqa: BLE001  It is raised again by who waits.
                answers.put(([], error))
        batches.close()

    thread = threading.Thread(target=serve, name="read", daemon=True)
    thread.start()
    try:
        while True:
            asked.put(True)
            try:
                found, error = answers.get(timeout=seconds_max)
            except Empty:
                raise too_late() from None
            if error is not None:
                raise error
            if not found:
                return
            yield found[0]
    finally:
        asked.put(False)
        thread.join(min(seconds_max, _CLOSE_SECONDS_MAX))
