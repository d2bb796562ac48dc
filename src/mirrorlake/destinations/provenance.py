"""Headers that say where a record of a copy came from, for readers who have no offset map at hand.

They are the last ones of a record, in this order; whatever else it carries stays before them. A copy of a copy has one
set of them for each mirror that stamps. Who compares a copy with its source sets those of this mirror aside, on both
sides and on records that have them: so they may be switched on or off at any time.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.archive.formats.log_batches import made_of
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.errors import BatchTooLargeError, CorruptBatchError
from mirrorlake.kafka.records.batches import Path
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.kafka.records.columns import HEADER_TYPE, HEADERS_TYPE, RecordColumns
from mirrorlake.kafka.records.old_formats import as_v2

PREFIX = b"__mirrorlake.source."
CLUSTER_ID, TOPIC = PREFIX + b"cluster.id", PREFIX + b"topic"
PARTITION, OFFSET = PREFIX + b"partition", PREFIX + b"offset"
KEYS = (CLUSTER_ID, TOPIC, PARTITION, OFFSET)
"""Values are UTF-8 texts, numbers in decimal; the cluster's id is null where it is not known."""

STAMPED_REASON = "provenance"
"""For the counters: why a batch is made anew."""

SMALL_BYTES_MAX = 4096
"""Batches up to this size are taken apart together: what that costs each by itself is as much as forty records."""

TOGETHER_BYTES_MAX = 64 * 1024
"""Of all batches that are taken apart together, compressed as they came: what they hold lies in memory at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The source partition that records come from. A value that travels in plans; pure.

    ``cluster_id`` is Kafka's id of the cluster, empty where it is not known.
    """

    cluster_id: str
    topic: str
    partition: int

    def stamped(self, items: Sequence[ClassifiedBatch]) -> list[ClassifiedBatch]:
        """Returns the items of a delivery in order, those with records as batches that say where they are from.

        A batch that cannot be taken apart is left as it is, to be taken apart, and said, when it is its turn.
        """
        return [found for together in _together(items) for found in self._stamped_together(together)]

    def _stamped_together(self, items: Sequence[ClassifiedBatch]) -> list[ClassifiedBatch]:
        """Returns small batches as they would be one by one, whose records are found and stamped in one go."""
        if len(items) == 1:
            return [self._stamped(items[0])]
        try:
            records = self.added_to(decode_batches([item.batch for item in items]))
        except (CorruptBatchError, BatchTooLargeError):
            return [self._stamped(item) for item in items]
        ends = [item.batch.header.next_offset for item in items]
        rows = [0, *np.searchsorted(records.offsets, ends).tolist()]
        return [
            _made(item, records.slice(start, stop))
            for item, start, stop in zip(items, rows[:-1], rows[1:], strict=True)
        ]

    def _stamped(self, item: ClassifiedBatch) -> ClassifiedBatch:
        if item.path == Path.SKIP:
            return item
        with contextlib.suppress(CorruptBatchError, BatchTooLargeError):
            batch = as_v2(item.batch) if item.batch.header.magic < 2 else item.batch
            if len(records := decode_batches([batch])):
                return _made(item._replace(batch=batch), self.added_to(records))
        return item._replace(path=Path.RECORDS)

    def added_to(self, records: RecordColumns) -> RecordColumns:
        """Returns records of the source with the headers; offsets are the source's."""
        count = len(records)
        if not count:
            return records
        old, starts = records.headers.flatten(), _starts(records.headers)
        stamps = pa.concat_arrays([_structs(KEYS[:3], self._constants), _structs([OFFSET] * count, _texts(records))])
        new_starts = starts + len(KEYS) * np.arange(count + 1)
        places = np.empty(len(old) + len(stamps) - 3 + 3 * count, np.int64)
        # Headers of before go to where they were, moved by the stamps of the records before theirs.
        rows = np.repeat(np.arange(count), np.diff(starts))
        places[np.arange(len(old)) + len(KEYS) * rows] = np.arange(len(old))
        ends = new_starts[1:]
        for number in range(3):
            places[ends - 4 + number] = len(old) + number
        places[ends - 1] = len(old) + 3 + np.arange(count)
        return _with_headers(records, new_starts, pa.concat_arrays([old, stamps]).take(pa.array(places)))

    def set_aside(self, records: RecordColumns) -> RecordColumns:
        """Returns records without these headers, where they are the last ones and say the right place.

        However often they stand there: a record of the source may have them too, of a restore of its own copy, and
        whether another set came behind it tells nothing. So both sides of a comparison are taken without them.

        Args:
            records: of the source or of the copy; their offsets are those of the source.
        """
        while (rest := self._without_one(records)) is not records:
            records = rest
        return records

    def _without_one(self, records: RecordColumns) -> RecordColumns:
        """Returns records without the last set of these headers; the very same where none has one."""
        flat, starts = records.headers.flatten(), _starts(records.headers)
        keys = flat.field("key")
        if len(flat) < len(KEYS) or not pc.any(pc.equal(keys, pa.scalar(OFFSET, pa.large_binary()))).as_py():
            return records
        candidates = np.flatnonzero(np.diff(starts) >= len(KEYS))
        lasts = starts[1:][candidates] - len(KEYS)
        values, offsets = flat.field("value"), _texts(records)
        is_ours = np.ones(len(candidates), np.bool_)
        for number, key in enumerate(KEYS):
            rows = pa.array(lasts + number)
            is_ours &= _equal(keys.take(rows), pa.array([key] * len(candidates), pa.large_binary()))
            wanted = (
                [offsets[row] for row in candidates.tolist()]
                if key == OFFSET
                else [self._constants[number]] * len(candidates)
            )
            is_ours &= _equal(values.take(rows), pa.array(wanted, pa.large_binary()))
        if not is_ours.any():
            return records
        taken = np.zeros(len(records), np.int64)
        taken[candidates[is_ours]] = len(KEYS)
        is_kept = np.ones(len(flat), np.bool_)
        for number in range(len(KEYS)):
            is_kept[lasts[is_ours] + number] = False
        new_starts = starts - np.concatenate([[0], np.cumsum(taken)])
        return _with_headers(records, new_starts, flat.filter(pa.array(is_kept)))

    @property
    def _constants(self) -> tuple[bytes | None, ...]:
        return (self.cluster_id.encode() or None, self.topic.encode(), b"%d" % self.partition)


