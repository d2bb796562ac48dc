"""``verify --level records`` of snapshots: the newest one against the latest record of every key at the source.

Only records the source may still have are compared: what lies below its log start nobody can tell any more.
"""

from collections.abc import Callable, Mapping

from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.config.resolved import ArchiveDestination, Compaction
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.offsets import OffsetRange
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.cleaned import Trace
from mirrorlake.verify.digest import differing_blocks
from mirrorlake.verify.view_worker import SnapshotSide, ViewTask
from mirrorlake.verify.worker import DigestResult, SourceSide

WORK = "mirrorlake.verify.view_worker:work"

BUCKETS_IN_DETAIL = 16
"""What is looked at record by record at a time, of ``BUCKETS``."""

Ask = Callable[[str, bytes, str], DigestResult]
"""Runs ``work(plan)`` with a description as one task; errors are in the result."""

LatestPast = Callable[[frozenset[int]], Mapping[int, int]]
"""Returns for key hashes the highest offset the source has of each past the compared range; raises its errors."""


def holds_view(row: StatusRow) -> bool:
    """Tells whether a row's destination holds snapshots."""
    destination = row.target.destination
    return isinstance(destination, ArchiveDestination) and destination.compaction is Compaction.LOG


def compare_view(
    row: StatusRow, offsets: OffsetRange, *, ask: Ask, latest_past: LatestPast, largest_batch_bytes: int
) -> tuple[int, tuple[int, str] | None]:
    """Returns how many records the source's view of ``offsets`` has, and the first difference with how; None if none.

    Raises:
        MirrorlakeError: a side could not be read.
    """

    def asked(side: SourceSide | SnapshotSide, buckets: frozenset[int] = frozenset()) -> DigestResult:
        task = ViewTask(side=side, offsets=offsets, buckets=buckets, largest_batch_bytes=largest_batch_bytes)
        result = ask(WORK, plan_bytes(task), f"verify view of {row.target.source} {offsets}")
        if result.error is not None:
            raise result.error
        return result

    source_side, copy_side = _sides(row)
    source, copy = asked(source_side), asked(copy_side)
    suspects = differing_blocks(source.blocks or {}, copy.blocks or {})
    found: list[tuple[int, str]] = []
    for first in range(0, len(suspects), BUCKETS_IN_DETAIL):
        buckets = frozenset(suspects[first : first + BUCKETS_IN_DETAIL])
        found += differences(asked(source_side, buckets).traces, asked(copy_side, buckets).traces, latest_past)
    return source.records, min(found, default=None)


def differences(source: tuple[Trace, ...], copy: tuple[Trace, ...], latest_past: LatestPast) -> list[tuple[int, str]]:
    """Returns the offsets at which two views differ, and how.

    A record that only the copy has is none where the source has a later one of its key past the compared range: the
    cleaner has taken the one before it since.
    """
    there, here = {t.key_hash: t for t in source}, {t.key_hash: t for t in copy}
    found = []
    for key, expected in there.items():
        held = here.get(key)
        if held is None or held.record_hash != expected.record_hash:
            is_same_offset = held is not None and held.offset == expected.offset
            found.append((expected.offset, "different" if is_same_offset else "missing"))
    extra = {key: held.offset for key, held in here.items() if key not in there}
    later = latest_past(frozenset(extra)) if extra else {}
    return found + [(offset, "extra") for key, offset in extra.items() if key not in later]


def _sides(row: StatusRow) -> tuple[SourceSide, SnapshotSide]:
    destination = row.target.archive
    return SourceSide(source_work=row.target.source_work, partition=row.target.source), SnapshotSide(
        store=destination.store.settings,
        destination_name=row.target.destination_topic,
        partition=row.target.source.partition,
        extension=extension_of(destination.format.value),
    )
