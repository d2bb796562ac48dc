"""Records as rows of the columns that a reader in Spark sees."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.archive.formats.parquet_schema import timestamp_type_names
from mirrorlake.errors import UnsupportedError
from mirrorlake.kafka.java_text import as_java_shows
from mirrorlake.kafka.records.columns import NO_TIMESTAMP, RecordColumns
from mirrorlake.spark_source.columns import CONSTANT, HEADERS_TYPE, SCHEMA, schema_of

BATCH_BYTES_MAX = 32 << 20
"""What goes to Spark's JVM at once, to within one record; a column of a batch may not have 2 GiB."""

BATCH_ROWS_MAX = 1 << 16
_COUNTED_ROWS_MAX = 1 << 20
_MICROSECONDS = 1000
_TIMESTAMP_MS_MAX = (2**63 - 1) // _MICROSECONDS


def rows_of(records: RecordColumns, *, topic: str, partition: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields records of one partition as rows, in batches of bounded size.

    Raises:
        UnsupportedError: a record has a time that Spark cannot hold, and ``timestamp`` is asked for.
    """
    columns = {
        "offset": lambda: pa.array(records.offsets),
        "timestamp": lambda: timestamps(records.timestamps, records.offsets, where=f"{topic}-{partition}"),
        "timestamp_type": lambda: _type_names(records),
        "key": lambda: records.keys,
        "value": lambda: records.values,
        "headers": lambda: _headers(records.headers),
    }
    made = {name: columns[name]() for name in names if name not in CONSTANT}
    yield from rows_with(made, len(records), topic=topic, partition=partition, names=names)


def rows_with(
    made: dict[str, pa.Array], rows: int, *, topic: str, partition: int, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yields columns as rows, those that are constant added, in batches of bounded size.

    Args:
        made: by name: arrays of ``rows`` values; large binaries become binaries.
        rows: how many.
        topic: of the rows.
        partition: of the rows.
        names: which columns, in this order.
    """
    schema = schema_of(names)
    sizes = [array for array in made.values() if not pa.types.is_primitive(array.type)]
    rows_max = BATCH_ROWS_MAX if made else _COUNTED_ROWS_MAX
    for start, stop in _bounded(sizes, rows, rows_max):
        count = stop - start
        arrays = [
            _constant(name, count, topic, partition)
            if name in CONSTANT
            else _narrow(made[name].slice(start, count), schema.field(name).type)
            for name in names
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bounded(arrays: Sequence[pa.Array], rows: int, rows_max: int) -> Iterator[tuple[int, int]]:
    """Yields runs of rows whose values have no more bytes than go into a batch, or one row."""
    waiting = [(start, min(rows, start + rows_max)) for start in range(0, rows, rows_max)][::-1]
    while waiting:
        start, stop = waiting.pop()
        size_bytes = sum(array.slice(start, stop - start).nbytes for array in arrays)
        if stop - start > 1 and size_bytes > BATCH_BYTES_MAX:
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
        else:
            yield start, stop


def _constant(name: str, rows: int, topic: str, partition: int) -> pa.Array:
    if name == "topic":
        return pa.repeat(pa.scalar(topic, pa.string()), rows)
    return pa.array(np.full(rows, partition, np.int32))


def _narrow(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return array if array.type.equals(wanted) else array.cast(wanted)


def timestamps(milliseconds: np.ndarray, offsets: np.ndarray, *, where: str) -> pa.Array:
    """Returns times as Spark has them; null for `NO_TIMESTAMP`.

    Raises:
        UnsupportedError: one is too far from 1970; names the first.
    """
    is_wrong = (milliseconds > _TIMESTAMP_MS_MAX) | (milliseconds < -_TIMESTAMP_MS_MAX)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise UnsupportedError(
            f"the record at offset {offsets[row]} of {where} has the timestamp {milliseconds[row]} ms, which is beyond "
            "what Spark's timestamps hold",
            hint="leave the column `timestamp` out: name the others in the option `columns`",
            offset=int(offsets[row]),
        )
    is_none = milliseconds == NO_TIMESTAMP
    counted = np.where(is_none, 0, milliseconds) * _MICROSECONDS
    return pa.array(counted, mask=is_none if is_none.any() else None).cast(SCHEMA.field("timestamp").type)


def _type_names(records: RecordColumns) -> pa.StringArray:
    indices = records.timestamp_types.astype(np.int32)
    indices[indices < 0] = 2
    return timestamp_type_names().take(pa.array(indices))


def _headers(headers: pa.ListArray) -> pa.ListArray:
    """Returns headers with keys as text, as Kafka's Java client shows them, and as Spark's own Kafka source does."""
    bounds = headers.offsets.to_numpy()
    items = headers.flatten()
    keys = items.field(0)
    try:
        texts = keys.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([as_java_shows(key) for key in keys.to_pylist()], pa.string())
    return list_of_headers(bounds - bounds[0], texts, items.field(1))


def list_of_headers(bounds: np.ndarray, keys: pa.Array, values: pa.Array) -> pa.ListArray:
    """Returns the headers of rows: ``bounds`` says where each row's begin, and where the last one's end."""
    struct = pa.StructArray.from_arrays(
        [_narrow(keys, pa.string()), _narrow(values, pa.binary())], fields=list(HEADERS_TYPE.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), struct, type=HEADERS_TYPE)


def rows_of_parquet(
    batch: pa.RecordBatch, *, topic: str, partition: int, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yields rows of columns as they lie in a Parquet segment of any version; only those asked for need be there.

    Raises:
        UnsupportedError: see `rows_of`.
        pyarrow.ArrowInvalid, ValueError: values or columns that no segment has.
    """
    made: dict[str, pa.Array] = {}
    for name in names:
        if name == "timestamp":
            found = pc.fill_null(batch.column("timestamp_ms").cast(pa.int64()), NO_TIMESTAMP).to_numpy()
            offsets = batch.column("offset").cast(pa.int64()).to_numpy()
            made[name] = timestamps(found, offsets, where=f"{topic}-{partition}")
        elif name == "headers":
            made[name] = _headers_of_parquet(batch.column("headers"))
        elif name not in CONSTANT:
            made[name] = batch.column(name)
    yield from rows_with(made, batch.num_rows, topic=topic, partition=partition, names=names)


def _headers_of_parquet(headers: pa.ListArray) -> pa.ListArray:
    if not (pa.types.is_list(headers.type) and pa.types.is_struct(headers.type.value_type)) or headers.null_count:
        raise ValueError(f"headers of type {headers.type}, or null")
    bounds = headers.offsets.to_numpy()
    items = headers.flatten()
    return list_of_headers(bounds - bounds[0], items.field(0), items.field(1))


PARQUET_COLUMNS = {"timestamp": "timestamp_ms"}
"""Names in files that differ from those in Spark."""
