"""Looks of a service that no lease waits for, each in a thread of its own."""

from collections.abc import Callable

from mirrorlake.repeated import RepeatedInThread


class DetachedLooks(RepeatedInThread):
    """Asks again and again whether a look is due, which takes it. Use as a context manager.

    Args:
        name: of the thread.
        look: takes the looks that are due.
        seconds: between two times of asking.
    """

    def __init__(self, name: str, look: Callable[[], None], *, seconds: float) -> None:
        super().__init__(name, seconds=seconds)
        self._look = look

    def __exit__(self, *_: object) -> None:
        """Ends; a look that is under way is left alone, as leases wait for the end of this block."""
        self._is_over.set()
        self._is_woken.set()

    def _round(self) -> None:
        self._look()
