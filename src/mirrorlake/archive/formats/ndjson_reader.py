"""Reading segments written as NDJSON: by this version, by earlier ones, and by mirror-v3."""

from collections.abc import Iterator
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from mirrorlake.archive.checksum import ContentChecksum
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.json_kernels import read_base64
from mirrorlake.archive.formats.parquet_schema import records_of, timestamp_type_names
from mirrorlake.archive.formats.record_order import check_order, within_range
from mirrorlake.archive.formats.summing_file import READ_BYTES, sum_of
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

        Raises:
            ChainBrokenError: damaged, or offsets that do not grow or lie outside the segment's range.
        """
        position = self.footer.offsets.start_offset if self.footer else 0
        end = self.footer.end_offset if self.footer else None
        for lines in self._whole_lines():
            columns = self._records_in(lines)
            if not len(columns):
                continue
            position = check_order(columns, position, end, where=self._where)
            kept = columns if within is None else within_range(columns, within)
            if len(kept):
                yield kept
            if within is not None and position >= within.end_offset:
                return

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

    def check_content(self) -> None:
        """Reads everything and compares it with the sidecar: the file's bytes, then its records.

        Raises:
            ChainBrokenError: damaged, or length, count, range or checksum differ from the sidecar's.
        """
        if self.footer is not None and (actual := sum_of(self._file)) != self.footer.file:
            raise self._broken(f"has {actual}, its description says {self.footer.file}")
        checksum, records = ContentChecksum(), 0
        for columns in self.records():
            checksum.update(columns)
            records += len(columns)
        if self.footer and (records, checksum.hexdigest()) != (self.footer.records, self.footer.checksum):
            raise self._broken(
                f"holds {records} records with checksum {checksum.hexdigest()}, its description says "
                f"{self.footer.records} with {self.footer.checksum}"
            )

    def _whole_lines(self) -> Iterator[bytes]:
        """Yields the file in pieces that end with a line."""
        self._file.seek(0)
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
