"""What one worker has found of the segments of a partition: a cache only.

Segments never change, so what was found of one holds as long as its size does; what is read of it later is compared
with the sums of its blocks.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from mirrorlake.archive.blocks.sums import BlockSums

KNOWN_MAX = 10_000

SUMS_BYTES_MAX = 16 << 20
"""Of the blocks of all of them together: those of half a terabyte."""

SEARCHES_MAX = 16
"""A mirror asks for two times of a partition, its ``from`` and its ``until``."""

STOPS_MAX = 64
"""Places inside of `log` segments: a lease reads some megabytes further than what it can send."""


class Compared(NamedTuple):
    """A file as it was compared: another archive in the place of one may have files of the same names and sizes.

    ``checksum`` is what it was compared with, empty where nothing is said of it.
    """

    key: str
    size_bytes: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStop:
    """A place inside of a `log` segment: a batch begins at a byte, all before it end at or below ``offset``."""

    offset: int = 0
    byte_position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSearch:
    """Where the first record at or past a time was looked for, ``end_offset`` excluded; ``found`` is its offset."""

    start_offset: int
    end_offset: int
    found: int | None = None


class KnownSegments:
    """Which segments were found intact, where reading of `log` segments stopped, and what times were looked for."""

    def __init__(self) -> None:
        self._searches: OrderedDict[Hashable, TimeSearch] = OrderedDict()
        self._intact: OrderedDict[Compared, BlockSums | None] = OrderedDict()
        self._sums_bytes = 0
        self._stops: deque[tuple[tuple[str, int], LogStop]] = deque(maxlen=STOPS_MAX)

    def is_intact(self, which: Compared) -> bool:
        """Tells whether the whole file was compared with all that is said of it."""
        return which in self._intact

    def sums_of(self, which: Compared) -> BlockSums | None:
        """Returns the sums of its blocks from when it was compared; None where there are none, or it was not."""
        return self._intact.get(which)

    def found_intact(self, which: Compared, sums: BlockSums | None = None) -> None:
        """Remembers it, and the sums of its blocks where they are known."""
        self._forget(self._intact.pop(which, None))
        self._intact[which] = sums
        self._sums_bytes += len(sums.digests) if sums is not None else 0
        while len(self._intact) > KNOWN_MAX or (self._sums_bytes > SUMS_BYTES_MAX and len(self._intact) > 1):
            self._forget(self._intact.popitem(last=False)[1])

    def _forget(self, sums: BlockSums | None) -> None:
        self._sums_bytes -= len(sums.digests) if sums is not None else 0

    def stopped(self, key: str, size_bytes: int, stop: LogStop) -> None:
        """Remembers a place inside of a `log` segment."""
        self._stops.append(((key, size_bytes), stop))

    def stop_before(self, key: str, size_bytes: int, offset: int) -> LogStop:
        """Returns the last known place that does not lie behind ``offset``, else the beginning."""
        known = (stop for where, stop in [*self._stops] if where == (key, size_bytes) and stop.offset <= offset)
        return max(known, key=lambda stop: stop.byte_position, default=LogStop())

    def search(self, question: Hashable) -> TimeSearch | None:
        """Returns how far an answer was looked for; None where it was not."""
        return self._searches.get(question)

    def searched(self, question: Hashable, search: TimeSearch) -> None:
        """Remembers how far an answer was looked for."""
        self._searches[question] = search
        self._searches.move_to_end(question)
        if len(self._searches) > SEARCHES_MAX:
            self._searches.popitem(last=False)
