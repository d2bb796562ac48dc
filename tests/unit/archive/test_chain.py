from collections.abc import Iterator
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.chain import (
    Chain,
    Segment,
    check_chain,
    check_tail,
    end_above,
    floor_of,
    tail_start_after,
    uncovered,
    walk_chain,
)
from mirrorlake.archive.names import ClaimName, SegmentName
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.object_store import ObjectInfo


def name_of(start: int, end: int, extension: str = "parquet") -> str:
    return f"{start:020d}-{end:020d}.{extension}"


def listing(*names: str, size_bytes: int = 100) -> Iterator[ObjectInfo]:
    return (ObjectInfo(key=f"orders/0/{name}", size_bytes=size_bytes) for name in sorted(names))


def check(*names: str) -> Chain:
    return check_chain(listing(*names), extension="parquet", where="orders/0")


def segment(start: int, end: int, size_bytes: int = 100) -> Segment:
    return Segment(name=SegmentName(from_offset=start, to_offset=end, extension="parquet"), size_bytes=size_bytes)


def test_an_empty_folder_is_a_chain_at_position_zero() -> None:
    assert check() == Chain(position=0, tail=None, segment_count=0, claims=())


def test_a_chain_ends_after_its_last_segment() -> None:
    chain = check(name_of(0, 9), name_of(10, 10), name_of(11, 99))
    assert chain == Chain(position=100, tail=segment(11, 99), segment_count=3, claims=())


def test_walking_a_chain_gives_every_segment_in_order() -> None:
    walk = walk_chain(listing(name_of(0, 9), name_of(10, 20)), extension="parquet", where="orders/0")
    assert list(walk) == [segment(0, 9), segment(10, 20)]


def test_staged_and_reserved_names_are_passed_over_and_claims_are_kept() -> None:
    chain = check(
        name_of(0, 9),
        name_of(10, 19) + ".tmp.0b5a",
        "_claim-00000000000000000010",
        "_claim-00000000000000000010.1",
        "_claim-00000000000000000003",
        "_SUCCESS",
    )
    assert chain.position == 10
    assert chain.claims == (
        ClaimName(from_offset=3),
        ClaimName(from_offset=10),
        ClaimName(from_offset=10, revision=1),
    )


def test_a_chain_that_does_not_start_at_zero_is_refused() -> None:
    with pytest.raises(ChainBrokenError, match=f"starts with {name_of(5, 9)} instead of at offset 0"):
        check(name_of(5, 9))


def test_a_hole_is_refused_with_both_names() -> None:
    with pytest.raises(ChainBrokenError, match=f"{name_of(11, 20)} leaves a hole after {name_of(0, 9)}"):
        check(name_of(0, 9), name_of(11, 20))


@pytest.mark.parametrize(("first", "second"), [((0, 9), (5, 20)), ((0, 9), (9, 10)), ((0, 20), (20, 29))])
def test_an_overlap_is_refused_with_both_names(first: tuple[int, int], second: tuple[int, int]) -> None:
    with pytest.raises(ChainBrokenError, match=f"{name_of(*second)} overlaps {name_of(*first)}") as refused:
        check(name_of(*first), name_of(*second))
    assert refused.value.facts["previous"] == name_of(*first)
    assert refused.value.hint


def test_another_format_in_the_folder_is_refused() -> None:
    with pytest.raises(ChainBrokenError, match="is ndjson, and this mirror writes parquet") as refused:
        check(name_of(0, 9), name_of(10, 19, "ndjson"))
    assert "format: ndjson" in refused.value.hint


@pytest.mark.parametrize(
    "foreign", ["README", "1-2.parquet", name_of(9, 3), name_of(0, 9) + ".crc", ".DS_Store", "+0-+5.parquet"]
)
def test_a_foreign_name_is_refused_by_name(foreign: str) -> None:
    with pytest.raises(ChainBrokenError, match="is not a name mirrorlake writes") as refused:
        check(name_of(0, 9), foreign)
    assert refused.value.facts["name"] == foreign
    assert "move it" in refused.value.hint


