"""When a view may have missed a tombstone: by the source's settings and by time alone."""

import pytest

from mirrorlake.archive.snapshots.tombstones import SnapshotRule, may_miss_tombstones, snapshot_rule

DAY = 86_400.0


@pytest.mark.parametrize(
    ("policy", "retention_ms", "kept_seconds", "keeps"),
    [
        ("compact", "60000", 60.0, False),
        ("compact,delete", "60000", 60.0, True),
        ("delete, compact", "0", 0.0, True),
        ("delete", "60000", None, True),
        ("compact", None, DAY, False),
        (None, None, DAY, True),
    ],
)
def test_the_rule_follows_the_topics_settings_and_assumes_the_worst_without(
    policy: str | None, retention_ms: str | None, kept_seconds: float | None, keeps: bool
) -> None:
    expected = SnapshotRule(tombstones_kept_seconds=kept_seconds, keeps_what_retention_took=keeps)
    assert snapshot_rule(policy, retention_ms) == expected


@pytest.mark.parametrize(
    ("kept_seconds", "complete_since_ms", "expected"),
    [
        (100.0, 1_000_000 - 49_999, False),
        (100.0, 1_000_000 - 50_000, True),
        (100.0, 1_000_000, False),
        (100.0, 1_000_001, True),  # the clock was set back
        (100.0, None, True),
        (0.0, 1_000_000, True),
        (None, None, False),
    ],
)
def test_half_of_the_time_tombstones_are_kept_may_pass(
    kept_seconds: float | None, complete_since_ms: int | None, expected: bool
) -> None:
    rule = SnapshotRule(tombstones_kept_seconds=kept_seconds)
    assert may_miss_tombstones(rule, complete_since_ms=complete_since_ms, now_ms=1_000_000) is expected
