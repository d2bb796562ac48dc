"""Records as columns: what decoding makes of batches and encoding takes. Imports no compiled code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

CREATE_TIME = 0
LOG_APPEND_TIME = 1
NO_TIMESTAMP_TYPE = -1
NO_TIMESTAMP = -1

HEADER_BYTES = 32
"""What a header weighs beside its key and value: two offsets, its levels and lengths in a file, however empty it is."""

HEADER_TYPE = pa.struct(
    [pa.field("key", pa.large_binary(), nullable=False), pa.field("value", pa.large_binary(), nullable=True)]
)
HEADERS_TYPE = pa.list_(pa.field("item", HEADER_TYPE, nullable=False))
"""Header keys are bytes: producers write what is not UTF-8, and it must survive."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordColumns:
    """Records of one partition in offset order, one array per field, one row per record.

    Arrays own their memory or share it with other columns, never with a fetch buffer.

    Attributes:
        offsets: strictly growing, not always dense.
        timestamps: milliseconds since the epoch; -1 is none.
        timestamp_types: 0 CreateTime, 1 LogAppendTime, -1 none.
        keys: large binary; null is not empty.
        values: large binary; null, a tombstone, is not empty.
        headers: ``HEADERS_TYPE``, never null, in the producer's order, keys may repeat, values may be null.
        sizes: bytes of key, value, header keys and header values together; a null has none.

    Raises:
        ValueError: arrays differ in length or are of another type.
    """

    offsets: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64]
    timestamp_types: npt.NDArray[np.int8]
    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray
    headers: pa.ListArray
    sizes: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        numbers = (self.offsets, self.timestamps, self.sizes, self.timestamp_types)
        if [array.dtype for array in numbers] != [np.int64, np.int64, np.int64, np.int8]:
            raise ValueError(f"columns of numbers have types {[str(array.dtype) for array in numbers]}")
        if not (self.keys.type == self.values.type == pa.large_binary() and self.headers.type == HEADERS_TYPE):
            raise ValueError(f"columns have types {self.keys.type}, {self.values.type}, {self.headers.type}")
        lengths = {len(array) for array in (*numbers, self.keys, self.values, self.headers)}
        if len(lengths) != 1:
            raise ValueError(f"columns differ in length: {sorted(lengths)}")

    @classmethod
    def of(
        cls,
        *,
        offsets: npt.NDArray[np.int64],
        timestamps: npt.NDArray[np.int64],
        timestamp_types: npt.NDArray[np.int8],
        keys: pa.LargeBinaryArray,
        values: pa.LargeBinaryArray,
        headers: pa.ListArray,
    ) -> Self:
        """Returns columns whose sizes are computed from the arrays.

        Raises:
            ValueError: as the class.
        """
        return cls(
            offsets=offsets,
            timestamps=timestamps,
            timestamp_types=timestamp_types,
            keys=keys,
            values=values,
            headers=headers,
            sizes=_lengths(keys) + _lengths(values) + _header_bytes(headers),
        )

    @classmethod
    def empty(cls) -> Self:
        """Returns columns without a record."""
        return cls(
            offsets=np.empty(0, np.int64),
            timestamps=np.empty(0, np.int64),
            timestamp_types=np.empty(0, np.int8),
            keys=no_bytes(),
            values=no_bytes(),
            headers=no_headers(0),
            sizes=np.empty(0, np.int64),
        )

    @classmethod
    def concat(cls, parts: Sequence["RecordColumns"]) -> "RecordColumns":
        """Returns the records of all parts, in their order; copies, but for a single part."""
        if len(parts) < 2:
            return parts[0] if parts else cls.empty()
        return cls(
            offsets=np.concatenate([part.offsets for part in parts]),
            timestamps=np.concatenate([part.timestamps for part in parts]),
            timestamp_types=np.concatenate([part.timestamp_types for part in parts]),
            keys=pa.concat_arrays([part.keys for part in parts]),
            values=pa.concat_arrays([part.values for part in parts]),
            headers=pa.concat_arrays([part.headers for part in parts]),
            sizes=np.concatenate([part.sizes for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.offsets)

    def weights(self, *, record_bytes: int = 0) -> npt.NDArray[np.int64]:
        """Returns about what each record takes in memory, in bytes: its ``sizes``, its headers, and ``record_bytes``.

        Thousands of empty headers have no size at all, so whatever is bounded by memory counts these.
        """
        headers = np.diff(self.headers.offsets.to_numpy()).astype(np.int64)
        weights: npt.NDArray[np.int64] = self.sizes + HEADER_BYTES * headers + record_bytes
        return weights

    def slice(self, start_row: int, stop_row: int) -> "RecordColumns":
        """Returns rows ``start_row`` (inclusive) to ``stop_row`` (exclusive) without copying."""
        rows = slice(start_row, stop_row)
        return RecordColumns(
            offsets=self.offsets[rows],
            timestamps=self.timestamps[rows],
            timestamp_types=self.timestamp_types[rows],
            keys=self.keys[rows],
            values=self.values[rows],
            headers=self.headers[rows],
            sizes=self.sizes[rows],
        )

    def renumbered(self, start_offset: int) -> "RecordColumns":
        """Returns the same records at the dense offsets ``start_offset``, ``start_offset + 1``, ….

        A broker appends dense batches only; this is for a destination that numbers records itself.
        """
        return RecordColumns(
            offsets=np.arange(start_offset, start_offset + len(self), dtype=np.int64),
            timestamps=self.timestamps,
            timestamp_types=self.timestamp_types,
            keys=self.keys,
            values=self.values,
            headers=self.headers,
            sizes=self.sizes,
        )

    def relocated(self, rows: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> "RecordColumns":
        """Returns the records of some rows, ascending, at other offsets; for comparing across an offset map."""
        taken = pa.array(rows)
        return RecordColumns(
            offsets=offsets,
            timestamps=self.timestamps[rows],
            timestamp_types=self.timestamp_types[rows],
            keys=self.keys.take(taken),
            values=self.values.take(taken),
            headers=self.headers.take(taken),
            sizes=self.sizes[rows],
        )

    def with_headers(self, headers: pa.ListArray) -> "RecordColumns":
        """Returns the same records with other headers, a list for each."""
        return RecordColumns.of(
            offsets=self.offsets,
            timestamps=self.timestamps,
            timestamp_types=self.timestamp_types,
            keys=self.keys,
            values=self.values,
            headers=headers,
        )

    def with_values(self, values: pa.LargeBinaryArray, sizes: npt.NDArray[np.int64]) -> "RecordColumns":
        """Returns the same records, which have no values, with values that have these sizes."""
        return RecordColumns(
            offsets=self.offsets,
            timestamps=self.timestamps,
            timestamp_types=self.timestamp_types,
            keys=self.keys,
            values=values,
            headers=self.headers,
            sizes=self.sizes + sizes,
        )

    def without_content(self) -> "RecordColumns":
        """Returns records of the same offsets and times without keys, values and headers, for comparing those alone."""
        nothing = bytes_column([None] * len(self))
        return RecordColumns.of(
            offsets=self.offsets,
            timestamps=self.timestamps,
            timestamp_types=self.timestamp_types,
            keys=nothing,
            values=nothing,
            headers=no_headers(len(self)),
        )

    def without_timestamps(self) -> "RecordColumns":
        """Returns the same records, none with a timestamp, for comparing copies that have times of their own."""
        return RecordColumns(
            offsets=self.offsets,
            timestamps=np.full(len(self), NO_TIMESTAMP, np.int64),
            timestamp_types=np.full(len(self), NO_TIMESTAMP_TYPE, np.int8),
            keys=self.keys,
            values=self.values,
            headers=self.headers,
            sizes=self.sizes,
        )

    def equals(self, other: "RecordColumns") -> bool:
        """Returns whether both hold the same records in the same order, nulls and headers included."""
        return (
            np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.timestamps, other.timestamps)
            and np.array_equal(self.timestamp_types, other.timestamp_types)
            and np.array_equal(self.sizes, other.sizes)
            and bool(self.keys.equals(other.keys))
            and bool(self.values.equals(other.values))
            and bool(self.headers.equals(other.headers))
        )


def bytes_column(values: Sequence[bytes | None]) -> pa.LargeBinaryArray:
    """Returns a large binary array of a few values; pa.array would import pandas first, 40 MB."""
    ends = np.cumsum([0, *(len(value or b"") for value in values)], dtype=np.int64)
    is_valid = np.packbits(np.array([value is not None for value in values], bool), bitorder="little")
    nulls = sum(value is None for value in values)
    data = pa.py_buffer(b"".join(value or b"" for value in values))
    buffers = [pa.py_buffer(is_valid) if nulls else None, pa.py_buffer(ends), data]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers, nulls)


def headers_column(headers: Sequence[Sequence[tuple[bytes, bytes | None]]]) -> pa.ListArray:
    """Returns the headers of a few records, key and value each."""
    flat = [each for held in headers for each in held]
    children = [bytes_column([key for key, _ in flat]), bytes_column([value for _, value in flat])]
    items = pa.Array.from_buffers(HEADER_TYPE, len(flat), [None], 0, children=children)
    ends = np.cumsum([0, *(len(held) for held in headers)], dtype=np.int32)
    return pa.Array.from_buffers(HEADERS_TYPE, len(headers), [None, pa.py_buffer(ends)], 0, children=[items])


def no_bytes() -> pa.LargeBinaryArray:
    """Returns a large binary array of length 0; pa.array and pa.nulls would import pandas first."""
    return pa.Array.from_buffers(pa.large_binary(), 0, [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")])


def null_bytes(rows: int) -> pa.LargeBinaryArray:
    """Returns a large binary array of nulls."""
    validity, ends = bytes(-(-rows // 8)), np.zeros(rows + 1, np.int64)
    return pa.Array.from_buffers(
        pa.large_binary(), rows, [pa.py_buffer(validity), pa.py_buffer(ends), pa.py_buffer(b"")], rows
    )


def no_headers(rows: int) -> pa.ListArray:
    """Returns the headers of ``rows`` records that have none."""
    items = pa.Array.from_buffers(HEADER_TYPE, 0, [None], children=[no_bytes(), no_bytes()])
    offsets = pa.py_buffer(np.zeros(rows + 1, np.int32))
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, offsets], 0, children=[items])


def _lengths(array: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    found = pc.binary_length(array)
    if array.null_count:
        filled: npt.NDArray[np.int64] = pc.fill_null(found, 0).to_numpy()
        return filled
    if not len(found):
        return np.zeros(0, np.int64)
    # Neither Arrow's scalars nor its to_numpy, which import pandas.
    return np.frombuffer(found.buffers()[1], np.int64, count=len(found), offset=8 * found.offset)


def _header_bytes(headers: pa.ListArray) -> npt.NDArray[np.int64]:
    items = headers.values
    if len(items) == 0:
        return np.zeros(len(headers), np.int64)
    ends = np.zeros(len(items) + 1, np.int64)
    np.cumsum(_lengths(items.field(0)) + _lengths(items.field(1)), out=ends[1:])
    bounds = headers.offsets.to_numpy()
    header_bytes: npt.NDArray[np.int64] = ends[bounds[1:]] - ends[bounds[:-1]]
    return header_bytes
