"""How many records a point in time leaves out although they are not later: a later one stands before them."""

from collections.abc import Iterator

from mirrorlake.archive.record_times import SegmentTimes, count_until
from mirrorlake.offsets import OffsetRange
from mirrorlake.sources.archive.archive import Found
from mirrorlake.sources.archive.log import opened, records_of


def count_behind(found: Found, end_offset: int, until_ms: int) -> int:
    """Returns how many records at or past an offset are not later than a time. Blocking; call it in a thread.

    Segments that are later as a whole are not read.

    Args:
        found: the partition, with all that its archive holds.
        end_offset: where what is read of it ends.
        until_ms: Unix milliseconds.

    Raises:
        MirrorlakeError: a segment is damaged, or the store could not be read.
    """
    rest = OffsetRange(start_offset=min(end_offset, found.end), end_offset=found.end)
    return count_until(_times(found, rest), end_offset, until_ms, lambda offsets: records_of(found, offsets))


def _times(found: Found, offsets: OffsetRange) -> Iterator[SegmentTimes]:
    for segment in found.view.chain.overlapping(offsets):
        each = opened(found, segment)
        try:
            yield SegmentTimes.of(segment.name.offsets, each.footer)
        finally:
            each.close()
