"""Columns of a Parquet segment, and the two ways between them and `RecordColumns`.

In memory the constant columns are dictionaries, which cost next to nothing to build and to encode; in the file,
and to every reader, they are plain strings.
"""

import base64
import itertools
from collections.abc import Callable
from functools import cache
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.kafka.java_text import as_java_shows
from mirrorlake.kafka.records.columns import (
    CREATE_TIME,
    HEADER_TYPE,
    HEADERS_TYPE,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    RecordColumns,
    null_bytes,
)

HEADERS_COLUMN_TYPE = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.large_binary(), nullable=True)]),
        nullable=True,
    )
)
HEADER_KEYS_COLUMN_TYPE = pa.list_(pa.field("element", pa.large_binary(), nullable=False))

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp_ms", pa.int64(), nullable=True),
        pa.field("timestamp_type", pa.string(), nullable=False),
        pa.field("key", pa.large_binary(), nullable=True),
        pa.field("value", pa.large_binary(), nullable=True),
        pa.field("headers", HEADERS_COLUMN_TYPE, nullable=False),
        pa.field("header_keys", HEADER_KEYS_COLUMN_TYPE, nullable=True),
    ]
)
"""What readers see: mirror-v3's columns with a signed offset, and ``header_keys``."""

_CONSTANT_TYPE = pa.dictionary(pa.int32(), pa.string())

WRITTEN_SCHEMA = pa.schema(
    [field.with_type(_CONSTANT_TYPE) if field.name in {"topic", "timestamp_type"} else field for field in SCHEMA]
)
"""The same columns as the writer hands them to Parquet."""

ARROW_METADATA = {b"ARROW:schema": base64.b64encode(SCHEMA.serialize().to_pybytes())}
"""Makes Arrow readers restore the types of ``SCHEMA``, where Parquet's own say less."""

TIMESTAMP_TYPES = {
    CREATE_TIME: "create_time",
    LOG_APPEND_TIME: "log_append_time",
    NO_TIMESTAMP_TYPE: "not_available",
}
NO_TIMESTAMP = -1


@cache
def timestamp_type_names() -> pa.StringArray:
    """Returns the names of all types, each at the place of its number, the one of records without a timestamp last.

    Made when it is needed: the first Python value that goes into Arrow imports pandas, which takes a third of the
    start of a command that only looks at names.
    """
    return pa.array([TIMESTAMP_TYPES[kind] for kind in (CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE)])


