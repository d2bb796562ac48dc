"""The content of a segment as record batches from a position on, a piece at a time, none larger than asked for.

A piece accounts for its offsets without a hole, as an answer of a broker does: what no batch of it holds was not
archived, as its segment says or shows. Blocking; to be called in a thread, one call at a time.
"""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.log_batches import clipped, log_batch
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.destinations.interface import ClassifiedBatch
from mirrorlake.errors import ChainBrokenError, CorruptBatchError
from mirrorlake.kafka.records.batches import AbortedTransactions, Batch, classify, verify_crc, walk
from mirrorlake.kafka.records.codec import Codec, RecordColumns
from mirrorlake.offsets import Gap, OffsetRange
from mirrorlake.sources.archive.batch_runs import BatchRuns
from mirrorlake.sources.archive.known_segments import LogStop
from mirrorlake.sources.archive.piece_buffers import PieceBuffers
from mirrorlake.sources.batching import RECORD_BYTES, Gain, batches_of

PIECE_BYTES = 4 << 20
"""Record bytes of a piece, to within one batch: half of what a partition's sink may hold back."""

VIEW_BYTES_MAX = 32 << 20
"""Records of a snapshot that are put into the order of their offsets at one time."""

_NOT_ABORTED = AbortedTransactions(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Batches of some offsets in order, and how many bytes they hold in memory.

    The first batch may begin below ``covered``, and the last reach past it, as they lie in a `log` segment. ``gaps``
    are those of its segment, within ``covered`` or not, that are of another kind than ``absent``. ``buffer`` is what
    the batches are views of, where it is one of `PieceBuffers`: it is given back when the piece is let go.
    """

    covered: OffsetRange
    items: Sequence[ClassifiedBatch]
    size_bytes: int
    gaps: Sequence[Gap] = ()
    buffer: bytearray | None = None

    def below(self, end_offset: int) -> "Piece":
        """Returns what begins below an offset inside of it; a batch that holds the offset comes whole."""
        count = bisect.bisect_left(self.items, end_offset, key=_first_offset)
        end = min(end_offset, self.covered.end_offset)
        if count and (last := self.items[count - 1].batch.header.next_offset) > end:
            end = last
        return self._part(0, count, self.covered.start_offset, end)

    def behind(self, part: "Piece") -> "Piece":
        """Returns what is left behind the first part."""
        return self._part(len(part.items), len(self.items), part.covered.end_offset, self.covered.end_offset)

    def _part(self, first: int, after: int, start: int, end: int) -> "Piece":
        items = self.items[first:after]
        size = sum(len(item.batch.view) for item in items)
        covered = OffsetRange(start_offset=start, end_offset=end)
        return Piece(covered=covered, items=items, size_bytes=size, gaps=self.gaps)


def _first_offset(item: ClassifiedBatch) -> int:
    header = item.batch.header
    return header.base_offset


class Content(Protocol):
    """Hands out a segment's content in order."""

    def next_piece(self) -> Piece | None:
        """Returns the next piece; None where the last one was handed out.

        Raises:
            ChainBrokenError: the segment is damaged; all that was handed out is right.
            ObjectMissingError: it is not there any more.
            MirrorlakeError: the store could not be read.
        """
        ...

    def close(self) -> None:
        """Closes the file."""
        ...


class RecordContent:
    """The content of a segment of decoded records.

    Args:
        reader: of the segment; closed with this.
        records: those of ``offsets``, in order.
        offsets: what is wanted of the segment, which must hold it.
        codec: of the batches.
        batch_bytes_max: record bytes of one.
    """

    def __init__(
        self,
        reader: SegmentReader,
        records: Iterator[RecordColumns],
        *,
        offsets: OffsetRange,
        codec: Codec,
        batch_bytes_max: int,
    ) -> None:
        self._reader = reader
        self._position = offsets.start_offset
        self._end = offsets.end_offset
        self._codec = codec
        self._batch_bytes_max = batch_bytes_max
        self._gain = Gain()
        self._parts = _parts(records)

    def next_piece(self) -> Piece | None:
        """Returns the next piece; see `Content`."""
        if self._position >= self._end:
            return None
        part = next(self._parts, None)
        batches: Iterator[Batch] = iter(())
        if part is not None:
            batches = batches_of(part, codec=self._codec, bytes_max=self._batch_bytes_max, gain=self._gain)
        start = self._position
        items = [_classified(batch, start) for batch in batches]
        self._position = items[-1].batch.header.next_offset if items else self._end
        return Piece(
            covered=OffsetRange(start_offset=start, end_offset=self._position),
            items=items,
            size_bytes=sum(len(item.batch.view) for item in items),
        )

    def close(self) -> None:
        """Closes the segment."""
        self._reader.close()


def _parts(records: Iterator[RecordColumns]) -> Iterator[RecordColumns]:
    """Yields the same records in parts of `PIECE_BYTES`."""
    for columns in records:
        ends = np.cumsum(columns.weights(record_bytes=RECORD_BYTES))
        row, before = 0, 0
        while row < len(columns):
            stop = max(row + 1, int(np.searchsorted(ends, before + PIECE_BYTES, side="right")))
            yield columns.slice(row, stop)
            row, before = stop, int(ends[stop - 1])


def in_offset_order(reader: ParquetSegmentReader, offsets: OffsetRange, *, where: str) -> Iterator[RecordColumns]:
    """Yields the records of a snapshot, which lie in the order of their keys, in the order of their offsets.

    Reads the file once for each `VIEW_BYTES_MAX` of records, so that memory does not grow with the view.

    Args:
        reader: of the snapshot.
        offsets: which of its records.
        where: names the file in messages.

    Raises:
        ChainBrokenError: damaged; or an offset is there twice.
    """
    position: int | None = offsets.start_offset
    while position is not None:
        columns, position = _lowest(reader.stored(), position, offsets.end_offset)
        if (np.diff(columns.offsets) == 0).any():
            raise ChainBrokenError(f"{where} holds two records of one offset", hint="put it back from a copy")
        if len(columns):
            yield columns


def _lowest(stored: Iterator[RecordColumns], start: int, end: int) -> tuple[RecordColumns, int | None]:
    """Returns the records of the lowest offsets in a range, sorted, and where the next ones begin; None for none."""
    held = RecordColumns.empty()
    bound = end
    for columns in stored:
        wanted = np.flatnonzero((columns.offsets >= start) & (columns.offsets < bound))
        if not len(wanted):
            continue
        held = RecordColumns.concat([held, columns.relocated(wanted, columns.offsets[wanted])])
        if int(held.weights(record_bytes=RECORD_BYTES).sum()) > 2 * VIEW_BYTES_MAX:
            held, bound = _cut(held, bound)
    held, bound = _cut(held, bound)
    return held, bound if bound < end else None


def _cut(held: RecordColumns, bound: int) -> tuple[RecordColumns, int]:
    """Returns as many of the lowest offsets as are held at one time, and the first that is not, else ``bound``."""
    rows = np.argsort(held.offsets, kind="stable")
    ends = np.cumsum(held.weights(record_bytes=RECORD_BYTES)[rows])
    count = max(1, int(np.searchsorted(ends, VIEW_BYTES_MAX, side="right")))
    if count < len(rows):
        bound = int(held.offsets[rows[count]])
    kept = rows[:count]
    return held.relocated(kept, held.offsets[kept]), bound


class LogContent:
    """The content of a `log` segment: its batches as they are; only those over an edge of what is wanted are cut.

    Args:
        file: of the segment, closed with this.
        segment: which.
        offsets: what is wanted of it.
        key: names it in messages.
        stop: where the batch begins that holds the first offset wanted, or one before it.
        unit_bytes: the file is read from a multiple of these on, in multiples of these.
        buffers: of `PIECE_BYTES`, for what is read; None for memory of its own.
    """

    def __init__(
        self,
        file: BinaryIO,
        segment: Segment,
        *,
        offsets: OffsetRange,
        key: str,
        stop: LogStop,
        unit_bytes: int = 1,
        buffers: PieceBuffers | None = None,
    ) -> None:
        self._byte_position = stop.byte_position  # of the first batch not handed out yet
        self._file = file
        self._segment = segment
        self._position = offsets.start_offset
        self._end = offsets.end_offset
        self._key = key
        self._follows = segment.name.from_offset  # offsets of batches grow
        self._runs = BatchRuns(
            file,
            segment.size_bytes,
            unit_bytes=unit_bytes,
            run_bytes=PIECE_BYTES,
            buffers=buffers,
            broken=self._broken,
        )

    @property
    def stop(self) -> LogStop:
        """Where the first batch begins that was not handed out yet."""
        return LogStop(offset=self._position, byte_position=self._byte_position)

    def next_piece(self) -> Piece | None:
        """Returns the next piece; see `Content`."""
        start = self._position
        items: list[ClassifiedBatch] = []
        buffer: bytearray | None = None
        held = 0
        while self._position < self._end and not items:
            at = self._byte_position
            view, buffer = self._runs.run_at(at)
            if not view:
                self._position = self._end
                break
            trouble = self._take(view, items)
            held = len(view) if buffer is None else len(buffer)
            if trouble is not None and not items:
                raise trouble
            if trouble is None and self._position < self._end:
                self._runs.keep(view[self._byte_position - at :], self._byte_position)
        if self._position == start:
            return None
        self._check_end()
        covered = OffsetRange(start_offset=start, end_offset=self._position)
        return Piece(covered=covered, items=items, size_bytes=held, buffer=buffer if items else None)

    def _check_end(self) -> None:
        """Checks before the last piece is handed out that nothing is left behind it."""
        is_whole = self._byte_position == self._segment.size_bytes
        if self._position >= self._segment.name.end_offset and not is_whole:
            raise self._broken("has batches behind its last offset")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _take(self, view: memoryview, items: list[ClassifiedBatch]) -> ChainBrokenError | None:
        """Takes the whole batches of ``view``; returns what is wrong with the first that is not right."""
        walked, trouble = self._walked(view)
        try:
            for batch in walked:
                self._add(batch, items)
                self._follows = max(self._follows, batch.header.next_offset)
                self._byte_position += len(batch.view)
                if self._position >= self._end:
                    return None
        except ChainBrokenError as error:
            return error
        except CorruptBatchError as error:
            return self._broken(f"cannot be read as record batches: {error}")
        return trouble

    def _walked(self, view: memoryview) -> tuple[list[Batch], ChainBrokenError | None]:
        """Returns the batches that are wanted up to the first that is not right, and what is wrong with that one.

        Step by step for all of them, not batch by batch: reading 128 KiB for a checksum leaves little of what the steps
        before and after it had in the processor's cache.
        """
        found: list[Batch] = []
        trouble: ChainBrokenError | None = None
        follows = self._follows
        try:
            for batch in walk(view):
                self._check_place(batch, follows)
                found.append(batch)
                follows = max(follows, batch.header.next_offset)
                if follows == self._end or (batch.header.base_offset >= self._end and batch.header.magic >= 2):
                    break
        except ChainBrokenError as error:
            trouble = error
        except CorruptBatchError as error:
            trouble = self._broken(f"cannot be read as record batches: {error}")
        for number, batch in enumerate(found):
            if batch.header.next_offset <= self._position:
                continue  # not wanted
            try:
                verify_crc(batch)
            except CorruptBatchError as error:
                return found[:number], self._broken(f"cannot be read as record batches: {error}")
        return found, trouble

    def _add(self, batch: Batch, items: list[ClassifiedBatch]) -> None:
        header = batch.header
        if header.next_offset <= self._position:
            return
        if header.magic >= 2 and header.next_offset <= self._end:
            items.append(_classified(batch, self._position))
            self._position = header.next_offset
            return
        known = log_batch(batch)
        kept = clipped(known, start_offset=0, end_offset=self._end) if known.first_offset < self._end else None
        if kept is not None:
            items.append(_classified(kept.batch, self._position))
            self._position = max(self._position, kept.next_offset)
        else:
            self._position = self._end

    def _check_place(self, batch: Batch, follows: int) -> None:
        header = batch.header
        first = follows if header.is_old_wrapper else header.base_offset
        if first < follows or header.next_offset > self._segment.name.end_offset:
            raise self._broken("has batches out of order, or outside its range")

    def _broken(self, what: str) -> ChainBrokenError:
        return ChainBrokenError(
            f"{self._key} {what}",
            hint="put it back from a copy, with its description in `_meta`; nothing of it from there on was copied",
            key=self._key,
        )


def _classified(batch: Batch, position: int) -> ClassifiedBatch:
    found = classify(batch, position=position, aborted=_NOT_ABORTED)
    return ClassifiedBatch(batch=batch, path=found.path, reason=found.reason)
