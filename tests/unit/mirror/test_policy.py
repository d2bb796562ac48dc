"""What each error means, decided in one place."""

import pytest

from mirrorlake import errors
from mirrorlake.mirror.policy import (
    BACK_OFF_SECONDS_MAX,
    CLAIMS_PER_LEASE_MAX,
    Decision,
    back_off_seconds,
    between_leases,
    within_lease,
)


def all_errors(kind: type[errors.MirrorlakeError]) -> list[type[errors.MirrorlakeError]]:
    return [
        found for sub in kind.__subclasses__() for found in [sub, *all_errors(sub)] if "mirrorlake" in sub.__module__
    ]


@pytest.mark.parametrize("kind", all_errors(errors.PermanentError))
def test_permanent_errors_park_the_partition(kind: type[errors.MirrorlakeError]) -> None:
    assert between_leases(kind("x")) is Decision.PARK
    assert within_lease(kind("x"), claims=1) is Decision.PARK


@pytest.mark.parametrize("kind", all_errors(errors.TransientError))
def test_transient_errors_wait_and_try_again(kind: type[errors.MirrorlakeError]) -> None:
    assert between_leases(kind("x")) is Decision.BACK_OFF


def test_a_lost_race_and_a_lost_answer_are_settled_by_claiming_again() -> None:
    for error in (errors.PositionMovedError("x"), errors.OutcomeUnknownError("x")):
        assert within_lease(error, claims=1) is Decision.CLAIM_AGAIN
        assert within_lease(error, claims=CLAIMS_PER_LEASE_MAX) is Decision.BACK_OFF


def test_being_superseded_ends_the_process() -> None:
    assert between_leases(errors.SupersededError("x")) is Decision.END


def test_back_off_doubles_from_a_quarter_second_and_is_bounded() -> None:
    assert [back_off_seconds(n) for n in (1, 2, 3, 4)] == [0.25, 0.5, 1.0, 2.0]
    assert back_off_seconds(1_000_000) == BACK_OFF_SECONDS_MAX == 30.0
