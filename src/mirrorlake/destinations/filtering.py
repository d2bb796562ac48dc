"""What filter, route and projection make of a delivery: batches that stay whole stay their bytes, others are made anew.

All see records decoded, part by part, so that memory is bounded whatever they decompress to. A batch of which
nothing is kept is passed over with a reason of its own; of one that is kept in part, or whose records change, those
that are left make a batch of its compression, at their offsets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mirrorlake.archive.formats.log_batches import made_of
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery
from mirrorlake.errors import (
    BatchTooLargeError,
    CorruptBatchError,
    MirrorlakeError,
    RecordTooLargeError,
    RouteFailedError,
    SelectFailedError,
)
from mirrorlake.filters.branch import Branch
from mirrorlake.filters.condition import Filter
from mirrorlake.filters.growth import GROWTH_MAX
from mirrorlake.filters.projection import Projection
from mirrorlake.kafka.records.batches import Path
from mirrorlake.kafka.records.codec import decode_batches, decode_parts
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.records.old_formats import as_v2
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition

FILTERED_REASON = "filtered"
"""For the counters: why a batch is passed over, or made anew."""

SELECTED_REASON = "selected"
"""For the counters: why a batch is made anew, whether or not records of it were left out."""

PART_BYTES_MAX = 16 << 20
"""What is decoded at a time: a delivery may come to many times its size."""

_STOPS = (CorruptBatchError, BatchTooLargeError, RecordTooLargeError, SelectFailedError, RouteFailedError)
"""What may be wrong with a batch; those before it are delivered."""


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
class PartitionBranch:
    """What one topic of a route takes of the records of one source partition. A value that travels in plans; pure."""

    branch: Branch
    source: TopicPartition

    def rows(self, records: RecordColumns, asked: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Returns True for each record that goes to the topic, of those that are ``asked``.

        Raises:
            RouteFailedError: no topic is named for a record that is asked; the text names the first one.
        """
        from mirrorlake.filters.branching import UnroutedError, taken_rows  # only where there is a route

        try:
            return taken_rows(self.branch, records, partition=self.source.partition, asked=asked)
        except UnroutedError as error:
            offset = int(records.offsets[error.row])
            raise RouteFailedError(
                f"`route` names no topic for the record at offset {offset} of source {self.source}: {error.why}; "
                "nothing from it on was copied",
                hint="add the topic to `topics`, say by `otherwise` where such records go, or leave them out by a "
                "`filter`; then restart",
                topic=self.source.topic,
                partition=self.source.partition,
                offset=offset,
            ) from error

    def taken(self, records: RecordColumns) -> RecordColumns:
        """Returns the records that go to the topic: none of those that no topic is named for, as no copy has them."""
        if not len(records):
            return records
        from mirrorlake.filters.branching import taken_rows  # only where there is a route

        everything = np.ones(len(records), np.bool_)
        partition = self.source.partition
        rows = taken_rows(self.branch, records, partition=partition, asked=everything, is_strict=False)
        return _at(records, np.flatnonzero(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProjection:
    """A projection over the records of one source partition. A value that travels in plans; pure."""

    wanted: Projection
    source: TopicPartition

    def made(self, records: RecordColumns) -> RecordColumns:
        """Returns records of the source as they are to be copied, at the same offsets and times.

        Raises:
            SelectFailedError: an expression has no value for a record; the text names the first one.
        """
        if not len(records):
            return records
        from mirrorlake.filters.projecting import ValueMissingError, projected  # only where there is a projection

        try:
            return projected(self.wanted, records, partition=self.source.partition)
        except ValueMissingError as error:
            offset = int(records.offsets[error.row])
            raise SelectFailedError(
                f"`select` has no {error.column} for the record at offset {offset} of source {self.source}: "
                f"{error.why}; nothing from it on was copied",
                hint="say in `select` what becomes of such a record (TRY_CAST is NULL where CAST fails, `coalesce` and "
                "CASE choose another value), or leave it out by a `filter`; then restart",
                topic=self.source.topic,
                partition=self.source.partition,
                offset=offset,
            ) from error

    def compared(self, records: RecordColumns) -> RecordColumns:
        """Returns records of the source as a copy must hold them; of one without a value, one that no copy holds."""
        if not len(records):
            return records
        from mirrorlake.filters.projecting import projected_or_marked

        return projected_or_marked(self.wanted, records, partition=self.source.partition)

    @property
    def of_keys(self) -> "PartitionProjection":
        """The same for keys alone."""
        return replace(self, wanted=self.wanted.of_keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """What of a delivery is to be copied, and what is wrong with what follows it: to be raised once it was taken."""

    delivery: Delivery
    error: MirrorlakeError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which records of a delivery are copied, from which offset on, and what they become; None for all, and as is."""

    keeps: PartitionFilter | None = None
    projects: PartitionProjection | None = None
    position: int = 0
    """Records before it are there already: neither projection nor route is asked of them, as one may stand there that
    they fail for."""
    takes: PartitionBranch | None = None

    @property
    def part_bytes_max(self) -> int:
        """What is decoded at a time."""
        grows = self.projects is not None or self.takes is not None
        return PART_BYTES_MAX // GROWTH_MAX if grows else PART_BYTES_MAX

    def wanted(self, columns: RecordColumns) -> npt.NDArray[np.bool_]:
        """Returns True for each record that the filter keeps, and the route gives to the topic.

        Raises:
            RouteFailedError: see `PartitionBranch.rows`.
        """
        kept = self.keeps.rows(columns) if self.keeps is not None else np.ones(len(columns), np.bool_)
        if self.takes is None:
            return kept
        return self.takes.rows(columns, kept & (columns.offsets >= self.position))

    def made(self, columns: RecordColumns) -> RecordColumns:
        """Returns what records become; see `PartitionProjection.made`."""
        return self.projects.made(columns) if self.projects is not None else columns


def selected(delivery: Delivery, selection: Selection) -> Selected:
    """Returns a delivery without the records that a filter leaves out, the others as a projection makes them.

    Offsets that are left out are gaps of kind ``filtered``. Where a batch cannot be decoded, or a record cannot be
    made, the delivery ends before it, and the error tells which.
    """
    batches: list[ClassifiedBatch] = []
    gaps: list[Gap] = []
    try:
        for item, left_out in _items(delivery.batches, selection):
            batches.append(item)
            gaps += left_out
    except _STOPS as error:
        start = delivery.covered.start_offset
        end = max(start, min(batches[-1].batch.header.next_offset, delivery.covered.end_offset)) if batches else start
        covered = OffsetRange(start_offset=start, end_offset=end)
        return Selected(delivery=_with(delivery, covered, batches, gaps), error=error)
    return Selected(delivery=_with(delivery, delivery.covered, batches, gaps))


def _with(
    delivery: Delivery, covered: OffsetRange, batches: Sequence[ClassifiedBatch], gaps: Sequence[Gap]
) -> Delivery:
    return replace(delivery, covered=covered, batches=batches, gaps=sorted([*delivery.gaps, *gaps]))


_Item = tuple[ClassifiedBatch, list[Gap]]


def _items(items: Sequence[ClassifiedBatch], selection: Selection) -> Iterator[_Item]:
    """Yields each item as it is to be copied, in order, with the offsets that were left out of it.

    Raises:
        CorruptBatchError, BatchTooLargeError, RecordTooLargeError, SelectFailedError, RouteFailedError: an item cannot
            be decoded, or made; all those before it were yielded.
    """
    done = 0
    try:
        data = [item.batch for item in items if item.path != Path.SKIP]
        for columns in decode_parts(data, part_bytes_max=selection.part_bytes_max):
            stop = _end_of(items, done, int(columns.offsets[-1]))
            found = list(_of_part(items[done:stop], columns, selection))
            done = stop
            yield from found
    except _STOPS:
        yield from _one_by_one(items[done:], selection)
    else:
        yield from ((item, []) for item in items[done:])


def _one_by_one(items: Sequence[ClassifiedBatch], selection: Selection) -> Iterator[_Item]:
    """Yields as ``_items`` does, so that those before the one that is wrong arrive, and its records before that."""
    for item in items:
        columns = decode_batches([item.batch]) if item.path != Path.SKIP else RecordColumns.empty()
        found, failure = _up_to_failure(item, columns, selection)
        if failure is None:
            yield from found
            continue
        # Of an item without a record the header would say that all of it is done.
        yield from (each for each in found if each[0].path != Path.SKIP)
        raise failure


def _up_to_failure(
    item: ClassifiedBatch, columns: RecordColumns, selection: Selection
) -> tuple[list[_Item], MirrorlakeError | None]:
    """Returns an item with what is before its first record that cannot be made or has no topic, and why not."""
    failure: MirrorlakeError | None = None
    while True:
        try:
            return list(_of_part([item], columns, selection, is_cut=failure is not None)), failure
        except (SelectFailedError, RouteFailedError) as error:
            # What is before it may fail for another reason: the route is asked before the projection.
            failure, columns = error, columns.slice(0, _row_of(error, columns))


def _row_of(error: MirrorlakeError, columns: RecordColumns) -> int:
    offset = error.facts["offset"]
    assert isinstance(offset, int), "a record has an offset"
    return int(np.searchsorted(columns.offsets, offset))


def _end_of(items: Sequence[ClassifiedBatch], start: int, last_offset: int) -> int:
    """Returns the number behind the item that has the record at ``last_offset``, which one of them has."""
    for number in range(start, len(items)):
        if items[number].path != Path.SKIP and items[number].batch.header.last_offset >= last_offset:
            return number + 1
    raise AssertionError(f"no batch has the record at offset {last_offset}")


def _of_part(
    items: Sequence[ClassifiedBatch], columns: RecordColumns, selection: Selection, *, is_cut: bool = False
) -> Iterator[_Item]:
    """Yields items as they are to be copied; with ``is_cut`` records of the last one are not among the columns."""
    is_wanted = selection.wanted(columns)
    is_kept = is_wanted
    if selection.projects is not None:
        is_kept = is_wanted & (columns.offsets >= selection.position)
    kept = _at(columns, np.flatnonzero(is_kept))
    made = selection.made(kept)
    ends = np.searchsorted(columns.offsets, [item.batch.header.next_offset for item in items])
    kept_before = np.concatenate([[0], np.cumsum(is_kept)])
    first = 0
    for item, end in zip(items, ends.tolist(), strict=True):
        rows, first = slice(first, end), end
        if item.path == Path.SKIP or (rows.start == rows.stop and not is_cut):
            yield item, []
            continue
        start, stop = int(kept_before[rows.start]), int(kept_before[rows.stop])
        left_out = columns.offsets[rows][~is_wanted[rows]]
        gaps = list(gaps_at(left_out, GapKind.FILTERED)) if len(left_out) else []
        is_whole = not is_cut and stop - start == rows.stop - rows.start
        yield _made(item, kept.slice(start, stop), made.slice(start, stop), is_whole=is_whole), gaps


def _made(item: ClassifiedBatch, kept: RecordColumns, made: RecordColumns, *, is_whole: bool) -> ClassifiedBatch:
    """Returns an item with what is made of the records that are kept of it; the same where nothing of it changes."""
    if not len(kept):
        return item._replace(path=Path.SKIP, reason=FILTERED_REASON)
    is_changed = made is not kept and not made.equals(kept)
    if is_whole and not is_changed:
        return item
    batch = as_v2(item.batch) if item.batch.header.magic < 2 else item.batch
    reason = SELECTED_REASON if is_changed else FILTERED_REASON
    return ClassifiedBatch(batch=made_of(batch, made).batch, path=Path.RECORDS, reason=reason)


def _at(records: RecordColumns, rows: npt.NDArray[np.int64]) -> RecordColumns:
    return records if len(rows) == len(records) else records.relocated(rows, records.offsets[rows])


def gaps_at(offsets: npt.NDArray[np.int64], kind: GapKind) -> Iterator[Gap]:
    """Yields runs of ascending offsets, one at least, as gaps."""
    breaks = np.flatnonzero(np.diff(offsets) > 1) + 1
    starts, stops = np.concatenate([[0], breaks]), np.concatenate([breaks, [len(offsets)]])
    for start, stop in zip(offsets[starts].tolist(), offsets[stops - 1].tolist(), strict=True):
        yield Gap(offsets=OffsetRange(start_offset=start, end_offset=stop + 1), kind=kind)
