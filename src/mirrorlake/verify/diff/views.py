"""Snapshots are compared with snapshots, key by key: what one holds has no place of its own in a log."""

from dataclasses import replace

from mirrorlake.errors import ConfigurationError, MirrorlakeError, OutcomeUnknownError
from mirrorlake.kinds.copies import SnapshotSide
from mirrorlake.offsets import OffsetRange
from mirrorlake.pipeline.batch_jobs import BatchTask
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.verify.diff.ranges import EVERYTHING, Look
from mirrorlake.verify.diff.side import Pair, Place
from mirrorlake.verify.diff.values import Difference, How, Result, Why
from mirrorlake.verify.diff.verdict import Tally, Verdict, result_of
from mirrorlake.verify.digest_tasks import RunTask
from mirrorlake.verify.view_verification import compare_sides
from mirrorlake.verify.worker import DigestResult

NAMED_MAX = 20
"""Keys that differ and are named."""

_HOWS = {"missing": How.ONLY_A, "extra": How.ONLY_B, "different": How.DIFFERENT}


def refuse_to_mix(pair: Pair, a: Look, b: Look, *, asked: OffsetRange) -> MirrorlakeError | None:
    """Returns why a pair of which one holds snapshots is not compared; None where both do."""
    if a.snapshot is None or b.snapshot is None:
        snapshots, other = (pair.a, pair.b) if a.snapshot is not None else (pair.b, pair.a)
        return ConfigurationError(
            f"{snapshots.label} holds snapshots, and {other.label} every record: they cannot be compared by offset",
            hint="compare snapshots with snapshots: `mirrorlake archive snapshot` makes one of an archive; `verify` "
            "compares those of a mirror with its source",
        )
    if asked != EVERYTHING:
        return ConfigurationError(
            f"{pair.a.label} holds snapshots, which are of all records below their end",
            hint="leave out --from-offset and --to-offset",
        )
    return None


def compare_snapshots(pair: Pair, a: Look, b: Look, *, run_task: RunTask, largest_batch_bytes: int) -> Verdict:
    """Compares the newest snapshots of a pair: the latest record of every key that has a value.

    Those of different ends differ, as nobody can tell what the older one would hold by now.
    """
    verdict = Verdict(a=pair.a.label, b=pair.b.label, partition=pair.partition, result=Result.UNKNOWN)
    offsets = OffsetRange(start_offset=0, end_offset=min(a.end, b.end))
    if a.end != b.end:
        behind = OffsetRange(start_offset=offsets.end_offset, end_offset=max(a.end, b.end))
        how = How.ONLY_A if a.end > b.end else How.ONLY_B
        found = (Difference(behind, 0, how, Why.BEYOND.value),)
        return replace(verdict, result=Result.DIFFERS, differences=found, is_complete=False)
    if not a.snapshot or not b.snapshot:
        return replace(verdict, result=Result.EQUAL, offsets=offsets, records_a=0, records_b=0)

    def ask(task: BatchTask) -> DigestResult:
        try:
            rows = run_task(task)
        except MirrorlakeError as error:
            return DigestResult(error=error)
        result = rows[0].get("result") if rows else None
        if isinstance(result, DigestResult):
            return result
        return DigestResult(error=OutcomeUnknownError(f"a task of the comparison was lost: {rows}"))

    try:
        views = compare_sides(
            _snapshot_side(pair.a, pair.partition),
            _snapshot_side(pair.b, pair.partition),
            offsets,
            ask=ask,
            latest_past=lambda _: {},
            largest_batch_bytes=largest_batch_bytes,
            what=str(pair),
        )
    except MirrorlakeError as error:
        return replace(verdict, error=error)
    differences = [_difference(*each) for each in sorted(views.differences)]
    explained = Tally()
    for each in views.erased:
        explained.add(_difference(*each, why=Why.ERASED.value))
    return replace(
        verdict,
        result=result_of(
            is_nothing_compared=False, differences=differences, explained=explained.runs(), unread=verdict.unread
        ),
        offsets=offsets,
        records_a=views.source_records,
        records_b=views.copy_records,
        differences=tuple(differences[:NAMED_MAX]),
        is_complete=len(differences) <= NAMED_MAX,
        explained=explained.runs(),
    )


def _difference(offset: int, how: str, *, why: str = "") -> Difference:
    return Difference(OffsetRange(start_offset=offset, end_offset=offset + 1), 1, _HOWS[how], why)


def _snapshot_side(place: Place, partition: int) -> SnapshotSide:
    work = place.work
    assert isinstance(work, ArchiveSourceWork), "only archives hold snapshots"
    return SnapshotSide(store=work.store, destination_name=place.topic, partition=partition, extension="parquet")
