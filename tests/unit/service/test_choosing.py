"""What a lane's next lease serves, and that finding out alters nothing."""

import pickle
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.service.choosing import DUE_PARTITIONS_PER_LEASE_MAX, Phase, choose
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.sources.client import Bounds
from unit.service.test_supervisor import archive_state, kafka_state
from unit.service.test_supervisor_mapped import mapped

RUNNING, STOPPING, BOUNDED = Phase(once=False), Phase(once=False, is_stopping=True), Phase(once=True)


def chosen(states: list[PartitionState], *, phase: Phase = RUNNING, lane: int = 0, lanes: int = 1) -> list[str]:
    """The labels of what a lane takes where every shard belongs to lane 0."""
    found = choose(states, lane=lane, lane_of={s.shard: 0 for s in states}, lanes=lanes, phase=phase, now_seconds=100.0)
    return [f"{state.destination}-{state.source.partition}" for state, _ in found]


def waiting(partition: int) -> PartitionState:
    """An archive with a whole segment to cut."""
    state = archive_state(partition)
    state.saw_source(Bounds(0, 1000), 0.0, 0.0)
    return state


@pytest.mark.parametrize(
    ("phase", "once_end", "expected"),
    [
        (RUNNING, None, ["west-0"]),
        (STOPPING, None, []),
        (BOUNDED, None, []),
        (BOUNDED, 5, ["west-0"]),
        (BOUNDED, 3, []),
    ],
    ids=["live", "a-stop-begins-none", "its-end-is-not-known-yet", "below-its-end", "at-its-end"],
)
def test_what_is_live_is_served_as_the_run_goes(phase: Phase, once_end: int | None, expected: list[str]) -> None:
    state = kafka_state(0)
    state.position, state.once_end = 3, once_end
    assert chosen([state], phase=phase) == expected


def test_live_partitions_stay_in_their_lane_and_what_is_due_goes_to_any() -> None:
    states = [kafka_state(0), waiting(1), waiting(2)]
    assert chosen(states, lane=0, lanes=2) == ["west-0", "lake-1"]
    assert chosen(states, lane=1, lanes=2) == ["lake-1"], "a share of what is due, the rest for other lanes"


def test_where_records_came_last_is_opened_first() -> None:
    states = [kafka_state(number) for number in range(4)]
    for number, moved_at in ((1, 20.0), (2, 30.0)):
        states[number].saw_source(Bounds(0, 5), 10.0, 0.0)
        states[number].saw_source(Bounds(0, 6), moved_at, 0.0)
    states[3].saw_source(Bounds(0, 5), 40.0, 0.0)  # what was there when it was first seen did not come now
    assert chosen(states) == ["west-2", "west-1", "west-0", "west-3"]


def test_no_more_is_due_in_one_lease_than_may_be() -> None:
    states = [waiting(number) for number in range(DUE_PARTITIONS_PER_LEASE_MAX + 1)]
    assert len(chosen(states)) == DUE_PARTITIONS_PER_LEASE_MAX


@pytest.mark.parametrize(("phase", "expected"), [(RUNNING, ["west-0"]), (BOUNDED, []), (STOPPING, ["lake-1"])])
def test_a_mirror_that_is_held_back_has_no_segment_cut_but_at_a_stop(phase: Phase, expected: list[str]) -> None:
    states = [kafka_state(0), waiting(1)]
    found = choose(
        states,
        lane=0,
        lane_of={s.shard: 0 for s in states},
        lanes=1,
        phase=phase,
        now_seconds=100.0,
        held_back={states[1].mirror},
    )
    assert [f"{state.destination}-{state.source.partition}" for state, _ in found] == expected


def of_shard(make: Callable[[int], PartitionState], *partitions: int) -> list[PartitionState]:
    states = [make(partition) for partition in partitions]
    for state in states:
        state.shard = "m.7"
    return states


@pytest.mark.parametrize("make", [kafka_state, mapped])
def test_copies_of_a_shard_are_begun_by_one_lane_at_a_time_as_they_share_an_identity(
    make: Callable[[int], PartitionState],
) -> None:
    leased, rest = of_shard(make, 0, 1)
    other = make(2)
    leased.is_leased = True
    assert chosen([leased, rest, other]) == ["west-2"]
    leased.is_leased = False
    assert chosen([leased, rest, other]) == ["west-0", "west-1", "west-2"]


def test_segments_of_a_shard_are_cut_by_several_lanes_and_hold_up_no_copy() -> None:
    cutting, due = of_shard(waiting, 0, 1)
    (copied,) = of_shard(kafka_state, 2)
    cutting.is_leased = True
    assert chosen([cutting, due, copied]) == ["west-2", "lake-1"]


@pytest.mark.parametrize(
    ("phase", "is_tried", "expected"),
    [(RUNNING, False, []), (STOPPING, False, ["lake-0"]), (STOPPING, True, [])],
    ids=["backs-off", "once-more-at-a-stop", "and-only-once"],
)
def test_a_failure_keeps_an_archive_back_but_for_one_try_at_a_stop(
    phase: Phase, is_tried: bool, expected: list[str]
) -> None:
    state = waiting(0)
    state.failures, state.retry_at_seconds, state.is_tried_at_stop = 1, 200.0, is_tried
    assert chosen([state], phase=phase) == expected


@st.composite
def any_state(draw: st.DrawFn) -> PartitionState:
    kinds: list[Callable[[int], PartitionState]] = [kafka_state, archive_state, mapped]
    make = draw(st.sampled_from(kinds))
    state = make(draw(st.integers(0, 5)))
    state.position = draw(st.none() | st.integers(0, 10))
    state.source_end, state.once_end = draw(st.integers(0, 200)), draw(st.none() | st.integers(0, 10))
    state.is_leased, state.is_parked, state.is_ending = (draw(st.booleans()) for _ in range(3))
    state.retry_at_seconds = draw(st.sampled_from([0.0, 200.0]))
    return state


@settings(max_examples=200, deadline=None)
@given(st.lists(any_state(), max_size=8), st.integers(0, 2), st.sampled_from([RUNNING, STOPPING, BOUNDED]))
def test_choosing_alters_nothing_and_takes_nothing_that_is_leased_parked_or_ending(
    states: list[PartitionState], lane: int, phase: Phase
) -> None:
    before = pickle.dumps(states)
    lane_of = {state.shard: number % 3 for number, state in enumerate(states)}
    found = choose(states, lane=lane, lane_of=lane_of, lanes=3, phase=phase, now_seconds=100.0)
    assert pickle.dumps(states) == before
    assert not [state for state, _ in found if state.is_leased or state.is_parked or state.is_ending]
    assert all(lane_of[state.shard] == lane for state, _ in found if state.is_live)
    assert len({id(state) for state, _ in found}) == len(found)
