"""What is merged follows from names, sizes and ages: tried on any chain."""

import math
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.archive.chain import Segment, uncovered
from mirrorlake.archive.maintenance.look import MERGE_SECONDS_MAX, FolderLook, are_at_odds
from mirrorlake.archive.maintenance.merge_plan import MergeRules, MergeStep, plan_merge
from mirrorlake.archive.names import MergeName, SegmentName
from mirrorlake.offsets import OffsetRange

NOW = 1_000_000.0


def chain_of(*parts: tuple[int, int, float], start: int = 0) -> tuple[Segment, ...]:
    """Segments of these lengths, sizes and ages."""
    made = []
    for length, size, age in parts:
        name = SegmentName(from_offset=start, to_offset=start + length - 1, extension="parquet")
        made.append(Segment(name=name, size_bytes=size, modified_seconds=NOW - age))
        start += length
    return tuple(made)


parts = st.tuples(st.integers(1, 5), st.integers(0, 400), st.sampled_from([0.0, 50.0, 500.0]))
chains = st.lists(parts, max_size=40).map(lambda found: chain_of(*found))
step = st.builds(MergeStep, min_age_seconds=st.sampled_from([0.0, 10.0, 100.0]), bytes_max=st.integers(1, 3000))


@st.composite
def any_rules(draw: st.DrawFn) -> MergeRules:
    files_min = draw(st.integers(2, 5))
    return MergeRules(
        steps=tuple(draw(st.lists(step, min_size=1, max_size=3))),
        files_min=files_min,
        files_max=draw(st.integers(files_min, 12)),
        bytes_min=draw(st.integers(0, 500)),
    )


def look_of(chain: tuple[Segment, ...], merges: tuple[MergeName, ...] = ()) -> FolderLook:
    return FolderLook(where="orders/0", chain=chain, merges=merges)


@given(chains, any_rules(), st.sets(st.integers(0, 100)))
def test_groups_are_whole_runs_of_neighbours_within_the_bounds(
    chain: tuple[Segment, ...], rules: MergeRules, barriers: set[int]
) -> None:
    plan = plan_merge(look_of(chain), rules, now_seconds=NOW, barriers=barriers)
    assert bool(plan.groups) != bool(plan.reason)
    end = 0
    for group in plan.groups:
        assert group.offsets.start_offset >= end
        end = group.offsets.end_offset
        first = chain.index(group.inputs[0])
        assert chain[first : first + len(group.inputs)] == group.inputs
        assert chain[-1] not in group.inputs
        assert rules.files_min <= len(group.inputs) <= rules.files_max
        sizes = [each.size_bytes for each in group.inputs]
        assert sum(sizes) >= max(rules.bytes_min, 2 * max(sizes))
        assert not any(each.name.from_offset in barriers for each in group.inputs[1:])
        ages = [NOW - (each.modified_seconds or 0) for each in group.inputs]
        assert any(sum(sizes) <= each.bytes_max and min(ages) >= each.min_age_seconds for each in rules.steps)


@dataclass
class Simulated:
    """A chain to which merges are applied, and how often each offset was written again."""

    chain: tuple[Segment, ...]

    def apply(self, rules: MergeRules, rewritten: dict[int, int]) -> bool:
        plan = plan_merge(look_of(self.chain), rules, now_seconds=NOW)
        for group in plan.groups:
            name = SegmentName(
                from_offset=group.offsets.start_offset, to_offset=group.offsets.end_offset - 1, extension="parquet"
            )
            output = Segment(name=name, size_bytes=group.size_bytes, modified_seconds=NOW - 500)
            beside = sorted([*self.chain, output], key=lambda each: each.name)
            assert tuple(uncovered(beside)) == self.without(group.inputs, output)  # readers see it so at once
            self.chain = self.without(group.inputs, output)
            for offset in range(name.from_offset, name.to_offset + 1):
                rewritten[offset] = rewritten.get(offset, 0) + 1
        return bool(plan.groups)

    def without(self, inputs: tuple[Segment, ...], output: Segment) -> tuple[Segment, ...]:
        kept = [each for each in self.chain if each not in inputs]
        return tuple(sorted([*kept, output], key=lambda each: each.name))


