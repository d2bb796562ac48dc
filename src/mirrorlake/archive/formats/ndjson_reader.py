"""Reading segments written as NDJSON: by this version, by earlier ones, and by mirror-v3."""

from collections.abc import Callable, Iterator
from os import SEEK_END
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from mirrorlake.archive.checksum import ContentChecksum
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.json_kernels import read_base64
from mirrorlake.archive.formats.name_check import Edge
from mirrorlake.archive.formats.parquet_schema import records_of, timestamp_type_names
from mirrorlake.archive.formats.record_order import check_order, within_range
from mirrorlake.archive.formats.summing_file import sum_of
from mirrorlake.archive.seal import READ_BYTES
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange

_TEXTS = pa.list_(pa.field("item", pa.string()))
_HEADERS = pa.list_(pa.field("item", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())])))
_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("timestamp_type", pa.string()),
        pa.field("key", pa.string()),
        pa.field("value", pa.string()),
        pa.field("headers", _HEADERS),
        pa.field("header_keys", _TEXTS),
    ]
)
_SOURCE_SCHEMA = pa.schema([pa.field("topic", pa.string()), pa.field("partition", pa.int32())])
_LINE_END = b"\n"

EDGE_READ_BYTES = 1 << 16
"""Read at once in search of the first or last line; twice as much each time where that is longer."""


