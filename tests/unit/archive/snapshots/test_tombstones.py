"""When a view may have missed a tombstone: by the source's settings, by time, and by what is missing in the log."""

import pytest

from mirrorlake.archive.snapshots.tombstones import (
    SnapshotRule,
    first_missing_offset,
    is_read_in_time,
    may_miss_tombstones,
    snapshot_rule,
)
from mirrorlake.kafka.records.batch_header import BatchHeader

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


@pytest.mark.parametrize(
    ("kept_seconds", "elapsed_seconds", "expected"), [(100.0, 49.9, True), (100.0, 50.0, False), (None, 1e9, True)]
)
def test_the_other_half_is_for_reading(kept_seconds: float | None, elapsed_seconds: float, expected: bool) -> None:
    rule = SnapshotRule(tombstones_kept_seconds=kept_seconds)
    assert is_read_in_time(rule, elapsed_seconds=elapsed_seconds) is expected


def batch(base_offset: int, offsets: int, *, records: int | None = None, magic: int = 2) -> BatchHeader:
    return BatchHeader(
        base_offset=base_offset,
        batch_bytes=100,
        leader_epoch=0,
        magic=magic,
        crc=0,
        attributes=0,
        last_offset_delta=offsets - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=offsets if records is None else records,
    )


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([batch(10, 5), batch(15, 5)], None),
        ([batch(8, 7), batch(15, 9)], None),  # it begins below the range and ends past it
        ([batch(10, 5), batch(16, 4)], 15),  # a whole batch is gone
        ([batch(11, 9)], 10),
        ([batch(10, 5)], 15),  # the last ones are gone
        ([], 10),
        ([batch(10, 5), batch(15, 5, records=4)], 15),  # which of them is not known
        ([batch(8, 7, records=6), batch(15, 5)], 10),
        ([batch(10, 5), batch(15, 5, records=0)], 15),
        ([batch(10, 1, records=-1, magic=1)], 10),
    ],
)
def test_an_offset_is_missing_where_no_batch_is_sure_to_have_it(
    headers: list[BatchHeader], expected: int | None
) -> None:
    assert first_missing_offset(headers, start_offset=10, end_offset=20) == expected
