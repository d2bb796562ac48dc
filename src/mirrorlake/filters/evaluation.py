"""Expressions over decoded columns, with SQL's three values: which records a filter keeps, and what values are.

Equal to what Spark says of the same expression with UTC as its time zone, and with ``spark.sql.ansi.enabled`` false for
a filter and true for a projection; tests ask it. Nothing here raises for what a record holds: where a filter has no
value it is NULL, as Spark makes it, and where a projection has none the record is noted (`Failures`).

Text is bytes throughout: Spark compares strings so, and keeps what is no UTF-8 in them.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256, sha512
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirrorlake.filters.condition import Condition, Filter, Kind, OnFailure, Op
from mirrorlake.filters.json_fields import json_field
from mirrorlake.filters.spark_texts import character_count, to_bigint, to_double
from mirrorlake.kafka.java_text import as_java_shows
from mirrorlake.kafka.records.columns import RecordColumns, bytes_column

T = TypeVar("T")
Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64] | Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Numbers:
    """BIGINT, DOUBLE, TIMESTAMP (Unix milliseconds) or BOOLEAN, one a row; what is not ``is_known`` is NULL."""

    data: Numbers
    is_known: Bools


class Failures:
    """The records for which an expression has no value: all of them, the first one by its row, and why that is.

    Args:
        count: how many records there are.
    """

    def __init__(self, count: int) -> None:
        self.is_failed: Bools = np.zeros(count, np.bool_)
        self.row: int | None = None
        self.why = ""

    def note(self, is_failed: Bools, why: str) -> None:
        """Takes rows for which there is no value."""
        self.is_failed |= is_failed
        rows = np.flatnonzero(is_failed)
        if len(rows) and (self.row is None or rows[0] < self.row):
            self.row, self.why = int(rows[0]), why


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """What an expression is evaluated over; of rows that are not ``asked`` any value will do."""

    columns: RecordColumns
    partition: int
    asked: Bools
    failures: Failures

    @classmethod
    def of(cls, columns: RecordColumns, partition: int, failures: Failures | None = None) -> "_Rows":
        failures = failures or Failures(len(columns))
        return cls(columns=columns, partition=partition, asked=np.ones(len(columns), np.bool_), failures=failures)

    def __len__(self) -> int:
        return len(self.columns)

    def among(self, rows: Bools) -> "_Rows":
        return replace(self, asked=self.asked & rows)

    def fail(self, rows: Bools, why: str) -> None:
        self.failures.note(rows & self.asked, why)


def kept_rows(wanted: Filter, columns: RecordColumns, *, partition: int) -> Bools:
    """Returns True for each record that the filter keeps: one for which its condition is true.

    Args:
        wanted: the filter.
        columns: the records, as the source has them.
        partition: of the source, that they are of.
    """
    found = _numbers(wanted.condition, _Rows.of(columns, partition))
    kept: Bools = found.data.astype(np.bool_) & found.is_known
    return kept


def bytes_of(
    expression: Condition,
    columns: RecordColumns,
    *,
    partition: int,
    failures: Failures,
    asked: Bools | None = None,
) -> pa.LargeBinaryArray:
    """Returns the value of a STRING or BINARY for each record.

    Args:
        expression: what is asked.
        columns: the records, as the source has them.
        partition: of the source, that they are of.
        failures: takes the records for which there is none; what is returned of them is nothing to go by.
        asked: for which records; of the others any value will do. None for all.
    """
    rows = _Rows.of(columns, partition, failures)
    return _texts(expression, rows if asked is None else rows.among(asked))


def _numbers(condition: Condition, rows: _Rows) -> _Numbers:
    match condition.op:
        case Op.COLUMN:
            return _column(condition, rows)
        case Op.LITERAL if condition.value is not None:
            assert isinstance(condition.value, bool | int | float), "bytes are compared as they are"
            return _known(np.full(len(rows), condition.value, _dtype(condition.kind)))
        case Op.LITERAL:
            return _null(condition.kind, len(rows))
        case Op.RAISE_ERROR:
            rows.fail(rows.asked, str(condition.value))
            return _null(condition.kind, len(rows))
        case Op.CASE | Op.COALESCE:
            return _chosen_numbers(condition, rows)
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
            texts = _texts(condition.parts[0], rows)
            found = _each(_OF_TEXT[condition.op](condition), texts, condition.kind)
            if condition.value is OnFailure.ERROR:
                rows.fail(
                    _is_valid(texts) & ~found.is_known, f"a text is cast to {condition.kind} that is no such number"
                )
            return found


def _dtype(kind: Kind) -> npt.DTypeLike:
    return {Kind.BOOLEAN: np.bool_, Kind.DOUBLE: np.float64}.get(kind, np.int64)


def _null(kind: Kind, count: int) -> _Numbers:
    return _Numbers(data=np.zeros(count, _dtype(kind)), is_known=np.zeros(count, np.bool_))


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
    """False AND NULL is false, true OR NULL is true: one that decides does, and those behind it are not asked."""
    decides = condition.op is Op.OR
    is_decided, is_known = np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
    for part in condition.parts:
        found = _numbers(part, rows.among(~is_decided))
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


# --- choosing ---------------------------------------------------------------------------------------------


def _choose(
    condition: Condition, rows: _Rows, value_of: Callable[[Condition, _Rows], T], is_known: Callable[[T], Bools]
) -> tuple[list[T], npt.NDArray[np.int64]]:
    """Returns the values of all branches, and the number of the branch that counts for each row, -1 for none."""
    parts, is_case = condition.parts, condition.op is Op.CASE
    values: list[T] = []
    chosen, is_left = np.full(len(rows), -1, np.int64), np.ones(len(rows), np.bool_)
    for number, branch in enumerate(parts[1::2] if is_case else parts):
        if is_case:
            test = _numbers(parts[2 * number], rows.among(is_left))
            takes = is_left & test.is_known & test.data.astype(np.bool_)
            values.append(value_of(branch, rows.among(takes)))
        else:
            values.append(value_of(branch, rows.among(is_left)))
            takes = is_left & is_known(values[-1])
        chosen[takes] = number
        is_left &= ~takes
    return values, chosen


def _chosen_numbers(condition: Condition, rows: _Rows) -> _Numbers:
    values, chosen = _choose(condition, rows, _numbers, lambda found: found.is_known)
    result = _null(condition.kind, len(rows))
    for number, value in enumerate(values):
        takes = chosen == number
        result.data[takes] = value.data[takes]
        result.is_known[takes] = value.is_known[takes]
    return result


def _chosen_texts(condition: Condition, rows: _Rows) -> pa.LargeBinaryArray:
    values, chosen = _choose(condition, rows, _texts, _is_valid)
    count = len(rows)
    places = np.where(chosen >= 0, chosen * count + np.arange(count), len(values) * count)
    return pa.concat_arrays([*values, bytes_column([None])]).take(pa.array(places))


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
            assert condition.value is None or isinstance(condition.value, bytes)
            return bytes_column([condition.value] * len(rows))
        case Op.RAISE_ERROR:
            rows.fail(rows.asked, str(condition.value))
            return bytes_column([None] * len(rows))
        case Op.CASE | Op.COALESCE:
            return _chosen_texts(condition, rows)
        case Op.CONCAT:
            texts = [_texts(part, rows) for part in condition.parts]
            return pc.binary_join_element_wise(*texts, pa.scalar(b"", pa.large_binary()))
        case Op.TO_STRING:
            return _digits(_numbers(condition.parts[0], rows))
        case Op.SHA2:
            digest = sha256 if condition.value == 256 else sha512
            return _mapped(lambda text: digest(text).hexdigest().encode(), _texts(condition.parts[0], rows))
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


def _digits(numbers: _Numbers) -> pa.LargeBinaryArray:
    """Returns integers in digits, or booleans as words."""
    found = zip(numbers.data.tolist(), numbers.is_known.tolist(), strict=True)
    return bytes_column([str(each).lower().encode() if is_known else None for each, is_known in found])


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
    return _Numbers(
        data=np.array([0 if each is None else each for each in found], _dtype(kind)),
        is_known=np.array([each is not None for each in found], np.bool_),
    )


def _like(pattern: str) -> Callable[[bytes], bool]:
    """Returns what tells whether text is like a pattern; what is no UTF-8 in it counts as characters of its own.

    What stands between two ``%`` is of fixed length: where it was found first it stays, or the time it takes would grow
    with a power of the text's length.
    """
    parts = ["".join("." if each == "_" else re.escape(each) for each in part) for part in pattern.split("%")]
    first, *between = parts
    if between:
        *between, last = between
        first += "".join(f"(?>.*?{part})" for part in between if part) + f".*{last}"
    matches = re.compile(first, re.DOTALL).fullmatch
    return lambda text: matches(as_java_shows(text)) is not None


def _length(of: Condition) -> Callable[[bytes], int]:
    return len if of.kind is Kind.BINARY else character_count


_OF_TEXT: dict[Op, Callable[[Condition], Callable[[bytes], float | bool | None]]] = {
    Op.LIKE: lambda condition: _like(str(condition.value)),
    Op.TO_BIGINT: lambda condition: partial(to_bigint, is_exact=condition.value is not None),
    Op.TO_DOUBLE: lambda _: to_double,
    Op.LENGTH: lambda condition: _length(condition.parts[0]),
    Op.CRC32: lambda _: zlib.crc32,
}
"""What makes a number of a text, by what is asked."""
