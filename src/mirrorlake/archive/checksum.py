"""A checksum of records as they stand in a segment, the same however they are cut into columns or compressed."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from mirrorlake.kafka.records.columns import RecordColumns

ALGORITHM = "xxh3-128-columns"

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
