"""The order of records as readers of every format check it."""

import numpy as np
import numpy.typing as npt

from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange


def check_order(columns: RecordColumns, position: int, end_offset: int | None, *, where: str) -> int:
    """Returns the position after the records, at least one.

    Args:
        columns: what was read next.
        position: the lowest offset that may follow.
        end_offset: of the segment, exclusive; None where it is not known.
        where: names the file in messages.

    Raises:
        ChainBrokenError: they are out of order, or outside the range.
    """
    return check_offsets(columns.offsets, position, end_offset, where=where)


def check_offsets(offsets: npt.NDArray[np.int64], position: int, end_offset: int | None, *, where: str) -> int:
    """Returns the position after records at these offsets; see `check_order`."""
    steps = np.diff(offsets, prepend=np.int64(position - 1))
    last = int(offsets[-1])
    if steps.min() < 1 or (end_offset is not None and last >= end_offset):
        raise ChainBrokenError(
            f"{where} has records out of order, or outside its range",
            hint="the file is damaged or not ours: put it back from a copy, or archive the range again",
        )
    return last + 1


def within_range(columns: RecordColumns, within: OffsetRange) -> RecordColumns:
    """Returns the records whose offsets lie in a range."""
    start, stop = np.searchsorted(columns.offsets, [within.start_offset, within.end_offset])
    return columns.slice(int(start), int(stop))
