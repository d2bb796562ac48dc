"""What records become by a projection, over columns. Pure."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.filters.evaluation import Failures, bytes_of
from mirrorlake.filters.projection import Expression, Projection
from mirrorlake.kafka.records.columns import HEADER_TYPE, HEADERS_TYPE, RecordColumns, bytes_column, headers_column

NO_VALUE_HEADER = b"\xffno value"
"""The key of the one header of a record that stands for one without a value; no client writes it, as it is no text."""


class ValueMissingError(Exception):
    """An expression has no value for a record; with the record's row, the column, and why."""

    def __init__(self, row: int, column: str, why: str) -> None:
        super().__init__(f"row {row}, {column}: {why}")
        self.row, self.column, self.why = row, column, why


def projected(projection: Projection, records: RecordColumns, *, partition: int) -> RecordColumns:
    """Returns records as the projection makes them, at their offsets and times.

    Args:
        projection: what becomes of them.
        records: as the source has them.
        partition: of the source, that they are of.

    Raises:
        ValueMissingError: there is no value for a record; it is the first one.
    """
    made, first, _ = _made(projection, records, partition)
    if first is not None:
        raise first
    return made


def projected_or_marked(projection: Projection, records: RecordColumns, *, partition: int) -> RecordColumns:
    """Returns what ``projected`` does, and for each record without a value one that equals none of any copy.

    Args:
        projection: what becomes of them.
        records: as the source has them.
        partition: of the source, that they are of.
    """
    made, first, is_failed = _made(projection, records, partition)
    return made if first is None else _marked(made, is_failed)


def _made(
    projection: Projection, records: RecordColumns, partition: int
) -> tuple[RecordColumns, ValueMissingError | None, npt.NDArray[np.bool_]]:
    """Returns records, the first one without a value, and which have none; what those are is nothing to go by."""
    first: ValueMissingError | None = None
    is_failed = np.zeros(len(records), np.bool_)

    def made(expression: Expression, column: str) -> pa.LargeBinaryArray:
        nonlocal first
        failures = Failures(len(records))
        values = bytes_of(expression.condition, records, partition=partition, failures=failures)
        np.logical_or(is_failed, failures.is_failed, out=is_failed)
        if failures.row is not None and (first is None or failures.row < first.row):
            first = ValueMissingError(failures.row, column, failures.why)
        return values

    keys = made(projection.key, "key") if projection.key else records.keys
    values = made(projection.value, "value") if projection.value else records.values
    added = [(name.encode(), made(each, f"header {name}")) for name, each in projection.headers]
    gone = {name for name, _ in added} | {name.encode() for name in projection.dropped}
    headers = _headers(records.headers, gone, added) if gone else records.headers
    return _with_content(records, keys, values, headers), first, is_failed


def _with_content(
    records: RecordColumns, keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray, headers: pa.ListArray
) -> RecordColumns:
    return RecordColumns.of(
        offsets=records.offsets,
        timestamps=records.timestamps,
        timestamp_types=records.timestamp_types,
        keys=keys,
        values=values,
        headers=headers,
    )


def _marked(records: RecordColumns, is_marked: npt.NDArray[np.bool_]) -> RecordColumns:
    """Returns records with the mark in place of some."""
    count = len(records)
    places = pa.array(np.where(is_marked, count, np.arange(count)))

    def instead(column: pa.Array, mark: pa.Array) -> pa.Array:
        return pa.concat_arrays([column, mark]).take(places)

    nothing, header = bytes_column([None]), headers_column([[(NO_VALUE_HEADER, None)]])
    return _with_content(
        records, instead(records.keys, nothing), instead(records.values, nothing), instead(records.headers, header)
    )


def _headers(
    headers: pa.ListArray, gone: Collection[bytes], added: list[tuple[bytes, pa.LargeBinaryArray]]
) -> pa.ListArray:
    """Returns headers without those of some names, and with one of each name that is added behind them."""
    count = len(headers)
    ends = headers.offsets.to_numpy().astype(np.int64)
    flat, starts = headers.flatten(), ends - ends[0]
    stays = np.ones(len(flat), np.bool_)
    for name in gone:
        is_of_name = pc.equal(flat.field("key"), pa.scalar(name, pa.large_binary()))
        stays &= ~is_of_name.to_numpy(zero_copy_only=False).astype(np.bool_)
    rows = np.repeat(np.arange(count), np.diff(starts))[stays]
    # Every header with its row: those that stay, then each of the added ones; a stable sort by row brings them there.
    sources = [flat, *(_structs(name, values) for name, values in added)]
    places: npt.NDArray[np.int64] = np.concatenate(
        [np.flatnonzero(stays), *(len(flat) + number * count + np.arange(count) for number in range(len(added)))]
    ).astype(np.int64)
    of_rows = np.concatenate([rows, *(np.arange(count) for _ in added)])
    places = places[np.argsort(of_rows, kind="stable")]
    new_ends = np.concatenate([[0], np.cumsum(np.bincount(of_rows, minlength=count))]).astype(np.int32)
    made = pa.concat_arrays(sources).take(pa.array(places))
    return pa.ListArray.from_arrays(pa.array(new_ends), made, type=HEADERS_TYPE)


def _structs(name: bytes, values: pa.LargeBinaryArray) -> pa.StructArray:
    return pa.StructArray.from_arrays([bytes_column([name] * len(values)), values], fields=list(HEADER_TYPE))
