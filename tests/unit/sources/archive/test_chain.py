"""Which segment serves which offset, by names alone."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.names import SegmentName, floor_name
from mirrorlake.errors import ChainBrokenError
from mirrorlake.offsets import OffsetRange
from mirrorlake.sources.archive.chain import SegmentChain, chain_of
from mirrorlake.stores.object_store import ObjectInfo

WHERE = "orders/0"


def info(name: str, size_bytes: int = 100) -> ObjectInfo:
    return ObjectInfo(key=f"{WHERE}/{name}", size_bytes=size_bytes)


def listing(*ranges: tuple[int, int], extension: str = "parquet", floor: int = 0) -> list[ObjectInfo]:
    """A folder as stores list it: by name."""
    names = [str(SegmentName(from_offset=start, to_offset=end - 1, extension=extension)) for start, end in ranges]
    return sorted([*map(info, names), *([info(floor_name(floor))] if floor else [])], key=lambda each: each.name)


def served(chain: SegmentChain, position: int) -> tuple[int, int] | None:
    found = chain.at(position)
    return None if found is None else (found.name.from_offset, found.name.end_offset)


def test_each_offset_is_served_by_the_segment_that_holds_it() -> None:
    chain = chain_of(listing((0, 10), (10, 25), (25, 26)), where=WHERE)

    assert (chain.start, chain.end, chain.hole, len(chain)) == (0, 26, None, 3)
    assert [served(chain, at) for at in (0, 9, 10, 24, 25, 26)] == [
        (0, 10),
        (0, 10),
        (10, 25),
        (10, 25),
        (25, 26),
        None,
    ]


def test_an_empty_folder_is_an_empty_log() -> None:
    chain = chain_of([], where=WHERE)

    assert (chain.start, chain.end, chain.hole, chain.last) == (0, 0, None, None)


def test_what_a_larger_segment_covers_is_passed_over_whatever_its_format() -> None:
    merged = listing((0, 30), extension="log") + listing((0, 10), (10, 20), (20, 30), (30, 40))

    chain = chain_of(sorted(merged, key=lambda each: each.name), where=WHERE)

    assert (chain.end, len(chain)) == (40, 2)
    assert served(chain, 15) == (0, 30)


def test_two_formats_of_one_range_are_one_segment() -> None:
    both = sorted(listing((0, 10)) + listing((0, 10), extension="ndjson"), key=lambda each: each.name)

    assert len(chain_of(both, where=WHERE)) == 1


def test_a_log_ends_at_the_first_hole_whatever_lies_behind_it() -> None:
    chain = chain_of(listing((0, 10), (15, 20), (30, 40)), where=WHERE)

    assert (chain.end, chain.hole) == (10, OffsetRange(start_offset=10, end_offset=15))
    assert served(chain, 16) is None
    assert not chain.is_settled


def test_a_chain_that_does_not_begin_at_its_floor_has_a_hole_there() -> None:
    chain = chain_of(listing((20, 30), floor=15), where=WHERE)

    assert (chain.start, chain.end, chain.hole) == (15, 15, OffsetRange(start_offset=15, end_offset=20))


def test_what_ends_at_or_below_the_floor_is_no_part_of_it_however_broken() -> None:
    chain = chain_of(listing((0, 10), (12, 15), (15, 30), floor=20), where=WHERE)

    assert (chain.start, chain.end, chain.hole, len(chain)) == (15, 30, None, 1)


def test_what_was_recorded_and_is_not_there_is_a_hole() -> None:
    chain = chain_of(listing((0, 10)), where=WHERE, reached=30)

    assert (chain.end, chain.hole) == (10, OffsetRange(start_offset=10, end_offset=30))
    assert chain_of(listing((0, 10)), where=WHERE, reached=10).hole is None
    assert chain_of([], where=WHERE, reached=7).hole == OffsetRange(start_offset=0, end_offset=7)


@pytest.mark.parametrize("crosses_holes", [False, True])
def test_a_folder_whose_first_segments_are_missing_is_not_one_without_any(crosses_holes: bool) -> None:
    def bare(*ranges: tuple[int, int]) -> bool:
        return chain_of(listing(*ranges), where=WHERE, reached=30, crosses_holes=crosses_holes).is_bare

    assert bare()
    assert not bare((0, 10))
    assert not bare((10, 30))
    assert not bare((30, 40)), "what was recorded may be as old as the first segment that is left"


def test_segments_that_overlap_end_the_log_and_say_which() -> None:
    chain = chain_of(listing((0, 10), (5, 20)), where=WHERE)

    assert (chain.end, chain.hole) == (10, None)
    assert chain.overlap is not None
    assert chain.overlap.facts == {"expected": 10, "found": 5}


def test_a_name_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(ChainBrokenError, match=r"notes\.txt"):
        chain_of([*listing((0, 10)), info("notes.txt")], where=WHERE)


def test_a_chain_is_followed_by_what_came_since() -> None:
    chain = chain_of(listing((0, 10), (10, 20)), where=WHERE)

    grown = chain.followed_by(listing((10, 20), (20, 35)), where=WHERE)

    assert grown is not None
    assert (grown.start, grown.end, len(grown)) == (0, 35, 3)
    assert served(grown, 3) == (0, 10)
    assert chain.followed_by(listing((10, 20)), where=WHERE) is chain
    assert (chain.end, len(chain)) == (20, 2)


@pytest.mark.parametrize(
    "after",
    [listing(), listing((20, 30)), listing((0, 20)), listing((10, 20), floor=10)],
    ids=["gone", "gone and followed", "merged", "retired"],
)
def test_what_changed_before_the_end_needs_a_whole_look(after: list[ObjectInfo]) -> None:
    chain = chain_of(listing((0, 10), (10, 20)), where=WHERE)

    assert chain.followed_by(after, where=WHERE) is None


def test_a_hole_that_comes_behind_the_end_is_seen() -> None:
    chain = chain_of(listing((0, 10)), where=WHERE)

    grown = chain.followed_by(listing((0, 10), (12, 20)), where=WHERE)

    assert grown is not None
    assert (grown.end, grown.hole) == (10, OffsetRange(start_offset=10, end_offset=12))


RANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=12
)


@given(ranges=RANGES, floor=st.integers(0, 30))
def test_what_is_served_is_there_and_all_below_the_end_is_served(ranges: Sequence[tuple[int, int]], floor: int) -> None:
    there = set(ranges)
    chain = chain_of(listing(*there, floor=floor), where=WHERE)

    assert chain.start <= chain.end
    for offset in range(chain.start, chain.end):
        segment = served(chain, offset)
        assert segment in there
        assert segment is not None
        assert segment[0] <= offset < segment[1]
    assert chain.at(chain.end) is None
    kept = [each for each in there if each[1] > floor]
    # Where nothing is wrong nothing is left out.
    if chain.is_settled:
        assert chain.end == max([each[1] for each in kept], default=floor)
    # What only begins at or below the floor counts from it on; a hole is no segment's.
    if chain.hole is not None:
        assert not any(start < chain.hole.end_offset and chain.hole.start_offset < end for start, end in kept)


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=10), known=st.integers(1, 10))
def test_following_a_chain_finds_what_a_whole_look_finds(sizes: list[int], known: int) -> None:
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    ranges = list(zip([0, *ends[:-1]], ends, strict=True))
    known = min(known, len(ranges))
    before = chain_of(listing(*ranges[:known]), where=WHERE)

    grown = before.followed_by(listing(*ranges[known - 1 :]), where=WHERE)

    assert grown == chain_of(listing(*ranges), where=WHERE)


def crossing(*ranges: tuple[int, int], floor: int = 0, reached: int = 0) -> SegmentChain:
    return chain_of(listing(*ranges, floor=floor), where=WHERE, reached=reached, crosses_holes=True)


def holes(chain: SegmentChain) -> list[tuple[int, int]]:
    return [(each.start_offset, each.end_offset) for each in chain.holes]


def test_where_holes_are_crossed_all_segments_are_seen_and_the_holes_between_them() -> None:
    chain = crossing((0, 10), (20, 30), (30, 40), (45, 50))

    assert (chain.start, chain.end, chain.hole, chain.overlap) == (0, 50, None, None)
    assert holes(chain) == [(10, 20), (40, 45)]
    assert [served(chain, at) for at in (9, 10, 19, 20, 44, 45)] == [(0, 10), None, None, (20, 30), None, (45, 50)]
    assert not chain.is_settled, "one listing proves no hole"


def test_what_is_missing_behind_all_segments_is_never_crossed() -> None:
    chain = crossing((0, 10), (20, 30), reached=50)

    assert (chain.end, holes(chain)) == (30, [(10, 20)])
    assert chain.hole == OffsetRange(start_offset=30, end_offset=50)


def test_a_hole_above_the_floor_is_one_and_below_it_none() -> None:
    above = crossing((5, 10), (20, 30), floor=15)
    assert (above.start, above.end, holes(above)) == (15, 30, [(15, 20)])
    below = crossing((0, 10), (20, 30), floor=20)
    assert (below.start, below.end, holes(below)) == (20, 30, [])


def test_an_overlap_ends_a_chain_with_holes_too() -> None:
    chain = crossing((0, 10), (20, 30), (25, 40), (40, 50))

    assert (chain.end, holes(chain)) == (30, [(10, 20)])
    assert chain.overlap is not None


def test_two_listings_with_other_holes_do_not_say_the_same() -> None:
    assert not crossing((0, 10), (20, 30)).says_the_same(crossing((0, 10), (10, 15), (20, 30)))
    assert crossing((0, 10), (20, 30)).says_the_same(crossing((0, 10), (20, 30)))


@given(cuts=st.lists(st.integers(1, 60), unique=True, min_size=1, max_size=12), lost=st.sets(st.integers(0, 11)))
def test_segments_and_holes_account_for_every_offset_once(cuts: list[int], lost: set[int]) -> None:
    ends = sorted(cuts)
    ranges = list(zip([0, *ends[:-1]], ends, strict=True))
    kept = [each for number, each in enumerate(ranges) if number not in lost or number == len(ranges) - 1]

    chain = crossing(*kept)

    missing = {at for start, end in holes(chain) for at in range(start, end)}
    assert {at for at in range(ends[-1]) if chain.at(at) is None} == missing
    assert {at for start, end in kept for at in range(start, end)} == set(range(ends[-1])) - missing
