"""Task slots for batch jobs (verify, merge, snapshot, restore), so that they never take a lane's."""

import contextlib
import threading
from collections.abc import Iterator


class BatchSlots:
    """A count of slots, shared by all batch jobs of a session.

    Spark gives a free slot to whichever task asks first, and neither its pools nor its weights keep a job of
    long tasks from the lanes' slots. So a batch job first claims slots here, then gives each of its stages at
    most so many partitions.

    Args:
        slots: how many there are; as many as the session's ``batch_slots``.
    """

    def __init__(self, slots: int) -> None:
        assert slots >= 1
        self._slots = slots
        self._free = slots
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def claim(self, wanted: int, *, timeout_seconds: float | None = None) -> Iterator[int]:
        """Waits for at least one free slot, takes up to ``wanted``, and gives how many it took.

        Args:
            wanted: at least one.
            timeout_seconds: how long to wait for the first slot; without limit by default.

        Raises:
            TimeoutError: none became free in time.
        """
        assert wanted >= 1
        with self._changed:
            if not self._changed.wait_for(lambda: self._free > 0, timeout_seconds):
                raise TimeoutError(f"none of {self._slots} batch slots became free in {timeout_seconds} s")
            taken = min(wanted, self._free)
            self._free -= taken
        try:
            yield taken
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()