@given(chains, any_rules())
@settings(max_examples=60)
def test_repeated_merging_ends_and_rewrites_a_record_only_as_often_as_its_file_doubles(
    chain: tuple[Segment, ...], rules: MergeRules
) -> None:
    sizes = {o: each.size_bytes for each in chain for o in range(each.name.from_offset, each.name.end_offset)}
    simulated, rewritten = Simulated(chain), dict[int, int]()
    for _ in range(len(chain) + 1):
        if not simulated.apply(rules, rewritten):
            break
    else:
        raise AssertionError("merging did not end")
    largest = max(each.bytes_max for each in rules.steps)
    for offset, times in rewritten.items():
        if sizes[offset]:
            assert times <= 1 + math.log2(max(1.0, largest / sizes[offset]))
    covered = [o for each in simulated.chain for o in range(each.name.from_offset, each.name.end_offset)]
    assert covered == sorted(sizes)


def test_the_largest_step_that_fits_takes_what_is_old_enough() -> None:
    rules = MergeRules(
        steps=(MergeStep(min_age_seconds=10, bytes_max=100), MergeStep(min_age_seconds=100, bytes_max=1000)),
        files_min=2,
        bytes_min=0,
    )
    old, young, new = (1, 40, 500.0), (1, 40, 50.0), (1, 40, 0.0)
    groups = plan_merge(look_of(chain_of(*[old] * 6, *[young] * 4, new, new)), rules, now_seconds=NOW).groups
    assert [group.offsets for group in groups] == [
        OffsetRange(start_offset=0, end_offset=6),
        OffsetRange(start_offset=6, end_offset=8),
        OffsetRange(start_offset=8, end_offset=10),
    ]


def test_a_segment_of_unknown_age_is_not_old() -> None:
    chain = tuple(Segment(name=each.name, size_bytes=each.size_bytes) for each in chain_of(*[(1, 40, 0.0)] * 4))
    rules = MergeRules(steps=(MergeStep(min_age_seconds=1, bytes_max=100),), files_min=2, bytes_min=0)
    assert plan_merge(look_of(chain), rules, now_seconds=NOW).reason == "no segment is old enough yet"


def test_what_a_dead_merger_announced_is_finished_with_all_it_touches() -> None:
    rules = MergeRules(steps=(MergeStep(min_age_seconds=1000, bytes_max=120),))
    announced = (MergeName(from_offset=1, to_offset=2, token="a"), MergeName(from_offset=2, to_offset=3, token="b"))
    look = look_of(chain_of(*[(1, 40, 0.0)] * 6), announced)
    (group,) = plan_merge(look, rules, now_seconds=NOW).groups
    assert (group.offsets, group.is_unfinished) == (OffsetRange(start_offset=1, end_offset=4), True)


def test_what_dead_mergers_announced_never_becomes_larger_than_the_largest_step() -> None:
    """One alone was announced when the step was larger, two of them together overlap."""
    rules = MergeRules(steps=(MergeStep(min_age_seconds=0, bytes_max=119),), files_min=2, bytes_min=0)
    chain = chain_of(*[(1, 40, 500.0)] * 7)
    alone = (MergeName(from_offset=0, to_offset=3, token="a"),)
    both = (*alone, MergeName(from_offset=2, to_offset=5, token="b"))
    pairs = [(OffsetRange(start_offset=at, end_offset=at + 2), False) for at in (0, 2, 4)]
    for announced in (alone, both):
        groups = plan_merge(look_of(chain, announced), rules, now_seconds=NOW).groups
        assert [(group.offsets, group.is_unfinished) for group in groups] == pairs


