"""Spark's filters as a selection."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from mirrorlake.spark_source.selection import Numbers, Selection

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS = {"partition": "partitions", "offset": "offsets", "timestamp": "times"}


def selection_of(filters: Iterable[Filter], columns: Iterable[str]) -> Selection:
    """Returns what rows that pass all of the filters can be; what is not understood narrows nothing.

    Args:
        filters: as Spark pushes them.
        columns: of the query's schema.
    """
    known = set(columns)
    selection = Selection()
    for each in filters:
        column = ".".join(getattr(each, "attribute", ()))
        if column in known:
            selection = _narrowed(selection, column, each)
    return selection


def _narrowed(selection: Selection, column: str, given: Filter) -> Selection:
    if column == "topic":
        names = _values(given)
        is_names = names is not None and all(isinstance(name, str) for name in names)
        return selection.of_topics(frozenset(names or ())) if is_names else selection
    if column not in _FIELDS:
        return selection
    name = _FIELDS[column]
    numbers: Numbers = getattr(selection, name)
    changed = {each: getattr(selection, each) for each in ("topics", *_FIELDS.values())}
    return Selection(**(changed | {name: _bounded(numbers, given)}))


def _bounded(numbers: Numbers, given: Filter) -> Numbers:
    values = _values(given)
    if values is not None:
        whole = [_number(value) for value in values]
        return numbers.one_of(frozenset(n for n in whole if n is not None)) if None not in whole else numbers
    value = _number(getattr(given, "value", None))
    if value is None:
        return numbers
    match given:
        case GreaterThan():
            return numbers.at_least(value + 1)
        case GreaterThanOrEqual():
            return numbers.at_least(value)
        case LessThan():
            return numbers.at_most(value - 1)
        case LessThanOrEqual():
            return numbers.at_most(value)
    return numbers


def _values(given: Filter) -> tuple[Any, ...] | None:
    """Returns the values a column must have one of; None for another kind of filter."""
    match given:
        case EqualTo() | EqualNullSafe():
            return (given.value,)
        case In():
            # No row passes by a null in the list.
            return tuple(value for value in given.value if value is not None)
    return None


def _number(value: object) -> int | None:
    """Returns a number or a time as a column holds it; None where it is neither."""
    if isinstance(value, datetime):
        return None if value.tzinfo is None else (value - _EPOCH) // timedelta(microseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
