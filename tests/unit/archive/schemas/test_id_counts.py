import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.schemas.id_counts import check_schema_ids, counts_in, fields_of
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.schema_ids.counts import NAMELESS, NAMES_MAX, SchemaIdCounts, Seen, SideCounts
from mirrorlake.kafka.schema_ids.framing import Framing
from mirrorlake.kafka.schema_ids.id_map import ID_MAX, ID_MIN

GUID = UUID(int=5)
COUNTS: SchemaIdCounts = {
    "value": SideCounts(
        nameless={Framing.NOT_FRAMED: Seen(1, 14), Framing.NULL: Seen(2, 11)},
        names={70: Seen(3, 12), 7: Seen(4, 10), GUID: Seen(1, 19)},
    )
}
FIELDS = {
    "value": {
        "null": [2, 11],
        "not-framed": [1, 14],
        "ids": [[7, 4, 10], [70, 3, 12]],
        "guids": [["00000000-0000-0000-0000-000000000005", 1, 19]],
    }
}


def read(fields: object, *, records: int = 11, first: int | None = 10, last: int | None = 20) -> SchemaIdCounts | None:
    return counts_in(fields, records=records, first_offset=first, last_offset=last)


def test_counts_are_written_in_order_and_read_back() -> None:
    assert json.dumps(fields_of(COUNTS)) == json.dumps(FIELDS)
    assert read(FIELDS) == COUNTS


_seen = st.builds(Seen, st.integers(1, 5), st.integers(0, 99))
_names = st.one_of(st.integers(ID_MIN, ID_MAX), st.builds(lambda number: UUID(int=number), st.integers(0, 2**128 - 1)))


@given(st.dictionaries(st.sampled_from(NAMELESS), _seen), st.dictionaries(_names, _seen, max_size=20))
def test_all_counts_come_back(nameless: dict[Framing, Seen], names: dict[int | UUID, Seen]) -> None:
    side = SideCounts(nameless=nameless, names=names)
    counts = {"key": side, "value": side}
    first, last = (0, 99) if side.records else (None, None)
    written = json.loads(json.dumps(fields_of(counts)))
    assert read(written, records=side.records, first=first, last=last) == counts


def test_a_side_with_what_a_later_version_counts_is_not_known() -> None:
    later = {**FIELDS["value"], "by-name": [1, 11]}
    assert read({"value": later, "header": {}}) is None
    assert read({"key": FIELDS["value"], "value": later}) == {"key": COUNTS["value"]}


def test_of_no_records_nothing_is_counted() -> None:
    assert read({"key": {}}, records=0, first=None, last=None) == {"key": SideCounts(nameless={}, names={})}


@pytest.mark.parametrize(
    "fields",
    [
        [],
        {"value": 3},
        {"value": {**FIELDS["value"], "null": [3, 11]}},  # 12 of 11 records
        {"value": {**FIELDS["value"], "null": [2, 9]}},  # before the first record
        {"value": {**FIELDS["value"], "null": [2, 21]}},  # behind the last one
        {"value": {**FIELDS["value"], "null": [2, 11, 1]}},
        {"value": {**FIELDS["value"], "null": [True, 11], "short": [1, 11]}},
        {"value": {**FIELDS["value"], "short": [0, 11]}},
        {"value": {**FIELDS["value"], "ids": [[7, 4, 10], [7, 3, 12]]}},
        {"value": {**FIELDS["value"], "ids": [[2**31, 7, 10]]}},
        {"value": {**FIELDS["value"], "ids": [["7", 7, 10]]}},
        {"value": {**FIELDS["value"], "guids": [["five", 1, 19]]}},
        {"value": {**FIELDS["value"], "guids": [[5, 1, 19]]}},
        {"value": {**FIELDS["value"], "ids": 3}},
    ],
)
def test_what_was_not_written_for_such_a_segment_is_refused(fields: object) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        read(fields)


def test_a_segment_that_says_something_else_than_its_records_is_told() -> None:
    check_schema_ids(COUNTS, COUNTS, where="here")
    check_schema_ids(None, None, where="here")
    counted = {"value": SideCounts(nameless={}, names={8: Seen(11, 10)})}
    with pytest.raises(ChainBrokenError, match=r"here says .*\[7, 4, 10\].* and they have .*\[8, 11, 10\]") as told:
        check_schema_ids(COUNTS, counted, where="here")
    assert "schemas check" in told.value.hint
    with pytest.raises(ChainBrokenError, match=f"more than {NAMES_MAX} value schemas"):
        check_schema_ids(COUNTS, None, where="here")


def test_of_many_ids_those_that_differ_are_named_and_no_others() -> None:
    many: dict[int | UUID, Seen] = {number: Seen(1, number) for number in range(NAMES_MAX)}
    keys = SideCounts(nameless={}, names=many)
    said = {"key": keys, "value": SideCounts(nameless={}, names=many)}
    counted = {"key": keys, "value": SideCounts(nameless={}, names={**many, 7: Seen(1, 8)})}
    with pytest.raises(ChainBrokenError) as told:
        check_schema_ids(said, counted, where="here")
    assert "{'value': {'ids': [[7, 1, 7]]}}, and they have {'value': {'ids': [[7, 1, 8]]}}" in str(told.value)


def test_of_many_differences_the_first_are_named_and_how_many_more_there_are() -> None:
    said = {"value": SideCounts(nameless={}, names={number: Seen(1, number) for number in range(NAMES_MAX)})}
    counted = {"value": SideCounts(nameless={Framing.NULL: Seen(NAMES_MAX, 0)}, names={})}
    with pytest.raises(ChainBrokenError, match=rf"\[0, 1, 0\].* and {NAMES_MAX - 10} more, and they have") as told:
        check_schema_ids(said, counted, where="here")
    assert len(str(told.value)) < 500


def test_a_side_with_more_ids_than_are_counted_is_told() -> None:
    said = {"value": SideCounts(nameless={}, names={number: Seen(1, number) for number in range(NAMES_MAX + 1)})}
    with pytest.raises(ChainBrokenError, match=f"more than {NAMES_MAX}") as told:
        check_schema_ids(said, None, where="here")
    assert len(str(told.value)) < 500