def _together(items: Sequence[ClassifiedBatch]) -> Iterator[list[ClassifiedBatch]]:
    """Yields all items in order: small batches with records, whose offsets grow, several at a time; others alone."""
    run: list[ClassifiedBatch] = []
    run_bytes = 0
    for item in items:
        header = item.batch.header
        is_small = item.path != Path.SKIP and header.magic >= 2 and header.batch_bytes <= SMALL_BYTES_MAX
        follows = not run or header.base_offset >= run[-1].batch.header.next_offset
        if run and not (is_small and follows and run_bytes + header.batch_bytes <= TOGETHER_BYTES_MAX):
            yield run
            run, run_bytes = [], 0
        if is_small:
            run.append(item)
            run_bytes += header.batch_bytes
        else:
            yield [item]
    if run:
        yield run


def _made(item: ClassifiedBatch, records: RecordColumns) -> ClassifiedBatch:
    """Returns the item as a batch of these records; one that has none is taken apart when it is its turn."""
    if not len(records):
        return item._replace(path=Path.RECORDS)
    return ClassifiedBatch(batch=made_of(item.batch, records).batch, path=Path.RECORDS, reason=STAMPED_REASON)


def _starts(headers: pa.ListArray) -> npt.NDArray[np.int64]:
    """Returns where each record's headers begin among all of them, and where the last one's end."""
    offsets = headers.offsets.to_numpy().astype(np.int64)
    starts: npt.NDArray[np.int64] = offsets - offsets[0]
    return starts


def _texts(records: RecordColumns) -> list[bytes]:
    return [b"%d" % offset for offset in records.offsets.tolist()]


def _structs(keys: Sequence[bytes], values: Sequence[bytes | None]) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary())], fields=list(HEADER_TYPE)
    )


def _equal(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    """Returns where two arrays are equal, null being equal to null."""
    same = pc.fill_null(pc.equal(left, right), fill_value=False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    found: npt.NDArray[np.bool_] = pc.or_(same, both_null).to_numpy(zero_copy_only=False)
    return found


def _with_headers(records: RecordColumns, starts: npt.NDArray[np.int64], flat: pa.StructArray) -> RecordColumns:
    return records.with_headers(pa.ListArray.from_arrays(pa.array(starts, pa.int32()), flat, type=HEADERS_TYPE))
