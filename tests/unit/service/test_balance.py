"""Which shard moves to which lane, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.service.balance import Move, find_move, spread


def test_shards_are_spread_evenly_and_always_alike() -> None:
    assert spread(["b", "a", "c", "a"], 2) == {"a": 0, "b": 1, "c": 0}


@pytest.mark.parametrize(
    ("backlog", "expected"),
    [
        pytest.param({}, None, id="nothing behind"),
        pytest.param({"a": 9_999}, None, id="too little to matter"),
        pytest.param({"a": 1_000_000}, None, id="one shard alone helps nobody elsewhere"),
        pytest.param({"a": 60_000, "b": 50_000}, Move(shard="a", lane=1), id="the largest moves"),
        pytest.param({"a": 60_000, "b": 50_000, "c": 60_000}, None, id="the other lane is nearly as busy"),
        pytest.param({"a": 90_000, "b": 20_000, "c": 30_000}, Move(shard="b", lane=1), id="the largest that helps"),
    ],
)
def test_a_lane_that_falls_behind_hands_a_shard_over(backlog: dict[str, int], expected: Move | None) -> None:
    assert find_move({"a": 0, "b": 0, "c": 1, "d": 1}, backlog, 2) == expected


@given(
    st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.integers(0, 10**6), max_size=20), st.integers(1, 4)
)
def test_moving_on_and_on_comes_to_an_end_and_never_makes_the_worst_lane_worse(
    backlog: dict[str, int], lanes: int
) -> None:
    lane_of = spread(backlog, lanes)
    for _ in range(200):
        worst = max((sum(backlog[s] for s, n in lane_of.items() if n == lane) for lane in range(lanes)), default=0)
        move = find_move(lane_of, backlog, lanes)
        if move is None:
            return
        lane_of[move.shard] = move.lane
        after = max(sum(backlog[s] for s, n in lane_of.items() if n == lane) for lane in range(lanes))
        assert after <= worst
    raise AssertionError("moves went on for ever")
