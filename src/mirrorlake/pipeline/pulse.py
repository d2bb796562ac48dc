"""Whether Spark answers: it is asked again and again, because a JVM may be there and do nothing."""

import threading
from collections.abc import Callable

PULSE_SECONDS = 2.0

END_SECONDS_MAX = 5.0
"""For the answer to the last question: a session that stops meanwhile would be an error of the library's in the log."""


class EnginePulse:
    """Asks in a thread of its own until closed, and tells each answer. Use as a context manager.

    A question that hangs keeps the thread, so that the answers stop; that is what its listener tells by the clock.

    Args:
        ask: asks Spark something that costs nothing, and returns whether it answered well; may raise anything.
        answered: called after each good answer.
        seconds: between questions.
    """

    def __init__(
        self, ask: Callable[[], bool], answered: Callable[[], None], *, seconds: float = PULSE_SECONDS
    ) -> None:
        self._ask = ask
        self._answered = answered
        self._seconds = seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="engine-pulse", daemon=True)

    def __enter__(self) -> "EnginePulse":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends; a thread that hangs in its question is left to itself after a while."""
        self._is_over.set()
        self._thread.join(timeout=END_SECONDS_MAX)

    def _work(self) -> None:
        while not self._is_over.is_set():
            try:
                is_good = self._ask()
            except Exception:  # noqa: BLE001  A JVM that dies fails in many ways; each of them is no answer.
                is_good = False
            if is_good:
                self._answered()
            self._is_over.wait(self._seconds)
