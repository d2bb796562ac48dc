"""Positions in a partition: half-open ranges, and the gaps inside them.

A position is a consumer position: the next offset to read. A range counts positions, so it may hold fewer
records than its length (compaction, transaction markers, aborted data).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic.

    A tuple, as it is the key of nearly every mapping there is: what Python writes to hash and compare a dataclass is
    five times as slow as what tuples do, and making one twice.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OffsetRange:
    """The offsets ``start_offset`` (inclusive) to ``end_offset`` (exclusive); empty where they are equal.

    Raises:
        ValueError: start is negative or above end.
    """

    start_offset: int
    end_offset: int

    def __post_init__(self) -> None:
        if not 0 <= self.start_offset <= self.end_offset:
            raise ValueError(f"not a range of offsets: [{self.start_offset}, {self.end_offset})")

    def __len__(self) -> int:
        return self.end_offset - self.start_offset

    def __str__(self) -> str:
        return f"[{self.start_offset}, {self.end_offset})"


class GapKind(StrEnum):
    """Why offsets of a range hold no record."""

    ABSENT = "absent"
    """Compacted away, a transaction marker, or aborted data: no consumer could read them."""
    TRUNCATED = "truncated"
    """The source's log start had moved past them before they were copied."""
    RECREATED = "recreated"
    """The topic was deleted and recreated; the offsets belonged to the topic before."""
    MISSING = "missing"
    """The archive they were read from had no segment with them, for so long that `skip-after` passed over them."""
    ERASED = "erased"
    """They were archived, and `archive erase` took them out again."""
    FILTERED = "filtered"
    """A filter left them out: the source has records there that are not wanted in the copy."""
    DEAD_LETTERED = "dead-lettered"
    """Their records name no schema, and are in the topic for dead letters."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Gap:
    """A run of offsets without a record, and why."""

    offsets: OffsetRange
    kind: GapKind


FOLLOWING_KINDS = frozenset({GapKind.ABSENT, GapKind.FILTERED})
"""Kinds of which a copy may have a gap beside every record: all are counted, and listed only as far as they are few."""


def gaps_within(gaps: Sequence[Gap], offsets: OffsetRange) -> Iterator[Gap]:
    """Yields what of some gaps lies within a range, in their order."""
    for gap in gaps:
        start = max(gap.offsets.start_offset, offsets.start_offset)
        end = min(gap.offsets.end_offset, offsets.end_offset)
        if start < end:
            yield Gap(offsets=OffsetRange(start_offset=start, end_offset=end), kind=gap.kind)


def gaps_near(gaps: Sequence[Gap], offsets: OffsetRange) -> Sequence[Gap]:
    """Returns those of some gaps, ascending and apart, that have offsets of a range; looks at few of the others."""
    first = bisect_right(gaps, offsets.start_offset, key=lambda gap: gap.offsets.end_offset)
    stop = bisect_left(gaps, offsets.end_offset, lo=first, key=lambda gap: gap.offsets.start_offset)
    return gaps[first:stop]


def gaps_of(offsets: OffsetRange, known: Sequence[Gap]) -> Iterator[Gap]:
    """Yields gaps that together are a range without a record, in order; what is not known to be another is absent.

    Args:
        offsets: the range.
        known: gaps whose kind is known, in offset order.
    """
    position = offsets.start_offset
    for gap in gaps_within(known, offsets):
        if gap.offsets.start_offset > position:
            before = OffsetRange(start_offset=position, end_offset=gap.offsets.start_offset)
            yield Gap(offsets=before, kind=GapKind.ABSENT)
        yield gap
        position = gap.offsets.end_offset
    if position < offsets.end_offset:
        rest = OffsetRange(start_offset=position, end_offset=offsets.end_offset)
        yield Gap(offsets=rest, kind=GapKind.ABSENT)


class GapFill(StrEnum):
    """How offsets without a record are closed at a destination with equal offsets."""

    MARKERS = "markers"
    """By transactions that write nothing: their markers take one offset each, and no consumer ever sees them."""
    FILLER = "filler"
    """By one aborted transaction of empty records: fast, and invisible to ``read_committed`` consumers only."""
    REFUSE = "refuse"
    """Not at all: the partition stops."""


GAP_FILL_OFFSETS_MAX = 100_000_000
"""What is filled below a source's log start without being asked for: about 80 MB and 15 s at the destination."""


class StartKind(StrEnum):
    """Where a partition without a position begins."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"
    MAX_AGE = "max-age"
