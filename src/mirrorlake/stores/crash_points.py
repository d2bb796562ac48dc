"""Named points between two effects, where a test may end the process and production does nothing."""

from collections.abc import Callable

CrashPoint = Callable[[str], None]
"""Called with the name of the step that is about to happen. It may raise, or end the process."""


def no_crash(step: str) -> None:
    """Goes on; what production uses.

    Args:
        step: the effect that comes next.
    """
