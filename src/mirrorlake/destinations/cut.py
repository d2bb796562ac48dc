"""Where a segment ends: pure arithmetic over the records read so far."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mirrorlake.destinations.triggers import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRule:
    """When a segment is full; ``end_offset`` (exclusive) is where it must end whatever it holds, None for nowhere."""

    records_max: int
    bytes_max: int
    end_offset: int | None
    end_trigger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The segment takes rows before ``stop_row`` and covers offsets below ``end_offset``."""

    stop_row: int
    end_offset: int
    trigger: str


def find_cut(
    rule: CutRule,
    *,
    records: int,
    raw_bytes: int,
    offsets: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    covered_end: int,
) -> Cut | None:
    """Returns where the segment ends among newly read records, or None where it goes on after all of them.

    The record that reaches a bound is the segment's last, so bytes may pass ``bytes_max`` by less than one record.

    Args:
        rule: the bounds.
        records: records the segment holds already, below ``records_max``.
        raw_bytes: bytes it holds already, below ``bytes_max``.
        offsets: of the new records, growing.
        sizes: bytes of each new record.
        covered_end: consumer position after the new records; the offsets between may be gaps.
    """
    cuts: list[Cut] = []
    full = rule.records_max - records
    if len(offsets) >= full:
        cuts.append(Cut(stop_row=full, end_offset=int(offsets[full - 1]) + 1, trigger=Trigger.RECORDS))
    row = int(np.searchsorted(np.cumsum(sizes), rule.bytes_max - raw_bytes))
    if row < len(offsets):
        cuts.append(Cut(stop_row=row + 1, end_offset=int(offsets[row]) + 1, trigger=Trigger.BYTES))
    if rule.end_offset is not None and covered_end >= rule.end_offset:
        stop = int(np.searchsorted(offsets, rule.end_offset))
        cuts.append(Cut(stop_row=stop, end_offset=rule.end_offset, trigger=rule.end_trigger))
    # The first that is reached; at the same record the trigger that is named first above.
    return min(cuts, key=lambda cut: cut.end_offset, default=None)
