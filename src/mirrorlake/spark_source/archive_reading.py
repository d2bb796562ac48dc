"""Reading planned pieces of an archive, file by file, as rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

from mirrorlake.archive.blocks.seen_file import SeenFile
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.interface import SegmentReader
from mirrorlake.archive.formats.name_check import check_bare_edges
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.layouts.foreign_store import ForeignStore
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.archive.names import SegmentName, parse_segment_name, partition_prefix
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR
from mirrorlake.archive.source_continuity import check_by_next, name_behind
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange
from mirrorlake.spark_source.archive_plan import ArchivedTopicPartition, plan_between
from mirrorlake.spark_source.columns import CONSTANT
from mirrorlake.spark_source.rows import PARQUET_COLUMNS, rows_of, rows_of_parquet, rows_with
from mirrorlake.spark_source.selection import ALL, Numbers, Selection
from mirrorlake.spark_source.tasks import Piece
from mirrorlake.stores.object_store import ObjectMissingError, ObjectStore

_LOG = "log"
_NDJSON = "ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReading:
    """How pieces are read.

    Attributes:
        store: of the archive.
        names: of the columns wanted, in order.
        selection: what may be wanted; files and row groups without any of it are not read.
    """

    store: ObjectStore
    names: Sequence[str]
    selection: Selection = ALL

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a piece in the order of the file: that of offsets, of a view that of keys.

        Where the planned file was merged away meanwhile, even half-way through it, reading goes on behind the last
        row with the file that covers it.

        Raises:
            ChainBrokenError: a file is damaged, or not the one its name says.
            SourceTruncatedError: retention deleted what is still to be read.
            PositionMovedError: a view was replaced by a newer one; or the archive changes too fast.
            MirrorlakeError: the store could not be read.
        """
        if piece.is_snapshot:
            yield from self._read_view(piece)
            return
        left = [piece]
        place = _Place(piece.offsets.start_offset)
        for _ in range(LOOKS_MAX):
            try:
                while left:
                    place.position = left[0].offsets.start_offset
                    yield from self._read_file(left[0], place)
                    left.pop(0)
            except ObjectMissingError:
                left = self._planned_again(piece, place.position)
            else:
                return
        raise moved(partition_prefix(piece.folder, piece.partition))

    def count(self, piece: Piece) -> int | None:
        """Returns how many records a piece has, by what its file says of itself; reads no more than the file's end.

        None where the file does not say it, or not of the piece alone, or was merged away: `read` tells then.

        Raises:
            ChainBrokenError: the file is damaged, or not the one its name says.
            MirrorlakeError: the store could not be read.
        """
        key = _key(piece)
        if piece.is_snapshot or piece.offsets != _name(piece).offsets:
            return None
        try:
            with _opened(self.store, key) as reader:
                _check_footer(reader.footer, piece, key)
                return _records_told(reader)
        except ObjectMissingError:
            return None

    def _planned_again(self, piece: Piece, position: int) -> list[Piece]:
        name = _name(piece)
        of = ArchivedTopicPartition(
            folder=piece.folder,
            topic=piece.topic,
            partition=piece.partition,
            extension=name.extension,
            is_snapshot=False,
        )
        offsets = OffsetRange(start_offset=position, end_offset=piece.offsets.end_offset)
        return list(plan_between(self.store, of, offsets))

    def _read_file(self, piece: Piece, place: "_Place") -> Iterator[pa.RecordBatch]:
        key = _key(piece)
        with _opened(self.store, key) as reader:
            _check_footer(reader.footer, piece, key)
            if reader.footer is None:
                self._check_undescribed(piece, key)
                if not isinstance(self.store, ForeignStore):
                    check_bare_edges(key, reader.edges(), name=_name(piece), partition=piece.partition)
            within = piece.offsets
            if self._needs_no_record(piece) and (rows := _records_told(reader)) is not None:
                yield from rows_with({}, rows, topic=piece.topic, partition=piece.partition, names=self.names)
            elif isinstance(reader, ParquetSegmentReader):
                yield from self._read_parquet(reader, piece, within, place)
            elif self._may_hold(reader.footer, key):
                yield from self._read_records(reader, piece, within, place)

    def _check_undescribed(self, piece: Piece, key: str) -> None:
        """Asks the next file whether one that says nothing of itself has lost its description, and records perhaps.

        Raises:
            ChainBrokenError: it has.
            ObjectMissingError: the next file was merged away meanwhile.
        """
        if _name(piece).extension not in FORMATS_WITH_SIDECAR:
            return
        prefix = partition_prefix(piece.folder, piece.partition)
        if (behind := name_behind(self.store, prefix, _name(piece).end_offset)) is not None:
            check_by_next(self.store, key, f"{prefix}/{behind}")

    def _read_parquet(
        self, reader: ParquetSegmentReader, piece: Piece, within: OffsetRange | None, place: "_Place"
    ) -> Iterator[pa.RecordBatch]:
        columns = [PARQUET_COLUMNS.get(name, name) for name in self.names if name not in CONSTANT]
        times = self.selection.may_hold_times if self.selection.times != Numbers() else None
        for batch in reader.columns(columns, within=within, may_hold_times=times, is_view=piece.is_snapshot):
            try:
                yield from rows_of_parquet(batch, topic=piece.topic, partition=piece.partition, names=self.names)
            except (pa.ArrowException, ValueError) as error:
                raise ChainBrokenError(f"{_key(piece)} cannot be read as Parquet: {error}") from error
            if batch.num_rows:
                place.position = int(batch.column("offset")[-1].as_py()) + 1

    def _read_records(
        self, reader: SegmentReader, piece: Piece, within: OffsetRange, place: "_Place"
    ) -> Iterator[pa.RecordBatch]:
        for records in reader.records(within=within):
            yield from self._rows(records, piece)
            place.position = int(records.offsets[-1]) + 1

    def _rows(self, records: RecordColumns, piece: Piece) -> Iterator[pa.RecordBatch]:
        return rows_of(records, topic=piece.topic, partition=piece.partition, names=self.names)

    def _read_view(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        key = _key(piece)
        try:
            with open_segment(self.store, key) as reader:
                assert isinstance(reader, ParquetSegmentReader)
                _check_footer(reader.footer, piece, key)
                yield from self._read_parquet(reader, piece, None, _Place(0))
        except ObjectMissingError:
            raise PositionMovedError(
                f"{key} was replaced by a newer snapshot while it was to be read", hint="run the query again"
            ) from None

    def _needs_no_record(self, piece: Piece) -> bool:
        return CONSTANT.issuperset(self.names) and piece.offsets == _name(piece).offsets

    def _may_hold(self, footer: SegmentFooter | None, key: str) -> bool:
        if footer is None:
            return True
        # A log's lowest time is that of the first records of its batches: a lower one may stand behind those.
        low = None if key.endswith(f".{_LOG}") else footer.timestamp_ms_min
        return self.selection.may_hold_times(low, footer.timestamp_ms_max)


@dataclass(slots=True)
class _Place:
    """How far a file has been read: behind the last record that was handed on."""

    position: int


def _records_told(reader: SegmentReader) -> int | None:
    """Returns how many records a file says that it holds; None where it says nothing."""
    if isinstance(reader, ParquetSegmentReader):
        return reader.row_count
    return reader.footer.records if reader.footer else None


def _opened(store: ObjectStore, key: str) -> SegmentReader:
    """Opens a segment; of an NDJSON file with a description nothing is read that was not compared with that.

    Lines say nothing of those that are missing. The file is read from its start anyway; of a Parquet file a few columns
    are, which its own structure tells apart, and a `log` compares its blocks.

    Raises:
        ChainBrokenError: damaged, or of another length than its description says.
        ObjectMissingError: it is gone.
    """
    if not key.endswith(f".{_NDJSON}") or isinstance(store, ForeignStore):
        return open_segment(store, key)
    seen = SeenFile.of(store.open(key), where=key)
    reader = open_segment(store, key, opened=cast(BinaryIO, seen))
    said = reader.footer.file if reader.footer is not None else None
    if said is not None and said.bytes != seen.file_bytes:
        reader.close()
        raise ChainBrokenError(
            f"{key} has {seen.file_bytes} bytes, its description says {said.bytes}",
            hint="the file is damaged or was swapped: put it back from a copy, or archive the range again",
            key=key,
        )
    if said is not None and said.blocks is not None:
        seen.compare_with(said.blocks, than="its description says")
    return reader


def _key(piece: Piece) -> str:
    return f"{partition_prefix(piece.folder, piece.partition)}/{piece.file}"


def _name(piece: Piece) -> SegmentName:
    name = parse_segment_name(piece.file)
    assert name is not None
    return name


def _check_footer(footer: SegmentFooter | None, piece: Piece, key: str) -> None:
    """Checks that a file is the one that its name says; mirror-v3's do not say."""
    if footer is None:
        return
    says = (footer.envelope.topic, footer.envelope.partition, footer.offsets)
    wanted = (piece.topic, piece.partition, _name(piece).offsets)
    if says != wanted:
        raise ChainBrokenError(
            f"{key} says of itself that it holds {says[0]}-{says[1]} {says[2]}, where {wanted[0]}-{wanted[1]} "
            f"{wanted[2]} should be",
            hint="the file was renamed or swapped: put the right one back",
            key=key,
        )
