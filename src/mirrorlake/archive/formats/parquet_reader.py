"""Reading segments written as Parquet: by this version, by earlier ones, and by mirror-v3."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from mirrorlake.archive.blocks.parquet_blocks import block_sums_of
from mirrorlake.archive.blocks.sums import BlockSummer, BlockSums
from mirrorlake.archive.checksum import checksum_by
from mirrorlake.archive.envelope import METADATA_KEY, SegmentFooter, decode_footer
from mirrorlake.archive.formats.name_check import Edge
from mirrorlake.archive.formats.pages.plain_pages import PlainColumn
from mirrorlake.archive.formats.parquet_rows import ROW_GROUP_BYTES_MAX
from mirrorlake.archive.formats.parquet_schema import SCHEMA, records_of, records_without_values
from mirrorlake.archive.formats.record_order import check_offsets, check_order, within_range
from mirrorlake.archive.seal import READ_BYTES, flaw_of_file
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange

ROWS_MAX = 1 << 16
"""Records handed out at once, at most."""

_VALUES = "value"

_COLUMNS = [name for name in SCHEMA.names if name not in {"topic", "partition"}]


class ParquetSegmentReader:
    """Reads one segment. Close it, or use it as a context manager; the file is closed with it.

    Args:
        file: seekable.
        where: names the file in messages.

    Attributes:
        footer: what the segment says about itself; None where mirror-v3 wrote it.

    Raises:
        ChainBrokenError: not a whole Parquet file, or not a segment.
        UnsupportedError: written by a later version.
    """

    def __init__(self, file: BinaryIO, *, where: str) -> None:
        self._where = where
        self._source = file
        try:
            self._file = pq.ParquetFile(file, pre_buffer=False)
            self.footer = self._read_footer()
        except (pa.ArrowException, OSError, ValueError) as error:  # the last of a column's name that is not UTF-8
            file.close()
            raise self._damaged(error) from error
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._source.close()

    def records(self, *, within: OffsetRange | None = None) -> Iterator[RecordColumns]:
        """Yields the records in offset order, in pieces of about a row group's bytes at most.

        Args:
            within: leaves out records outside; row groups wholly outside are not read.

        Raises:
            ChainBrokenError: damaged, or offsets that do not grow or lie outside the segment's range.
        """
        if self.footer is not None and self.footer.snapshot is not None:
            raise self._snapshot_in_archive()
        yield from self._in_order(self._read_group, within)

    def intact_records(self, within: OffsetRange) -> Iterator[RecordColumns]:
        """Yields the same records as `records`, of a file that was compared with its seal and lies near.

        Values come straight from their pages where those are laid out as mirrorlake's files have them: less than half
        the CPU, and memory for a part of a row group.

        Args:
            within: leaves out records outside; row groups wholly outside are not read.

        Raises:
            ChainBrokenError: see `records`.
        """
        assert self.footer is not None, "nobody sealed it"
        yield from self._in_order(self._read_intact_group, within)

    def _in_order(
        self, read_group: Callable[[int], Iterator[RecordColumns]], within: OffsetRange | None
    ) -> Iterator[RecordColumns]:
        position = self.footer.offsets.start_offset if self.footer else 0
        end = self.footer.end_offset if self.footer else None
        for group in range(self._file.num_row_groups):
            if within and not self._may_hold(group, within):
                continue
            for columns in read_group(group):
                position = check_order(columns, position, end, where=self._where)
                kept = columns if within is None else within_range(columns, within)
                if len(kept):
                    yield kept

    def _read_intact_group(self, group: int) -> Iterator[RecordColumns]:
        values = PlainColumn(self._source, self._file.metadata, self._file.schema, group, _VALUES)
        return self._with_values(group, values) if values.is_familiar() else self._read_group(group)

    def _with_values(self, group: int, values: PlainColumn) -> Iterator[RecordColumns]:
        """Yields the records of a row group, some pages of their values at a time."""
        others = [name for name in self._columns_there() if name != _VALUES]
        rows = self._file.metadata.row_group(group).num_rows
        row = 0
        try:
            batches = self._file.iter_batches(
                batch_size=rows or 1, row_groups=[group], columns=others, use_threads=False
            )
            records = RecordColumns.concat([records_without_values(batch) for batch in batches])
            for part in values.parts():
                stop = row + len(part.sizes)
                yield records.slice(row, stop).with_values(part.values, part.sizes)
                row = stop
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error

    def edges(self) -> tuple[Edge, ...]:
        """Returns the first and the last record as they lie in the file; nothing without records.

        Raises:
            ChainBrokenError: damaged, or offsets and partitions that are no numbers.
        """
        groups = [group for group in range(self._file.num_row_groups) if self._file.metadata.row_group(group).num_rows]
        if not groups:
            return ()
        try:
            batches = self._file.iter_batches(
                # mirror-v3 writes one row group per file, however large: only these two columns of it are read.
                batch_size=ROWS_MAX,
                row_groups=sorted({groups[0], groups[-1]}),
                columns=["partition", "offset"],
                use_threads=False,
            )
            first: dict[str, object] | None = None
            last: dict[str, object] = {}
            for batch in batches:
                if batch.num_rows:
                    first = first or batch.slice(0, 1).to_pylist()[0]
                    last = batch.slice(batch.num_rows - 1).to_pylist()[0]
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error
        return (self._edge(first), self._edge(last)) if first is not None else ()

    def _edge(self, row: Mapping[str, object]) -> Edge:
        partition, offset = row.get("partition"), row.get("offset")
        if not isinstance(partition, int) or not isinstance(offset, int):
            raise self._broken(f"is not a segment: it has partition {partition!r} and offset {offset!r} in a row")
        return Edge(partition=partition, offset=offset)

    def stored(self) -> Iterator[RecordColumns]:
        """Yields the records as they lie in the file, in whatever order.

        Raises:
            ChainBrokenError: damaged.
        """
        for group in range(self._file.num_row_groups):
            yield from self._read_group(group)

    def columns(
        self,
        names: Sequence[str],
        *,
        within: OffsetRange | None = None,
        may_hold_times: Callable[[int | None, int | None], bool] | None = None,
        is_view: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yields some of the file's own columns, beside ``offset``: others are neither read nor decoded.

        Args:
            names: as the file has them.
            within: leaves out records outside; row groups wholly outside are not read. Not for a view.
            may_hold_times: told the lowest and highest ``timestamp_ms`` of a row group, None where they are not known;
                a group of which it says no is not read.
            is_view: whether this is a snapshot, whose records lie in another order; mirror-v3's do not say so.

        Raises:
            ChainBrokenError: damaged, or offsets that do not grow or lie outside the segment's range.
        """
        if self.footer is not None and self.footer.snapshot is not None and not is_view:
            raise self._snapshot_in_archive()
        assert not (is_view and within is not None)
        position = self.footer.offsets.start_offset if self.footer else 0
        end = self.footer.end_offset if self.footer else None
        wanted = [*{"offset": None, **dict.fromkeys(names)}]
        for group in range(self._file.num_row_groups):
            if within is not None and not self._may_hold(group, within):
                continue
            if may_hold_times is not None and not may_hold_times(*self._bounds(group, "timestamp_ms")):
                continue
            for batch in self._batches(group, wanted):
                if is_view or not batch.num_rows:
                    yield batch
                    continue
                offsets = batch.column("offset").cast(pa.int64()).to_numpy()
                position = check_offsets(offsets, position, end, where=self._where)
                yield batch if within is None else batch.slice(*_rows_within(offsets, within))

    @property
    def file(self) -> BinaryIO:
        """The file's own bytes, wherever they were read last; for the reader to close."""
        return self._source

    @property
    def group_count(self) -> int:
        """How many row groups the file has."""
        return int(self._file.num_row_groups)

    @property
    def footer_bytes(self) -> int:
        """How many of the file's last bytes are its footer, with its length and the mark of the format."""
        return int(self._file.metadata.serialized_size) + 8

    def records_of(self, groups: range, within: OffsetRange) -> Iterator[RecordColumns]:
        """Yields the records of some row groups, which lie in a range.

        Raises:
            ChainBrokenError: damaged, or offsets that do not grow or lie outside the range.
        """
        position = within.start_offset
        for group in groups:
            for columns in self._read_group(group):
                position = check_order(columns, position, within.end_offset, where=self._where)
                yield columns

    def offsets_of(self, groups: range, within: OffsetRange) -> Iterator[npt.NDArray[np.int64]]:
        """Yields the offsets of the records of some row groups, which lie in a range; nothing else of them is read.

        Raises:
            ChainBrokenError: damaged, or offsets that do not grow or lie outside the range.
        """
        position = within.start_offset
        for group in groups:
            for batch in self._batches(group, ["offset"]):
                if batch.num_rows:
                    offsets = batch.column("offset").cast(pa.int64()).to_numpy()
                    position = check_offsets(offsets, position, within.end_offset, where=self._where)
                    yield offsets

    def description_of(self, groups: range, base: int) -> str:
        """Returns a checksum of what the footer says of some row groups, with all places counted from ``base``."""
        found = xxhash.xxh3_128()
        for number in groups:
            group = self._file.metadata.row_group(number).to_dict()
            for column in group["columns"]:
                for name in ("file_offset", "data_page_offset", "dictionary_page_offset"):
                    column[name] = column[name] - base if column[name] else column[name]
            found.update(repr(group).encode())
        return str(found.hexdigest())

    @property
    def row_count(self) -> int:
        """How many records the file holds, by its own account."""
        return int(self._file.metadata.num_rows)

    def sources(self) -> set[tuple[str, int]]:
        """Returns the topics and partitions in the rows.

        Raises:
            ChainBrokenError: damaged.
        """
        found: set[tuple[str, int]] = set()
        try:
            for batch in self._file.iter_batches(
                batch_size=ROWS_MAX, columns=["topic", "partition"], use_threads=False
            ):
                pairs = pa.Table.from_batches([batch]).group_by(["topic", "partition"]).aggregate([])
                found.update(zip(pairs["topic"].to_pylist(), pairs["partition"].to_pylist(), strict=True))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error
        return found

    def check_content(self, *, each: Callable[[RecordColumns], None] | None = None) -> None:
        """Reads everything and compares it with the footer: its records, and then every byte with its seal.

        Args:
            each: called with the records on the way.

        Raises:
            ChainBrokenError: damaged, or count, range, checksum, topic or partition differ from the footer's.
        """
        self.check_source_columns()
        checksum, records = checksum_by(self.footer.parts if self.footer else ()), 0
        for columns in self.stored() if self.footer and self.footer.snapshot else self.records():
            checksum.update(columns)
            records += len(columns)
            if each is not None:
                each(columns)
        if self.footer and (records, checksum.hexdigest()) != (self.footer.records, self.footer.checksum):
            raise self._broken(
                f"holds {records} records with checksum {checksum.hexdigest()}, its footer says "
                f"{self.footer.records} with {self.footer.checksum}"
            )
        self._check_all_sums()

    def block_sums(self) -> BlockSums | None:
        """Returns the checksums of the file's blocks, see `block_sums_of`; None where its footer has none.

        Raises:
            ChainBrokenError: the end of the file, from which they are taken, differs.
        """
        return (
            None if self.footer is None else block_sums_of(self._source, self.footer, self._file.metadata, self._broken)
        )

    def check_bytes(self) -> None:
        """Compares all bytes with the seal; where an earlier version wrote none, all records with the footer.

        Raises:
            ChainBrokenError: they differ.
        """
        if self.footer is not None and self.footer.seal is None:
            self.check_content()
        else:
            self.check_seal()

    def check_seal(self, *, read_bytes: int = READ_BYTES, also: Callable[[memoryview], None] = lambda _: None) -> None:
        """Compares the file with its seal; what earlier versions wrote has none.

        Args:
            read_bytes: what is read of it at a time.
            also: takes all bytes too, in order, each piece for as long as it is called.

        Raises:
            ChainBrokenError: they differ.
        """
        if self.footer is None or self.footer.seal is None:
            return
        flaw = flaw_of_file(
            self._source, self.footer.seal, end_bytes=self.footer_bytes, read_bytes=read_bytes, also=also
        )
        if flaw:
            raise self._broken(flaw)

    def _check_all_sums(self) -> None:
        """Compares the file with its seal, and in the same reading with the checksums of its blocks."""
        sums = self.block_sums()
        if sums is None:
            self.check_seal()
            return
        summer = BlockSummer(sums.block_bytes)
        self.check_seal(also=summer.update)
        if summer.sums() != sums:
            raise self._broken("has other checksums of its blocks than its footer says")

    def check_source_columns(self, groups: range | None = None) -> None:
        """Compares the columns that are no part of the records, and so of no checksum: they say whose those are.

        Args:
            groups: the row groups to be looked at; all where it is None.

        Raises:
            ChainBrokenError: damaged, or they differ from the footer.
        """
        if self.footer is None:
            return
        written = (("topic", self.footer.envelope.topic), ("partition", self.footer.envelope.partition))
        try:
            for batch in self._file.iter_batches(
                batch_size=ROWS_MAX,
                row_groups=None if groups is None else list(groups),
                columns=[name for name, _ in written],
                use_threads=False,
            ):
                for name, wanted in written:
                    found = pc.unique(batch.column(name)).to_pylist()
                    if found != [wanted]:
                        raise self._broken(f"has {name} {found[:2]} in its rows, its footer says {wanted!r}")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error

    def _read_footer(self) -> SegmentFooter | None:
        missing = set(SCHEMA.names).difference(self._file.schema_arrow.names)  # which is made anew each time
        if missing - {"header_keys"}:
            raise self._broken(f"is not a segment: it has no columns {sorted(missing)}")
        metadata = self._file.metadata.metadata or {}
        if METADATA_KEY in metadata:
            return decode_footer(metadata[METADATA_KEY], where=self._where)
        if "header_keys" not in missing:
            raise self._broken("has mirrorlake's columns, and not what mirrorlake says in a footer")
        return None

    def _read_group(self, group: int) -> Iterator[RecordColumns]:
        for batch in self._batches(group, self._columns_there()):
            try:
                yield records_of(batch)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise self._damaged(error) from error

    def _columns_there(self) -> list[str]:
        there = set(self._file.schema_arrow.names)
        return [name for name in _COLUMNS if name in there]

    def _batches(self, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        metadata = self._file.metadata.row_group(group)
        if not metadata.num_rows:
            return
        # mirror-v3 writes one row group per file, however large.
        row_bytes = max(1, metadata.total_byte_size // metadata.num_rows)
        rows = min(ROWS_MAX, max(1, 2 * ROW_GROUP_BYTES_MAX // row_bytes))
        try:
            yield from self._file.iter_batches(
                batch_size=rows, row_groups=[group], columns=list(columns), use_threads=False
            )
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error

    def _may_hold(self, group: int, within: OffsetRange) -> bool:
        low, high = self._bounds(group, "offset")
        if low is None or high is None:
            return True
        return low < within.end_offset and high >= within.start_offset

    def _bounds(self, group: int, column: str) -> tuple[int | None, int | None]:
        """Returns the lowest and highest number of a column in a row group; None where the file does not say."""
        number = next(i for i in range(self._file.metadata.num_columns) if self._file.schema.column(i).path == column)
        statistics = self._file.metadata.row_group(group).column(number).statistics
        if statistics is None or not statistics.has_min_max:
            return None, None
        return int(statistics.min), int(statistics.max)

    def _snapshot_in_archive(self) -> ChainBrokenError:
        return ChainBrokenError(
            f"{self._where} is a snapshot of the latest record per key, and every record is to be read from it",
            hint="set `compaction: log`, or choose another destination name for an archive of every record",
        )

    def _damaged(self, error: Exception) -> ChainBrokenError:
        return ChainBrokenError(
            f"{self._where} cannot be read as Parquet: {error}",
            hint="the file is damaged or not whole: put it back from a copy, or archive the range again",
        )

    def _broken(self, what: str) -> ChainBrokenError:
        return ChainBrokenError(
            f"{self._where} {what}",
            hint="the file is damaged or not ours: put it back from a copy, or archive the range again",
        )


def _rows_within(offsets: npt.NDArray[np.int64], within: OffsetRange) -> tuple[int, int]:
    """Returns the first row whose offset is in a range, and how many are."""
    start, stop = np.searchsorted(offsets, [within.start_offset, within.end_offset])
    return int(start), int(stop) - int(start)
