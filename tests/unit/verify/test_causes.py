"""What `verify` says may have made a copy differ."""

import pytest

from mirrorlake.verify.causes import cause_of
from support.compacted_targets import target_of

WHY = (
    "the source has no such record any more: it is compacted, and the copy may have missed the tombstone, as one may "
    "that was behind for longer than delete.retention.ms of the source (1d). Write a tombstone of the key to the "
    "source once more while the mirror runs; or "
)


@pytest.mark.parametrize(
    ("mirror", "anew"),
    [
        ("same", "delete destination topic users, and `run` copies it afresh"),
        ("mapped", "copy by a mirror of another name to another topic"),
    ],
)
def test_a_record_that_a_compacted_source_has_no_longer_may_have_had_a_tombstone(mirror: str, anew: str) -> None:
    assert cause_of(target_of(mirror, cleanup_policy="compact,delete"), "extra") == WHY + anew


@pytest.mark.parametrize(
    ("mirror", "policy", "difference"),
    [
        ("same", "compact", "missing"),
        ("same", "compact", "different"),
        ("same", "delete", "extra"),
        ("archived", "compact", "extra"),
        ("restored", "compact", "extra"),
    ],
)
def test_nothing_is_said_of_other_differences_and_of_what_loses_no_tombstones(
    mirror: str, policy: str, difference: str
) -> None:
    assert cause_of(target_of(mirror, cleanup_policy=policy), difference) == ""


def test_nothing_is_said_of_a_source_whose_settings_could_not_be_read() -> None:
    assert cause_of(target_of("same"), "extra") == ""
