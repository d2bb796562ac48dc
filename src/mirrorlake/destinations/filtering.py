"""What a filter takes out of a delivery: batches that are kept whole stay as their bytes, others are made anew.

A filter sees records decoded, part by part, so that memory is bounded whatever they decompress to. A batch of which
nothing is kept is passed over with a reason of its own; of one that is kept in part the records make a batch of its
compression, at their offsets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mirrorlake.archive.formats.log_batches import made_of
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery
from mirrorlake.errors import BatchTooLargeError, CorruptBatchError, MirrorlakeError
from mirrorlake.filters.condition import Filter
from mirrorlake.kafka.records.batches import Path
from mirrorlake.kafka.records.codec import decode_batches, decode_parts
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.records.old_formats import as_v2
from mirrorlake.offsets import Gap, GapKind, OffsetRange

FILTERED_REASON = "filtered"
"""For the counters: why a batch is passed over, or made anew."""

PART_BYTES_MAX = 16 << 20
"""What is decoded at a time: a delivery may come to many times its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFilter:
    """A filter over the records of one source partition. A value that travels in plans."""

    wanted: Filter
    partition: int

    def rows(self, records: RecordColumns) -> npt.NDArray[np.bool_]:
        """Returns True for each record that is kept; the records are as the source has them."""
        from mirrorlake.filters.evaluation import kept_rows  # only where there is a filter

        return kept_rows(self.wanted, records, partition=self.partition)

    def kept(self, records: RecordColumns) -> RecordColumns:
        """Returns the records that are kept."""
        if not len(records):
            return records
        return _at(records, np.flatnonzero(self.rows(records)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What of a delivery is to be copied, and what is wrong with what follows it: to be raised once it was taken."""

    delivery: Delivery
    error: MirrorlakeError | None = None


def selected(delivery: Delivery, keeps: PartitionFilter) -> Selected:
    """Returns a delivery without the records that a filter leaves out; their offsets are gaps of kind ``filtered``.

    Where a batch cannot be decoded the delivery ends before it, and the error tells which.
    """
    batches: list[ClassifiedBatch] = []
    gaps: list[Gap] = []
    try:
        for item, left_out in _items(delivery.batches, keeps):
            batches.append(item)
            gaps += left_out
    except (CorruptBatchError, BatchTooLargeError) as error:
        start = delivery.covered.start_offset
        end = max(start, min(batches[-1].batch.header.next_offset, delivery.covered.end_offset)) if batches else start
        covered = OffsetRange(start_offset=start, end_offset=end)
        return Selected(delivery=_with(delivery, covered, batches, gaps), error=error)
    return Selected(delivery=_with(delivery, delivery.covered, batches, gaps))


def _with(
    delivery: Delivery, covered: OffsetRange, batches: Sequence[ClassifiedBatch], gaps: Sequence[Gap]
) -> Delivery:
    return replace(delivery, covered=covered, batches=batches, gaps=sorted([*delivery.gaps, *gaps]))


def _items(items: Sequence[ClassifiedBatch], keeps: PartitionFilter) -> Iterator[tuple[ClassifiedBatch, list[Gap]]]:
    """Yields each item as it is to be copied, in order, with the offsets that were left out of it.

    Raises:
        CorruptBatchError, BatchTooLargeError: an item cannot be decoded; all those before it were yielded.
    """
    done = 0
    try:
        data = [item.batch for item in items if item.path != Path.SKIP]
        for columns in decode_parts(data, part_bytes_max=PART_BYTES_MAX):
            stop = _end_of(items, done, int(columns.offsets[-1]))
            found = list(_of_part(items[done:stop], columns, keeps))
            done = stop
            yield from found
    except (CorruptBatchError, BatchTooLargeError):
        for item in items[done:]:  # one by one, so that those before the one that is wrong arrive
            columns = decode_batches([item.batch]) if item.path != Path.SKIP else RecordColumns.empty()
            yield from _of_part([item], columns, keeps)
    else:
        yield from ((item, []) for item in items[done:])


def _end_of(items: Sequence[ClassifiedBatch], start: int, last_offset: int) -> int:
    """Returns the number behind the item that has the record at ``last_offset``, which one of them has."""
    for number in range(start, len(items)):
        if items[number].path != Path.SKIP and items[number].batch.header.last_offset >= last_offset:
            return number + 1
    raise AssertionError(f"no batch has the record at offset {last_offset}")


def _of_part(
    items: Sequence[ClassifiedBatch], columns: RecordColumns, keeps: PartitionFilter
) -> Iterator[tuple[ClassifiedBatch, list[Gap]]]:
    is_kept = keeps.rows(columns)
    ends = np.searchsorted(columns.offsets, [item.batch.header.next_offset for item in items])
    first = 0
    for item, end in zip(items, ends.tolist(), strict=True):
        if item.path == Path.SKIP or is_kept[first:end].all():
            yield item, []
        else:
            yield _made(item, columns.slice(first, end), is_kept[first:end])
        first = end


def _made(
    item: ClassifiedBatch, records: RecordColumns, is_kept: npt.NDArray[np.bool_]
) -> tuple[ClassifiedBatch, list[Gap]]:
    gaps = list(gaps_at(records.offsets[~is_kept], GapKind.FILTERED))
    if not is_kept.any():
        return replace(item, path=Path.SKIP, reason=FILTERED_REASON), gaps
    batch = as_v2(item.batch) if item.batch.header.magic < 2 else item.batch
    made = made_of(batch, _at(records, np.flatnonzero(is_kept))).batch
    return ClassifiedBatch(batch=made, path=Path.RECORDS, reason=FILTERED_REASON), gaps


def _at(records: RecordColumns, rows: npt.NDArray[np.int64]) -> RecordColumns:
    return records if len(rows) == len(records) else records.relocated(rows, records.offsets[rows])


def gaps_at(offsets: npt.NDArray[np.int64], kind: GapKind) -> Iterator[Gap]:
    """Yields runs of ascending offsets, one at least, as gaps."""
    breaks = np.flatnonzero(np.diff(offsets) > 1) + 1
    starts, stops = np.concatenate([[0], breaks]), np.concatenate([breaks, [len(offsets)]])
    for start, stop in zip(offsets[starts].tolist(), offsets[stops - 1].tolist(), strict=True):
        yield Gap(offsets=OffsetRange(start_offset=start, end_offset=stop + 1), kind=kind)
