"""What records become by a projection, over columns. Pure."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.filters.evaluation import Failures, bytes_of
from mirrorlake.filters.projection import Expression, Projection
from mirrorlake.kafka.records.columns import HEADER_TYPE, HEADERS_TYPE, RecordColumns, bytes_column


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
    first: ValueMissingError | None = None

    def made(expression: Expression, column: str) -> pa.LargeBinaryArray:
        nonlocal first
        failures = Failures()
        values = bytes_of(expression.condition, records, partition=partition, failures=failures)
        if failures.row is not None and (first is None or failures.row < first.row):
            first = ValueMissingError(failures.row, column, failures.why)
        return values

    keys = made(projection.key, "key") if projection.key else records.keys
    values = made(projection.value, "value") if projection.value else records.values
    added = [(name.encode(), made(each, f"header {name}")) for name, each in projection.headers]
    if first is not None:
        raise first
    gone = {name for name, _ in added} | {name.encode() for name in projection.dropped}
    return RecordColumns.of(
        offsets=records.offsets,
        timestamps=records.timestamps,
        timestamp_types=records.timestamp_types,
        keys=keys,
        values=values,
        headers=_headers(records.headers, gone, added) if gone else records.headers,
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
