"""Names of snapshots: holes are fine, overlaps are not, and the newest must stay what it was."""

import pytest

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.snapshots.chain import (
    check_newest,
    check_snapshots,
    end_above_view,
    replaced_snapshots,
    replacing_name,
    walk_snapshots,
)
from mirrorlake.errors import ChainBrokenError, PositionMovedError
from mirrorlake.stores.object_store import ObjectInfo


def listing(*ranges: tuple[int, int], size: int = 1) -> list[ObjectInfo]:
    return [ObjectInfo(key=f"u/0/{start:020}-{last:020}.parquet", size_bytes=size) for start, last in ranges]


def newest(start: int, last: int) -> Segment:
    return Segment(name=SegmentName(from_offset=start, to_offset=last, extension="parquet"), size_bytes=1)


@pytest.mark.parametrize(
    ("ranges", "position"),
    [((), 0), (((0, 9),), 10), (((461, 470),), 471), (((0, 9), (10, 19)), 20), (((5, 9), (30, 30)), 31)],
    ids=["none", "one", "late start", "two", "hole"],
)
def test_the_position_is_past_the_newest_whatever_is_missing_below(
    ranges: tuple[tuple[int, int], ...], position: int
) -> None:
    chain = check_snapshots(listing(*ranges), extension="parquet", where="u/0")
    assert (chain.position, chain.segment_count) == (position, len(ranges))
    assert chain.tail == (newest(*ranges[-1]) if ranges else None)


@pytest.mark.parametrize(
    ("ranges", "counting"),
    [
        (((0, 9), (1, 9)), ((1, 9),)),
        (((0, 9), (1, 9), (7, 9), (10, 12)), ((7, 9), (10, 12))),
        (((0, 9), (10, 19), (11, 19)), ((0, 9), (11, 19))),
    ],
    ids=["two", "three, and the next", "behind an older one"],
)
def test_of_those_that_end_at_one_offset_the_one_that_begins_last_counts(
    ranges: tuple[tuple[int, int], ...], counting: tuple[tuple[int, int], ...]
) -> None:
    objects = listing(*ranges)
    chain = check_snapshots(objects, extension="parquet", where="u/0")
    assert (chain.position, chain.tail, chain.segment_count) == (
        ranges[-1][1] + 1,
        newest(*counting[-1]),
        len(counting),
    )
    assert list(walk_snapshots(objects, extension="parquet", where="u/0")) == [newest(*each) for each in counting]
    replaced = replaced_snapshots(objects, extension="parquet", where="u/0")
    assert [each for each, _ in replaced] == [newest(*each) for each in ranges if each not in counting]
    for one, other in replaced:
        assert one.name.end_offset == other.name.end_offset
        assert other in [newest(*each) for each in counting]


def test_the_next_name_has_the_same_end_and_one_of_a_single_offset_has_none() -> None:
    assert replacing_name(newest(4, 9).name) == newest(5, 9).name
    assert replacing_name(newest(8, 9).name) == newest(9, 9).name
    assert replacing_name(newest(9, 9).name) is None


def test_nothing_is_written_behind_a_snapshot_in_whose_place_another_counts() -> None:
    behind = newest(0, 9)
    for ranges in (((0, 9), (1, 9)), ((4, 9),)):
        with pytest.raises(PositionMovedError, match="was rewritten"):
            end_above_view(listing(*ranges), 10, behind=behind, where="u/0")
    assert end_above_view(listing((0, 9)), 10, behind=behind, where="u/0") is None
    assert end_above_view(listing((0, 9), (10, 11)), 10, behind=behind, where="u/0") == 12
    with pytest.raises(ChainBrokenError, match="is gone"):
        end_above_view([], 10, behind=behind, where="u/0")


@pytest.mark.parametrize("second", [(9, 19), (0, 19), (5, 7)])
def test_an_overlap_is_refused_with_both_names(second: tuple[int, int]) -> None:
    objects = sorted(listing((0, 9), second), key=lambda info: info.name)
    with pytest.raises(ChainBrokenError, match="overlaps") as caught:
        check_snapshots(objects, extension="parquet", where="u/0")
    assert {caught.value.facts["previous"], caught.value.facts["found"]} == {info.name for info in objects}


def test_another_format_and_a_foreign_name_are_refused() -> None:
    for name in (f"{0:020}-{9:020}.ndjson", "README"):
        with pytest.raises(ChainBrokenError):
            check_snapshots([ObjectInfo(key=f"u/0/{name}", size_bytes=1)], extension="parquet", where="u/0")


def test_the_newest_known_must_be_there_or_have_been_followed() -> None:
    known = newest(10, 19)
    for ranges in (
        [(10, 19)],
        [(10, 19), (20, 29)],
        [(20, 29)],
        [(11, 19)],
        [(10, 19), (11, 19)],
        [(12, 19), (20, 29)],
    ):
        chain = check_newest(known, listing(*ranges), extension="parquet", where="u/0")
        assert chain.position == ranges[-1][1] + 1
        assert chain.tail == newest(*ranges[-1])
    for objects in ([], listing((10, 18)), listing((10, 19), size=2), listing((12, 30))):
        with pytest.raises(ChainBrokenError, match=str(known.name)):
            check_newest(known, objects, extension="parquet", where="u/0")
