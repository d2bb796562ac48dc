"""What `verify` says may have made a copy differ."""

from dataclasses import replace

import pytest

from mirrorlake.topics.targets import Target
from mirrorlake.verify.causes import cause_of, cause_of_cleaned
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


def test_a_record_that_the_source_lacks_where_its_log_was_cleaned_may_have_had_a_tombstone_whatever_its_policy() -> (
    None
):
    target = target_of("same", cleanup_policy="delete")
    assert cause_of(target, "extra", was_cleaned=True) == (
        "the source has no such record any more: its log was cleaned there, and the copy may have missed the "
        "tombstone. Write a tombstone of the key to the source once more while the mirror runs; or delete destination "
        "topic users, and `run` copies it afresh"
    )
    assert cause_of(target, "missing", was_cleaned=True) == ""
    assert cause_of(target_of("archived", cleanup_policy="delete"), "extra", was_cleaned=True) == ""


def with_policy(target: Target, policy: str) -> Target:
    return replace(target, destination_configs={"cleanup.policy": policy})


TAKEN = (
    "the cleaner of destination topic users has taken 12 record(s) from the copy that the source keeps: tombstones, or "
    "such as have a later one of their key. Nothing else differs. "
)


def test_a_copy_that_is_compacted_while_its_source_keeps_all_says_how_to_end_that_and_how_to_mean_it() -> None:
    assert cause_of_cleaned(with_policy(target_of("same", cleanup_policy="delete"), "compact,delete"), 12) == (
        TAKEN + "users is compacted: its cleanup.policy is compact,delete, the source's delete. `mirrorlake topics "
        "apply` with `sync: {configs: apply}` gives it the source's, so that no more go; to have them back delete "
        "destination topic users, and `run` copies it afresh. Where the copy is meant to be compacted, `sync: "
        "{override: {cleanup.policy: compact}}` at the destination says so: they are no difference then"
    )


def test_a_copy_that_was_compacted_once_says_how_to_have_back_what_is_gone() -> None:
    assert cause_of_cleaned(with_policy(target_of("mapped", cleanup_policy="delete"), "delete"), 12) == (
        TAKEN + "users was compacted: its cleanup.policy is delete by now, the source's delete. To have them back copy "
        "by a mirror of another name to another topic"
    )
