"""SIGTERM, SIGINT, SIGHUP: the first asks for a graceful stop, a second SIGTERM or SIGINT ends the process at once."""

import os
import queue
import signal
import threading
from collections.abc import Callable
from types import FrameType

from mirrorlake.pipeline.processes import descendants, kill

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignal:
    """Hears SIGTERM, SIGINT and SIGHUP of this process.

    The first one sets :attr:`requested` and calls ``on_stop``, in a thread, because a handler that takes a
    lock may wait for the very code it interrupted. A second SIGTERM or SIGINT kills all processes below this one
    and ends it with exit code 128 + signal number: 143 for SIGTERM, 130 for SIGINT. SIGHUP, of a terminal that
    closes, counts for neither: the kernel and the shell both send it, and a session's manager sends SIGTERM with it.
    One that was ignored at the start, as by ``nohup``, stays ignored.

    Args:
        on_stop: called once, with the name of the signal.
    """

    def __init__(self, on_stop: Callable[[str], None] | None = None) -> None:
        self.requested = threading.Event()
        self.signal_name = ""
        self._on_stop = on_stop
        self._is_second = False
        self._heard: queue.SimpleQueue[int] = queue.SimpleQueue()  # Its put() may be called from a handler.

    def install(self) -> "StopSignal":
        """Takes the signals over; in the main thread, and before the session starts, to miss none."""
        for number in _SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._handle)
        threading.Thread(target=self._tell, name="stop-signal", daemon=True).start()
        return self

    def request(self, reason: str) -> None:
        """Asks for a graceful stop as a signal would; from any thread, idempotent."""
        if self.requested.is_set():
            return
        self.signal_name = reason
        self.requested.set()
        if self._on_stop is not None:
            self._on_stop(reason)

    def retire(self) -> None:
        """Lets no further signal change how this process ends: what it was asked for is done, its exit code stands."""
        for number in _SIGNALS:
            # Not our handler: Python gives those back to the system when it shuts down, and SIGTERM would kill it.
            signal.signal(number, signal.SIG_IGN)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Waits for the first signal; returns whether it came."""
        return self.requested.wait(timeout_seconds)

    def _tell(self) -> None:
        self.request(signal.Signals(self._heard.get()).name)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGHUP:
            if self._is_second:
                kill(descendants(os.getpid()))
                os._exit(128 + number)
            self._is_second = True
        self._heard.put(number)
