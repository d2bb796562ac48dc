"""Where times fall in an archived partition, exactly: by what its segments say of themselves, and their records.

Timestamps need not grow with offsets, and many records may have one time. So a segment is passed over only where it
says that none of its records can be meant; of any other the records are asked, in offset order. A record without a
time is neither early nor late. Pure.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from mirrorlake.archive.envelope import FILE_ALGORITHM, SegmentFooter
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange

ReadRange = Callable[[OffsetRange], Iterable[RecordColumns]]
"""Yields the records of a range in offset order; records outside may come with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTimes:
    """What a segment says of its records' times, in Unix milliseconds.

    ``is_known`` is False where it says nothing, as a file of mirror-v3. ``highest_ms`` is the highest time, None where
    no record has one; ``lowest_ms`` is no higher than any, None also where that is not known. ``records`` is how many
    there are, those without a time too.
    """

    offsets: OffsetRange
    is_known: bool = False
    records: int = 0
    lowest_ms: int | None = None
    highest_ms: int | None = None

    @staticmethod
    def of(offsets: OffsetRange, footer: SegmentFooter | None) -> "SegmentTimes":
        """Returns what a footer says; None is the footer of a file that has none."""
        if footer is None:
            return SegmentTimes(offsets=offsets)
        # Of batches that were never decoded only the first record's time is known, and the highest.
        is_exact = footer.algorithm != FILE_ALGORITHM
        return SegmentTimes(
            offsets=offsets,
            is_known=True,
            records=footer.records,
            lowest_ms=footer.timestamp_ms_min if is_exact else None,
            highest_ms=footer.timestamp_ms_max,
        )

    def may_reach(self, time_ms: int) -> bool:
        """Returns whether some record may have that time, or a later one."""
        return not self.is_known or (self.highest_ms is not None and self.highest_ms >= time_ms)


def first_at_or_past(segments: Iterable[SegmentTimes], time_ms: int, read: ReadRange) -> int | None:
    """Returns the offset of the first record of that time or later, None where there is none.

    Args:
        segments: of the partition, in offset order, from where to look.
        time_ms: Unix milliseconds.
        read: reads the records of a segment.
    """
    for segment in segments:
        if not segment.may_reach(time_ms):
            continue
        for records in read(segment.offsets):
            found = np.flatnonzero(_within(records, segment.offsets) & (records.timestamps >= time_ms))
            if len(found):
                return int(records.offsets[found[0]])
    return None


def count_until(segments: Iterable[SegmentTimes], start_offset: int, until_ms: int, read: ReadRange) -> int:
    """Returns how many records at or past an offset have a time, and none later than ``until_ms``.

    Args:
        segments: of the partition, in offset order.
        start_offset: inclusive.
        until_ms: Unix milliseconds, inclusive.
        read: reads the records of a segment, or of a part of one.
    """
    count = 0
    for segment in segments:
        if segment.offsets.end_offset <= start_offset:
            continue
        if segment.lowest_ms is not None and segment.lowest_ms > until_ms:
            continue
        part = OffsetRange(
            start_offset=max(start_offset, segment.offsets.start_offset), end_offset=segment.offsets.end_offset
        )
        for records in read(part):
            is_early = (records.timestamps >= 0) & (records.timestamps <= until_ms)
            count += int(np.count_nonzero(_within(records, part) & is_early))
    return count


def _within(records: RecordColumns, offsets: OffsetRange) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    return (records.offsets >= offsets.start_offset) & (records.offsets < offsets.end_offset)
