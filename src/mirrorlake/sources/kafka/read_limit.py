"""Where a mirror ends in the records of a partition: by an offset, and by their times. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.errors import PermanentError
from mirrorlake.kafka.records.batches import AbortedTransactions, Batch, Path, classify
from mirrorlake.kafka.records.codec import RecordColumns, decode_parts
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.batching import batches_of
from mirrorlake.window import Window

PART_BYTES_MAX = 16 << 20
"""What is decoded of a batch at a time; it is one batch, so this only bounds what it is decoded to."""

BATCH_BYTES_MAX = 256 << 10
"""Record bytes of a batch made of the head of another: far below what topics take by default (1 MiB)."""


class Within(NamedTuple):
    """What of a delivery lies before the end.

    Attributes:
        batches: with records that do, in order.
        position: the offset up to which all is accounted for.
        is_end: whether the position is the end, and nothing behind it is wanted.
    """

    batches: Sequence[ClassifiedBatch]
    position: int
    is_end: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimit:
    """Where reading ends: before ``end_offset``, and before the first record later than ``until_ms``; None for neither.

    A record is one that a consumer is shown: neither the marker of a transaction nor what was aborted ends anything.
    """

    until_ms: int | None = None
    end_offset: int | None = None

    def within(self, batches: Sequence[ClassifiedBatch], position: int, *, start: int) -> Within:
        """Returns what of these batches lies before the end. One that reaches past it is cut: its head is made anew.

        Args:
            batches: in order, as they were classified; they account for what lies between ``start`` and ``position``.
            position: where they, and the offsets without a batch behind them, end.
            start: the first offset that counts. Records before it end nothing.

        Raises:
            CorruptBatchError: the records of the first batch are not right. Those before a later one that is not are
                returned: who reads on begins with it.
        """
        if self.end_offset is not None and start >= self.end_offset:
            return Within([], start, is_end=True)
        for number, item in enumerate(batches):
            try:
                end = self._end_in(item, start)
                if end is None:
                    start = max(start, item.batch.header.next_offset)
                    continue
                return Within([*batches[:number], *_head_of(item, start, end)], end, is_end=True)
            except PermanentError:
                if not number:
                    raise
                return Within(batches[:number], start, is_end=False)
        if self.end_offset is not None and position >= self.end_offset:
            return Within(batches, self.end_offset, is_end=True)
        return Within(batches, position, is_end=False)

    def _end_in(self, item: ClassifiedBatch, start: int) -> int | None:
        """Returns where reading ends, if that is before the end of a batch."""
        header, end = item.batch.header, self.end_offset
        # Its largest time is that of a batch: what none of its records passes is not looked into.
        if self.until_ms is not None and item.path != Path.SKIP and header.max_timestamp > self.until_ms:
            late = first_late(decoded(item.batch, start, header.next_offset if end is None else end), self.until_ms)
            end = end if late is None else late
        return end if end is not None and end < header.next_offset else None


def limit_of(window: Window, partition: TopicPartition) -> ReadLimit | None:
    """Returns where a window ends a partition; None where it does not."""
    end_offset = window.until_offset(partition.topic, partition.partition)
    if window.until_ms is None and end_offset is None:
        return None
    return ReadLimit(until_ms=window.until_ms, end_offset=end_offset)


def first_late(parts: Sequence[RecordColumns], until_ms: int) -> int | None:
    """Returns the offset of the first of these records that is later than a time, None where none is."""
    for columns in parts:
        rows = np.flatnonzero(columns.timestamps > until_ms)
        if len(rows):
            return int(columns.offsets[rows[0]])
    return None


def decoded(batch: Batch, start: int, end: int) -> list[RecordColumns]:
    """Returns the records of a batch at offsets in ``[start, end)``."""
    return list(decode_parts([batch], start_offset=start, end_offset=end, part_bytes_max=PART_BYTES_MAX))


def _head_of(item: ClassifiedBatch, start: int, end: int) -> list[ClassifiedBatch]:
    """Returns the records of a batch before an offset, as batches of the same compression; none of one without any."""
    if item.path == Path.SKIP:
        return []  # offsets without a record, as those that no batch holds
    header, found = item.batch.header, []
    for columns in decoded(item.batch, start, end):
        for made in batches_of(columns, codec=header.codec, bytes_max=BATCH_BYTES_MAX):
            batch = Batch(made.header._replace(leader_epoch=header.leader_epoch), made.view)
            how = classify(batch, position=start, aborted=AbortedTransactions(()))
            found.append(ClassifiedBatch(batch=batch, path=how.path, reason=how.reason))
            start = batch.header.next_offset
    return found