def test_the_narrow_listing_starts_right_before_the_tail() -> None:
    after = tail_start_after(segment(10, 19))
    assert name_of(0, 9) < name_of(9, 9) < after < name_of(10, 10) < name_of(10, 19) < "_claim-"
    assert tail_start_after(None) == ""


def tail(known: Segment, *names: str, size_bytes: int = 100) -> Chain:
    return check_tail(known, listing(*names, size_bytes=size_bytes), extension="parquet", where="orders/0")


def test_a_tail_that_is_as_known_keeps_its_position() -> None:
    found = tail(segment(10, 19), name_of(10, 19), "_claim-00000000000000000020")
    assert found == Chain(position=20, tail=segment(10, 19), segment_count=1, claims=(ClaimName(from_offset=20),))


def test_segments_that_followed_the_tail_move_the_position() -> None:
    found = tail(segment(10, 19), name_of(10, 19), name_of(20, 24), name_of(25, 29))
    assert (found.position, found.tail, found.segment_count) == (30, segment(25, 29), 3)


def test_a_tail_that_was_deleted_is_found() -> None:
    with pytest.raises(ChainBrokenError, match=f"{name_of(10, 19)} is gone"):
        tail(segment(10, 19))


def test_a_tail_that_was_merged_away_asks_for_a_whole_check() -> None:
    with pytest.raises(PositionMovedError, match=f"{name_of(20, 24)} has followed it"):
        tail(segment(10, 19), name_of(20, 24))


@pytest.mark.parametrize("other", [(10, 12), (12, 19), (12, 29)])
def test_a_tail_that_was_replaced_is_found(other: tuple[int, int]) -> None:
    with pytest.raises(ChainBrokenError, match=f"{name_of(*other)} .* is in its place"):
        tail(segment(10, 19), name_of(*other))


def test_a_tail_of_another_size_is_found() -> None:
    with pytest.raises(ChainBrokenError, match=r"\(100 bytes\).*\(99 bytes\)"):
        tail(segment(10, 19), name_of(10, 19), size_bytes=99)


@pytest.mark.parametrize("there", [(name_of(10, 19), name_of(10, 29)), (name_of(10, 29),)])
def test_a_tail_that_a_larger_segment_covers_asks_for_a_whole_check(there: tuple[str, ...]) -> None:
    with pytest.raises(PositionMovedError, match=f"{name_of(10, 29)} covers {name_of(10, 19)}"):
        tail(segment(10, 19), *there)


@pytest.mark.parametrize("following", [name_of(21, 29), name_of(19, 29)])
def test_what_follows_the_tail_and_is_no_chain_asks_for_a_whole_check(following: str) -> None:
    """It may have been merged since, or listed while it changed; whoever checks it whole refuses it if it stays so."""
    with pytest.raises(PositionMovedError, match=f"{following} .* {name_of(10, 19)}"):
        tail(segment(10, 19), name_of(10, 19), following)


def test_what_lies_inside_what_followed_the_tail_is_passed_over() -> None:
    found = tail(segment(10, 19), name_of(10, 12), name_of(10, 19), name_of(13, 19), name_of(20, 29), name_of(25, 29))
    assert (found.position, found.tail, found.segment_count) == (30, segment(20, 29), 2)


@pytest.mark.parametrize("foreign", ["README", "9.parquet", name_of(20, 29, "ndjson")])
def test_what_does_not_belong_after_the_tail_is_found(foreign: str) -> None:
    with pytest.raises(ChainBrokenError):
        tail(segment(10, 19), name_of(10, 19), foreign)


@pytest.mark.parametrize(
    ("names", "end"),
    [
        ((), None),
        ((name_of(0, 9),), None),
        ((name_of(10, 10),), 11),
        ((name_of(5, 10),), 11),
        ((name_of(10, 19), name_of(20, 29, "ndjson")), 30),
        (("_claim-00000000000000000010", name_of(10, 12) + ".tmp.1"), None),
    ],
)
def test_a_segment_ending_at_or_above_an_offset_is_seen_whatever_its_format(
    names: tuple[str, ...], end: int | None
) -> None:
    assert end_above(listing(*names), 10, behind=None, where="orders/0") == end


