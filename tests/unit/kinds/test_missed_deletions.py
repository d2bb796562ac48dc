"""When `plan` says that a copy may have missed that its source deleted keys."""

import pytest

from mirrorlake.destinations.interface import NOTHING_HELD
from mirrorlake.kinds.kafka_warnings import missed_deletions
from support.compacted_targets import target_of

DAY_MS = 86_400_000
NOW_MS = 20_000 * DAY_MS
"""2024-10-04."""


@pytest.mark.parametrize("mirror", ["same", "mapped"])
def test_a_copy_that_is_as_old_as_half_of_what_tombstones_are_kept_is_warned_of(mirror: str) -> None:
    target = target_of(mirror, cleanup_policy="compact", delete_retention_ms=str(2 * DAY_MS))
    assert missed_deletions(target, held_until_ms=NOW_MS - DAY_MS + 1, now_ms=NOW_MS) == []
    assert missed_deletions(target, held_until_ms=NOW_MS - DAY_MS, now_ms=NOW_MS) == [
        "west/users: the source is compacted and may forget tombstones after 2 d (delete.retention.ms), and the copy's "
        "newest record is of 2024-10-03: a key that was deleted since then may stay in the copy"
    ]


@pytest.mark.parametrize(
    ("mirror", "policy", "held_until_ms"),
    [
        ("same", "compact", None),
        ("same", "compact", NOTHING_HELD),
        ("same", "delete", 0),
        ("restored", "compact", 0),
    ],
    ids=["nobody knows how new it is", "it holds nothing", "nothing is removed by key", "an archive forgets none"],
)
def test_nothing_is_said_where_nothing_is_known_to_be_late(mirror: str, policy: str, held_until_ms: int | None) -> None:
    target = target_of(mirror, cleanup_policy=policy, delete_retention_ms="1000")
    assert missed_deletions(target, held_until_ms=held_until_ms, now_ms=NOW_MS) == []


def test_a_source_keeps_tombstones_for_a_day_where_it_does_not_say() -> None:
    assert target_of("same", cleanup_policy="compact").source_retention.tombstones_seconds == 86_400.0
    assert target_of("same", cleanup_policy="delete").source_retention.tombstones_seconds is None
    assert target_of("same").source_retention.tombstones_seconds is None
