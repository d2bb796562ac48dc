"""Writing a segment as NDJSON: one JSON object per line, mirror-v3's envelope with bytes as base64."""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.archive.blocks.sums import BLOCK_BYTES
from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter
from mirrorlake.archive.formats import json_kernels as kernels
from mirrorlake.archive.formats.parquet_schema import TIMESTAMP_TYPES
from mirrorlake.archive.formats.record_account import RecordAccount
from mirrorlake.archive.formats.summing_file import SummingFile
from mirrorlake.archive.gaps import NOTHING_FILTERED, FilteredGaps, GapFinder
from mirrorlake.kafka.java_text import as_java_shows
from mirrorlake.kafka.records.addresses import column_table, kernel_input
from mirrorlake.kafka.records.columns import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    RecordColumns,
)
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import Gap

PIECE_BYTES_MAX = 4 << 20
"""What records weigh that are made into lines at a time, to within one record: what a writer holds of the file."""

_LINE_BYTES = 256
"""More than the fixed texts, two numbers and the quotes of a line, less the topic's name."""
_HEADER_BYTES = 32
_ESCAPED_BYTES_MAX = 6
"""What a byte of a header's key becomes at most: a ``\\u00XX``."""


class NdjsonSegmentWriter:
    """Writes the records of one range into one file; see `SegmentWriter`.

    What the segment says about itself is not part of the file: ``close`` returns it, for a sidecar.

    Args:
        file: takes the bytes in order; need not seek.
        envelope: whose records these are.
    """

    def __init__(self, file: BinaryIO, envelope: SegmentEnvelope) -> None:
        self._file = SummingFile(file, block_bytes=BLOCK_BYTES)
        self._envelope = envelope
        self._gaps = GapFinder(envelope.start_offset)
        self._account = RecordAccount()
        self._texts = [text.encode() for text in _fixed_texts(envelope)]
        self._kept = [np.frombuffer(text, np.uint8) for text in self._texts]
        self._table = np.array([[text.ctypes.data, len(text)] for text in self._kept], np.int64)
        self._output = np.empty(0, np.uint8)

    @property
    def records(self) -> int:
        """Records taken so far."""
        return self._account.records

    @property
    def raw_bytes(self) -> int:
        """Bytes of keys, values and headers taken so far."""
        return self._account.raw_bytes

    def write(self, records: RecordColumns) -> None:
        """Writes the next records.

        Raises:
            ValueError: offsets that do not follow those before; nothing of ``records`` is taken.
            StoreUnavailableError, StoreUnusableError: the file's; the segment is lost.
        """
        if not len(records):
            return
        self._gaps.follow(records.offsets)
        self._account.take(records)
        for piece in _pieces(records):
            for run, is_text in _runs(piece):
                if is_text:
                    self._write_lines(run)
                else:
                    self._file.write(self._line_with_exact_keys(run))

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
        return self._account.footer(
            self._envelope,
            end_offset=end_offset,
            gaps=report,
            leader_epoch=leader_epoch,
            file=self._file.sum(),
            schema_ids=schema_ids,
        )

    def abandon(self) -> None:
        """Does nothing: nothing is held back."""

    def _write_lines(self, records: RecordColumns) -> None:
        items = records.headers.flatten()
        key_bytes = pc.sum(pc.binary_length(items.field(0))).as_py() or 0
        bytes_max = (
            len(records) * (_LINE_BYTES + len(self._texts[kernels.HEAD]))
            + len(items) * _HEADER_BYTES
            + key_bytes * _ESCAPED_BYTES_MAX
            # Of base64: four for three, and up to four more for each of key and value, which the line's bytes cover.
            + int(records.sizes.sum()) * 4 // 3
        )
        if len(self._output) < bytes_max:
            self._output = np.empty(bytes_max, np.uint8)
        written = kernels.write_lines(
            kernel_input(records.offsets),
            kernel_input(records.timestamps),
            np.require(records.timestamp_types, requirements=("C", "W")),
            column_table(records),
            self._table,
            self._output,
        )
        assert written <= len(self._output), "lines were longer than any can be"
        self._file.write(self._output[:written].data)

    def _line_with_exact_keys(self, record: RecordColumns) -> bytes:
        """Returns the line of one record with a header key that is not UTF-8; rare, so by the library."""
        timestamp = int(record.timestamps[0])
        headers = record.headers[0].as_py()
        line: dict[str, object] = {
            "topic": self._envelope.topic,
            "partition": self._envelope.partition,
            "offset": int(record.offsets[0]),
            **({} if timestamp == NO_TIMESTAMP else {"timestamp_ms": timestamp}),
            "timestamp_type": TIMESTAMP_TYPES[int(record.timestamp_types[0])],
            **_base64_field("key", record.keys[0].as_py()),
            **_base64_field("value", record.values[0].as_py()),
            "headers": [
                {"key": as_java_shows(header["key"]), **_base64_field("value", header["value"])} for header in headers
            ],
            "header_keys": [base64.b64encode(header["key"]).decode() for header in headers],
        }
        return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _fixed_texts(envelope: SegmentEnvelope) -> list[str]:
    texts = [""] * kernels.FIXED_TEXTS
    topic = json.dumps(envelope.topic, ensure_ascii=False)
    texts[kernels.HEAD] = f'{{"topic":{topic},"partition":{envelope.partition},"offset":'
    texts[kernels.TIMESTAMP_MS] = ',"timestamp_ms":'
    texts[kernels.TIMESTAMP_TYPE] = ',"timestamp_type":"'
    texts[kernels.KEY_FIELD] = ',"key":'
    texts[kernels.VALUE_FIELD] = ',"value":'
    texts[kernels.HEADERS_FIELD] = ',"headers":['
    texts[kernels.HEADER_KEY_FIELD] = '{"key":'
    texts[kernels.HEADER_VALUE_FIELD] = ',"value":'
    texts[kernels.CREATE_TIME] = TIMESTAMP_TYPES[CREATE_TIME] + '"'
    texts[kernels.LOG_APPEND_TIME] = TIMESTAMP_TYPES[LOG_APPEND_TIME] + '"'
    texts[kernels.NOT_AVAILABLE] = TIMESTAMP_TYPES[NO_TIMESTAMP_TYPE] + '"'
    return texts