def test_what_was_announced_and_is_retired_in_part_is_left_as_it_is() -> None:
    rules = MergeRules(steps=(MergeStep(min_age_seconds=0, bytes_max=1000),), files_min=2, bytes_min=0)
    announced = (MergeName(from_offset=0, to_offset=11, token="a"),)
    look = look_of(chain_of(*[(1, 40, 0.0)] * 6, start=10), announced)
    (group,) = plan_merge(look, rules, now_seconds=NOW).groups
    assert group.offsets == OffsetRange(start_offset=12, end_offset=15)


def test_what_an_eraser_announced_is_left_as_it_is_for_a_day() -> None:
    rules = MergeRules(steps=(MergeStep(min_age_seconds=0, bytes_max=1000),), files_min=2, bytes_min=0)
    announced = MergeName(from_offset=0, to_offset=1, token="a", erases=True)
    chain = chain_of(*[(1, 40, 0.0)] * 6)

    def plan(age_seconds: float) -> list[tuple[OffsetRange, bool]]:
        look = replace(look_of(chain, (announced,)), merge_times=(NOW - age_seconds,))
        return [(group.offsets, group.is_unfinished) for group in plan_merge(look, rules, now_seconds=NOW).groups]

    rest = (OffsetRange(start_offset=2, end_offset=5), False)
    assert plan(0) == [rest]
    assert plan(MERGE_SECONDS_MAX + 1) == [(OffsetRange(start_offset=0, end_offset=2), True), rest]


GIB = 1 << 30
OVERLAPPING = (MergeName(from_offset=0, to_offset=3, token="a"), MergeName(from_offset=2, to_offset=5, token="b"))
"""Of segments of one offset and 1 GiB: two ranges that fit into one object each, and not together."""


def planned_beside(chain: tuple[Segment, ...], rules: MergeRules) -> list[tuple[OffsetRange, bool]]:
    groups = plan_merge(look_of(chain, OVERLAPPING), rules, now_seconds=NOW).groups
    return [(group.offsets, group.is_unfinished) for group in groups]


def test_what_dead_mergers_announced_is_merged_in_parts_where_it_is_too_large_together() -> None:
    rules = MergeRules(steps=(MergeStep(min_age_seconds=0, bytes_max=4 * GIB),), files_min=2, bytes_min=0)
    pair = [(OffsetRange(start_offset=at, end_offset=at + 2), False) for at in (0, 2, 4, 6)]
    assert planned_beside(chain_of(*[(1, GIB, 500.0)] * 9), rules) == pair
    assert planned_beside(chain_of(*[(1, 100, 500.0)] * 7), rules) == [
        (OffsetRange(start_offset=0, end_offset=6), True)
    ]
    young = MergeRules(steps=(MergeStep(min_age_seconds=1000, bytes_max=4 * GIB),), files_min=2, bytes_min=0)
    assert planned_beside(chain_of(*[(1, GIB, 500.0)] * 9), young) == [], "the rules say when, as for all others"


def test_a_segment_that_lies_in_an_announced_range_in_part_stays_where_all_of_it_is_too_large() -> None:
    rules = MergeRules(steps=(MergeStep(min_age_seconds=0, bytes_max=4 * GIB),), files_min=2, bytes_min=0)
    chain = chain_of((1, GIB, 500.0), *[(2, 2 * GIB, 500.0)] * 3, *[(1, GIB, 500.0)] * 3)
    assert planned_beside(chain, rules) == [(OffsetRange(start_offset=7, end_offset=9), False)]


@given(chains, any_rules(), st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), max_size=4))
def test_no_group_is_larger_than_the_largest_step_nor_at_odds_with_what_somebody_announced(
    chain: tuple[Segment, ...], rules: MergeRules, announced: list[tuple[int, int]]
) -> None:
    merges = tuple(MergeName(from_offset=at, to_offset=at + size - 1, token="x") for at, size in announced)
    look = look_of(chain, merges)
    for group in plan_merge(look, rules, now_seconds=NOW).groups:
        assert group.size_bytes <= max(each.bytes_max for each in rules.steps)
        for name in merges:
            if look.holding(name.offsets) is None:
                assert not are_at_odds(name.offsets, group.offsets)
