"""Reading segments written as Parquet: by this version, by earlier ones, and by mirror-v3."""

from collections.abc import Iterator
from types import TracebackType
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mirrorlake.archive.checksum import ContentChecksum
from mirrorlake.archive.envelope import METADATA_KEY, SegmentFooter, decode_footer
from mirrorlake.archive.formats.parquet_rows import ROW_GROUP_BYTES_MAX
from mirrorlake.archive.formats.parquet_schema import SCHEMA, records_of
from mirrorlake.archive.formats.record_order import check_order, within_range
from mirrorlake.archive.seal import flaw_of_file
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange

ROWS_MAX = 1 << 16
"""Records handed out at once, at most."""

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
        position = self.footer.offsets.start_offset if self.footer else 0
        end = self.footer.end_offset if self.footer else None
        for group in range(self._file.num_row_groups):
            if within and not self._may_hold(group, within):
                continue
            for columns in self._read_group(group):
                position = check_order(columns, position, end, where=self._where)
                kept = columns if within is None else within_range(columns, within)
                if len(kept):
                    yield kept

    def stored(self) -> Iterator[RecordColumns]:
        """Yields the records as they lie in the file, in whatever order.

        Raises:
            ChainBrokenError: damaged.
        """
        for group in range(self._file.num_row_groups):
            yield from self._read_group(group)

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

    def check_content(self) -> None:
        """Reads everything and compares it with the footer: its records, and then every byte with its seal.

        Raises:
            ChainBrokenError: damaged, or count, range, checksum, topic or partition differ from the footer's.
        """
        self._check_source_columns()
        checksum, records = ContentChecksum(), 0
        for columns in self.stored() if self.footer and self.footer.snapshot else self.records():
            checksum.update(columns)
            records += len(columns)
        if self.footer and (records, checksum.hexdigest()) != (self.footer.records, self.footer.checksum):
            raise self._broken(
                f"holds {records} records with checksum {checksum.hexdigest()}, its footer says "
                f"{self.footer.records} with {self.footer.checksum}"
            )
        self._check_seal()

    def _check_seal(self) -> None:
        """Compares the file with its seal; what earlier versions wrote has none."""
        if self.footer is None or self.footer.seal is None:
            return
        # The footer ends with its length and the mark of the format.
        end_bytes = self._file.metadata.serialized_size + 8
        if flaw := flaw_of_file(self._source, self.footer.seal, end_bytes=end_bytes):
            raise self._broken(flaw)

    def _check_source_columns(self) -> None:
        """Compares the columns that are no part of the records, and so of no checksum: they say whose those are."""
        if self.footer is None:
            return
        written = (("topic", self.footer.envelope.topic), ("partition", self.footer.envelope.partition))
        try:
            for batch in self._file.iter_batches(
                batch_size=ROWS_MAX, columns=[name for name, _ in written], use_threads=False
            ):
                for name, wanted in written:
                    found = pc.unique(batch.column(name)).to_pylist()
                    if found != [wanted]:
                        raise self._broken(f"has {name} {found[:2]} in its rows, its footer says {wanted!r}")
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error

    def _read_footer(self) -> SegmentFooter | None:
        missing = {name for name in SCHEMA.names if name not in self._file.schema_arrow.names}
        if missing - {"header_keys"}:
            raise self._broken(f"is not a segment: it has no columns {sorted(missing)}")
        metadata = self._file.metadata.metadata or {}
        if METADATA_KEY in metadata:
            return decode_footer(metadata[METADATA_KEY], where=self._where)
        if "header_keys" not in missing:
            raise self._broken("has mirrorlake's columns, and not what mirrorlake says in a footer")
        return None

    def _read_group(self, group: int) -> Iterator[RecordColumns]:
        metadata = self._file.metadata.row_group(group)
        if not metadata.num_rows:
            return
        # mirror-v3 writes one row group per file, however large.
        row_bytes = max(1, metadata.total_byte_size // metadata.num_rows)
        rows = min(ROWS_MAX, max(1, 2 * ROW_GROUP_BYTES_MAX // row_bytes))
        columns = [name for name in _COLUMNS if name in self._file.schema_arrow.names]
        try:
            for batch in self._file.iter_batches(
                batch_size=rows, row_groups=[group], columns=columns, use_threads=False
            ):
                yield records_of(batch)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._damaged(error) from error

    def _may_hold(self, group: int, within: OffsetRange) -> bool:
        statistics = self._file.metadata.row_group(group).column(self._offset_column).statistics
        if statistics is None or not statistics.has_min_max:
            return True
        return bool(statistics.min < within.end_offset and statistics.max >= within.start_offset)

    @property
    def _offset_column(self) -> int:
        return next(i for i in range(self._file.metadata.num_columns) if self._file.schema.column(i).path == "offset")

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
