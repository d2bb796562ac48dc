"""Writing a segment as Parquet of records and of the row groups of other segments, within a bounded memory.

Records are encoded as in any segment, each run of them by a writer of its own; row groups are copied as bytes. Either
way their pages lie one behind the other, and one footer is written that describes them all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import RawIOBase
from typing import TYPE_CHECKING, BinaryIO

import xxhash

from mirrorlake.archive.envelope import METADATA_KEY, SegmentEnvelope, SegmentFooter, encode_footer, with_seals
from mirrorlake.archive.formats.parquet_copying import CopyableSegment
from mirrorlake.archive.formats.parquet_layout import MAGIC, FileEnd, MovedGroup, end_of, moved_groups, written_end
from mirrorlake.archive.formats.parquet_rows import RowGroupWriter
from mirrorlake.archive.formats.parquet_schema import ARROW_METADATA
from mirrorlake.archive.formats.record_account import JoinedAccount
from mirrorlake.archive.gaps import NOTHING_FILTERED, FilteredGaps, GapFinder
from mirrorlake.archive.seal import OPEN_SEAL, READ_BYTES, SealingFile, flaw_behind
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import Gap, OffsetRange
from mirrorlake.page_compression import Compression

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedGroups:
    """Row groups of the file that were copied.

    ``checksum`` is the XXH3 128-bit hash of their ``bytes`` from ``start_byte`` on, as they were read from the sealed
    segment; ``description`` is `ParquetSegmentReader.description_of` them there.
    """

    groups: range
    footer: SegmentFooter
    start_byte: int
    bytes: int
    checksum: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedGroups:
    """Row groups of the file that were made of decoded records, and the checksum of those."""

    groups: range
    offsets: OffsetRange
    records: int
    checksum: str


class JoiningParquetWriter:
    """Writes the records of one range into one file: decoded ones, and whole segments as they are.

    Use: ``write`` and ``copy`` in offset order, ``close`` once. The file is not closed, and is nothing before ``close``
    is done. Holds at most one row group of records, its columns compressed, and some kilobytes for each row group.

    Args:
        file: takes the bytes in order; need not seek.
        envelope: whose records these are.
        compression: of the pages of what is not copied.

    Attributes:
        sections: what lies in the file so far, in order.
    """

    def __init__(self, file: BinaryIO, envelope: SegmentEnvelope, *, compression: Compression) -> None:
        self.sections: list[CopiedGroups | EncodedGroups] = []
        self._envelope = envelope
        self._compression = compression
        self._gaps = GapFinder(envelope.start_offset)
        self._account = JoinedAccount()
        self._sealing = SealingFile(file)
        self._position = 0
        self._groups: list[MovedGroup] = []
        self._run: _Run | None = None
        self._section_start = envelope.start_offset
        self.put(MAGIC)

    @property
    def records(self) -> int:
        """Records taken so far."""
        return self._account.records

    @property
    def raw_bytes(self) -> int:
        """Bytes of keys, values and headers taken so far."""
        return self._account.raw_bytes

    def write(self, records: RecordColumns) -> None:
        """Takes the next records; whole row groups go to the file.

        Raises:
            ValueError: offsets that do not follow those before; nothing of ``records`` is taken.
            StoreUnavailableError, StoreUnusableError: the file's; the segment is lost.
        """
        if not len(records):
            return
        self._gaps.follow(records.offsets)
        if self._run is None:
            self._run = _Run(self)
        self._account.take(records)
        self._run.records += len(records)
        self._run.groups.write(records)

    def copy(self, segment: CopyableSegment) -> Iterator[None]:
        """Takes a whole segment: copies its pages, piece by piece, and yields after each.

        Raises:
            ValueError: it does not follow what came before.
            ChainBrokenError: its bytes are not those it was sealed with; the file is nothing then.
            MirrorlakeError: a store's; the file is lost.
        """
        footer = segment.footer
        self._end_run(footer.offsets.start_offset)
        self._follow(segment)
        start = self._position
        found, whole = xxhash.xxh3_128(), xxhash.xxh3_128()
        whole.update(_first_bytes(segment))
        left = segment.end.pages_end - len(MAGIC)
        while left and (data := segment.reader.file.read(min(READ_BYTES, left))):
            found.update(data)
            whole.update(data)
            self.put(data)
            left -= len(data)
            yield
        whole.update(segment.end.indexes)
        if left or (flaw := flaw_behind(whole, segment.end.footer, segment.seal)):
            raise ChainBrokenError(
                f"{segment.where} {'ends inside of its pages' if left else flaw}",
                hint="the file is damaged or not ours: put it back from a copy, or archive the range again",
            )
        self._account.add(footer)
        groups = self._adopt(segment.groups(start - len(MAGIC)))
        self.sections.append(
            CopiedGroups(
                groups=groups,
                footer=footer,
                start_byte=start,
                bytes=self._position - start,
                checksum=found.hexdigest(),
                description=segment.reader.description_of(range(len(groups)), len(MAGIC)),
            )
        )
        self._section_start = footer.end_offset

    def close(
        self,
        *,
        end_offset: int,
        gaps: Sequence[Gap] = (),
        leader_epoch: int | None = None,
        filtered: FilteredGaps = NOTHING_FILTERED,
        schema_ids: SchemaIdCounts | None = None,
    ) -> SegmentFooter:
        """Writes what is left and the footer, and returns it.

        Args:
            end_offset: where the range ends, exclusive.
            gaps: gaps that are neither ``absent`` nor ``filtered``, in offset order; others are found from the offsets.
            leader_epoch: the source's latest of what was read; None where it is not known.
            filtered: what a filter left out.
            schema_ids: what its records have where a schema is named; None where it was not counted.

        Raises:
            ValueError: a record past the end, or in one of the gaps; the file is nothing then.
        """
        report = self._gaps.finish(end_offset, gaps, filtered)
        self._end_run(end_offset)
        said = self._account.footer(
            self._envelope, end_offset=end_offset, gaps=report, leader_epoch=leader_epoch, schema_ids=schema_ids
        )
        pages = self._sealing.hold_back()
        footer = replace(said, compression=self._compression.value, pages=pages, seal=OPEN_SEAL)
        text = encode_footer(footer)
        self._sealing.write(written_end(self._groups, {**ARROW_METADATA, METADATA_KEY: text}, start=self._position))
        return with_seals(footer, self._sealing.seal())

    def abandon(self) -> None:
        """Writes nothing more; what was written is nothing. Without effect after ``close``."""
        if self._run is not None:
            self._run.groups.abandon()

    def begin_rows(self, file: RawIOBase) -> RowGroupWriter:
        """Returns a writer of row groups of this segment's records into another file."""
        return RowGroupWriter(file, self._envelope.topic, self._envelope.partition, compression=self._compression)

    @property
    def position(self) -> int:
        """How many bytes were written so far."""
        return self._position

    def put(self, data: "ReadableBuffer") -> None:
        """Writes bytes behind what came before: pages, whose row groups are described later."""
        self._position += self._sealing.write(data)

    def _end_run(self, end_offset: int) -> None:
        run, self._run = self._run, None
        checksum = self._account.end_run(end_offset)
        if run is None or checksum is None:
            return
        groups = self._adopt(run.close())
        offsets = OffsetRange(start_offset=self._section_start, end_offset=end_offset)
        self.sections.append(EncodedGroups(groups=groups, offsets=offsets, records=run.records, checksum=checksum))
        self._section_start = end_offset

    def _adopt(self, groups: Sequence[MovedGroup]) -> range:
        first = len(self._groups)
        self._groups += groups
        return range(first, len(self._groups))

    def _follow(self, segment: CopyableSegment) -> None:
        """Notes the gaps of a segment: as it lists them, or by its offsets where it does not list them all."""
        footer = segment.footer
        if footer.gaps_complete:
            self._gaps.follow_all_but(footer.gaps, footer.offsets)
            return
        for offsets in segment.reader.offsets_of(range(segment.reader.group_count), footer.offsets):
            self._gaps.follow(offsets)


