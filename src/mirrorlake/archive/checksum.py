"""A checksum of records as they stand in a segment, the same however they are cut into columns or compressed.

The checksum of two runs of records does not follow from their two: each is of twelve streams that run through. So who
puts row groups together without decoding them keeps the checksum of each run, and sums those up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from mirrorlake.kafka.records.columns import RecordColumns

ALGORITHM = "xxh3-128-columns"

PARTS_ALGORITHM = "xxh3-128-parts"

CHECKSUM_DIGITS = 32

_STREAMS = (
    "offset",
    "timestamp_ms",
    "timestamp_type",
    "key_length",
    "key",
    "value_length",
    "value",
    "header_count",
    "header_key_length",
    "header_key",
    "header_value_length",
    "header_value",
)


class ContentChecksum:
    """Sums up records in order.

    Each field is a stream of bytes of its own: numbers as little-endian signed 64-bit (the timestamp type as one
    signed byte), a null's length as -1, bytes one after another. Every stream has an XXH3 128-bit hash, and the
    checksum is the XXH3 128-bit hash of those twelve, in the order of the docstring of ``docs/archive-format.md``.
    """

    def __init__(self) -> None:
        self._hashes = {name: xxhash.xxh3_128() for name in _STREAMS}

    def update(self, columns: RecordColumns) -> None:
        """Takes the next records."""
        self._numbers("offset", columns.offsets)
        self._numbers("timestamp_ms", columns.timestamps)
        self._hashes["timestamp_type"].update(np.ascontiguousarray(columns.timestamp_types, "i1").data)
        self._binary("key", columns.keys)
        self._binary("value", columns.values)
        self._numbers("header_count", np.diff(columns.headers.offsets.to_numpy()))
        items = columns.headers.flatten()
        if len(items):
            self._binary("header_key", items.field(0))
            self._binary("header_value", items.field(1))

    def hexdigest(self) -> str:
        """Returns the checksum of all records taken so far: 32 hexadecimal digits."""
        return xxhash.xxh3_128(b"".join(self._hashes[name].digest() for name in _STREAMS)).hexdigest()

    def _numbers(self, name: str, numbers: npt.NDArray[np.integer]) -> None:
        self._hashes[name].update(np.ascontiguousarray(numbers, "<i8").data)

    def _binary(self, name: str, array: pa.LargeBinaryArray) -> None:
        lengths, data = _lengths_and_data(array)
        self._numbers(f"{name}_length", lengths)
        self._hashes[name].update(data)


def _lengths_and_data(array: pa.LargeBinaryArray) -> tuple[npt.NDArray[np.int64], memoryview]:
    """Returns the length of each value, -1 for null, and all bytes in a row."""
    bounds, data = _bounds_and_bytes(array)
    lengths = np.diff(bounds)
    if array.null_count:
        is_null = array.is_null().to_numpy(zero_copy_only=False)
        if lengths[is_null].any():
            # Arrow lets bytes lie below a null; they are no part of the records.
            bounds, data = _bounds_and_bytes(pc.fill_null(array, b""))
            lengths = np.diff(bounds)
        lengths[is_null] = -1
    return lengths, data[bounds[0] : bounds[-1]]


def _bounds_and_bytes(array: pa.LargeBinaryArray) -> tuple[npt.NDArray[np.int64], memoryview]:
    _, bounds, data = array.buffers()
    count = len(array) + 1
    # Arrow may leave the buffers of an empty array out.
    numbers = np.frombuffer(bounds, "<i8", count, array.offset * 8) if bounds else np.zeros(count, np.int64)
    return numbers, memoryview(data) if data else memoryview(b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPart:
    """A run of records: those from the end of the part before up to ``end_offset``, and their `ContentChecksum`."""

    end_offset: int
    checksum: str


class RecordChecksum(Protocol):
    """Sums up records in order."""

    def update(self, columns: RecordColumns) -> None:
        """Takes the next records."""
        ...

    def hexdigest(self) -> str:
        """Returns the checksum of all records taken so far: 32 hexadecimal digits."""
        ...


class PartedChecksum:
    """Sums up records in the order of their offsets, each part for itself; holds the part it is in.

    Args:
        ends: where each part ends, exclusive, in order; no record lies behind the last.
    """

    def __init__(self, ends: Sequence[int]) -> None:
        self._ends = list(ends)
        self._part = ContentChecksum()
        self._parts: list[RecordPart] = []

    def update(self, columns: RecordColumns) -> None:
        """Takes the next records; those behind the last part count for it."""
        row = 0
        while row < len(columns):
            last = len(self._parts) + 1 == len(self._ends)
            end = len(columns)
            if not last:
                end = int(np.searchsorted(columns.offsets, self._ends[len(self._parts)]))
            if end > row:
                self._part.update(columns.slice(row, end))
                row = end
            if row < len(columns):
                self._end_part()

    def hexdigest(self) -> str:
        """Returns the checksum of all parts, as if no record came any more."""
        while len(self._parts) < len(self._ends):
            self._end_part()
        return checksum_of_parts(self._parts)

    def _end_part(self) -> None:
        self._parts.append(RecordPart(end_offset=self._ends[len(self._parts)], checksum=self._part.hexdigest()))
        self._part = ContentChecksum()


def checksum_of_parts(parts: Sequence[RecordPart]) -> str:
    """Returns the XXH3 128-bit hash of the checksums of the parts, as bytes, one after another."""
    return xxhash.xxh3_128(b"".join(bytes.fromhex(part.checksum) for part in parts)).hexdigest()


def checksum_by(parts: Sequence[RecordPart]) -> RecordChecksum:
    """Returns what sums up records as these parts were; as one run where there are none."""
    return PartedChecksum([part.end_offset for part in parts]) if parts else ContentChecksum()