class NdjsonSegmentReader:
    """Reads one segment; see `SegmentReader`. The file is closed with it.

    Empty lines and fields it does not know are passed over, as mirror-v3 does, and an unknown ``timestamp_type`` is
    ``not_available``.

    Args:
        file: seekable.
        footer: the segment's sidecar; None where mirror-v3 wrote it.
        where: names the file in messages.
    """

    def __init__(self, file: BinaryIO, *, footer: SegmentFooter | None, where: str) -> None:
        self.footer = footer
        self._file = file
        self._where = where

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def records(self, *, within: OffsetRange | None = None) -> Iterator[RecordColumns]:
        """Yields the records in offset order, in pieces of some megabytes, or one line where it is longer.

        What lies before ``within`` is passed over by halves, as lines lie in the order of their offsets: that takes
        a few reads however long the file is.

        Raises:
            ChainBrokenError: damaged, or offsets that do not grow or lie outside the segment's range.
        """
        position = self.footer.offsets.start_offset if self.footer else 0
        end = self.footer.end_offset if self.footer else None
        start_byte = 0 if within is None or within.start_offset <= position else self._byte_before(within.start_offset)
        for lines in self._whole_lines(start_byte):
            columns = self._records_in(lines)
            if not len(columns):
                continue
            position = check_order(columns, position, end, where=self._where)
            kept = columns if within is None else within_range(columns, within)
            if len(kept):
                yield kept
            if within is not None and position >= within.end_offset:
                return

    def edges(self) -> tuple[Edge, ...]:
        """Returns the first and the last record; nothing without records.

        Raises:
            ChainBrokenError: one of the two cannot be read, or the file ends inside a line.
        """
        first, last = self._first_line(), self._last_line()
        return () if first is None or last is None else (self._edge(first), self._edge(last))

    def _first_line(self) -> bytes | None:
        """Returns the first line that is not empty, with its end; None where there is none."""
        self._file.seek(0)
        begun = b""
        while data := self._file.read(max(EDGE_READ_BYTES, len(begun))):
            lines, found, begun = (begun + data).rpartition(_LINE_END)
            for line in lines.split(_LINE_END) if found else ():
                if line.strip():
                    return line + _LINE_END
        if begun:
            raise self._broken("ends inside a line")
        return None

    def _last_line(self) -> bytes | None:
        """Returns the last line that is not empty, with its end; None where there is none."""
        start, end = self._file.seek(0, SEEK_END), b""
        while start:
            size = min(start, max(EDGE_READ_BYTES, len(end)))
            start -= size
            self._file.seek(start)
            end = self._file.read(size) + end
            if not end.endswith(_LINE_END):
                raise self._broken("ends inside a line")
            _, found, line = end.rstrip().rpartition(_LINE_END)
            if line and (found or not start):
                return line + _LINE_END
        return None

    def _byte_before(self, offset: int) -> int:
        """Returns where a line begins at or before which no record lies that has this offset or a higher one.

        Raises:
            ChainBrokenError: a line cannot be read, or the file ends inside of one.
        """
        low, high = 0, self._file.seek(0, SEEK_END)
        while high - low > READ_BYTES:
            middle = (low + high) // 2
            start, line = self._line_after(middle, high)
            if line is None:
                high = middle
            elif int(self._records_in(line).offsets[0]) <= offset:
                low = start
            else:
                high = middle
        return low

    def _line_after(self, middle: int, high: int) -> tuple[int, bytes | None]:
        """Returns the first line with a record that begins behind a byte and before ``high``, and where it begins."""
        self._file.seek(middle)
        held, start = b"", middle
        is_inside = True  # of a line, or so it may be
        while start < high:
            line, found, rest = held.partition(_LINE_END)
            if not found:
                data = self._file.read(max(EDGE_READ_BYTES, len(held)))
                if not data:
                    break
                held += data
                continue
            if not is_inside and line.strip():
                return start, line + _LINE_END
            start, held, is_inside = start + len(line) + 1, rest, False
        return high, None

    def _edge(self, line: bytes) -> Edge:
        columns = self._records_in(line)
        try:
            (row,) = _table_of(line, _SOURCE_SCHEMA).to_pylist()
        except (pa.ArrowException, ValueError) as error:
            raise self._broken(f"cannot be read as NDJSON: {error}") from error
        if row["partition"] is None or len(columns) != 1:
            raise self._broken("has a line without partition")
        return Edge(partition=row["partition"], offset=int(columns.offsets[0]))

    def sources(self) -> set[tuple[str, int]]:
        """Returns the topics and partitions in the lines.

        Raises:
            ChainBrokenError: damaged.
        """
        found: set[tuple[str, int]] = set()
        for lines in self._whole_lines():
            if lines.isspace():
                continue
            try:
                table = _table_of(lines, _SOURCE_SCHEMA)
            except (pa.ArrowException, ValueError) as error:
                raise self._broken(f"cannot be read as NDJSON: {error}") from error
            pairs = table.group_by(["topic", "partition"]).aggregate([])
            found.update(zip(pairs["topic"].to_pylist(), pairs["partition"].to_pylist(), strict=True))
        return found

    def check_content(self, *, each: Callable[[RecordColumns], None] | None = None) -> None:
        """Reads everything and compares it with the sidecar: the file's bytes, then its records.

        Args:
            each: called with the records on the way.

        Raises:
            ChainBrokenError: damaged, or length, count, range or checksum differ from the sidecar's.
        """
        self.check_bytes()
        checksum, records = ContentChecksum(), 0
        for columns in self.records():
            checksum.update(columns)
            records += len(columns)
            if each is not None:
                each(columns)
        if self.footer and (records, checksum.hexdigest()) != (self.footer.records, self.footer.checksum):
            raise self._broken(
                f"holds {records} records with checksum {checksum.hexdigest()}, its description says "
                f"{self.footer.records} with {self.footer.checksum}"
            )

    def check_bytes(self) -> None:
        """Compares all bytes with the description, and with the checksums of blocks in it; early ones have none.

        Raises:
            ChainBrokenError: they differ.
        """
        if self.footer is None:
            return
        said = self.footer.file
        blocks = said.blocks if said is not None else None
        actual = sum_of(self._file, block_bytes=None if blocks is None else blocks.block_bytes)
        if actual != said:
            raise self._broken(f"has {actual}, its description says {said}")
        if actual.blocks != blocks:
            raise self._broken("has other checksums of its blocks than its description says")

    def _whole_lines(self, start_byte: int = 0) -> Iterator[bytes]:
        """Yields the file in pieces that end with a line, from where one begins."""
        self._file.seek(start_byte)
        rest: list[bytes] = []
        while data := self._file.read(READ_BYTES):
            lines, found, begun = data.rpartition(_LINE_END)
            if not found:
                rest.append(data)
                continue
            yield b"".join([*rest, lines, _LINE_END])
            rest = [begun]
        if any(rest):
            raise self._broken("ends inside a line")

    def _records_in(self, lines: bytes) -> RecordColumns:
        if lines.isspace():
            return RecordColumns.empty()
        try:
            (batch,) = _table_of(lines, _SCHEMA).combine_chunks().to_batches() or [None]
            return RecordColumns.empty() if batch is None else records_of(_with_bytes(batch))
        except (pa.ArrowException, ValueError) as error:
            raise self._broken(f"cannot be read as NDJSON: {error}") from error

    def _broken(self, what: str) -> ChainBrokenError:
        return ChainBrokenError(
            f"{self._where} {what}",
            hint="the file is damaged or not ours: put it back from a copy, or archive the range again",
        )


