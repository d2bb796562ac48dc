"""Whether Spark answers: it is asked again and again, because a JVM may be there and do nothing."""

from collections.abc import Callable

from mirrorlake.repeated import RepeatedInThread

PULSE_SECONDS = 2.0


class EnginePulse(RepeatedInThread):
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
        super().__init__("engine-pulse", seconds=seconds)
        self._ask = ask
        self._answered = answered

    def _round(self) -> None:
        try:
            is_good = self._ask()
        except Exception:  # noqa: BLE001  A JVM that dies fails in many ways; each of them is no answer.
            is_good = False
        if is_good:
            self._answered()
