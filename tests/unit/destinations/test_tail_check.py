"""What may stand against what, below a position."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mirrorlake.destinations.filtering import PartitionProjection
from mirrorlake.destinations.tail import Tail
from mirrorlake.destinations.tail_check import first_difference
from mirrorlake.destinations.transform import Transform
from mirrorlake.filters.projection import Projection, parse_value
from mirrorlake.kafka.records.codec import HEADERS_TYPE, RecordColumns
from mirrorlake.offsets import OffsetRange, TopicPartition


def tail(text: str) -> Tail:
    """One character an offset: a letter is a record, ``|`` a marker or filler, ``.`` nothing, ``_`` cleaned."""
    offsets = [offset for offset, each in enumerate(text) if each.isalpha()]
    records = RecordColumns.of(
        offsets=np.array(offsets, np.int64),
        timestamps=np.zeros(len(offsets), np.int64),
        timestamp_types=np.zeros(len(offsets), np.int8),
        keys=pa.array([text[o].encode() for o in offsets], pa.large_binary()),
        values=pa.array([b"value"] * len(offsets), pa.large_binary()),
        headers=pa.array([[] for _ in offsets], HEADERS_TYPE),
    )
    unseen = tuple(OffsetRange(start_offset=o, end_offset=o + 1) for o, each in enumerate(text) if each == "|")
    cleaned = tuple(OffsetRange(start_offset=o, end_offset=o + 1) for o, each in enumerate(text) if each == "_")
    return Tail(records=records, unseen=unseen, cleaned=cleaned)


NEITHER, SOURCE, DESTINATION, BOTH = (False, False), (True, False), (False, True), (True, True)


@pytest.mark.parametrize(
    ("source", "destination", "compacted", "difference"),
    [
        ("abc", "abc", NEITHER, None),
        ("abc", "abx", NEITHER, 2),
        ("", "", NEITHER, None),
        # Markers and fillers stand against markers, aborted data, or what the cleaner took.
        ("a|c", "a|c", NEITHER, None),
        ("a|.d", "a||d", NEITHER, None),
        ("a..d", "a||d", NEITHER, None),
        # A record never stands against a marker, compacted or not.
        ("abc", "a|c", NEITHER, 1),
        ("abc", "a|c", BOTH, 1),
        ("a|c", "abc", NEITHER, 1),
        ("a|c", "abc", BOTH, 1),
        # Everything moved by one: what a marker that was written twice does.
        ("ab|cd", "ab||c", NEITHER, 3),
        # What the cleaner may have taken, on the side where it works.
        ("a.c", "abc", SOURCE, None),
        ("a.c", "abc", NEITHER, 1),
        ("a.c", "abc", DESTINATION, 1),
        ("abc", "a.c", DESTINATION, None),
        ("abc", "a.c", SOURCE, 1),
        ("a.cd", "abc.", BOTH, None),
        # What the log itself shows to be cleaned, whatever the policy is now; never a record that is another one.
        ("a_c", "abc", NEITHER, None),
        ("abc", "a_c", NEITHER, None),
        ("a_c", "abx", NEITHER, 2),
        ("a_cd", "abcd", NEITHER, None),
        ("a_|d", "abcd", NEITHER, 2),
    ],
)
def test_record_against_record_and_marker_against_none(
    source: str, destination: str, compacted: tuple[bool, bool], difference: int | None
) -> None:
    found = first_difference(
        tail(source), tail(destination), source_is_compacted=compacted[0], destination_is_compacted=compacted[1]
    )
    assert found == difference


@pytest.mark.parametrize(
    ("source", "destination", "difference"),
    [
        # The copy has a record where the archive has lost the segment: nobody can say what it held.
        ("ab?d", "abcd", None),
        ("ab?d", "ab|d", None),
        ("ab?d", "ab|x", 3),
        ("ab?d", "xb|d", 0),
    ],
)
def test_what_the_source_does_not_know_is_not_compared(source: str, destination: str, difference: int | None) -> None:
    unknown = tuple(OffsetRange(start_offset=o, end_offset=o + 1) for o, each in enumerate(source) if each == "?")
    found = first_difference(replace(tail(source), unknown=unknown), tail(destination))
    assert found == difference


@pytest.mark.parametrize(("destination", "difference"), [("ab|d", None), ("ab.d", 2), ("abx|", 2), ("ab|x", 3)])
def test_a_filled_gap_stands_against_a_record_only_where_it_may_have_come_late(
    destination: str, difference: int | None
) -> None:
    late = replace(tail("abcd"), skips_late=True)
    assert first_difference(late, tail(destination)) == difference
    assert first_difference(tail("abcd"), tail(destination)) is not None


@pytest.mark.parametrize(
    ("source", "destination", "lettered", "difference"),
    [
        ("abc", "a|c", {1}, None),
        ("abc", "a|c", set(), 1),
        ("abc", "a|c", {0, 2}, 1),
        ("abc", "a.c", {1}, None),  # the cleaner took the filler
        ("abc", "||c", {1}, 0),
        ("abc", "axc", {1}, 1),  # where the copy has a record it is the source's all the same
        ("a|c", "abc", {1}, 1),
    ],
)
def test_a_record_may_be_missing_where_it_has_a_dead_letter_and_only_there(
    source: str, destination: str, lettered: set[int], difference: int | None
) -> None:
    assert first_difference(tail(source), tail(destination), lettered=lettered) == difference


def test_a_record_that_select_made_once_and_has_no_value_for_now_is_another_one() -> None:
    strict = Transform(
        projects=PartitionProjection(
            wanted=Projection(key=parse_value("CASE WHEN key = 'x' THEN raise_error('x') ELSE key END")),
            source=TopicPartition("orders", 0),
        )
    )
    assert first_difference(tail("abc"), tail("abc"), transform=strict) is None
    assert first_difference(tail("axc"), tail("abc"), transform=strict) == 1
    assert first_difference(tail("axc"), tail("axc"), transform=strict) == 1