def _table_of(lines: bytes, schema: pa.Schema) -> pa.Table:
    """Returns the fields of a schema, of lines that are not all empty.

    Raises:
        pa.ArrowException, ValueError: not JSON, or of other types.
    """
    return pyarrow.json.read_json(
        pa.BufferReader(lines),
        # One block: lines may be longer than any other size.
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior="ignore"
        ),
    )


def _with_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch with bytes where it has base64, in the columns of a Parquet segment.

    Raises:
        ValueError: a text that is not base64, or a null where none may be.
    """
    types = batch.column("timestamp_type")
    if types.null_count:
        raise ValueError("a line without timestamp_type")
    known = pc.is_in(types, value_set=timestamp_type_names())
    return pa.RecordBatch.from_arrays(
        [
            batch.column("offset"),
            batch.column("timestamp_ms"),
            pc.if_else(known, types, "not_available"),
            _decoded(batch.column("key")),
            _decoded(batch.column("value")),
            _headers(batch.column("headers")),
            _header_keys(batch.column("header_keys")),
        ],
        names=_SCHEMA.names,
    )


def _headers(headers: pa.ListArray) -> pa.ListArray:
    items = headers.flatten()
    keys = items.field(0)
    if items.null_count or keys.null_count:
        raise ValueError("a header that is null, or has no key")
    struct = pa.StructArray.from_arrays([keys, _decoded(items.field(1))], ["key", "value"])
    return pa.ListArray.from_arrays(_bounds(headers), struct)


def _header_keys(header_keys: pa.ListArray) -> pa.ListArray:
    keys = _decoded(header_keys.flatten())
    return pa.ListArray.from_arrays(_bounds(header_keys), keys, mask=header_keys.is_null())


def _bounds(lists: pa.ListArray) -> pa.Array:
    """Returns where each list begins and the last one ends, in all their items; a null has none."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _decoded(texts: pa.StringArray) -> pa.LargeBinaryArray:
    """Returns the bytes that base64 texts stand for; null for null.

    Raises:
        ValueError: a text that is not base64.
    """
    count = len(texts)
    if not count:
        return pa.array([], pa.large_binary())
    filled = pc.fill_null(texts, "") if texts.null_count else texts
    _, text_ends, data = filled.buffers()
    first = filled.offset
    bounds = np.frombuffer(text_ends, np.int32, count + 1, 4 * first)
    output = np.empty(int(bounds[-1] - bounds[0]) // 4 * 3 + 3, np.uint8)
    ends = np.empty(count + 1, np.int64)
    wrong = read_base64(data.address if data else 0, text_ends.address + 4 * first, count, output, ends)
    if wrong >= 0:
        raise ValueError(f"not base64: {filled[int(wrong)].as_py()[:40]!r}")
    validity = texts.is_valid().buffers()[1] if texts.null_count else None
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [validity, pa.py_buffer(ends), pa.py_buffer(output)]
    )
