"""Writing a segment as a log: the source's record batches one after another, never decoded."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np

from mirrorlake.archive.blocks.sums import BLOCK_BYTES
from mirrorlake.archive.envelope import FILE_ALGORITHM, SegmentEnvelope, SegmentFooter
from mirrorlake.archive.formats.log_batches import LogBatch
from mirrorlake.archive.formats.summing_file import SummingFile
from mirrorlake.archive.gaps import NOTHING_FILTERED, FilteredGaps, GapFinder
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import Gap

WRITE_BYTES_MAX = 1 << 20
"""Batches are written together up to this size: a call for each would cost more than copying small ones."""

_ALONE_BYTES_MIN = 64 << 10


class LogSegmentWriter:
    """Writes the batches of one range into one file; see `SegmentWriter`.

    What the segment says about itself is not part of the file: ``close`` returns it, for a sidecar.

    Args:
        file: takes the bytes in order; need not seek.
        envelope: whose batches these are.
        block_bytes: of the blocks that have checksums of their own; None where none has.
    """

    def __init__(self, file: BinaryIO, envelope: SegmentEnvelope, *, block_bytes: int | None = BLOCK_BYTES) -> None:
        self.records = 0
        self.raw_bytes = 0
        self._file = SummingFile(file, block_bytes=block_bytes)
        self._envelope = envelope
        self._gaps = GapFinder(envelope.start_offset)
        self._first_offset: int | None = None
        self._last_offset: int | None = None
        self._timestamp_ms_min: int | None = None
        self._timestamp_ms_max: int | None = None

    def write(self, batches: Sequence[LogBatch]) -> None:
        """Writes the next batches, all inside the range; their bytes are not needed any more afterwards.

        Raises:
            ValueError: offsets that do not follow those before; nothing of ``batches`` is taken.
            StoreUnavailableError, StoreUnusableError: the file's; the segment is lost.
        """
        if not batches:
            return
        starts, ends, counts = np.array(
            [(each.first_offset, each.next_offset, each.records) for each in batches], np.int64
        ).T
        self._gaps.follow_batches(starts, ends, counts)
        for each in batches:
            self._note(each)
        for data in _coalesced(batches):
            self._file.write(data)

    def close(
        self,
        *,
        end_offset: int,
        gaps: Sequence[Gap] = (),
        leader_epoch: int | None = None,
        filtered: FilteredGaps = NOTHING_FILTERED,
        schema_ids: SchemaIdCounts | None = None,
    ) -> SegmentFooter:
        """Returns what the segment says about itself; see `SegmentWriter.close`."""
        report = self._gaps.finish(end_offset, gaps, filtered)
        file = self._file.sum()
        return SegmentFooter(
            envelope=self._envelope,
            end_offset=end_offset,
            records=self.records,
            raw_bytes=self.raw_bytes,
            first_offset=self._first_offset,
            last_offset=self._last_offset,
            timestamp_ms_min=self._timestamp_ms_min,
            timestamp_ms_max=self._timestamp_ms_max,
            gap_offsets=report.offsets,
            gaps=report.listed,
            gaps_complete=report.is_complete,
            checksum=file.checksum,
            leader_epoch=leader_epoch,
            algorithm=FILE_ALGORITHM,
            file=file,
            schema_ids=schema_ids,
        )

    def abandon(self) -> None:
        """Does nothing: nothing is held back."""

    def _note(self, batch: LogBatch) -> None:
        self.records += batch.records
        self.raw_bytes += batch.size_bytes
        if self._first_offset is None:
            self._first_offset = batch.first_offset
        self._last_offset = batch.next_offset - 1
        first, last = batch.timestamp_ms_first, batch.timestamp_ms_max
        if first is not None:
            self._timestamp_ms_min = first if self._timestamp_ms_min is None else min(first, self._timestamp_ms_min)
        if last is not None:
            self._timestamp_ms_max = last if self._timestamp_ms_max is None else max(last, self._timestamp_ms_max)


def _coalesced(batches: Sequence[LogBatch]) -> Iterator[bytes | memoryview]:
    """Yields the bytes of the batches: small ones together, large ones as they are."""
    small: list[memoryview] = []
    small_bytes = 0
    for each in batches:
        is_large = each.size_bytes >= _ALONE_BYTES_MIN
        if small and (is_large or small_bytes + each.size_bytes > WRITE_BYTES_MAX):
            yield b"".join(small)
            small, small_bytes = [], 0
        if is_large:
            yield each.batch.view
        else:
            small.append(each.batch.view)
            small_bytes += each.size_bytes
    if small:
        yield b"".join(small)
