"""Where a segment ends: pure arithmetic over the records read so far."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mirrorlake.destinations.archive.triggers import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRule:
    """When a segment is full; ``end_offset`` (exclusive) is where it must end whatever it holds, None for nowhere.

    ``is_end_settled`` where another writer has settled that end: it holds though it were inside a batch.
    """

    records_max: int
    bytes_max: int
    end_offset: int | None
    end_trigger: str
    is_end_settled: bool = False


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


def find_batch_cut(
    rule: CutRule,
    *,
    records: int,
    raw_bytes: int,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    covered_end: int,
) -> Cut | None:
    """Returns where a segment of whole batches ends; otherwise as `find_cut`.

    The batch that reaches a bound is the segment's last. So is the one that ``rule.end_offset`` lies in, unless that
    end is settled: then the segment ends inside the batch, which ``Cut.stop_row`` does not count in.

    Args:
        rule: the bounds; bytes are those of the batches.
        records: records the segment holds already, below ``records_max``.
        raw_bytes: bytes it holds already, below ``bytes_max``.
        starts: first offset of each new batch.
        ends: of each new batch, exclusive.
        counts: records in each.
        sizes: bytes of each.
        covered_end: consumer position after the new batches; the offsets between may be gaps.
    """
    cuts: list[Cut] = []
    for totals, bound, trigger in (
        (np.cumsum(counts), rule.records_max - records, Trigger.RECORDS),
        (np.cumsum(sizes), rule.bytes_max - raw_bytes, Trigger.BYTES),
    ):
        row = int(np.searchsorted(totals, bound))
        if row < len(ends):
            cuts.append(Cut(stop_row=row + 1, end_offset=int(ends[row]), trigger=trigger))
    if rule.end_offset is not None and covered_end >= rule.end_offset:
        row = int(np.searchsorted(ends, rule.end_offset, side="right"))
        is_inside = row < len(ends) and int(starts[row]) < rule.end_offset
        if is_inside and not rule.is_end_settled:
            cuts.append(Cut(stop_row=row + 1, end_offset=int(ends[row]), trigger=rule.end_trigger))
        else:
            cuts.append(Cut(stop_row=row, end_offset=rule.end_offset, trigger=rule.end_trigger))
    return min(cuts, key=lambda cut: cut.end_offset, default=None)
