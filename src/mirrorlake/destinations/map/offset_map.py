"""Where each record of a source partition lies at a destination that numbers records itself. Pure.

A map is a sequence of runs: so many consecutive source offsets lie at so many consecutive destination offsets. Between
runs the source had no record (compacted away, a marker, aborted), or somebody else's record or marker lies between
ours at the destination. Source and destination offsets both grow from run to run, but where a position was moved
forward by hand, and back again: what had been skipped then lies behind later records, as *later pages* say.

Runs are written as pages of at most ``RUNS_PER_PAGE_MAX``; a page that is full never changes again. The bytes of a page
are, for each run, three unsigned LEB128 numbers: source offsets passed over since the run before (since the page's
start for the first), length of the run, destination offsets passed over since the run before (since 0 for the first).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mirrorlake.destinations.transactions.own_bytes import number_at, put_number
from mirrorlake.errors import DestinationForeignError
from mirrorlake.offsets import OffsetRange

RUNS_PER_PAGE_MAX = 256
"""The open page travels in every progress record, so it is kept to about a kilobyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedRun:
    """``length`` records: source offset ``start_offset`` + n lies at destination offset ``destination_offset`` + n."""

    start_offset: int
    length: int
    destination_offset: int

    @property
    def end_offset(self) -> int:
        """Source offset after the run (exclusive)."""
        return self.start_offset + self.length

    @property
    def destination_end(self) -> int:
        """Destination offset after the run (exclusive)."""
        return self.destination_offset + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPage:
    """The page that still grows: what it covers begins at source offset ``start_offset``.

    ``encoded`` are the bytes of its ``runs``; ``last_end`` and ``last_destination_end`` are where its last run ends
    (``start_offset`` and 0 while there is none).
    """

    start_offset: int
    runs: int = 0
    encoded: bytes = b""
    last_end: int
    last_destination_end: int = 0

    @classmethod
    def at(cls, start_offset: int) -> "OpenPage":
        """Returns the empty page that begins at a source offset."""
        return cls(start_offset=start_offset, last_end=start_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class FullPage:
    """A page that is complete: it covers the source offsets of ``offsets``, holes included."""

    offsets: OffsetRange
    encoded: bytes


def add_runs(page: OpenPage, runs: Sequence[MappedRun]) -> tuple[list[FullPage], OpenPage]:
    """Returns the pages that became full, in order, and the page that is open afterwards.

    Args:
        page: the open page so far.
        runs: follow those of the page, ascending on both sides; neighbours without anything between are joined
            already.

    Raises:
        ValueError: they do not follow.
    """
    full: list[FullPage] = []
    for at in range(0, len(runs), RUNS_PER_PAGE_MAX):
        rest = runs[at : at + RUNS_PER_PAGE_MAX]
        room = RUNS_PER_PAGE_MAX - page.runs
        page = _grown(page, rest[:room])
        if page.runs == RUNS_PER_PAGE_MAX:
            offsets = OffsetRange(start_offset=page.start_offset, end_offset=page.last_end)
            full.append(FullPage(offsets=offsets, encoded=page.encoded))
            page = _grown(OpenPage.at(page.last_end), rest[room:])
    return full, page


def _grown(page: OpenPage, runs: Sequence[MappedRun]) -> OpenPage:
    encoded = bytearray(page.encoded)
    end, destination_end = page.last_end, page.last_destination_end
    for run in runs:
        if run.start_offset < end or run.destination_offset < destination_end or run.length < 1:
            raise ValueError(f"{run} does not follow source offset {end} at destination offset {destination_end}")
        for number in (run.start_offset - end, run.length, run.destination_offset - destination_end):
            put_number(encoded, number)
        end, destination_end = run.end_offset, run.destination_end
    return OpenPage(
        start_offset=page.start_offset,
        runs=page.runs + len(runs),
        encoded=bytes(encoded),
        last_end=end,
        last_destination_end=destination_end,
    )


def open_page(start_offset: int, encoded: bytes) -> OpenPage:
    """Returns the open page behind its bytes.

    Raises:
        DestinationForeignError: they are not those of a page.
    """
    runs = list(decode_runs(start_offset, encoded))
    return OpenPage(
        start_offset=start_offset,
        runs=len(runs),
        encoded=encoded,
        last_end=runs[-1].end_offset if runs else start_offset,
        last_destination_end=runs[-1].destination_end if runs else 0,
    )


def decode_runs(start_offset: int, encoded: bytes) -> Iterator[MappedRun]:
    """Yields the runs of a page that begins at source offset ``start_offset``.

    Raises:
        DestinationForeignError: the bytes are not those of a page.
    """
    end, destination_end, at = start_offset, 0, 0
    while at < len(encoded):
        try:
            passed, at = number_at(encoded, at)
            length, at = number_at(encoded, at)
            destination_passed, at = number_at(encoded, at)
        except ValueError as error:
            raise _not_a_page(str(error)) from error
        run = MappedRun(
            start_offset=end + passed, length=length, destination_offset=destination_end + destination_passed
        )
        if length < 1:
            raise _not_a_page(f"a run without a record at source offset {run.start_offset}")
        yield run
        end, destination_end = run.end_offset, run.destination_end


def coalesced_runs(runs: Iterable[MappedRun]) -> list[MappedRun]:
    """Returns the runs with neighbours joined where nothing lies between them on either side."""
    result: list[MappedRun] = []
    for run in runs:
        last = result[-1] if result else None
        if last and (last.end_offset, last.destination_end) == (run.start_offset, run.destination_offset):
            run = MappedRun(
                start_offset=last.start_offset,
                length=last.length + run.length,
                destination_offset=last.destination_offset,
            )
            result.pop()
        result.append(run)
    return result


def runs_from(runs: Iterable[MappedRun], start_offset: int) -> list[MappedRun]:
    """Returns what the runs say of source offsets from ``start_offset`` on."""
    kept: list[MappedRun] = []
    for run in runs:
        if run.end_offset <= start_offset:
            continue
        passed = max(0, start_offset - run.start_offset)
        kept.append(
            MappedRun(
                start_offset=run.start_offset + passed,
                length=run.length - passed,
                destination_offset=run.destination_offset + passed,
            )
        )
    return kept


def later_pages(runs: Sequence[MappedRun]) -> list[FullPage]:
    """Returns pages of runs that lie before the end of a map: what was skipped there, or is copied once more."""
    pages = []
    for at in range(0, len(runs), RUNS_PER_PAGE_MAX):
        part = runs[at : at + RUNS_PER_PAGE_MAX]
        page = _grown(OpenPage.at(part[0].start_offset), part)
        offsets = OffsetRange(start_offset=page.start_offset, end_offset=page.last_end)
        pages.append(FullPage(offsets=offsets, encoded=page.encoded))
    return pages


def runs_before(runs: Iterable[MappedRun], end_offset: int) -> list[MappedRun]:
    """Returns what the runs say of source offsets before ``end_offset``."""
    return [
        replace(run, length=min(run.length, end_offset - run.start_offset))
        for run in runs
        if run.start_offset < end_offset
    ]


def first_copies(runs: Sequence[MappedRun], later: Iterable[Iterable[MappedRun]]) -> list[MappedRun]:
    """Returns runs that name one place of each record: the first one it was copied to; ascending by source offset.

    Args:
        runs: ascending.
        later: the runs of later pages, in the order in which they were written.
    """
    named = list(runs)
    for page in later:
        added = [part for run in page for part in _unnamed_parts(run, named)]
        if added:
            named = sorted([*named, *added], key=lambda each: each.start_offset)
    return named


def _unnamed_parts(run: MappedRun, named: Sequence[MappedRun]) -> Iterator[MappedRun]:
    """Yields the parts of a run that lie in none of the named ones, which are ascending and apart."""
    at = run.start_offset
    first = bisect_right(named, at, key=lambda each: each.end_offset)
    for other in named[first:]:
        if other.start_offset >= run.end_offset:
            break
        if other.start_offset > at:
            yield _part(run, at, other.start_offset)
        at = max(at, other.end_offset)
    if at < run.end_offset:
        yield _part(run, at, run.end_offset)


def _part(run: MappedRun, start: int, end: int) -> MappedRun:
    there = run.destination_offset + start - run.start_offset
    return MappedRun(start_offset=start, length=end - start, destination_offset=there)


class OffsetMap:
    """Translates offsets of one source partition, exactly.

    Args:
        covered: the source offsets the map speaks about.
        runs: ascending by source offset, apart, within ``covered``.
    """

    def __init__(self, covered: OffsetRange, runs: Sequence[MappedRun]) -> None:
        self.covered = covered
        self.runs = tuple(runs)
        self._starts = np.array([run.start_offset for run in runs], np.int64)
        self._destination_starts = np.array([run.destination_offset for run in runs], np.int64)
        self._lengths = np.array([run.length for run in runs], np.int64)
        self._by_destination = np.argsort(self._destination_starts)
        # The lowest place of each run's first record and of those of all runs behind it.
        self._lowest = np.minimum.accumulate(self._destination_starts[::-1])[::-1]

    def within(self, offsets: OffsetRange) -> "OffsetMap":
        """Returns the part of the map that speaks about ``offsets``."""
        start = max(offsets.start_offset, self.covered.start_offset)
        end = max(start, min(offsets.end_offset, self.covered.end_offset))
        first = int(np.searchsorted(self._starts + self._lengths, start, "right"))
        last = int(np.searchsorted(self._starts, end, "left"))
        runs = []
        for run in self.runs[first:last]:
            begins, ends = max(run.start_offset, start), min(run.end_offset, end)
            moved = run.destination_offset + begins - run.start_offset
            runs.append(MappedRun(start_offset=begins, length=ends - begins, destination_offset=moved))
        return OffsetMap(OffsetRange(start_offset=start, end_offset=end), runs)

    @property
    def destination_range(self) -> OffsetRange:
        """Destination offsets from the first mapped record there to after the last; empty where there is none."""
        if not self.runs:
            return OffsetRange(start_offset=0, end_offset=0)
        last = self.runs[int(self._by_destination[-1])]
        return OffsetRange(start_offset=int(self._lowest[0]), end_offset=last.destination_end)

    @property
    def stretches(self) -> "list[OffsetMap]":
        """The map in parts, ascending by source offset, in each of which destination offsets grow too: mostly one."""
        parts: list[list[MappedRun]] = []
        for run in self.runs:
            if not parts or run.destination_offset < parts[-1][-1].destination_end:
                parts.append([])
            parts[-1].append(run)
        return [
            OffsetMap(OffsetRange(start_offset=part[0].start_offset, end_offset=part[-1].end_offset), part)
            for part in parts
        ]

    def place_from(self, offset: int) -> int | None:
        """Returns the lowest destination offset of all records from a source offset on; None where there is none.

        That is the place of the first of them, but where it was copied after some that follow it.
        """
        row = int(np.searchsorted(self._starts + self._lengths, offset, "right"))
        if row == len(self.runs):
            return None
        passed = max(0, offset - int(self._starts[row]))
        first = int(self._destination_starts[row]) + passed
        return min(first, int(self._lowest[row + 1])) if row + 1 < len(self.runs) else first

    def destination_of(self, offset: int) -> int | None:
        """Returns where the record of a source offset lies; None where the map knows of none."""
        row = int(np.searchsorted(self._starts, offset, "right")) - 1
        if row < 0 or offset >= self._starts[row] + self._lengths[row]:
            return None
        return int(self._destination_starts[row] + offset - self._starts[row])

    def sources_of(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns the source offset of each destination offset; -1 for those that are not ours."""
        if not self.runs:
            return np.full(len(offsets), -1, np.int64)
        ordered = self._destination_starts[self._by_destination]
        rows = self._by_destination[np.maximum(np.searchsorted(ordered, offsets, "right") - 1, 0)]
        within = offsets - self._destination_starts[rows]
        is_ours = (within >= 0) & (within < self._lengths[rows])
        return np.where(is_ours, self._starts[rows] + within, -1)

    def source_ranges(self, ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
        """Yields the source offsets of what is ours in destination ranges.

        Of a map in which destination offsets grow, as in one of `stretches`, and ranges that are ascending and apart
        they are so too.
        """
        ends = self._destination_starts + self._lengths
        for each in ranges:
            first = int(np.searchsorted(ends, each.start_offset, "right"))
            last = int(np.searchsorted(self._destination_starts, each.end_offset, "left"))
            for run in self.runs[first:last]:
                begins = max(run.destination_offset, each.start_offset) - run.destination_offset
                stops = min(run.destination_end, each.end_offset) - run.destination_offset
                yield OffsetRange(start_offset=run.start_offset + begins, end_offset=run.start_offset + stops)


def _not_a_page(why: str) -> DestinationForeignError:
    return DestinationForeignError(
        f"a page of an offset map cannot be read: {why}", hint="let no other producer write to the progress topics"
    )
