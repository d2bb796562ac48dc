"""What the batches of a source become on their way to a Kafka destination: batches to append, and gaps between.

A batch that a broker takes as it is passes through as its bytes, unless it is one of many small ones. Of any other the
records are taken over, byte by byte, into new batches of the source's compression: dense, of the destination's size,
CreateTime.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mirrorlake.destinations.coalescing import COALESCED_BYTES_MAX, COALESCED_REASON, CoalescedBatches
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.errors import BatchTooLargeError, CorruptBatchError, RecordTooLargeError
from mirrorlake.kafka.records.batches import (
    COMPACTED,
    DENSE,
    LOG_APPEND_TIME,
    OLD_FORMAT,
    OVERLAP,
    TOO_LARGE,
    Batch,
    BatchHeader,
    Path,
)
from mirrorlake.kafka.records.old_formats import as_v2, can_coalesce, coalesce_as_v2
from mirrorlake.kafka.records.rewrite import OpenedBatch, open_batch, open_batches
from mirrorlake.offsets import OffsetRange

NO_BATCH = "compacted or removed"
"""Why offsets before a batch hold no record: nothing of them is left in the log."""
NO_RECORD = "compacted"
"""Why offsets inside a batch hold no record."""
NOT_COVERED = "no batch covers them"
"""Why offsets behind the last batch of a delivery hold no record."""
_HOLES = frozenset({NO_BATCH, NO_RECORD, NOT_COVERED})

PASSTHROUGH = str(DENSE)
"""For the counters: the batch goes on as it was."""


class OutputBatch(NamedTuple):
    """One v2 batch ready for ``prepare_for_append``: dense, to be stored as CreateTime, within the size limit.

    Attributes:
        batch: header and writable view. Where ``is_in_frame`` its header speaks of the source, else of the bytes as
            they were made, at base offset 0.
        start_offset: that of its first record at the source.
        end_offset: the one after its last record's.
        packed_runs: where its records lie, if there are offsets between them; None where each has one.
        is_in_frame: whether the bytes are the fetch answer's own, which must be pinned until they are sent.
        counted_as: path and reason, for the counters.
        leader_epoch: in which the source's leader took the last of its batches, −1 where that is not known.
    """

    batch: Batch
    start_offset: int
    end_offset: int
    packed_runs: tuple[OffsetRange, ...] | None
    is_in_frame: bool
    counted_as: str
    leader_epoch: int

    @property
    def offsets(self) -> OffsetRange:
        """The source offsets it accounts for, from its first record's to after its last record's."""
        return OffsetRange(start_offset=self.start_offset, end_offset=self.end_offset)

    @property
    def runs(self) -> tuple[OffsetRange, ...]:
        """Where its records lie, ascending; more than one only where records are packed."""
        return self.packed_runs or (self.offsets,)

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp of its records, Unix milliseconds."""
        return self.batch.header.max_timestamp

    @property
    def path(self) -> str:
        """``raw`` or ``records``."""
        return self.counted_as.partition(":")[0]

    @property
    def reason(self) -> str:
        """Why that path."""
        return self.counted_as.partition(":")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputGap:
    """Offsets at which no consumer can read a record, and why; never empty."""

    offsets: OffsetRange
    reason: str
    leader_epoch: int = field(default=-1, compare=False)
    """In which the source's leader took the batch behind them, or in which they lie; −1 where that is not known."""

    @property
    def end_offset(self) -> int:
        """The offset after them."""
        return self.offsets.end_offset

    @property
    def is_batch(self) -> bool:
        """True where a batch lies there of which no consumer is shown a record; ``reason`` is the batch's then."""
        return self.reason not in _HOLES


Output = OutputBatch | OutputGap
"""What a destination does for a range of the source's offsets: append a batch, or nothing."""

COALESCED_MESSAGES_MAX = 1000
MESSAGES_BYTES_MAX = 512 * 1024
"""How many messages of an old format, and how many bytes of them, become one batch: about half of what brokers take by
default."""


def coalesce_messages(items: Sequence[ClassifiedBatch]) -> Iterable[ClassifiedBatch]:
    """Yields the items of a delivery in order, single messages of v0 and v1 that follow one another as one batch.

    Such a message is one record, and a request for each would be slow. Everything else is passed on as it is.
    """
    if all(item.reason != OLD_FORMAT.reason for item in items):
        return items
    return _with_messages_coalesced(items)


def _with_messages_coalesced(items: Sequence[ClassifiedBatch]) -> Iterator[ClassifiedBatch]:
    waiting: list[Batch] = []
    waiting_bytes = 0
    for item in items:
        is_single = item.reason == OLD_FORMAT.reason and not item.batch.header.is_old_wrapper
        if waiting and not (
            is_single
            and can_coalesce(waiting[-1].header, item.batch.header)
            and len(waiting) < COALESCED_MESSAGES_MAX
            and waiting_bytes + item.batch.header.batch_bytes <= MESSAGES_BYTES_MAX
        ):
            yield from _as_few(waiting)
            waiting, waiting_bytes = [], 0
        if is_single:
            waiting.append(item.batch)
            waiting_bytes += item.batch.header.batch_bytes
        else:
            yield item
    if waiting:
        yield from _as_few(waiting)


