"""What the tasks of a snapshot do: the first kind reads a part of a range and reduces it, the second kind merges.

Each task of the first kind makes one run, records in the order of keys, of one part of one partition's range; between
the two, the engine brings the runs of a partition together, as bytes. Neither holds more than a bounded part of what it
reads in memory; the rest is on disk. Both may be run again, even at the same time: the first changes nothing, and of
snapshots published by two one wins.
"""

import itertools
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.gaps import GapFinder, GapReport
from mirrorlake.archive.names import partition_prefix
from mirrorlake.archive.origin import Origin, check_origin
from mirrorlake.archive.snapshots.changes import Changes, run_fragments
from mirrorlake.archive.snapshots.latest import merge_runs
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.taking import SnapshotMaking, TakenSnapshot, joined_gaps
from mirrorlake.clock import SystemClock
from mirrorlake.errors import ChainBrokenError, MirrorlakeError, OutcomeUnknownError, RecordRefusedError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import Gap, OffsetRange
from mirrorlake.sources.archive.folder import SourceFolder
from mirrorlake.sources.archive.planned import PlannedReading
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings

HEAD = -1
"""The run of a block that says what a part is, and sorts before all bytes of runs."""

Block = tuple[int, int, int, bytes]
"""Bucket, run, number within the run, and bytes: the engine brings the blocks of a bucket together in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    """One snapshot of one partition, as it was planned.

    Attributes:
        bucket: which of those that are made together.
        source: the store of the archive.
        source_name: the folder of the topic in it.
        partition: which.
        read: the range whose latest records are wanted: from where the archive begins.
        parts: how many tasks read it.
        store: where the snapshot goes.
        name: the folder there.
        offsets: of the snapshot's name, from the position there on; it ends where ``read`` does.
        origin: whose records these are, as far as that was known; every segment that says it must agree.
        behind: the snapshot that ends at the position; None where that is none.
        keeps_tombstones: whether keys stay whose latest record is a tombstone.
        compression: of Parquet's pages.
        writer: for the file.
    """

    bucket: int
    source: StoreSettings
    source_name: str
    partition: int
    read: OffsetRange
    parts: int
    store: StoreSettings
    name: str
    offsets: OffsetRange
    origin: Origin
    behind: Segment | None = None
    keeps_tombstones: bool = False
    compression: str = "zstd-1"
    writer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask:
    """One part of a plan's range, with the segments that hold it; ``number`` counts parts from 0, the oldest first."""

    plan: SnapshotPlan
    number: int
    offsets: OffsetRange
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHead:
    """What a task of the first kind found; ``error`` where it could not be read, and all else says nothing."""

    number: int
    fragments: int = 0
    raw_bytes: int = 0
    gaps: GapReport | None = None
    origin: Origin | None = None
    topics: tuple[str, ...] = ()
    leader_epoch: int | None = None
    error: MirrorlakeError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResult:
    """What became of one plan, by its bucket."""

    bucket: int
    done: TakenSnapshot | None = None
    error: MirrorlakeError | None = None


def read_part(order: bytes) -> Iterator[Block]:
    """Yields the blocks of the pickled `PartTask`: its run, and its head; an error is a head."""
    task: PartTask = pickle.loads(order)
    bucket = task.plan.bucket
    try:
        with closing(Changes()) as changes:
            head = _reduced(task, changes)
            fragments = 0
            for fragment in run_fragments(merge_runs(changes.runs())):
                fragments += 1
                yield bucket, task.number, fragments, fragment
        head = replace(head, fragments=fragments)
    except MirrorlakeError as error:
        head = PartHead(number=task.number, error=error)
    yield bucket, HEAD, task.number, pickle.dumps(head, protocol=pickle.HIGHEST_PROTOCOL)


def _reduced(task: PartTask, changes: Changes) -> PartHead:
    """Reads a part into ``changes``; returns what its head says."""
    plan = task.plan
    prefix = partition_prefix(plan.source_name, plan.partition)
    folder = SourceFolder(open_store(plan.source), prefix, clock=SystemClock())
    reading = PlannedReading(folder, task.segments, task.offsets)
    end = task.offsets.end_offset
    named_from = min(max(task.offsets.start_offset, plan.offsets.start_offset), end)
    gaps, raw_bytes = GapFinder(named_from), 0
    for columns in reading.records():
        if columns.keys.null_count:
            raise _keyless(prefix, columns)
        changes.add(columns)
        gaps.follow(columns.offsets[columns.offsets >= named_from])
        raw_bytes += int(columns.sizes.sum())
    try:
        report = gaps.finish(end, _gaps_from(reading.gaps, named_from))
    except ValueError as error:
        raise ChainBrokenError(
            f"{prefix}: the segments of {task.offsets} hold records where they say that none is: {error}",
            hint="`mirrorlake archive check --level checksums` says which",
        ) from error
    return PartHead(
        number=task.number,
        raw_bytes=raw_bytes,
        gaps=report,
        origin=reading.origin,
        topics=tuple(sorted(reading.topics)),
        leader_epoch=reading.leader_epoch,
    )


def _gaps_from(gaps: Iterable[Gap], start_offset: int) -> list[Gap]:
    """Returns what of the gaps lies at an offset or behind it."""
    cut = []
    for gap in gaps:
        low = max(gap.offsets.start_offset, start_offset)
        if low < gap.offsets.end_offset:
            cut.append(replace(gap, offsets=OffsetRange(start_offset=low, end_offset=gap.offsets.end_offset)))
    return cut


