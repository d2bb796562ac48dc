"""What an erasure rewrites: any chain, any segments with a key, any announcements."""

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.maintenance.erase_plan import NEWEST, NO_NEIGHBOUR, RETIRED, ErasePlan, plan_erasure
from mirrorlake.archive.maintenance.look import MERGE_SECONDS_MAX, CoveredSegment, FolderLook
from mirrorlake.archive.names import MergeName, SegmentName
from mirrorlake.offsets import OffsetRange


def segment(start: int, end: int, size_bytes: int = 10) -> Segment:
    name = SegmentName(from_offset=start, to_offset=end - 1, extension="parquet")
    return Segment(name=name, size_bytes=size_bytes)


def chain_of(*sizes: int) -> tuple[Segment, ...]:
    """Segments of ten offsets each."""
    return tuple(segment(10 * n, 10 * n + 10, size) for n, size in enumerate(sizes))


def look_of(chain: tuple[Segment, ...], *merges: MergeName, times: tuple[float | None, ...] = ()) -> FolderLook:
    return FolderLook(where="orders/0", chain=chain, merges=merges, merge_times=times)


def announced(start: int, end: int, *, erases: bool = False) -> MergeName:
    return MergeName(from_offset=start, to_offset=end - 1, token="x", erases=erases)


def plan(look: FolderLook, *indexes: int, bytes_max: int = 1000, barriers: tuple[int, ...] = ()) -> ErasePlan:
    holding = {look.chain[index].name for index in indexes}
    return plan_erasure(look, holding, now_seconds=0.0, bytes_max=bytes_max, barriers=barriers)


def shown(planned: ErasePlan) -> list[tuple[int, int]]:
    return [(each.offsets.start_offset, each.offsets.end_offset) for each in planned.groups]


def test_neighbours_with_a_key_go_together_and_one_alone_with_its_smaller_neighbour() -> None:
    look = look_of(chain_of(10, 10, 10, 5, 10, 20, 10))
    assert shown(plan(look, 0, 1)) == [(0, 20)]
    assert shown(plan(look, 4)) == [(30, 50)]
    assert shown(plan(look, 0, 1, 2)) == [(0, 20), (20, 40)]
    assert shown(plan(look, 5)) == [(40, 60)]
    assert shown(plan(look)) == []


def test_the_newest_segment_waits_and_so_does_one_without_any_other_neighbour() -> None:
    planned = plan(look_of(chain_of(10, 10)), 0, 1)
    assert not planned.groups
    assert [each.reason for each in planned.waiting] == [NO_NEIGHBOUR, NEWEST]
    assert [each.reason for each in plan(look_of(chain_of(10)), 0).waiting] == [NEWEST]


def test_what_would_be_too_large_waits() -> None:
    look = look_of(chain_of(600, 600, 10))
    (waiting,) = plan(look, 0).waiting
    assert "larger than 1000 bytes" in waiting.reason


def test_a_third_one_joins_its_neighbours_group() -> None:
    assert shown(plan(look_of(chain_of(10, 10, 10, 10)), 0, 1, 2)) == [(0, 30)]


def test_what_a_merger_has_announced_waits_for_a_day() -> None:
    chain = chain_of(10, 10, 10, 10)
    planned = plan(look_of(chain, announced(0, 20), times=(-5.0,)), 1)
    (waiting,) = planned.waiting
    assert not planned.groups
    assert waiting.until_seconds == MERGE_SECONDS_MAX - 5
    assert "merger" in waiting.reason
    later = plan(look_of(chain, announced(0, 20), times=(-MERGE_SECONDS_MAX - 1,)), 1)
    assert shown(later) == [(0, 20)]


def test_what_an_eraser_has_announced_is_finished_with_or_without_a_key() -> None:
    look = look_of(chain_of(10, 10, 10, 10), announced(10, 30, erases=True))
    assert shown(plan(look)) == [(10, 30)]
    assert shown(plan(look, 0)) == [(0, 30)]


