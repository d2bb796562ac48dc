"""Pieces become tasks: in order, each once, small ones together."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.offsets import OffsetRange
from mirrorlake.spark_source.tasks import TASK_OFFSETS_MIN, Piece, grouped, split


def piece(start: int, end: int, *, cost: int = 1, partition: int = 0) -> Piece:
    return Piece(
        topic="orders",
        partition=partition,
        offsets=OffsetRange(start_offset=start, end_offset=end),
        topic_id="id",
        cost=cost,
    )


@given(st.lists(st.integers(1, 100), max_size=40), st.integers(1, 8), st.integers(1, 200), st.integers(0, 20))
def test_every_piece_is_in_one_task_in_order_and_no_task_is_above_its_limit_but_for_one_piece(
    costs: list[int], tasks: int, cost_max: int, piece_cost: int
) -> None:
    pieces = [piece(n, n + 1, cost=cost) for n, cost in enumerate(costs)]

    found = grouped(pieces, tasks=tasks, cost_max=cost_max, piece_cost=piece_cost)

    assert [each for task in found for each in task] == pieces
    assert all(task for task in found)
    assert all(len(task) == 1 or sum(each.cost + piece_cost for each in task) <= cost_max for task in found)


def test_a_thousand_small_files_are_few_tasks() -> None:
    assert len(grouped([piece(n, n + 1, cost=100) for n in range(1000)], tasks=4, cost_max=1 << 30)) == 4


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=6), st.integers(1, 16))
def test_long_ranges_are_cut_and_nothing_of_them_is_lost(lengths: list[int], tasks: int) -> None:
    pieces = [piece(7, 7 + length, partition=n) for n, length in enumerate(lengths)]

    found = split(pieces, tasks=tasks)

    for whole in pieces:
        parts = [each for each in found if each.partition == whole.partition]
        assert parts[0].offsets.start_offset == 7
        assert parts[-1].offsets.end_offset == whole.offsets.end_offset
        assert all(a.offsets.end_offset == b.offsets.start_offset for a, b in itertools.pairwise(parts))
        assert all(each.topic_id == "id" for each in parts)
    assert len(found) <= len(pieces) + tasks


def test_a_short_range_is_left_whole() -> None:
    assert len(split([piece(0, TASK_OFFSETS_MIN)], tasks=8)) == 1
    assert len(split([piece(0, 8 * TASK_OFFSETS_MIN)], tasks=8)) == 8
