"""Which shard moves to which lane, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.service.balance import BEHIND_MIN, GATHERED_PARTITIONS_MAX, Move, ShardLanes, find_move, spread


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


NAMES = [f"s{number}" for number in range(6)]
SPREAD = {"s0": 0, "s1": 1, "s2": 0, "s3": 1, "s4": 0, "s5": 1}


def lanes_of(*, gathers: bool = True, lanes: int = 2) -> ShardLanes:
    return ShardLanes(NAMES, lanes=lanes, gathers=gathers, now_seconds=100.0)


def test_one_lane_serves_all_shards_once_nothing_was_behind_for_a_while() -> None:
    lanes = lanes_of()
    looks = [lanes.look(backlog=BEHIND_MIN - 1, partitions=9, now_seconds=at) for at in (100.0, 119.9, 120.0, 500.0)]
    assert looks == [None, None, 1, None]
    assert lanes.of == dict.fromkeys(NAMES, 0)
    lanes.add(["new"])
    assert lanes.of["new"] == 0


def test_a_backlog_in_between_puts_it_off() -> None:
    lanes = lanes_of()
    assert lanes.look(backlog=BEHIND_MIN, partitions=9, now_seconds=110.0) is None
    assert lanes.look(backlog=0, partitions=9, now_seconds=129.9) is None
    assert lanes.of == SPREAD
    assert lanes.look(backlog=0, partitions=9, now_seconds=130.0) == 1


@pytest.mark.parametrize(
    ("backlog", "partitions"),
    [pytest.param(BEHIND_MIN, 9, id="behind"), pytest.param(0, GATHERED_PARTITIONS_MAX + 1, id="too many")],
)
def test_one_lane_that_is_not_enough_hands_all_back_and_gets_them_again_after_ten_minutes(
    backlog: int, partitions: int
) -> None:
    lanes = lanes_of()
    assert lanes.look(backlog=0, partitions=9, now_seconds=120.0) == 1
    assert lanes.look(backlog=backlog, partitions=partitions, now_seconds=122.0) == 2
    assert lanes.of == SPREAD
    assert lanes.look(backlog=0, partitions=9, now_seconds=721.9) is None
    assert lanes.look(backlog=0, partitions=9, now_seconds=722.0) == 1


def test_a_lease_that_brought_nothing_back_spreads_the_shards_and_keeps_them_so() -> None:
    lanes = lanes_of()
    assert lanes.lost(now_seconds=110.0) is None, "they are spread already"
    assert lanes.look(backlog=0, partitions=9, now_seconds=709.9) is None
    assert lanes.look(backlog=0, partitions=9, now_seconds=710.0) == 1
    assert lanes.lost(now_seconds=711.0) == 2
    assert lanes.of == SPREAD


@pytest.mark.parametrize(("gathers", "lanes"), [(False, 2), (True, 1)])
def test_nothing_is_gathered_where_that_is_not_wanted_or_there_is_one_lane_only(gathers: bool, lanes: int) -> None:
    made = lanes_of(gathers=gathers, lanes=lanes)
    assert made.look(backlog=0, partitions=9, now_seconds=10_000.0) is None
    assert made.of == spread(NAMES, lanes)
