from collections.abc import Iterator

import pytest

from mirrorlake.archive.chain import (
    Chain,
    Segment,
    Upkeep,
    check_chain,
    check_tail,
    end_at_or_above,
    merged_segments,
    tail_start_after,
    upkeep_of,
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
        ClaimName(from_offset=10, generation=1),
    )


def test_a_chain_that_does_not_start_at_zero_is_refused() -> None:
    with pytest.raises(ChainBrokenError, match=f"starts with {name_of(5, 9)} instead of at offset 0"):
        check(name_of(5, 9))


def test_a_hole_is_refused_with_both_names() -> None:
    with pytest.raises(ChainBrokenError, match=f"{name_of(11, 20)} leaves a hole after {name_of(0, 9)}"):
        check(name_of(0, 9), name_of(11, 20))


@pytest.mark.parametrize(
    ("first", "second"), [((0, 9), (5, 20)), ((0, 9), (9, 9)), ((0, 9), (0, 12)), ((0, 20), (5, 9))]
)
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


@pytest.mark.parametrize("other", [(10, 12), (12, 19)])
def test_a_tail_that_was_replaced_is_found(other: tuple[int, int]) -> None:
    with pytest.raises(ChainBrokenError, match=f"{name_of(*other)} .* stands in its place"):
        tail(segment(10, 19), name_of(*other))


def test_a_tail_of_another_size_is_found() -> None:
    with pytest.raises(ChainBrokenError, match=r"\(100 bytes\).*\(99 bytes\)"):
        tail(segment(10, 19), name_of(10, 19), size_bytes=99)


def test_a_second_segment_from_the_tails_start_is_found() -> None:
    with pytest.raises(ChainBrokenError, match="overlaps"):
        tail(segment(10, 19), name_of(10, 19), name_of(10, 29))


@pytest.mark.parametrize("foreign", [name_of(21, 29), "README", "9.parquet", name_of(20, 29, "ndjson")])
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
    assert end_at_or_above(listing(*names), 10, where="orders/0") == end


def merged(level: int, *ranges: tuple[int, int]) -> list[Segment]:
    names = listing(*(name_of(start, end) for start, end in ranges))
    return list(merged_segments(names, level=level, extension="parquet", where=f"orders/0/level={level}"))


def with_upkeep(upkeep: Upkeep, *ranges: tuple[int, int]) -> tuple[Chain, list[str]]:
    names = [name_of(start, end) for start, end in ranges]
    chain = check_chain(listing(*names), extension="parquet", where="orders/0", upkeep=upkeep)
    walk = walk_chain(listing(*names), extension="parquet", where="orders/0", upkeep=upkeep)
    return chain, [segment.path for segment in walk]


FIRST_20 = f"level=1/{name_of(0, 19)}"


@pytest.mark.parametrize(
    "level0",
    [
        [(20, 29)],
        [(0, 9), (10, 19), (20, 29)],  # the merge has not deleted yet
        [(10, 19), (20, 29)],  # it died in the middle
        [(0, 9), (20, 29)],
    ],
)
def test_a_merged_segment_stands_for_those_it_was_made_of(level0: list[tuple[int, int]]) -> None:
    chain, paths = with_upkeep(upkeep_of(merged(1, (0, 19)), ()), *level0)
    assert paths == [FIRST_20, name_of(20, 29)]
    assert (chain.position, chain.tail, chain.segment_count) == (30, segment(20, 29), 2)


def test_the_highest_level_stands_for_all_below_it() -> None:
    upkeep = upkeep_of([*merged(1, (0, 9), (10, 19), (20, 29)), *merged(2, (0, 19))], ())
    _, paths = with_upkeep(upkeep, (0, 4), (5, 9), (20, 29), (30, 30))
    assert paths == [f"level=2/{name_of(0, 19)}", f"level=1/{name_of(20, 29)}", name_of(30, 30)]


@pytest.mark.parametrize(
    ("level1", "level0", "message"),
    [
        ((0, 19), [(10, 24), (25, 29)], f"{name_of(10, 24)} overlaps {FIRST_20}"),
        ((5, 19), [(0, 9), (20, 29)], f"level=1/{name_of(5, 19)} overlaps {name_of(0, 9)}"),
        ((0, 19), [(21, 29)], f"{name_of(21, 29)} leaves a hole after {FIRST_20}"),
        ((10, 19), [(20, 29)], f"starts with level=1/{name_of(10, 19)} instead of at offset 0"),
        ((0, 19), [(10, 14)], f"{FIRST_20} reaches offset 20.*the newest left is {name_of(10, 14)}"),
        ((0, 19), [], f"{FIRST_20} reaches offset 20.*none is left"),
    ],
)
def test_merged_segments_excuse_nothing_else(
    level1: tuple[int, int], level0: list[tuple[int, int]], message: str
) -> None:
    with pytest.raises(ChainBrokenError, match=message):
        with_upkeep(upkeep_of(merged(1, level1), ()), *level0)


def floors(*offsets: int) -> list[ObjectInfo]:
    return list(listing(*(f"_floor-{offset:020d}" for offset in offsets), "_SUCCESS", "_floor-7"))


@pytest.mark.parametrize("level0", [[(20, 29)], [(10, 19), (20, 29)], [(0, 9), (20, 29)], [(3, 5), (15, 29)]])
def test_whatever_ends_below_the_highest_floor_is_passed_over(level0: list[tuple[int, int]]) -> None:
    chain, paths = with_upkeep(upkeep_of((), floors(20, 10)), *level0)
    assert paths == [name_of(*level0[-1])]
    assert (chain.start_offset, chain.position) == (level0[-1][0], 30)


def test_a_chain_that_starts_above_its_floor_is_refused() -> None:
    with pytest.raises(ChainBrokenError, match=f"starts with {name_of(21, 29)} instead of at offset 20"):
        with_upkeep(upkeep_of((), floors(20)), (21, 29))


def test_a_floor_with_nothing_above_it_is_refused() -> None:
    with pytest.raises(ChainBrokenError, match=r"everything below the floor 20 reaches offset 20.*none is left"):
        with_upkeep(upkeep_of((), floors(20)))


def test_a_merged_segment_may_reach_over_the_floor() -> None:
    chain, paths = with_upkeep(upkeep_of(merged(1, (0, 19)), floors(10)), (10, 19), (20, 29))
    assert paths == [FIRST_20, name_of(20, 29)]
    assert chain.start_offset == 0
