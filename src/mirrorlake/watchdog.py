"""Ends a worker process whose work hangs: nothing of Python's is needed for that, as native code may hold its lock."""

import contextlib
import faulthandler
import signal
import time
from collections.abc import Iterator

_STDERR = 2
_SECOND_ALARM_SECONDS = 2.0
"""The second, simpler alarm comes this much after the first, should that hang while it writes its traceback."""

_armed_until: float | None = None  # reading of time.monotonic; of the one work that is under way in this process


@contextlib.contextmanager
def watchdog(seconds_max: float | None) -> Iterator[None]:
    """Ends this process when the body takes longer: first with a traceback on stderr, then without.

    Args:
        seconds_max: how long it may take; None for as long as it likes.
    """
    global _armed_until
    if seconds_max is None:
        yield
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _armed_until = time.monotonic() + seconds_max
    _arm(seconds_max)
    try:
        yield
    finally:
        _armed_until = None
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)


def prolong_watchdog(seconds: float) -> None:
    """Gives the work under way so many seconds more; does nothing where no watchdog is set."""
    global _armed_until
    if _armed_until is None:
        return
    _armed_until += seconds
    _arm(max(0.001, _armed_until - time.monotonic()))


def _arm(seconds: float) -> None:
    """Sets both alarms anew; neither needs the interpreter's lock: a C thread, and a kernel timer."""
    signal.setitimer(signal.ITIMER_REAL, seconds + _SECOND_ALARM_SECONDS)
    faulthandler.dump_traceback_later(seconds, exit=True, file=_STDERR)
