"""When a shard's open transaction should be committed. Only the clock and counters; it asks nobody."""

from mirrorlake.clock import Clock
from mirrorlake.destinations.map.transaction_participants import MapAppend

COMMIT_SECONDS_MIN = 0.1
"""Between two commits of a stream that is thin; each costs five round trips and a marker per partition."""

COMMIT_SECONDS_MAX = 1.0
"""A transaction ends at this age, however much more there is: readers of committed data wait for it."""

TRANSACTION_BYTES_MAX = 64 << 20
TRANSACTION_RUNS_MAX = 8192
"""Bounds what is remembered of a transaction: where its records lie, one run at least for each batch."""


class CommitPace:
    """The age and size of one transaction after another.

    Args:
        clock: measures ages.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._committed_at = float("-inf")
        self._began = 0.0
        self._bytes = 0
        self._runs = 0

    def begin(self) -> None:
        """Begins to count a transaction."""
        self._began, self._bytes, self._runs = self._clock.elapsed_seconds(), 0, 0

    def sent(self, append: MapAppend) -> None:
        """Counts a batch of the open transaction."""
        self._bytes += append.size_bytes
        self._runs += len(append.runs)

    def committed(self) -> None:
        """Notes that a transaction has just been committed."""
        self._committed_at = self._clock.elapsed_seconds()

    @property
    def is_full(self) -> bool:
        """True where the open transaction should be committed, however much more there is."""
        return (
            self._bytes >= TRANSACTION_BYTES_MAX
            or self._runs >= TRANSACTION_RUNS_MAX
            or self._clock.elapsed_seconds() - self._began >= COMMIT_SECONDS_MAX
        )

    def seconds_to_next(self) -> float:
        """Seconds until something worth a commit may be committed; zero or less where it may now."""
        return self._committed_at + COMMIT_SECONDS_MIN - self._clock.elapsed_seconds()

    def seconds_to_end(self, *, is_idle: bool) -> float:
        """Seconds until the transaction may end if nothing more comes; where something is under way, must end.

        A stream that is behind runs dry for a moment after almost every fetch. That is no reason to commit: whoever
        reads old records can wait for a full transaction of them.
        """
        until = self._committed_at + COMMIT_SECONDS_MIN if is_idle else self._began + COMMIT_SECONDS_MAX
        return max(0.0, until - self._clock.elapsed_seconds())
