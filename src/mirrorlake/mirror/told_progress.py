"""How far a lease is while it runs: told by its worker in a file, for people to see. Nothing is decided by it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from mirrorlake.clock import Clock
from mirrorlake.mirror.lease_message import read_message, write_message
from mirrorlake.offsets import TopicPartition

TELL_SECONDS = 1.0
"""Between two times a lease tells its progress, where it has any."""


@dataclass(frozen=True, slots=True)
class ToldProgress:
    """What a lease has done so far for one destination of one source partition; the fields are those of `LeaseRow`."""

    mirror: str
    source: TopicPartition
    destination: str
    position: int
    records: int
    raw_bytes: int
    batches: Mapping[str, int] = field(default_factory=dict)
    gap_offsets: Mapping[str, int] = field(default_factory=dict)
    latencies: Mapping[float, int] = field(default_factory=dict)
    latency_seconds_sum: float = 0.0
    held_until_ms: int | None = None


class ProgressTeller:
    """Writes what a lease has done into its file, as a whole each time.

    Args:
        file: where; empty for nowhere.
        clock: tells when it is time again.
        progress: returns what has moved since the lease began.
    """

    def __init__(self, file: str, clock: Clock, progress: Callable[[], Iterable[ToldProgress]]) -> None:
        self._file = file
        self._clock = clock
        self._progress = progress
        self._told: tuple[ToldProgress, ...] = ()
        self._next_seconds = clock.elapsed_seconds() + TELL_SECONDS

    def turn(self) -> None:
        """Tells what is new, where it is time; a file that cannot be written costs nothing but being told."""
        now = self._clock.elapsed_seconds()
        if not self._file or now < self._next_seconds:
            return
        self._next_seconds = now + TELL_SECONDS
        progress = tuple(self._progress())
        if progress == self._told:
            return
        if write_message(self._file, progress):
            self._told = progress


def read_told(file: str) -> tuple[ToldProgress, ...]:
    """Returns what a lease has told in its file; nothing where there is none, or it cannot be understood."""
    found = read_message(file)
    return found if isinstance(found, tuple) else ()
