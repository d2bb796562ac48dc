"""Where a group goes on: no record it has not read lies before that, and none is invented."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.map.offset_map import MappedRun, OffsetMap
from mirrorlake.groups.translation import Placed, Translation, Unknown, together, translate_equal, translate_mapped
from mirrorlake.offsets import OffsetRange, TopicPartition

A, B = TopicPartition("orders", 0), TopicPartition("orders", 4)


def span(start: int, end: int) -> OffsetRange:
    return OffsetRange(start_offset=start, end_offset=end)


def mapping(covered: tuple[int, int], *runs: tuple[int, int, int]) -> OffsetMap:
    """Runs as source offset, length, destination offset."""
    found = [MappedRun(start_offset=s, length=n, destination_offset=d) for s, n, d in runs]
    return OffsetMap(span(*covered), found)


@pytest.mark.parametrize("offset", [10, 11, 19, 20])
def test_with_equal_offsets_a_group_goes_on_at_the_offset_it_had(offset: int) -> None:
    assert translate_equal(offset, span(10, 20)) == Placed(offset=offset)


def test_a_group_that_was_ahead_of_the_archive_goes_on_at_its_end() -> None:
    expected = Placed(offset=20, note="the group had read 5 offset(s) more than there are")
    assert translate_equal(25, span(10, 20)) == expected


def test_a_group_that_stood_before_the_log_begins_with_it() -> None:
    assert translate_equal(3, span(10, 20)) == Placed(offset=10, note="the log begins 7 offset(s) later")


def test_into_an_empty_partition_a_group_goes_on_at_its_end_and_it_is_said() -> None:
    expected = Placed(offset=0, note="the group had read 3 offset(s) more than there are")
    assert translate_equal(3, span(0, 0)) == expected


MAP = mapping((100, 130), (100, 10, 1000), (115, 5, 1012), (120, 5, 2000))


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        (100, 1000),
        (109, 1009),
        (110, 1012),  # no record at 110 to 114: the next one
        (114, 1012),
        (115, 1012),
        (119, 1016),
        (120, 2000),  # others' records or markers lie between
        (124, 2004),
        (125, 2005),  # behind the last record: markers, or nothing
        (130, 2005),
    ],
)
def test_a_mapped_group_goes_on_at_its_record_or_the_next_one_copied(offset: int, place: int) -> None:
    assert translate_mapped(offset, MAP, span(0, 3000)) == Placed(offset=place)


def test_a_mapped_group_that_was_ahead_of_the_archive_goes_on_behind_its_last_record() -> None:
    expected = Placed(offset=2005, note="the group had read 7 offset(s) more than there are")
    assert translate_mapped(137, MAP, span(0, 3000)) == expected


def test_a_mapped_group_that_stood_before_the_copy_begins_with_it() -> None:
    expected = Placed(offset=1000, note="the copy begins 60 offset(s) later")
    assert translate_mapped(40, MAP, span(0, 3000)) == expected


def test_a_place_that_was_deleted_at_the_destination_becomes_its_log_start() -> None:
    expected = Placed(offset=1005, note="the log begins 5 offset(s) later")
    assert translate_mapped(100, MAP, span(1005, 3000)) == expected


def test_a_place_behind_the_destinations_end_is_unknown() -> None:
    assert isinstance(translate_mapped(124, MAP, span(0, 2000)), Unknown)


def test_a_group_at_a_record_that_was_copied_after_later_ones_is_led_to_those() -> None:
    found = mapping((0, 30), (0, 10, 100), (10, 10, 120), (20, 10, 110))

    note = "records that follow its own were copied before it"
    assert translate_mapped(15, found, span(0, 130)) == Placed(offset=110, note=note)
    assert translate_mapped(9, found, span(0, 130)) == Placed(offset=109)
    assert translate_mapped(25, found, span(0, 130)) == Placed(offset=115)
    assert translate_mapped(30, found, span(0, 130)) == Placed(offset=130)


def test_without_a_map_the_place_is_unknown() -> None:
    assert isinstance(translate_mapped(5, None, span(0, 10)), Unknown)


def test_where_nothing_was_copied_an_empty_partition_is_begun_at_its_end_and_any_other_unknown() -> None:
    assert translate_mapped(7, mapping((0, 7)), span(0, 0)) == Placed(offset=0)
    assert isinstance(translate_mapped(7, mapping((0, 7)), span(0, 3)), Unknown)


@st.composite
def copies(draw: st.DrawFn) -> tuple[OffsetMap, dict[int, int]]:
    """A map with what it says, record by record."""
    start = source = draw(st.integers(0, 50))
    destination = draw(st.integers(0, 50))
    runs: list[tuple[int, int, int]] = []
    places: dict[int, int] = {}
    for _ in range(draw(st.integers(0, 6))):
        source += draw(st.integers(0, 4))
        destination += draw(st.integers(0, 4))
        length = draw(st.integers(1, 5))
        runs.append((source, length, destination))
        places |= {source + n: destination + n for n in range(length)}
        source, destination = source + length, destination + length
    return mapping((start, source + draw(st.integers(0, 5))), *runs), places


@given(copies(), st.integers(0, 120), st.integers(0, 5))
def test_no_record_that_was_not_read_lies_before_the_place_and_none_that_was_lies_behind(
    copy: tuple[OffsetMap, dict[int, int]], offset: int, behind: int
) -> None:
    made, places = copy
    end = max([0, *(place + 1 for place in places.values())]) + behind
    found = translate_mapped(offset, made, span(0, end))
    if isinstance(found, Unknown):
        assert not places
        return
    assert all(place >= found.offset for source, place in places.items() if source >= offset)
    assert all(place < found.offset for source, place in places.items() if source < offset)
    assert 0 <= found.offset <= end
    assert bool(found.note) == (offset < made.covered.start_offset or offset > made.covered.end_offset)


@given(st.integers(0, 60), st.integers(0, 30), st.integers(0, 30))
def test_an_equal_place_is_always_within_the_log(offset: int, start: int, length: int) -> None:
    found = translate_equal(offset, span(start, start + length))
    assert start <= found.offset <= start + length
    assert bool(found.note) == (found.offset != offset)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([Placed(offset=7)], Placed(offset=7)),
        ([Placed(offset=7), Placed(offset=7)], Placed(offset=7)),
        ([Placed(offset=9), Placed(offset=7)], Placed(offset=7, note="the lowest of 2 source partitions")),
        ([Unknown(why="so")], Unknown(why="so")),
        ([Placed(offset=7), Unknown(why="so")], Unknown(why="of orders-4: so")),
        (
            [Placed(offset=7), None],
            Unknown(why="records of orders-4 lie there too, and the group had no offset of it"),
        ),
    ],
)
def test_several_sources_in_one_partition_pass_over_nothing(
    places: Sequence[Translation | None], expected: Translation
) -> None:
    assert together(dict(zip((A, B), places, strict=False))) == expected
