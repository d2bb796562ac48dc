"""For how long a new owner fills no gap: for all owners before it whose leases may still append."""

import pytest

from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.service.owners.take_overs import wait_seconds, with_hold

OURS = 5.0
"""How long leases of the owner that asks may append."""


def record(hold_seconds: float | None, hold_before_seconds: float = 0.0, *, is_released: bool = False) -> OwnerState:
    return OwnerState(
        mirror="orders",
        hold_seconds=hold_seconds,
        hold_before_seconds=hold_before_seconds,
        is_released=is_released,
    )


@pytest.mark.parametrize(
    ("before", "seconds"),
    [
        (None, 0.0),
        (record(65.0), 65.0),
        (record(None), OURS),  # of a version that did not say
        (record(65.0, is_released=True), 0.0),
        (record(65.0, 40.0, is_released=True), 40.0),  # it let go while it waited for the one before
        (record(10.0, 65.0), 65.0),
    ],
    ids=["nobody", "dead", "old", "released", "released-early", "dead-early"],
)
def test_a_new_owner_waits_for_whoever_may_append_longest(before: OwnerState | None, seconds: float) -> None:
    assert wait_seconds(before, or_else=OURS) == seconds


def test_owners_that_die_one_after_another_hand_down_the_longest_time_and_no_longer_one() -> None:
    before, waits = record(65.0), []
    for own_seconds in (10.0, 5.0, 30.0):
        waits.append(wait_seconds(before, or_else=own_seconds))
        before = with_hold(record(own_seconds), own_seconds=own_seconds, before_seconds=waits[-1])
    assert waits == [65.0, 65.0, 65.0]
    assert before.hold_seconds == 65.0  # what versions read that know of no owners before


def test_the_longer_time_of_the_owner_itself_stays() -> None:
    state = with_hold(record(None), own_seconds=65.0, before_seconds=10.0)
    assert (state.hold_seconds, state.hold_before_seconds) == (65.0, 10.0)
