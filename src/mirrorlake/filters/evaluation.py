"""Which records a filter keeps: its condition over decoded columns, with SQL's three values.

Equal to what Spark says of the same expression with ``spark.sql.ansi.enabled`` false and UTC as its time zone; a test
asks it. Nothing here raises for what a record holds: what Spark makes NULL is NULL.

Text is bytes throughout: Spark compares strings so, and keeps what is no UTF-8 in them.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.filters.condition import Condition, Filter, Kind, Op
from mirrorlake.filters.json_fields import json_field
from mirrorlake.filters.spark_texts import character_count, to_bigint, to_double
from mirrorlake.kafka.records.columns import RecordColumns, bytes_column

Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64] | Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Numbers:
    """BIGINT, DOUBLE, TIMESTAMP (Unix milliseconds) or BOOLEAN, one a row; what is not ``is_known`` is NULL."""

    data: Numbers
    is_known: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """What a condition is evaluated over."""

    columns: RecordColumns
    partition: int

    def __len__(self) -> int:
        return len(self.columns)


def kept_rows(wanted: Filter, columns: RecordColumns, *, partition: int) -> Bools:
    """Returns True for each record that the filter keeps: one for which its condition is true.

    Args:
        wanted: the filter.
        columns: the records, as the source has them.
        partition: of the source, that they are of.
    """
    found = _numbers(wanted.condition, _Rows(columns=columns, partition=partition))
    kept: Bools = found.data.astype(np.bool_) & found.is_known
    return kept


def _numbers(condition: Condition, rows: _Rows) -> _Numbers:
    match condition.op:
        case Op.COLUMN:
            return _column(condition, rows)
        case Op.LITERAL:
            assert isinstance(condition.value, bool | int | float), "bytes are compared as they are"
            dtype = {Kind.BOOLEAN: np.bool_, Kind.DOUBLE: np.float64}.get(condition.kind, np.int64)
            return _known(np.full(len(rows), condition.value, dtype))
        case Op.AND | Op.OR:
            return _junction(condition, rows)
        case Op.NOT:
            negated = _numbers(condition.parts[0], rows)
            return _Numbers(data=~negated.data.astype(np.bool_), is_known=negated.is_known)
        case Op.IS_NULL:
            return _known(~_is_known(condition.parts[0], rows))
        case Op.EQUAL | Op.LESS | Op.LESS_OR_EQUAL | Op.SAME:
            return _comparison(condition, rows)
        case Op.RETYPED:
            return _numbers(condition.parts[0], rows)
        case Op.PMOD:
            assert isinstance(condition.value, int)
            divided = _numbers(condition.parts[0], rows)
            return _Numbers(data=np.mod(divided.data, condition.value), is_known=divided.is_known)
        case _:
            return _each(_OF_TEXT[condition.op](condition), _texts(condition.parts[0], rows), condition.kind)


def _known(data: Numbers) -> _Numbers:
    return _Numbers(data=data, is_known=np.ones(len(data), np.bool_))


def _column(condition: Condition, rows: _Rows) -> _Numbers:
    match condition.value:
        case "offset":
            return _known(rows.columns.offsets)
        case "timestamp":
            return _known(rows.columns.timestamps)
        case _:
            return _known(np.full(len(rows), rows.partition, np.int64))


def _junction(condition: Condition, rows: _Rows) -> _Numbers:
    """False AND NULL is false, true OR NULL is true: one that decides does, whatever the others are."""
    decides = condition.op is Op.OR
    is_decided, is_known = np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
    for part in condition.parts:
        found = _numbers(part, rows)
        is_decided |= found.is_known & (found.data.astype(np.bool_) == decides)
        is_known &= found.is_known
    return _Numbers(data=is_decided == decides, is_known=is_decided | is_known)


def _is_known(condition: Condition, rows: _Rows) -> Bools:
    if condition.kind in (Kind.STRING, Kind.BINARY):
        return _is_valid(_texts(condition, rows))
    return _numbers(condition, rows).is_known


def _is_valid(texts: pa.LargeBinaryArray) -> Bools:
    valid: Bools = texts.is_valid().to_numpy(zero_copy_only=False).astype(np.bool_)
    return valid


# --- comparing --------------------------------------------------------------------------------------------


def _comparison(condition: Condition, rows: _Rows) -> _Numbers:
    one, other = condition.parts
    if one.kind in (Kind.STRING, Kind.BINARY):
        sides = _comparable(one, rows), _comparable(other, rows)
        count = len(rows)
        both = _known_of(sides[0], count) & _known_of(sides[1], count)
        either = _known_of(sides[0], count) | _known_of(sides[1], count)
        compare = {Op.LESS: pc.less, Op.LESS_OR_EQUAL: pc.less_equal}.get(condition.op, pc.equal)
        data = _bools(compare(*sides), count)
    else:
        first, second = _numbers(one, rows), _numbers(other, rows)
        both, either = first.is_known & second.is_known, first.is_known | second.is_known
        data = _compared(condition.op, first.data, second.data)
    if condition.op is Op.SAME:
        return _known(np.where(both, data, ~either))
    return _Numbers(data=data, is_known=both)


def _comparable(condition: Condition, rows: _Rows) -> pa.LargeBinaryArray | pa.Scalar:
    """Returns bytes, one a row, or those of a literal once."""
    if condition.op is Op.LITERAL:
        assert isinstance(condition.value, bytes)
        return bytes_column([condition.value])[0]
    return _texts(condition, rows)


def _known_of(side: pa.LargeBinaryArray | pa.Scalar, count: int) -> Bools:
    return np.ones(count, np.bool_) if isinstance(side, pa.Scalar) else _is_valid(side)


def _bools(found: pa.BooleanArray | pa.Scalar, count: int) -> Bools:
    if isinstance(found, pa.Scalar):  # of two literals
        return np.full(count, bool(found.as_py()), np.bool_)
    bools: Bools = pc.fill_null(found, fill_value=False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return bools


def _compared(op: Op, one: Numbers, other: Numbers) -> Bools:
    """NaN equals NaN and is above all other numbers, as SQL has it."""
    is_nan, is_other_nan = np.isnan(one), np.isnan(other)
    equal: Bools = (one == other) | (is_nan & is_other_nan)
    if op in (Op.EQUAL, Op.SAME):
        return equal
    less: Bools = (one < other) | (~is_nan & is_other_nan)
    return less if op is Op.LESS else less | equal


# --- text -------------------------------------------------------------------------------------------------


def _texts(condition: Condition, rows: _Rows) -> pa.LargeBinaryArray:
    match condition.op:
        case Op.COLUMN:
            return rows.columns.keys if condition.value == "key" else rows.columns.values
        case Op.LITERAL:
            assert isinstance(condition.value, bytes)
            return bytes_column([condition.value] * len(rows))
        case Op.HEADER:
            assert isinstance(condition.value, str)
            return _header(rows.columns.headers, condition.value.encode())
        case Op.RETYPED:
            return _texts(condition.parts[0], rows)
        case Op.SUBSTRING:
            start, count = _two(condition.value)
            return _mapped(lambda text: text[start : start + count], _texts(condition.parts[0], rows))
        case _:
            names = _names(condition.value)
            return _mapped(lambda text: json_field(text, names), _texts(condition.parts[0], rows))


def _two(value: object) -> tuple[int, int]:
    assert isinstance(value, tuple)
    start, count = value
    return start, count


def _names(value: object) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


def _header(headers: pa.ListArray, key: bytes) -> pa.LargeBinaryArray:
    """Returns the value of the last header of that key, NULL where there is none or its value is null."""
    ends = headers.offsets.to_numpy()
    items = headers.values
    if not len(items):
        return bytes_column([None] * len(headers))
    is_asked = _bools(pc.equal(items.field(0), bytes_column([key])[0]), len(items))
    found = np.flatnonzero(is_asked)
    last = np.searchsorted(found, ends[1:]) - 1
    places = np.where(last >= 0, found[last] if len(found) else 0, -1)
    is_there = places >= ends[:-1]
    values = items.field(1)
    return bytes_column(
        [values[int(place)].as_py() if there else None for place, there in zip(places, is_there, strict=True)]
    )


def _mapped(of: Callable[[bytes], bytes | None], texts: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    return bytes_column([None if text is None else of(text) for text in texts.to_pylist()])


def _each(of: Callable[[bytes], float | bool | None], texts: pa.LargeBinaryArray, kind: Kind) -> _Numbers:
    found = [None if text is None else of(text) for text in texts.to_pylist()]
    dtype = {Kind.BOOLEAN: np.bool_, Kind.DOUBLE: np.float64}.get(kind, np.int64)
    return _Numbers(
        data=np.array([0 if each is None else each for each in found], dtype),
        is_known=np.array([each is not None for each in found], np.bool_),
    )


def _like(pattern: str) -> Callable[[bytes], bool]:
    """Returns what tells whether text is like a pattern; what is no UTF-8 in it counts as characters of its own."""
    parts = ["." if part == "_" else ".*" if part == "%" else re.escape(part) for part in re.split(r"([_%])", pattern)]
    matches = re.compile("".join(parts), re.DOTALL).fullmatch
    return lambda text: matches(text.decode("utf-8", "replace")) is not None


def _length(of: Condition) -> Callable[[bytes], int]:
    return len if of.kind is Kind.BINARY else character_count


_OF_TEXT: dict[Op, Callable[[Condition], Callable[[bytes], float | bool | None]]] = {
    Op.LIKE: lambda condition: _like(str(condition.value)),
    Op.TO_BIGINT: lambda _: to_bigint,
    Op.TO_DOUBLE: lambda _: to_double,
    Op.LENGTH: lambda condition: _length(condition.parts[0]),
    Op.CRC32: lambda _: zlib.crc32,
}
"""What makes a number of a text, by what is asked."""