@pytest.mark.parametrize(
    ("names", "size_bytes", "word"),
    [
        ([], 100, "is gone"),
        ([name_of(5, 8)], 100, "is gone"),
        ([name_of(5, 9, "log")], 100, "is gone"),
        ([name_of(5, 9)], 99, "in its place"),
    ],
)
def test_nothing_begins_behind_a_segment_that_is_not_there_as_it_was(
    names: list[str], size_bytes: int, word: str
) -> None:
    with pytest.raises(ChainBrokenError, match=word) as refused:
        end_above(listing(*names, size_bytes=size_bytes), 10, behind=segment(5, 9), where="orders/0")
    assert name_of(5, 9) in str(refused.value)


def test_a_segment_begins_behind_one_that_is_there_as_it_was() -> None:
    assert end_above(listing(name_of(5, 9)), 10, behind=segment(5, 9), where="orders/0") is None


def test_what_followed_counts_more_than_what_is_gone() -> None:
    """Somebody went on behind it, and merged it away since."""
    assert end_above(listing(name_of(10, 19)), 10, behind=segment(5, 9), where="orders/0") == 20


def chain_and_names(*ranges: tuple[int, int], floor: int = 0) -> tuple[Chain, list[str]]:
    names = [name_of(start, end) for start, end in ranges]
    chain = check_chain(listing(*names), extension="parquet", where="orders/0", floor=floor)
    walk = walk_chain(listing(*names), extension="parquet", where="orders/0", floor=floor)
    return chain, [str(segment.name) for segment in walk]


@pytest.mark.parametrize(
    "others",
    [
        [(20, 29)],
        [(0, 9), (10, 19), (20, 29)],  # the merge has not deleted yet
        [(10, 19), (20, 29)],  # it died in the middle
        [(0, 9), (20, 29)],
        [(0, 14), (5, 19), (20, 29)],  # nobody asks how what is covered lies
    ],
)
def test_a_segment_stands_for_those_wholly_inside_it(others: list[tuple[int, int]]) -> None:
    chain, names = chain_and_names((0, 19), *others)
    assert names == [name_of(0, 19), name_of(20, 29)]
    assert (chain.position, chain.tail, chain.segment_count) == (30, segment(20, 29), 2)


def test_of_segments_inside_one_another_the_largest_counts() -> None:
    _, names = chain_and_names((0, 4), (5, 9), (0, 9), (10, 19), (0, 19), (20, 29), (20, 24), (30, 30))
    assert names == [name_of(0, 19), name_of(20, 29), name_of(30, 30)]