def _as_few(messages: Sequence[Batch]) -> Iterator[ClassifiedBatch]:
    batches = messages
    # Where one of them is not right each goes by itself, so that those before it arrive.
    with contextlib.suppress(CorruptBatchError, BatchTooLargeError):
        batches = [coalesce_as_v2(messages)]
    for batch in batches:
        yield ClassifiedBatch(batch=batch, path=OLD_FORMAT.path, reason=OLD_FORMAT.reason)


def outputs_of(
    item: ClassifiedBatch | CoalescedBatches,
    *,
    position: int,
    end_offset: int,
    batch_bytes_max: int,
    packs: bool,
    keeps_log_append_time: bool = True,
    record_bytes_max: int = 0,
) -> Iterator[Output]:
    """Yields batches and gaps that account for ``[position, min(next offset of the batch, end_offset))`` without hole.

    Batches to coalesce become one. Where that cannot be, small ones come one by one as if they had come so, and others
    by halves. Nothing comes of a batch behind ``position``. The outputs are made as they are asked for, from the bytes
    of the fetch answer, which must stay where they are until the last one.

    Args:
        item: a batch as it was classified, or those to coalesce; their checksums were verified.
        position: the next offset the destination needs; inside the batch the records before it are left out.
        end_offset: exclusive; records from it on are left out.
        batch_bytes_max: the largest batch the destination takes, inclusive. A larger one is split, order kept.
        packs: False gives one batch for each run of records whose offsets follow one another, with gaps
            between, as equal offsets need it; True one for all records of the batch, whatever offsets lie between.
        keeps_log_append_time: True gives records the times readers see where the source's brokers set them. False
            where the destination's brokers set their own: such batches are passed through then, too.
        record_bytes_max: a single record's batch may be so large; as ``batch_bytes_max`` where that is more.

    Raises:
        RecordTooLargeError: a single record makes a batch above both limits; with ``offset``, ``bytes`` and
            ``limit``. What is before it has been yielded.
        CorruptBatchError: the records are not right; with the batch's base offset. Nothing has been yielded of it
            but the gap before.
    """
    if not isinstance(item, ClassifiedBatch):
        return _coalesced_outputs(
            item,
            start=position,
            end=end_offset,
            limit=batch_bytes_max,
            packs=packs,
            keeps_log_append_time=keeps_log_append_time,
            alone=record_bytes_max,
        )
    header = item.batch.header
    is_raw = (
        item.path != Path.SKIP
        and item.reason != OLD_FORMAT.reason
        and header.magic == 2
        and header.base_offset >= position
        and header.is_dense
        and header.next_offset <= end_offset
        and header.batch_bytes <= batch_bytes_max
        and not (keeps_log_append_time and header.is_log_append_time)
    )
    if is_raw and header.base_offset == position:
        return iter((passthrough(item.batch, header, header.next_offset),))
    alone = record_bytes_max
    return _outputs(
        item, is_raw=is_raw, start=position, end=end_offset, limit=batch_bytes_max, packs=packs, alone=alone
    )


def passthrough(batch: Batch, header: BatchHeader, end_offset: int) -> OutputBatch:
    """Returns a dense batch of the fetch answer, with that header and end, as an output batch."""
    # By position: it is made for every large batch.
    return OutputBatch(batch, header.base_offset, end_offset, None, True, PASSTHROUGH, header.leader_epoch)


def _outputs(
    item: ClassifiedBatch, *, is_raw: bool, start: int, end: int, limit: int, packs: bool, alone: int
) -> Iterator[Output]:
    batch, codec, epoch = item.batch, item.batch.header.codec, item.batch.header.leader_epoch
    end = min(end, batch.header.next_offset)
    if start >= end:
        return
    if item.path == Path.SKIP:
        yield _gap(start, end, item.reason, epoch)
        return
    if batch.header.magic < 2:
        batch = as_v2(batch)
    header = batch.header
    if header.base_offset > start:
        yield _gap(start, min(header.base_offset, end), NO_BATCH, epoch)
        start = header.base_offset
        if start >= end:
            return
    if is_raw:
        yield passthrough(item.batch, header, header.next_offset)
        return
    reason = item.reason if item.path == Path.RECORDS else _reason(header, start, end, limit)
    opened = open_batch(batch, start_offset=start, end_offset=end, codec=codec)
    stretches = iter([(0, len(opened))]) if packs and len(opened) else opened.runs(0, len(opened))
    for stretch in stretches:
        for output in _output_batches(opened, stretch, limit, reason, epoch, alone):
            if output.start_offset > start:
                yield _gap(start, output.start_offset, NO_RECORD, epoch)
            yield output
            start = output.end_offset
    if start < end:
        yield _gap(start, end, NO_RECORD, epoch)


