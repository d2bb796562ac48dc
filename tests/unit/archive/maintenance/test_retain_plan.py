"""What retention takes: the old end, by age and by bytes, and never the newest segment."""

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.look import MERGE_SECONDS_MAX, FolderLook
from mirrorlake.archive.maintenance.retain_plan import (
    HeldFrom,
    RetainRules,
    allowed_floor,
    plan_retention,
)
from mirrorlake.archive.names import MergeName
from unit.archive.maintenance.test_merge_plan import NOW, chain_of

parts = st.tuples(st.integers(1, 5), st.integers(1, 400), st.floats(0, 500))
topics = st.dictionaries(st.integers(0, 3), st.lists(parts, max_size=12), max_size=3)


def looks_of(topic: dict[int, list[tuple[int, int, float]]]) -> dict[int, FolderLook]:
    return {p: FolderLook(where=f"orders/{p}", chain=chain_of(*found)) for p, found in topic.items()}


def time_of(partition: int, segment: Segment) -> float | None:
    del partition
    return segment.modified_seconds


@given(topics, st.integers(1, 5000), st.dictionaries(st.integers(0, 3), st.integers(0, 30), max_size=3))
def test_a_hold_is_never_passed_and_takes_nothing_more_of_others(
    topic: dict[int, list[tuple[int, int, float]]], size: int, offsets: dict[int, int]
) -> None:
    looks, rules = looks_of(topic), RetainRules(bytes_max=size)
    held = {partition: HeldFrom(offset=offset, label="case-1") for partition, offset in offsets.items()}
    free = plan_retention(looks, rules, now_seconds=NOW, time_of=time_of)
    cuts = plan_retention(looks, rules, now_seconds=NOW, time_of=time_of, held=held)
    for partition, cut in cuts.items():
        if partition not in held or free[partition].floor <= held[partition].offset:
            assert cut == free[partition]
            continue
        assert cut.floor <= held[partition].offset
        assert cut.reason == f"held by case-1 from offset {held[partition].offset} on"
        assert cut.segments == tuple(
            each for each in free[partition].segments if each.name.end_offset <= held[partition].offset
        )


@given(topics, st.none() | st.floats(1, 500), st.integers(1, 5000))
def test_what_goes_is_the_old_end_and_what_stays_is_within_the_bounds(
    topic: dict[int, list[tuple[int, int, float]]], age: float | None, size: int
) -> None:
    looks = looks_of(topic)
    rules = RetainRules(age_seconds_max=age, bytes_max=size)
    cuts = plan_retention(looks, rules, now_seconds=NOW, time_of=time_of)
    left: list[Segment] = []
    for partition, look in looks.items():
        cut = cuts[partition]
        assert look.chain[: len(cut.segments)] == cut.segments
        assert not look.chain or look.chain[-1] not in cut.segments
        assert cut.floor == (cut.segments[-1].name.end_offset if cut.segments else 0)
        rest = look.chain[len(cut.segments) :]
        left += rest
        if age is not None and len(rest) > 1:
            assert (rest[0].modified_seconds or 0) >= NOW - age
    newest = sum(look.chain[-1].size_bytes for look in looks.values() if look.chain)
    assert sum(each.size_bytes for each in left) <= size or sum(each.size_bytes for each in left) == newest


def test_bytes_go_from_the_partition_whose_oldest_segment_is_the_oldest() -> None:
    looks = looks_of({0: [(1, 100, 300), (1, 100, 100), (1, 100, 0)], 1: [(1, 100, 200), (1, 100, 150), (1, 100, 0)]})
    cuts = plan_retention(looks, RetainRules(bytes_max=300), now_seconds=NOW, time_of=time_of)
    assert {partition: cut.floor for partition, cut in cuts.items()} == {0: 1, 1: 2}


def test_a_segment_of_unknown_age_stops_retention_by_age() -> None:
    looks = looks_of({0: [(1, 1, 300), (1, 1, 300), (1, 1, 0)]})
    cuts = plan_retention(looks, RetainRules(age_seconds_max=1), now_seconds=NOW, time_of=lambda *_: None)
    assert cuts[0].floor == 0


def test_what_a_merger_announced_stays_for_a_day() -> None:
    announced = (MergeName(from_offset=1, to_offset=2, token="a"),)

    def floor(age: float) -> int:
        look = FolderLook(
            where="orders/0",
            chain=chain_of(*[(1, 1, 300.0)] * 5),
            merges=announced,
            merge_times=(NOW - age,),
        )
        return allowed_floor(look, 2, now_seconds=NOW)

    assert floor(MERGE_SECONDS_MAX - 1) == 1
    assert floor(MERGE_SECONDS_MAX + 1) == 2
