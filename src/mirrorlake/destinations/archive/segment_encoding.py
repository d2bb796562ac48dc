"""How the batches of deliveries become the content of segments: decoded, or as they are."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np

from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.formats.interface import RecordWriter, SegmentWriter
from mirrorlake.archive.formats.log import LogSegmentWriter
from mirrorlake.archive.formats.log_batches import LogBatch, clipped, log_batch
from mirrorlake.archive.formats.registry import LOG, record_writer
from mirrorlake.destinations.archive.cut import Cut, CutRule, find_batch_cut, find_cut
from mirrorlake.kafka.records.batches import Batch
from mirrorlake.kafka.records.codec import decode_batches, decode_parts
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counting import SchemaIdCounter
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts

PART_BYTES_MAX = 16 << 20
"""What is decoded of a delivery at a time: it may come to many times its size."""


def decoded(batches: Sequence[Batch], *, start_offset: int, covered_end: int) -> Iterator[tuple[RecordColumns, int]]:
    """Yields the records of a delivery from ``start_offset`` on, in parts of bounded memory, each with its end.

    The end is the position after the part, exclusive; the last one's is ``covered_end``, and it may have no record.

    Raises:
        CorruptBatchError: a batch is not what it claims to be; the parts before it have been yielded.
    """
    position = start_offset
    for part in decode_parts(batches, start_offset=start_offset, part_bytes_max=PART_BYTES_MAX):
        position = int(part.offsets[-1]) + 1
        yield part, position
    if position < covered_end:
        yield RecordColumns.empty(), covered_end


class SegmentEncoding(Protocol):
    """Fills segments: of each part that ``take`` yields, ``find_cut`` and ``write`` until it is used up."""

    def begin(self, file: BinaryIO, envelope: SegmentEnvelope) -> SegmentWriter:
        """Returns the writer of the next segment, which ``write`` writes to from now on."""
        ...

    @property
    def takes_counts(self) -> bool:
        """Whether ``take`` wants to be told which schemas the records of each batch name."""
        ...

    def take(
        self,
        batches: Sequence[Batch],
        *,
        start_offset: int,
        covered_end: int,
        counts: Sequence[SchemaIdCounts] | None = None,
    ) -> Iterator[int]:
        """Takes the data batches of a delivery, whose checksums were verified, part by part; yields each part's end.

        What lies below ``start_offset`` is left out. The last end is ``covered_end``. ``counts``, one for each batch,
        are of the sides that are counted; None where nobody has counted.

        Raises:
            CorruptBatchError: a batch is not what it claims to be; the parts before it have been taken.
        """
        ...

    def find_cut(self, rule: CutRule, *, covered_end: int) -> Cut | None:
        """Returns where the segment ends in what was taken, None where it goes on after all of it."""
        ...

    def write(self, cut: Cut | None) -> None:
        """Writes what lies before the cut, or everything; the rest waits for the next segment.

        Raises:
            StoreUnavailableError, StoreUnusableError: the staged file's; discard the segment.
        """
        ...

    def forget(self) -> None:
        """Lets go of what was taken and not written."""
        ...

    @property
    def schema_ids(self) -> SchemaIdCounts | None:
        """What the records of this segment that were written so far have where a schema is named."""
        ...


def encoding_for(extension: str, *, compression: str, schema_sides: int = 0) -> SegmentEncoding:
    """Returns what fills segments of a format.

    Args:
        extension: the format's.
        compression: of Parquet's pages.
        schema_sides: where schema ids are counted: bit 0 for keys, bit 1 for values.
    """
    if extension == LOG:
        return BatchEncoding(schema_sides=schema_sides)
    return RecordEncoding(extension, compression=compression, schema_sides=schema_sides)


class RecordEncoding:
    """Fills segments with decoded records.

    Args:
        extension: the format's.
        compression: of the pages, where it has any.
        schema_sides: where schema ids are counted; see `encoding_for`.
    """

    def __init__(self, extension: str, *, compression: str, schema_sides: int = 0) -> None:
        self._extension = extension
        self._schema_sides = schema_sides
        self._counter = SchemaIdCounter(schema_sides)
        self._compression = compression
        self._writer: RecordWriter | None = None
        self._columns = RecordColumns.empty()
        self._held_bytes = 0

    def begin(self, file: BinaryIO, envelope: SegmentEnvelope) -> SegmentWriter:
        """See `SegmentEncoding`."""
        self._held_bytes = 0
        self._counter = SchemaIdCounter(self._schema_sides)
        self._writer = record_writer(self._extension, file, envelope, compression=self._compression)
        return self._writer

    @property
    def takes_counts(self) -> bool:
        """False: records are counted as they are written, column by column."""
        return False

    def take(
        self,
        batches: Sequence[Batch],
        *,
        start_offset: int,
        covered_end: int,
        counts: Sequence[SchemaIdCounts] | None = None,
    ) -> Iterator[int]:
        """See `SegmentEncoding`."""
        del counts
        for self._columns, end in decoded(batches, start_offset=start_offset, covered_end=covered_end):
            yield end

    def find_cut(self, rule: CutRule, *, covered_end: int) -> Cut | None:
        """See `SegmentEncoding`."""
        assert self._writer is not None, "a segment is begun before it is cut"
        return find_cut(
            rule,
            records=self._writer.records,
            raw_bytes=self._held_bytes,
            offsets=self._columns.offsets,
            sizes=self._columns.weights(),
            covered_end=covered_end,
        )

    def write(self, cut: Cut | None) -> None:
        """See `SegmentEncoding`."""
        assert self._writer is not None, "a segment is begun before it is written"
        stop = len(self._columns) if cut is None else cut.stop_row
        taken = self._columns.slice(0, stop)
        self._writer.write(taken)
        self._counter.take(taken)
        self._held_bytes += int(taken.weights().sum())
        self._columns = self._columns.slice(stop, len(self._columns))

    def forget(self) -> None:
        """See `SegmentEncoding`."""
        self._columns = RecordColumns.empty()

    @property
    def schema_ids(self) -> SchemaIdCounts | None:
        """See `SegmentEncoding`."""
        return self._counter.counts


class BatchEncoding:
    """Fills segments with the source's batches; only one that reaches over an edge of a range is decoded.

    Args:
        schema_sides: where schema ids are counted; see `encoding_for`.
    """

    def __init__(self, *, schema_sides: int = 0) -> None:
        self._schema_sides = schema_sides
        self._counter = SchemaIdCounter(schema_sides)
        self._writer: LogSegmentWriter | None = None
        self._batches: list[_Taken] = []

    @property
    def takes_counts(self) -> bool:
        """See `SegmentEncoding`."""
        return bool(self._schema_sides)

    def begin(self, file: BinaryIO, envelope: SegmentEnvelope) -> SegmentWriter:
        """See `SegmentEncoding`."""
        self._counter = SchemaIdCounter(self._schema_sides)
        self._writer = LogSegmentWriter(file, envelope)
        return self._writer

    def take(
        self,
        batches: Sequence[Batch],
        *,
        start_offset: int,
        covered_end: int,
        counts: Sequence[SchemaIdCounts] | None = None,
    ) -> Iterator[int]:
        """See `SegmentEncoding`."""
        counted = counts if counts is not None else [None] * len(batches)
        whole = (_Taken(log_batch(batch), each) for batch, each in zip(batches, counted, strict=True))
        parts = (each.clipped(start_offset=start_offset, end_offset=each.batch.next_offset) for each in whole)
        self._batches = [part for part in parts if part is not None]
        yield covered_end

    def find_cut(self, rule: CutRule, *, covered_end: int) -> Cut | None:
        """See `SegmentEncoding`."""
        assert self._writer is not None, "a segment is begun before it is cut"
        numbers = [(each.first_offset, each.next_offset, each.records, each.size_bytes) for each, _ in self._batches]
        starts, ends, counts, sizes = np.array(numbers, np.int64).reshape(-1, 4).T
        return find_batch_cut(
            rule,
            records=self._writer.records,
            raw_bytes=self._writer.raw_bytes,
            starts=starts,
            ends=ends,
            counts=counts,
            sizes=sizes,
            covered_end=covered_end,
        )

    def write(self, cut: Cut | None) -> None:
        """See `SegmentEncoding`."""
        assert self._writer is not None, "a segment is begun before it is written"
        if cut is None:
            taken, rest = self._batches, []
        else:
            taken, rest = self._batches[: cut.stop_row], self._batches[cut.stop_row :]
            if rest and rest[0].batch.first_offset < cut.end_offset:
                split = rest.pop(0)
                before = split.clipped(start_offset=split.batch.first_offset, end_offset=cut.end_offset)
                after = split.clipped(start_offset=cut.end_offset, end_offset=split.batch.next_offset)
                taken = [*taken, *([before] if before else [])]
                rest = [*([after] if after else []), *rest]
        self._writer.write([each.batch for each in taken])
        for each in taken if self._counter.sides else ():
            each.add_to(self._counter)
        self._batches = rest

    def forget(self) -> None:
        """See `SegmentEncoding`."""
        self._batches = []

    @property
    def schema_ids(self) -> SchemaIdCounts | None:
        """See `SegmentEncoding`."""
        return self._counter.counts


class _Taken(NamedTuple):
    """A batch, and which schemas its records name; None where nobody has counted them."""

    batch: LogBatch
    counts: SchemaIdCounts | None

    def clipped(self, *, start_offset: int, end_offset: int) -> "_Taken | None":
        """Returns what lies in a range, as `log_batches.clipped` does; of a part nobody has counted anything."""
        part = clipped(self.batch, start_offset=start_offset, end_offset=end_offset)
        return self if part is self.batch else None if part is None else _Taken(part, None)

    def add_to(self, counter: SchemaIdCounter) -> None:
        """Adds its records to what was counted."""
        if self.counts is not None:
            counter.add(self.counts)
        else:
            counter.take(decode_batches([self.batch.batch]))