def _coalesced_outputs(
    items: CoalescedBatches,
    *,
    start: int,
    end: int,
    limit: int,
    packs: bool,
    keeps_log_append_time: bool,
    alone: int,
) -> Iterator[Output]:
    base_offset, next_offset = items[0].batch.header.base_offset, items[-1].batch.header.next_offset
    epoch = items[-1].batch.header.leader_epoch
    output = _coalesced_batch(items, limit) if base_offset >= start and next_offset <= end else None
    if output is None or not (packs or len(output.runs) == 1):
        for part in _parts(items):
            yield from outputs_of(
                part,
                position=start,
                end_offset=end,
                batch_bytes_max=limit,
                packs=packs,
                keeps_log_append_time=keeps_log_append_time,
                record_bytes_max=alone,
            )
            last = part.batch if isinstance(part, ClassifiedBatch) else part[-1].batch
            start = max(start, min(last.header.next_offset, end))
        return
    if base_offset > start:
        yield _gap(start, base_offset, NO_BATCH, epoch)
    if output.start_offset > base_offset:
        yield _gap(base_offset, output.start_offset, NO_RECORD, epoch)
    yield output
    if output.end_offset < next_offset:
        yield _gap(output.end_offset, next_offset, NO_RECORD, epoch)


def _parts(items: CoalescedBatches) -> Iterable[ClassifiedBatch | CoalescedBatches]:
    """Returns halves of large batches, which may decompress to too much for one; small ones go one by one."""
    if sum(item.batch.header.batch_bytes for item in items) <= COALESCED_BYTES_MAX:
        return items
    return _halves(items)


def _halves(items: CoalescedBatches) -> Iterator[ClassifiedBatch | CoalescedBatches]:
    middle = (len(items) + 1) // 2
    for half in (items[:middle], items[middle:]):
        if half:
            yield half if len(half) > 1 else half[0]


def _coalesced_batch(items: CoalescedBatches, limit: int) -> OutputBatch | None:
    """Returns the records of batches as one batch; None where it would be too large, or one of them is not right.

    What is wrong with one of them is then found out, or left to the destination's broker, when it goes by itself.
    """
    try:
        opened = open_batches([item.batch for item in items])
    except (CorruptBatchError, BatchTooLargeError):
        return None
    batch = opened.dense_batch(0, len(opened))
    if batch.header.batch_bytes > limit:
        return None
    return _made_batch(opened, 0, len(opened), batch, COALESCED_REASON, items[-1].batch.header.leader_epoch)


def _gap(start_offset: int, end_offset: int, reason: str, leader_epoch: int) -> OutputGap:
    offsets = OffsetRange(start_offset=start_offset, end_offset=end_offset)
    return OutputGap(offsets=offsets, reason=reason, leader_epoch=leader_epoch)


def _reason(header: BatchHeader, start: int, end: int, limit: int) -> str:
    """Returns why a batch that was called raw is not: the destination stands, or takes, other than was thought."""
    if header.base_offset < start or header.next_offset > end:
        return OVERLAP.reason
    if header.is_log_append_time:
        return LOG_APPEND_TIME.reason
    return TOO_LARGE.reason if header.batch_bytes > limit else COMPACTED.reason


def _output_batches(
    opened: OpenedBatch, stretch: tuple[int, int], limit: int, reason: str, leader_epoch: int, alone: int
) -> Iterator[OutputBatch]:
    """Yields rows as one batch, or in halves of halves until each is within the limit, in order."""
    waiting = [stretch]
    while waiting:
        first, stop = waiting.pop()
        batch = opened.dense_batch(first, stop)
        if batch.header.batch_bytes <= (limit if stop - first > 1 else max(limit, alone)):
            yield _made_batch(opened, first, stop, batch, reason, leader_epoch)
        elif stop - first > 1:
            middle = opened.middle(first, stop)
            waiting += ((middle, stop), (first, middle))
        else:
            raise _too_large(opened.offset(first), batch.header.batch_bytes, max(limit, alone))


def _made_batch(
    opened: OpenedBatch, first: int, stop: int, batch: Batch, reason: str, leader_epoch: int
) -> OutputBatch:
    start_offset, end_offset = opened.offset(first), opened.offset(stop - 1) + 1
    runs = None
    if end_offset - start_offset > stop - first:
        runs = tuple(
            OffsetRange(start_offset=opened.offset(start), end_offset=opened.offset(end - 1) + 1)
            for start, end in opened.runs(first, stop)
        )
    return OutputBatch(
        batch=batch,
        start_offset=start_offset,
        end_offset=end_offset,
        packed_runs=runs,
        is_in_frame=False,
        counted_as=f"{Path.RECORDS}:{reason}",
        leader_epoch=leader_epoch,
    )


def _too_large(offset: int, size: int, limit: int) -> RecordTooLargeError:
    return RecordTooLargeError(
        f"the record at source offset {offset} makes a batch of {size} bytes, the destination takes {limit}",
        hint=f"raise max.message.bytes of the destination topic to at least {size}, and segment.bytes where that is "
        "lower",
        offset=offset,
        bytes=size,
        limit=limit,
    )