def test_what_was_announced_waits_where_all_of_it_is_too_large_together() -> None:
    """Who announced a part of it may publish it late, with the records in it: so nothing less than all is erased."""
    chain = chain_of(400, 400, 400, 10, 10)
    both = (announced(0, 20), announced(10, 30, erases=True))
    planned = plan(look_of(chain, *both, times=(-MERGE_SECONDS_MAX - 1, None)), 0, 3)
    assert shown(planned) == []
    reason = planned.waiting[0].reason
    assert all(str(each) in reason for each in both)
    assert "more than 1000 bytes" in reason
    assert shown(plan(look_of(chain, both[1]), 0)) == [(10, 30)]


def test_no_group_reaches_across_a_change_of_source() -> None:
    look = look_of(chain_of(10, 10, 10, 10, 10))
    assert shown(plan(look, 1, 2, barriers=(20,))) == [(0, 20), (20, 40)]


def test_what_is_held_waits_and_is_nobodys_neighbour() -> None:
    look = look_of(chain_of(10, 10, 10, 10))

    def holds(offsets: OffsetRange) -> list[str]:
        return ["case-7"] if offsets.start_offset == 0 else []

    planned = plan_erasure(look, {each.name for each in look.chain[:2]}, now_seconds=0, holds=holds)
    assert shown(planned) == [(10, 30)]
    assert ["case-7" in each.reason for each in planned.waiting] == [True]


def test_covered_segments_wait_for_their_time() -> None:
    chain = chain_of(10, 10, 10)
    inside = CoveredSegment(segment=segment(0, 5), cover=chain[0])
    look = FolderLook(where="orders/0", chain=chain, covered=(inside,))
    holding = {inside.segment.name, chain[0].name}
    planned = plan_erasure(look, holding, now_seconds=100.0, keep_seconds=60.0)
    assert shown(planned) == [(0, 20)]
    assert [(each.segment, each.until_seconds) for each in planned.waiting] == [(inside.segment, 160.0)]


def test_a_segment_that_retention_has_passed_and_not_deleted_waits() -> None:
    passed = segment(0, 10)
    look = FolderLook(where="orders/0", chain=chain_of(10, 10, 10)[1:], floor=10, retired=(passed,))
    planned = plan_erasure(look, {passed.name}, now_seconds=100.0)
    assert shown(planned) == []
    assert [(each.segment, each.reason) for each in planned.waiting] == [(passed, RETIRED)]


@given(st.data())
def test_every_segment_with_a_key_is_rewritten_or_waits_and_groups_are_whole_neighbours_apart(
    data: st.DataObject,
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 600), min_size=1, max_size=12))
    chain = chain_of(*sizes)
    numbers = st.integers(0, len(sizes) - 1)
    holding = data.draw(st.sets(numbers))
    spans = data.draw(st.lists(st.tuples(numbers, st.integers(1, 4), st.booleans()), max_size=3))
    merges = [announced(10 * at, 10 * at + 10 * count, erases=erases) for at, count, erases in spans]
    barriers = tuple(10 * each for each in data.draw(st.sets(numbers)))
    look = look_of(chain, *merges, times=tuple(data.draw(st.sampled_from([None, -1e9])) for _ in merges))
    planned = plan(look, *holding, barriers=barriers)

    taken = [each for group in planned.groups for each in group.inputs]
    assert taken == sorted(set(taken), key=lambda each: each.name)
    assert chain[-1] not in taken
    for group in planned.groups:
        assert len(group.inputs) >= 2
        index = chain.index(group.inputs[0])
        assert group.inputs == chain[index : index + len(group.inputs)]
        assert not any(each.name.from_offset in barriers for each in group.inputs[1:]) or merges
        for merge in merges:
            span = merge.offsets
            meets = span.start_offset < group.offsets.end_offset and group.offsets.start_offset < span.end_offset
            held = any(
                each.name.from_offset <= span.start_offset and span.end_offset <= each.name.end_offset for each in chain
            )
            inside = group.offsets.start_offset <= span.start_offset and span.end_offset <= group.offsets.end_offset
            assert held or not meets or inside
    waiting = [each.segment for each in planned.waiting]
    named = {chain[index].name for index in holding}
    assert {each.name for each in taken if each.name in named} | {each.name for each in waiting} == named
    assert not set(waiting) & set(taken)
