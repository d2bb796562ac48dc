"""``verify --level records`` of snapshots: the one at the position against the source's latest record of every key.

Only records the source may still have are compared: what lies below its log start nobody can tell any more. A key that
was erased from the snapshots is no difference, and is counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mirrorlake.kinds.copies import SnapshotSide
from mirrorlake.kinds.registry import kind_of
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.offsets import OffsetRange
from mirrorlake.pipeline.batch_jobs import BatchTask
from mirrorlake.pipeline.task_bounds import seconds_for
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.cleaned import Trace
from mirrorlake.verify.digest import differing_blocks
from mirrorlake.verify.view_worker import ViewTask
from mirrorlake.verify.worker import DigestResult, SourceSide

WORK = "mirrorlake.verify.view_worker:work"

BUCKETS_IN_DETAIL = 16
"""What is looked at record by record at a time, of ``BUCKETS``."""

Ask = Callable[[BatchTask], DigestResult]
"""Runs one task; errors are in the result."""

LatestPast = Callable[[frozenset[int]], Mapping[int, int]]
"""Returns for key hashes the highest offset the source has of each past the compared range; raises its errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewsCompared:
    """What two views have and how they differ.

    Attributes:
        source_records: how many keys the source's view has; ``copy_records`` the copy's.
        differences: offsets that nothing explains, with how, in no order.
        erased: those at which one side has a record that was erased from the other, likewise.
    """

    source_records: int
    copy_records: int
    differences: list[tuple[int, str]] = field(default_factory=list)
    erased: list[tuple[int, str]] = field(default_factory=list)


def holds_view(row: StatusRow) -> bool:
    """Tells whether a row's destination holds snapshots."""
    return kind_of(row.target.destination).holds_view


def compare_view(
    row: StatusRow, offsets: OffsetRange, *, ask: Ask, latest_past: LatestPast, largest_batch_bytes: int
) -> ViewsCompared:
    """Returns what the source's view of ``offsets`` and the snapshot that ends there have, and how they differ.

    Raises:
        MirrorlakeError: a side could not be read.
    """
    source_side, copy_side = _sides(row)
    return compare_sides(
        source_side,
        copy_side,
        offsets,
        ask=ask,
        latest_past=latest_past,
        largest_batch_bytes=largest_batch_bytes,
        what=str(row.target.source),
    )


def compare_sides(
    source_side: SourceSide | SnapshotSide,
    copy_side: SourceSide | SnapshotSide,
    offsets: OffsetRange,
    *,
    ask: Ask,
    latest_past: LatestPast,
    largest_batch_bytes: int,
    what: str,
) -> ViewsCompared:
    """Returns how many records the views of two sides have, and every difference.

    Args:
        source_side: whose view the other should be.
        copy_side: the other.
        offsets: of which records the views are.
        ask: runs a task.
        latest_past: see `differences`.
        largest_batch_bytes: what one record batch may decompress to.
        what: is compared, for descriptions of tasks.

    Raises:
        MirrorlakeError: a side could not be read.
    """

    def asked(
        side: SourceSide | SnapshotSide,
        buckets: frozenset[int] = frozenset(),
        *,
        other: SourceSide | SnapshotSide | None = None,
    ) -> DigestResult:
        task = ViewTask(
            side=side,
            offsets=offsets,
            buckets=buckets,
            erased_from=other if isinstance(other, SnapshotSide) else None,
            largest_batch_bytes=largest_batch_bytes,
        )
        seconds_max = seconds_for(offsets=len(offsets))
        description = f"verify view of {what} {offsets}"
        result = ask(BatchTask(work=WORK, plan=plan_bytes(task), description=description, seconds_max=seconds_max))
        if result.error is not None:
            raise result.error
        return result

    source, copy = asked(source_side), asked(copy_side)
    suspects = differing_blocks(source.blocks or {}, copy.blocks or {})
    found = ViewsCompared(source_records=source.records, copy_records=copy.records)
    for first in range(0, len(suspects), BUCKETS_IN_DETAIL):
        buckets = frozenset(suspects[first : first + BUCKETS_IN_DETAIL])
        there, here = asked(source_side, buckets, other=copy_side), asked(copy_side, buckets, other=source_side)
        gone = {"missing": erased_elsewhere(there, here.traces), "extra": erased_elsewhere(here, there.traces)}
        for each in differences(there.traces, here.traces, latest_past):
            (found.erased if each[0] in gone.get(each[1], ()) else found.differences).append(each)
    return found


def erased_elsewhere(side: DigestResult, others: Sequence[Trace]) -> set[int]:
    """Returns the offsets of a side's records that were erased from the other one, which has none of their keys. Pure.

    Args:
        side: a task's result, in detail; its ``erased`` are offsets that the other side's audit objects name.
        others: the records of the other side. One that has an older record of a key has lost the later one.
    """
    held = {each.key_hash for each in others}
    named = {offsets.start_offset for offsets in side.erased}
    return {each.offset for each in side.traces if each.offset in named and each.key_hash not in held}


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
    copy = kind_of(row.target.destination).copy_side(row)
    assert isinstance(copy, SnapshotSide)
    return SourceSide(source_work=row.target.source_work, partition=row.target.source), copy
