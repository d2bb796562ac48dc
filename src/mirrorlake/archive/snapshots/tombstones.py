"""Whether a tombstone may have been removed at the source before its mirror had read it. Pure.

Kafka keeps a tombstone for ``delete.retention.ms`` after the log cleaner has first passed it, and the cleaner never
passes the last stable offset. So where the last stable offset was at or below a position at some time, and where a
view was read from the log's start beginning at some time, every tombstone that concerns the view and lies at or past
its end can be read until that time plus ``delete.retention.ms``. Whoever reads on sooner has missed none. Whoever
comes later may have. What is gone leaves no trace but an offset without a record: where every offset has one, nothing
was missed. Else the view is built anew from the log, which holds the latest record of every key that is left.

Each replica is cleaned for itself. No replica cleans past the last stable offset, so the first of the two holds for all
of them; the second for the leader whose log was read, and whoever leads next may have removed a tombstone long ago.

``docs/decisions/0084-snapshots.md``, ``0109-dense-logs-lost-nothing.md`` and ``0141-replicas-clean-for-themselves.md``
have the reasoning, and what it does not cover.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mirrorlake.kafka.records.batch_header import BatchHeader

PATIENCE_SHARE = 0.5
"""How much of ``delete.retention.ms`` may have passed. The rest is for reading on, and for clocks that differ."""

TOMBSTONES_KEPT_SECONDS = 86_400.0
"""Kafka's default of ``delete.retention.ms``, where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRule:
    """What a source does with its records, as far as it matters to a view of the latest ones.

    ``tombstones_kept_seconds`` is ``delete.retention.ms``, None where nothing is removed by key. With
    ``keeps_what_retention_took`` a view that is built anew keeps the records below the log's start, which left by age
    or size and not by key; without it they go, as no reader of the source sees them.
    """

    tombstones_kept_seconds: float | None = None
    keeps_what_retention_took: bool = True

    @property
    def removes_by_key(self) -> bool:
        """True where the source is compacted."""
        return self.tombstones_kept_seconds is not None


def snapshot_rule(cleanup_policy: str | None, delete_retention_ms: str | None) -> SnapshotRule:
    """Returns the rule for a topic by its settings; None where they could not be read, and nothing is assumed."""
    policies = set((cleanup_policy or "compact,delete").replace(" ", "").split(","))
    kept = TOMBSTONES_KEPT_SECONDS if delete_retention_ms is None else int(delete_retention_ms) / 1000
    return SnapshotRule(
        tombstones_kept_seconds=kept if "compact" in policies else None,
        keeps_what_retention_took="delete" in policies,
    )


def may_miss_tombstones(rule: SnapshotRule, *, complete_since_ms: int | None, now_ms: int) -> bool:
    """Tells whether a tombstone may be gone that a view has not seen.

    Args:
        rule: of the source.
        complete_since_ms: see `SnapshotState`; None where it is not known.
        now_ms: the wall clock, in Unix milliseconds.
    """
    if rule.tombstones_kept_seconds is None:
        return False
    if complete_since_ms is None or now_ms < complete_since_ms:
        return True  # a clock that was set back says nothing
    return now_ms - complete_since_ms >= rule.tombstones_kept_seconds * 1000 * PATIENCE_SHARE


def is_read_in_time(rule: SnapshotRule, *, elapsed_seconds: float) -> bool:
    """Tells whether reading that began when no tombstone could be gone has ended before one could be."""
    kept = rule.tombstones_kept_seconds
    return kept is None or elapsed_seconds < kept * (1 - PATIENCE_SHARE)


def first_missing_offset(headers: Iterable[BatchHeader], *, start_offset: int, end_offset: int) -> int | None:
    """Returns the first offset of a range that may have lost its record, None where every one is there.

    Markers and aborted data count as records: a log that was never cleaned has them. Of a batch that has lost some of
    its records, and of the formats before v2, a header does not say which are there: all may be missing.

    Args:
        headers: of the batches that were read, in offset order.
        start_offset: of the range.
        end_offset: exclusive.
    """
    expected = start_offset
    for header in headers:
        if header.base_offset > expected or not header.is_dense:
            break
        expected = header.next_offset
    return None if expected >= end_offset else expected