def _base64_field(name: str, value: bytes | None) -> dict[str, str]:
    return {} if value is None else {name: base64.b64encode(value).decode()}


def _pieces(records: RecordColumns) -> Iterator[RecordColumns]:
    """Yields the records in pieces of about ``PIECE_BYTES_MAX``, each at least one."""
    ends = np.cumsum(records.weights(record_bytes=_LINE_BYTES))
    row = 0
    while row < len(records):
        done = int(ends[row - 1]) if row else 0
        stop = max(row + 1, int(np.searchsorted(ends, done + PIECE_BYTES_MAX, side="right")))
        yield records.slice(row, stop)
        row = stop


def _runs(records: RecordColumns) -> Iterator[tuple[RecordColumns, bool]]:
    """Yields the records in runs: those whose header keys are all UTF-8, and each of the others alone."""
    bounds = records.headers.offsets.to_numpy()
    keys = records.headers.flatten().field(0)
    try:
        keys.cast(pa.string())
    except pa.ArrowInvalid:
        is_odd = _is_odd(keys, bounds - bounds[0])
    else:
        yield records, True
        return
    row = 0
    for odd_row in np.flatnonzero(is_odd):
        if odd_row > row:
            yield records.slice(row, int(odd_row)), True
        yield records.slice(int(odd_row), int(odd_row) + 1), False
        row = int(odd_row) + 1
    if row < len(records):
        yield records.slice(row, len(records)), True


def _is_odd(keys: pa.LargeBinaryArray, bounds: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Returns for each record whether one of its header keys is not UTF-8."""
    exact = cast("list[bytes]", keys.to_pylist())
    is_odd_key = np.array([as_java_shows(key).encode() != key for key in exact])
    odd_before = np.concatenate([[0], np.cumsum(is_odd_key)])
    return np.asarray(odd_before[bounds[1:]] > odd_before[bounds[:-1]])