class _Run:
    """A run of decoded records in the making: a Parquet file of its own, whose pages alone go into the segment."""

    def __init__(self, writer: JoiningParquetWriter) -> None:
        self.records = 0
        self._shift = writer.position - len(MAGIC)
        self._file = _PagesFile(writer)
        self.groups = writer.begin_rows(self._file)

    def close(self) -> list[MovedGroup]:
        """Writes what is left, and returns the row groups."""
        self.groups.flush()
        self._file.hold_back()
        self.groups.close({})
        return moved_groups(self._file.end(), self._shift)


class _PagesFile(RawIOBase):
    """Takes a Parquet file and hands its pages on; its mark and its end are kept back."""

    def __init__(self, writer: JoiningParquetWriter) -> None:
        super().__init__()
        self._writer = writer
        self._bytes = 0
        self._end: bytearray | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        view = memoryview(data).cast("B")
        if self._end is not None:
            self._end += view
            return len(view)
        if pages := view[max(0, len(MAGIC) - self._bytes) :]:
            self._writer.put(pages)
        self._bytes += len(view)
        return len(view)

    def hold_back(self) -> None:
        self._end = bytearray()

    def end(self) -> FileEnd:
        assert self._end is not None, "its pages have not ended"
        return end_of(bytes(self._end), start=self._bytes)


def _first_bytes(segment: CopyableSegment) -> bytes:
    """Returns the bytes before the first page, and leaves the file there."""
    segment.reader.file.seek(0)
    return segment.reader.file.read(len(MAGIC))