def make_snapshots(blocks: Iterator[Block], plans: Sequence[bytes]) -> Iterator[Mapping[str, object]]:
    """Makes the snapshots of some buckets, whose blocks come in order; yields `{"kind": "snapshot", "result": …}`.

    Args:
        blocks: see `Block`.
        plans: the pickled `SnapshotPlan` of every bucket.
    """
    for bucket, found in itertools.groupby(blocks, key=lambda block: block[0]):
        yield {"kind": "snapshot", "result": make_snapshot(pickle.loads(plans[bucket]), found)}


def make_snapshot(plan: SnapshotPlan, blocks: Iterator[Block], *, crash_point: CrashPoint = no_crash) -> SnapshotResult:
    """Makes the snapshot of one bucket of its blocks, heads first; raises nothing of its own."""
    try:
        return SnapshotResult(bucket=plan.bucket, done=_made(plan, blocks, crash_point))
    except MirrorlakeError as error:
        return SnapshotResult(bucket=plan.bucket, error=error)


def _made(plan: SnapshotPlan, blocks: Iterator[Block], crash_point: CrashPoint) -> TakenSnapshot:
    heads: list[PartHead] = []
    runs = 0
    with closing(Changes()) as changes:
        for run, found in itertools.groupby(blocks, key=lambda block: block[1]):
            if run == HEAD:
                heads = [pickle.loads(data) for *_, data in found]
                _check_heads(plan, heads)
            elif run != runs or run >= len(heads):
                raise OutcomeUnknownError(f"part {run} came where {runs} of {len(heads)} was expected")
            else:
                changes.take_run(_fragments(found, heads[run]))
                runs += 1
        if not heads or runs != len(heads):
            raise OutcomeUnknownError(f"of {len(heads)} parts came {runs}")
        folder = SnapshotPartition(
            open_store(plan.store), destination_name=plan.name, partition=plan.partition, extension="parquet"
        )
        making = SnapshotMaking(
            folder=folder,
            origin=_origin(plan, heads),
            offsets=plan.offsets,
            behind=plan.behind,
            keeps_tombstones=plan.keeps_tombstones,
            compression=plan.compression,
            writer=plan.writer,
            clock=SystemClock(),
            crash_point=crash_point,
        )
        return making.make(
            changes.runs(),
            gaps=joined_gaps([head.gaps for head in heads if head.gaps is not None], before=_before(plan)),
            raw_bytes=sum(head.raw_bytes for head in heads),
            leader_epoch=next((head.leader_epoch for head in reversed(heads) if head.leader_epoch is not None), None),
        )


def _check_heads(plan: SnapshotPlan, heads: Sequence[PartHead]) -> None:
    """Checks that there is a head for each part, and that each could be read.

    Raises:
        MirrorlakeError: one could not.
    """
    for head in heads:
        if head.error is not None:
            raise head.error
    if [head.number for head in heads] != list(range(plan.parts)):
        raise OutcomeUnknownError(f"of {plan.parts} parts came {[head.number for head in heads]}")


def _fragments(blocks: Iterator[Block], head: PartHead) -> Iterator[bytes]:
    """Yields the bytes of a run, once each, all of them."""
    count = 0
    for count, (_, _, number, data) in enumerate(blocks, 1):
        if number != count:
            raise OutcomeUnknownError(f"fragment {number} of part {head.number} came where {count} was expected")
        yield data
    if count != head.fragments:
        raise OutcomeUnknownError(f"of {head.fragments} fragments of part {head.number} came {count}")


def _origin(plan: SnapshotPlan, heads: Sequence[PartHead]) -> Origin:
    """Returns whose records all parts hold.

    Raises:
        OtherSourceError, TopicRecreatedError: a part is of another source than was planned.
        ChainBrokenError: segments that say nothing of themselves hold records of another topic.
    """
    prefix = partition_prefix(plan.source_name, plan.partition)
    found = plan.origin
    for head in heads:
        if head.origin is not None:
            check_origin(head.origin, found, what=f"segments of {prefix} were written")
            found = replace(
                found,
                cluster_id=found.cluster_id or head.origin.cluster_id,
                topic_id=found.topic_id or head.origin.topic_id,
            )
        if others := {*head.topics} - {found.topic}:
            raise ChainBrokenError(
                f"{prefix} holds records of {', '.join(sorted(others))}, and {found.topic} is archived there",
                hint="files were swapped: put the right ones back",
            )
    return found


def _before(plan: SnapshotPlan) -> OffsetRange | None:
    """Returns the offsets of the snapshot's range that the archive has no more."""
    start = plan.offsets.start_offset
    if plan.read.start_offset <= start:
        return None
    return OffsetRange(start_offset=start, end_offset=plan.read.start_offset)


def _keyless(prefix: str, columns: RecordColumns) -> RecordRefusedError:
    offset = int(columns.offsets[int(np.argmax(columns.keys.is_null().to_numpy(zero_copy_only=False)))])
    return RecordRefusedError(
        f"{prefix} has a record without a key at offset {offset}, and a snapshot holds the latest record of every key",
        hint="end the snapshot before it (`--until-offset`), or leave this partition out (`--partition`)",
        offset=offset,
    )
