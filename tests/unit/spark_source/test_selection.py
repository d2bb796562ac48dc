"""Filters narrow a read to files and ranges, and never leave out a record that passes them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import SegmentName
from mirrorlake.offsets import OffsetRange
from mirrorlake.spark_source.archive_plan import ArchivedTopicPartition, pieces_within
from mirrorlake.spark_source.columns import SPARK_TYPES
from mirrorlake.spark_source.pushdown import selection_of
from mirrorlake.spark_source.selection import ALL

OF = ArchivedTopicPartition(folder="orders", topic="orders", partition=3, extension="parquet", is_snapshot=False)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def chain(*ends: int) -> list[Segment]:
    starts = (0, *ends[:-1])
    return [
        Segment(name=SegmentName(from_offset=start, to_offset=end - 1, extension="parquet"), size_bytes=1000)
        for start, end in zip(starts, ends, strict=True)
    ]


def passes(row: dict[str, Any], each: Filter) -> bool:
    """What Spark does with a row and a filter, written down once more."""
    match each:
        case Not():
            return not passes(row, each.child)
        case IsNotNull():
            return row[each.attribute[0]] is not None
        case In():
            return row[each.attribute[0]] in each.value
    found, value = row[each.attribute[0]], each.value
    match each:
        case EqualTo():
            return bool(found == value)
        case GreaterThan():
            return bool(found > value)
        case GreaterThanOrEqual():
            return bool(found >= value)
        case LessThan():
            return bool(found < value)
        case LessThanOrEqual():
            return bool(found <= value)
    raise AssertionError(each)


def planned(filters: list[Filter], ends: list[int]) -> list[int]:
    """The offsets that are read of a chain, in order."""
    selection = selection_of(filters, SPARK_TYPES)
    if not selection.may_hold_partition(OF.topic, OF.partition):
        return []
    wanted = selection.within(OffsetRange(start_offset=0, end_offset=ends[-1]))
    if wanted is None:
        return []
    pieces = pieces_within(OF, chain(*ends), wanted, selection)
    return [offset for piece in pieces for offset in range(piece.offsets.start_offset, piece.offsets.end_offset)]


COMPARISONS = st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual])
NUMBERS = st.integers(-5, 60)
TIMES = st.integers(-5_000, 70_000).map(lambda us: EPOCH + timedelta(microseconds=us))


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    column, values = draw(
        st.sampled_from([("offset", NUMBERS), ("partition", st.integers(0, 5)), ("timestamp", TIMES)])
    )
    match draw(st.integers(0, 3)):
        case 0:
            return In((column,), tuple(draw(st.lists(values, max_size=4))))
        case 1:
            return Not(EqualTo((column,), draw(values)))
    made: Filter = draw(COMPARISONS)((column,), draw(values))
    return made


@given(
    st.lists(filters(), max_size=4),
    st.lists(st.integers(1, 20), min_size=1, max_size=5),
    st.lists(st.integers(-3, 64), min_size=100, max_size=100),
)
def test_no_row_that_passes_is_left_out_and_none_is_read_twice(
    given_filters: list[Filter], sizes: list[int], milliseconds: list[int]
) -> None:
    ends = [sum(sizes[: count + 1]) for count in range(len(sizes))]
    found = planned(given_filters, ends)
    selection = selection_of(given_filters, SPARK_TYPES)

    assert found == sorted(set(found))
    for offset in range(ends[-1]):
        ms = milliseconds[offset]
        row = {"offset": offset, "partition": OF.partition, "timestamp": EPOCH + timedelta(milliseconds=ms)}
        if all(passes(row, each) for each in given_filters):
            assert offset in found
            assert selection.may_hold_times(ms, ms)
            assert selection.may_hold_times(None, ms)
            assert selection.may_hold_times(ms, None)
            assert selection.earliest_ms is None or selection.earliest_ms <= ms


def test_a_range_of_offsets_leaves_the_other_files_out_and_cuts_those_at_its_edges() -> None:
    selection = selection_of([GreaterThan(("offset",), 14), LessThan(("offset",), 31)], SPARK_TYPES)

    found = list(pieces_within(OF, chain(10, 20, 30, 40), OffsetRange(start_offset=0, end_offset=40), selection))

    assert [(piece.file[18:20], str(piece.offsets)) for piece in found] == [
        ("10", "[15, 20)"),
        ("20", "[20, 30)"),
        ("30", "[30, 31)"),
    ]


def test_single_offsets_leave_out_the_files_between_them() -> None:
    selection = selection_of([In(("offset",), (3, 35))], SPARK_TYPES)

    found = list(pieces_within(OF, chain(10, 20, 30, 40), OffsetRange(start_offset=0, end_offset=40), selection))

    assert [str(piece.offsets) for piece in found] == ["[3, 4)", "[35, 36)"]


@pytest.mark.parametrize(
    ("given_filter", "topic", "partition", "expected"),
    [
        (EqualTo(("topic",), "orders"), "orders", 0, True),
        (EqualTo(("topic",), "orders"), "audit", 0, False),
        (In(("topic",), ("orders", "audit", None)), "audit", 0, True),
        (EqualTo(("partition",), 1), "orders", 0, False),
        (GreaterThan(("partition",), 1), "orders", 2, True),
        (Not(EqualTo(("topic",), "orders")), "orders", 0, True),
    ],
)
def test_topics_and_partitions_are_left_out_by_their_columns(
    given_filter: Filter, topic: str, partition: int, expected: bool
) -> None:
    assert selection_of([given_filter], SPARK_TYPES).may_hold_partition(topic, partition) is expected


def test_what_is_not_understood_narrows_nothing() -> None:
    odd = [
        EqualTo(("offset",), 1.5),
        EqualTo(("offset",), True),
        EqualTo(("headers", "key"), "x"),
        EqualTo(("nothing",), 3),
        GreaterThan(("timestamp",), datetime(2026, 1, 1)),
        In(("offset",), (1, "2")),
        IsNotNull(("offset",)),
    ]

    assert selection_of(odd, SPARK_TYPES) == ALL


def test_a_time_between_two_milliseconds_begins_with_the_later_one() -> None:
    moment = EPOCH + timedelta(microseconds=5_001)

    assert selection_of([GreaterThanOrEqual(("timestamp",), moment)], SPARK_TYPES).earliest_ms == 6
    assert selection_of([GreaterThan(("timestamp",), EPOCH)], SPARK_TYPES).earliest_ms == 1