def test_the_position_is_the_end_of_the_largest_where_it_covers_the_newest() -> None:
    chain, names = chain_and_names((0, 9), (10, 19), (0, 19))
    assert names == [name_of(0, 19)]
    assert (chain.position, chain.tail) == (20, segment(0, 19))


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ([(0, 19), (10, 24), (25, 29)], f"{name_of(10, 24)} overlaps {name_of(0, 19)}"),
        ([(5, 19), (0, 9), (20, 29)], f"{name_of(5, 19)} overlaps {name_of(0, 9)}"),
        ([(0, 19), (5, 9), (21, 29)], f"{name_of(21, 29)} leaves a hole after {name_of(0, 19)}"),
        ([(10, 19), (12, 14), (20, 29)], f"starts with {name_of(10, 19)} instead of at offset 0"),
    ],
)
def test_covering_excuses_nothing_else(ranges: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(ChainBrokenError, match=message):
        chain_and_names(*ranges)


def floors(*offsets: int) -> list[ObjectInfo]:
    return list(listing(*(f"_floor-{offset:020d}" for offset in offsets), "_SUCCESS", "_floor-7"))


@pytest.mark.parametrize("ranges", [[(20, 29)], [(10, 19), (20, 29)], [(0, 9), (20, 29)], [(3, 5), (15, 29)]])
def test_whatever_ends_below_the_highest_floor_is_passed_over(ranges: list[tuple[int, int]]) -> None:
    chain, names = chain_and_names(*ranges, floor=floor_of(floors(20, 10)))
    assert names == [name_of(*ranges[-1])]
    assert (chain.start_offset, chain.position, chain.floor) == (ranges[-1][0], 30, 20)


def test_a_chain_that_starts_above_its_floor_is_refused() -> None:
    with pytest.raises(ChainBrokenError, match=f"starts with {name_of(21, 29)} instead of at offset 20"):
        chain_and_names((21, 29), floor=20)


def test_a_floor_with_nothing_above_it_is_refused() -> None:
    with pytest.raises(ChainBrokenError, match=r"retention deleted all below offset 20,.*none is left"):
        chain_and_names(floor=20)
    with pytest.raises(ChainBrokenError, match=r"retention deleted all below offset 20,.*none is left"):
        check_chain(floors(20), extension="parquet", where="orders/0")
    with pytest.raises(
        ChainBrokenError, match=rf"retention deleted all below offset 20,.*newest left is {name_of(0, 9)}"
    ):
        chain_and_names((0, 9), floor=20)


def test_all_that_is_left_may_end_at_the_floor() -> None:
    chain, names = chain_and_names((0, 9), (10, 19), floor=20)
    assert names == []
    assert (chain.position, chain.tail) == (20, segment(10, 19))


def test_a_merged_segment_may_reach_over_the_floor() -> None:
    chain, names = chain_and_names((0, 19), (10, 19), (20, 29), floor=10)
    assert names == [name_of(0, 19), name_of(20, 29)]
    assert chain.start_offset == 0


# --- from any set of names to the chain ---------------------------------------------------------------------------

RANGES = st.sets(st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair))), max_size=12)


@given(RANGES)
def test_what_is_left_is_what_lies_inside_no_other(ranges: set[tuple[int, int]]) -> None:
    expected = [
        (start, end)
        for start, end in sorted(ranges)
        if not any(low <= start and end <= high and (low, high) != (start, end) for low, high in ranges)
    ]
    found = list(uncovered(segment(start, end) for start, end in sorted(ranges)))
    assert found == [segment(start, end) for start, end in expected]


@given(RANGES, st.integers(0, 20))
def test_any_names_are_a_chain_that_holds_every_offset_once_or_are_refused(
    ranges: set[tuple[int, int]], floor: int
) -> None:
    held = [range(start, end + 1) for start, end in sorted(ranges) if end >= floor]
    largest = [each for each in held if not any(set(each) < set(other) for other in held)]
    offsets = [offset for each in largest for offset in each]
    is_chain = offsets == list(range(offsets[0], offsets[-1] + 1)) and offsets[0] <= floor if offsets else True
    is_newest_there = max([end + 1 for _, end in ranges], default=0) >= floor
    try:
        chain, names = chain_and_names(*ranges, floor=floor)
    except ChainBrokenError:
        assert not (is_chain and is_newest_there)
        return
    assert is_chain
    assert is_newest_there
    assert names == [name_of(each[0], each[-1]) for each in largest]
    assert chain.position == (offsets[-1] + 1 if offsets else floor)


@given(st.data(), st.lists(st.integers(1, 5), min_size=2, max_size=10))
def test_merging_whatever_runs_of_segments_changes_neither_offsets_nor_position(
    data: st.DataObject, lengths: list[int]
) -> None:
    ends = list(accumulate(lengths))
    cuts = [(end - length, end - 1) for end, length in zip(ends, lengths, strict=True)]
    there = set(cuts)
    chain = cuts
    for _ in range(data.draw(st.integers(0, 4))):
        if len(chain) < 3:
            break
        first = data.draw(st.integers(0, len(chain) - 3))
        last = data.draw(st.integers(first + 1, len(chain) - 2))
        inputs = chain[first : last + 1]
        merged = (inputs[0][0], inputs[-1][1])
        chain = [*chain[:first], merged, *chain[last + 1 :]]
        # A merge may die at any of its deletions.
        there = there - set(data.draw(st.lists(st.sampled_from(inputs), unique=True))) | {merged}
    found, names = chain_and_names(*there)
    assert names == [name_of(*each) for each in chain]
    assert found.position == ends[-1]
    assert found.tail == segment(*cuts[-1])
