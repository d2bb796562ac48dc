"""Offset maps: which destination offset each source offset has, in pages that never change once full."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.map.offset_map import (
    RUNS_PER_PAGE_MAX,
    MappedRun,
    OffsetMap,
    OpenPage,
    add_runs,
    coalesced_runs,
    decode_runs,
    first_copies,
    later_pages,
    open_page,
    runs_before,
)
from mirrorlake.errors import DestinationForeignError
from mirrorlake.offsets import OffsetRange


def run(start: int, length: int, at: int) -> MappedRun:
    return MappedRun(start_offset=start, length=length, destination_offset=at)


RUNS = [run(100, 3, 5000), run(103, 2, 5004), run(110, 1, 5006)]


def test_a_page_has_these_bytes() -> None:
    full, page = add_runs(OpenPage.at(100), RUNS)
    assert full == []
    # passed over, length, passed over at the destination; 5000 is 0x88 0x27 in LEB128
    assert page.encoded == bytes([0, 3, 0x88, 0x27]) + bytes([0, 2, 1]) + bytes([5, 1, 0])
    assert (page.runs, page.last_end, page.last_destination_end) == (3, 111, 5007)


def test_a_page_is_read_back_from_its_bytes() -> None:
    _, page = add_runs(OpenPage.at(100), RUNS)
    assert list(decode_runs(100, page.encoded)) == RUNS
    assert open_page(100, page.encoded) == page


def test_runs_may_come_in_several_transactions() -> None:
    _, once = add_runs(OpenPage.at(100), RUNS)
    page = OpenPage.at(100)
    for each in RUNS:
        _, page = add_runs(page, [each])
    assert page == once


def test_a_page_that_is_full_is_complete_and_the_next_begins_where_it_ends() -> None:
    runs = [run(2 * n, 1, 3 * n) for n in range(RUNS_PER_PAGE_MAX + 2)]
    _, page = add_runs(OpenPage.at(0), runs[:10])
    full, rest = add_runs(page, runs[10:])
    assert [each.offsets for each in full] == [OffsetRange(start_offset=0, end_offset=2 * RUNS_PER_PAGE_MAX - 1)]
    assert list(decode_runs(0, full[0].encoded)) == runs[:RUNS_PER_PAGE_MAX]
    assert rest.start_offset == 2 * RUNS_PER_PAGE_MAX - 1
    assert list(decode_runs(rest.start_offset, rest.encoded)) == runs[RUNS_PER_PAGE_MAX:]


def test_one_transaction_may_fill_several_pages() -> None:
    runs = [run(2 * n, 1, 3 * n) for n in range(3 * RUNS_PER_PAGE_MAX)]
    full, rest = add_runs(OpenPage.at(0), runs)
    assert len(full) == 3
    assert [each for page in full for each in decode_runs(page.offsets.start_offset, page.encoded)] == runs
    assert (rest.runs, rest.start_offset) == (0, runs[-1].end_offset)


@pytest.mark.parametrize("next_run", [run(110, 1, 9000), run(200, 1, 5006), run(200, 0, 9000)])
def test_a_run_that_does_not_follow_is_refused(next_run: MappedRun) -> None:
    _, page = add_runs(OpenPage.at(100), RUNS)
    with pytest.raises(ValueError, match="does not follow"):
        add_runs(page, [next_run])


def test_neighbours_with_nothing_between_are_one_run() -> None:
    assert coalesced_runs([run(0, 2, 10), run(2, 3, 12), run(5, 1, 16), run(7, 1, 17)]) == [
        run(0, 5, 10),
        run(5, 1, 16),
        run(7, 1, 17),
    ]


@pytest.mark.parametrize("broken", [b"\x00", b"\x00\x01", b"\x80" * 12, b"\x00\x00\x00"])
def test_bytes_that_are_no_page_are_refused(broken: bytes) -> None:
    with pytest.raises(DestinationForeignError):
        list(decode_runs(0, broken))


def test_a_map_translates_offsets_with_a_record_and_no_others() -> None:
    offset_map = OffsetMap(OffsetRange(start_offset=90, end_offset=120), RUNS)
    found = {offset: offset_map.destination_of(offset) for offset in range(95, 115)}
    assert {offset: at for offset, at in found.items() if at is not None} == {
        100: 5000,
        101: 5001,
        102: 5002,
        103: 5004,
        104: 5005,
        110: 5006,
    }


def test_destination_offsets_of_others_have_no_source() -> None:
    offset_map = OffsetMap(OffsetRange(start_offset=90, end_offset=120), RUNS)
    sources = offset_map.sources_of(np.arange(4998, 5009, dtype=np.int64))
    assert sources.tolist() == [-1, -1, 100, 101, 102, -1, 103, 104, 110, -1, -1]


def test_destination_ranges_are_told_by_the_source_offsets_of_what_is_ours_in_them() -> None:
    offset_map = OffsetMap(OffsetRange(start_offset=90, end_offset=120), RUNS)

    def told(*ranges: tuple[int, int]) -> list[tuple[int, int]]:
        found = offset_map.source_ranges(OffsetRange(start_offset=start, end_offset=end) for start, end in ranges)
        return [(each.start_offset, each.end_offset) for each in found]

    assert told((4990, 5002), (5002, 5005), (5006, 6000)) == [(100, 102), (102, 103), (103, 104), (110, 111)]
    assert told((5003, 5004), (5007, 5010), (0, 5000)) == []


def test_a_part_of_a_map_speaks_about_that_part_only() -> None:
    part = OffsetMap(OffsetRange(start_offset=90, end_offset=120), RUNS).within(
        OffsetRange(start_offset=101, end_offset=104)
    )
    assert part.runs == (run(101, 2, 5001), run(103, 1, 5004))
    assert part.destination_range == OffsetRange(start_offset=5001, end_offset=5005)


@given(
    st.lists(
        st.tuples(st.integers(0, 2**40), st.integers(1, 2**31), st.integers(0, 2**40)), max_size=3 * RUNS_PER_PAGE_MAX
    ),
    st.integers(0, 2**60),
    st.lists(st.integers(1, 300), min_size=1, max_size=20),
)
def test_whatever_the_runs_their_pages_give_them_back(
    steps: list[tuple[int, int, int]], start: int, cuts: list[int]
) -> None:
    runs, end, destination_end = [], start, 0
    for passed, length, destination_passed in steps:
        runs.append(run(end + passed, length, destination_end + destination_passed))
        end, destination_end = runs[-1].end_offset, runs[-1].destination_end
    page, pages, rest = OpenPage.at(start), [], list(runs)
    for cut in [*cuts, len(runs)]:
        full, page = add_runs(page, rest[:cut])
        rest = rest[cut:]
        pages += full
    found = [each for full in pages for each in decode_runs(full.offsets.start_offset, full.encoded)]
    found += decode_runs(page.start_offset, page.encoded)
    assert found == runs


# Offsets 40 to 59 were skipped, 60 to 69 copied, and then all from 45 on: at 5100.
SKIPPED = [run(0, 40, 5000), run(60, 10, 5040)]
LATER = [run(45, 25, 5100)]


def test_of_records_copied_twice_the_map_names_the_first_and_of_skipped_ones_the_later() -> None:
    assert first_copies(SKIPPED, [LATER]) == [run(0, 40, 5000), run(45, 15, 5100), run(60, 10, 5040)]
    assert first_copies(SKIPPED, [LATER, [run(40, 8, 5200)]])[1:3] == [run(40, 5, 5200), run(45, 15, 5100)]
    assert first_copies(SKIPPED, []) == SKIPPED
    assert first_copies([], [LATER]) == LATER


def test_a_map_with_skipped_records_translates_both_ways_and_comes_in_stretches() -> None:
    found = OffsetMap(OffsetRange(start_offset=0, end_offset=70), first_copies(SKIPPED, [LATER]))

    assert [found.destination_of(offset) for offset in (39, 40, 45, 59, 60, 69)] == [5039, None, 5100, 5114, 5040, 5049]
    assert found.sources_of(np.array([5000, 5045, 5050, 5100, 5114, 5115])).tolist() == [0, 65, -1, 45, 59, -1]
    assert found.destination_range == OffsetRange(start_offset=5000, end_offset=5115)
    assert [part.runs for part in found.stretches] == [
        (run(0, 40, 5000), run(45, 15, 5100)),
        (run(60, 10, 5040),),
    ]
    assert found.within(OffsetRange(start_offset=50, end_offset=65)).runs == (run(50, 10, 5105), run(60, 5, 5040))


def test_the_lowest_place_of_all_that_follows_lies_before_records_that_were_skipped() -> None:
    found = OffsetMap(OffsetRange(start_offset=0, end_offset=70), first_copies(SKIPPED, [LATER]))

    assert [found.place_from(offset) for offset in (0, 39, 40, 50, 61, 69)] == [5000, 5039, 5040, 5040, 5041, 5049]
    assert found.place_from(70) is None
    assert OffsetMap(OffsetRange(start_offset=0, end_offset=0), []).place_from(0) is None


def test_what_lies_before_the_end_of_a_map_goes_to_pages_that_give_it_back() -> None:
    runs = [run(10 * n, 5, 7 * n) for n in range(RUNS_PER_PAGE_MAX + 3)]

    assert runs_before([run(45, 25, 5100), run(80, 2, 5200)], 60) == [run(45, 15, 5100)]
    pages = later_pages(runs)
    assert [page.offsets.start_offset for page in pages] == [0, 10 * RUNS_PER_PAGE_MAX]
    assert [each for page in pages for each in decode_runs(page.offsets.start_offset, page.encoded)] == runs
    assert later_pages([]) == []