class ColumnBuilder:
    """Turns records of one partition into the columns of a file.

    Args:
        topic: the source topic.
        partition: the source partition.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = pa.array([topic])
        self._partition = partition
        self._provide_constants(0)

    def columns(self, records: RecordColumns) -> pa.RecordBatch:
        """Returns the records in ``WRITTEN_SCHEMA``, sharing the memory of keys and values."""
        rows = len(records)
        if rows > len(self._topics):
            self._provide_constants(rows)
        headers, header_keys = self._headers(records.headers)
        return pa.RecordBatch.from_arrays(
            [
                self._topics[:rows],
                self._partitions[:rows],
                pa.array(records.offsets),
                _timestamps(records.timestamps),
                _timestamp_types(records.timestamp_types),
                records.keys,
                records.values,
                headers,
                header_keys,
            ],
            schema=WRITTEN_SCHEMA,
        )

    def _provide_constants(self, rows: int) -> None:
        zeros = np.zeros(rows + 1, np.int32)
        self._topics = pa.DictionaryArray.from_arrays(pa.array(zeros[:rows]), self._topic)
        self._partitions = pa.array(np.full(rows, self._partition, np.int32))
        nothing = pa.array([], HEADERS_COLUMN_TYPE.value_type)
        self._no_headers = pa.ListArray.from_arrays(pa.array(zeros), nothing, type=HEADERS_COLUMN_TYPE)
        self._no_header_keys = pa.nulls(rows, HEADER_KEYS_COLUMN_TYPE)

    def _headers(self, headers: pa.ListArray) -> tuple[pa.ListArray, pa.ListArray]:
        rows = len(headers)
        bounds = headers.offsets.to_numpy()
        if bounds[0] == bounds[-1]:
            return self._no_headers[:rows], self._no_header_keys[:rows]
        items = headers.flatten()
        keys = items.field(0)
        exact_keys = self._no_header_keys[:rows]
        try:
            shown_keys = keys.cast(pa.string())
        except pa.ArrowInvalid:
            shown_keys, exact_keys = _shown_and_exact(keys, bounds - bounds[0])
        struct = pa.StructArray.from_arrays([shown_keys, items.field(1)], fields=list(HEADERS_COLUMN_TYPE.value_type))
        return (
            pa.ListArray.from_arrays(pa.array(bounds - bounds[0]), struct, type=HEADERS_COLUMN_TYPE),
            exact_keys,
        )


def _timestamps(timestamps: npt.NDArray[np.int64]) -> pa.Array:
    is_none = timestamps == NO_TIMESTAMP
    return pa.array(timestamps, mask=is_none) if is_none.any() else pa.array(timestamps)


def _timestamp_types(types: npt.NDArray[np.int8]) -> pa.DictionaryArray:
    indices = types.astype(np.int32)
    if len(indices) and indices.min() < 0:
        indices[indices < 0] = 2
    return pa.DictionaryArray.from_arrays(pa.array(indices), timestamp_type_names())


def _shown_and_exact(keys: pa.LargeBinaryArray, bounds: npt.NDArray[np.int32]) -> tuple[pa.StringArray, pa.ListArray]:
    """Returns all keys as Java shows them, and for each record with one that is not UTF-8 all its exact keys."""
    exact = cast("list[bytes]", keys.to_pylist())
    shown = [as_java_shows(key) for key in exact]
    is_lossy = [text.encode() != key for text, key in zip(shown, exact, strict=True)]
    rows = [exact[start:end] if any(is_lossy[start:end]) else None for start, end in itertools.pairwise(bounds)]
    return pa.array(shown, pa.string()), pa.array(rows, HEADER_KEYS_COLUMN_TYPE)


def records_without_values(batch: pa.RecordBatch) -> RecordColumns:
    """Returns the same as `records_of` of a batch that lacks the column of values: all of them are null.

    Raises:
        pyarrow.ArrowInvalid, ValueError: see `records_of`.
    """
    return records_of(batch.append_column("value", null_bytes(batch.num_rows)))


def records_of(batch: pa.RecordBatch) -> RecordColumns:
    """Returns the records of a batch read from a file of any version, mirror-v3's included.

    Raises:
        pyarrow.ArrowInvalid: a value no offset or timestamp can have.
        ValueError: nulls where none may be, an unknown timestamp type, or columns that are no lists where they must be.
    """
    offsets = batch.column("offset").cast(pa.int64())
    types = pc.index_in(batch.column("timestamp_type"), value_set=timestamp_type_names())
    headers = batch.column("headers")
    if offsets.null_count or types.null_count or headers.null_count:
        raise ValueError("null, or an unknown value, in offset, timestamp_type or headers")
    indices = types.to_numpy().astype(np.int8)
    return RecordColumns.of(
        offsets=offsets.to_numpy(),
        timestamps=pc.fill_null(batch.column("timestamp_ms").cast(pa.int64()), NO_TIMESTAMP).to_numpy(),
        timestamp_types=np.where(indices == 2, np.int8(NO_TIMESTAMP_TYPE), indices),
        keys=batch.column("key").cast(pa.large_binary()),
        values=batch.column("value").cast(pa.large_binary()),
        headers=_exact_headers(headers, _header_keys(batch)),
    )


def _header_keys(batch: pa.RecordBatch) -> pa.ListArray | None:
    if "header_keys" not in batch.schema.names:
        return None
    keys = batch.column("header_keys")
    if not _is_list_of(keys.type, pa.types.is_large_binary):
        raise ValueError(f"header_keys of type {keys.type}")
    return None if keys.null_count == len(keys) else keys


def _is_list_of(found: pa.DataType, is_wanted: Callable[[pa.DataType], bool]) -> bool:
    return pa.types.is_list(found) and is_wanted(found.value_type)


def _exact_headers(headers: pa.ListArray, header_keys: pa.ListArray | None) -> pa.ListArray:
    if not _is_list_of(headers.type, pa.types.is_struct):
        raise ValueError(f"headers of type {headers.type}")
    bounds = headers.offsets.to_numpy()
    items = headers.flatten()
    if items.null_count:
        raise ValueError("a header that is null")
    keys = items.field(0).cast(pa.large_binary())
    if header_keys is not None:
        keys = _with_exact_keys(keys, bounds - bounds[0], header_keys)
    struct = pa.StructArray.from_arrays([keys, items.field(1).cast(pa.large_binary())], fields=list(HEADER_TYPE))
    return pa.ListArray.from_arrays(pa.array(bounds - bounds[0]), struct, type=HEADERS_TYPE)


def _with_exact_keys(
    keys: pa.LargeBinaryArray, bounds: npt.NDArray[np.int32], header_keys: pa.ListArray
) -> pa.LargeBinaryArray:
    exact = cast("list[bytes]", keys.to_pylist())
    for row in np.flatnonzero(header_keys.is_valid().to_numpy(zero_copy_only=False)):
        row_keys = header_keys[int(row)].as_py()
        if len(row_keys) != bounds[row + 1] - bounds[row]:
            raise ValueError("header_keys differs in length from headers")
        exact[bounds[row] : bounds[row + 1]] = row_keys
    return pa.array(exact, pa.large_binary())
