"""Something that is done again and again in a thread of its own, for as long as a block goes on."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import structlog

STOP_SECONDS_MAX = 5.0
"""A round that hangs then, in a store or in Spark, is left to the end of the process. Until then it is waited for: a
question to a session that stops meanwhile would be an error of Spark's in the log."""

_log = structlog.get_logger("mirrorlake")


class RepeatedInThread(ABC):
    """Does rounds in a thread, ``seconds`` after one another, until closed. Use as a context manager.

    A round that raises anything is logged, once as long as the next ones raise the same, and the rounds continue:
    a watch that ends without a word would look like one that finds nothing.

    Args:
        name: of the thread.
        seconds: between the end of a round and the begin of the next.
    """

    def __init__(self, name: str, *, seconds: float) -> None:
        self._seconds = seconds
        self._is_over = threading.Event()
        self._is_woken = threading.Event()
        self._failure = ""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends; a round that is under way is waited for, `STOP_SECONDS_MAX` at most."""
        self._is_over.set()
        self._is_woken.set()
        self._thread.join(STOP_SECONDS_MAX)

    def look_now(self) -> None:
        """Begins a round at once, or another one as soon as the one that is under way has ended. Idempotent."""
        self._is_woken.set()

    def every(self, seconds: float) -> None:
        """Sets the time between two rounds, from the next wait on."""
        self._seconds = seconds

    def _work(self) -> None:
        self._guarded(self._begin)
        while not self._is_over.is_set():
            self._is_woken.wait(self._seconds)
            self._is_woken.clear()
            if not self._is_over.is_set():
                self._guarded(self._round)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001  Nobody else would ever hear of it.
            failure = repr(error)
            if failure != self._failure and not self._is_over.is_set():
                _log.exception("unexpected error in the background; it is tried again", thread=self._thread.name)
            self._failure = failure
        else:
            self._failure = ""

    def _begin(self) -> None:
        """What is done before the first wait: a round, unless told otherwise."""
        self._round()

    @abstractmethod
    def _round(self) -> None:
        """One round; it may ask ``_is_over`` whether to go on."""
