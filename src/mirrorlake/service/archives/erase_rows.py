"""The partitions of an erasure on their way through a run, and the rows that say what became of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.inspection import folders_in
from mirrorlake.archive.looks import why_moved
from mirrorlake.archive.maintenance.erase_plan import EraseGroup, ErasePlan
from mirrorlake.archive.maintenance.erasing import Erased
from mirrorlake.archive.maintenance.look import FolderLook, look_at
from mirrorlake.archive.maintenance.work import EraseTask, FolderAddress, TaskResult
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.topic_record import check_reached, recorded_end
from mirrorlake.errors import MirrorlakeError, PositionMovedError
from mirrorlake.service.archives.places import ArchivePlace

Cell = str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRow:
    """A group that is rewritten, a segment that waits, or a partition without any of both.

    ``result`` is `planned`, `erased`, `waits`, `nothing` or `failed`; ``records`` are those of the keys.
    """

    place: ArchivePlace
    result: str
    inputs: int = 0
    start: int | None = None
    end: int | None = None
    records: int | None = None
    size_bytes: int = 0
    until_seconds: float | None = None
    reason: str = ""
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, Cell]:
        """Returns the row of ``archive erase --format json``; ``error`` is present exactly where it failed."""
        until = None
        if self.until_seconds is not None:
            until = datetime.fromtimestamp(self.until_seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        row: dict[str, Cell] = {
            "name": self.place.name,
            "partition": self.place.partition,
            "store": self.place.store.where(""),
            "mirror": self.place.mirror,
            "inputs": self.inputs,
            "start": self.start,
            "end": self.end,
            "records": self.records,
            "bytes": self.size_bytes,
            "result": self.result,
            "reason": self.reason or None,
            "until": until,
        }
        if self.error is not None:
            row["error"] = str(self.error)
        return row


@dataclass(slots=True)
class ErasedPartition:
    """One partition on its way through a run."""

    place: ArchivePlace
    archived: PartitionFolder | None = None
    look: FolderLook | None = None
    snapshots: tuple[Segment, ...] = ()
    replaced: tuple[Segment, ...] = ()
    found: dict[SegmentName, int] = field(default_factory=dict)
    plan: ErasePlan = field(default_factory=ErasePlan)
    barriers: set[int] = field(default_factory=set)
    failure: MirrorlakeError | None = None

    @property
    def folder(self) -> FolderAddress:
        """Where it lies."""
        assert self.archived is not None
        return FolderAddress(
            store=self.place.store,
            name=self.place.name,
            partition=self.place.partition,
            extension=self.archived.extension,
        )

    @property
    def keep_seconds(self) -> float:
        """How long what a merge has covered stays."""
        merge = self.place.destination.merge if self.place.destination is not None else None
        return merge.keep_inputs_seconds if merge is not None else 0.0

    def look_again(self) -> None:
        """Lists the folder; what is wrong with it is its failure.

        Where segments are gone that had been there, or others lie where nobody looks, no key is known to be in none.
        """
        try:
            self.archived = self.archived or self.place.open()
            # Before the listing: what it speaks of was there by then.
            reached = recorded_end(self.archived.store, self.place.name, self.place.partition)
            if isinstance(self.archived, ArchivedPartition):
                self.look = look_at(self.archived)
                newest = self.look.newest
            else:
                self.replaced = tuple(each for each, _ in self.archived.replaced())
                self.snapshots = tuple(self.archived.snapshots())
                newest = self.snapshots[-1] if self.snapshots else None
            for stray in folders_in(self.archived, also_reserved=True):
                raise stray
            position = newest.name.end_offset if newest is not None else 0
            check_reached(
                self.archived.store, self.place.name, self.place.partition, reached=reached, position=position
            )
        except MirrorlakeError as error:
            self.failure = error

    def sweep(self) -> None:
        """Removes what killed writers left staged: whole records lie in it."""
        assert self.archived is not None
        try:
            self.archived.store.sweep_staged(self.archived.prefix)
        except MirrorlakeError as error:
            self.failure = error

    def segments(self) -> Iterator[Segment]:
        """Yields all that may hold the keys: what counts, and what waits for its deletion."""
        yield from self.replaced
        yield from self.snapshots
        if self.look is not None:
            yield from self.look.chain
            yield from (each.segment for each in self.look.covered)
            yield from self.look.retired


def failed_row(partition: ErasedPartition) -> EraseRow:
    """Returns the row of a partition that cannot be done: it waits where others changed it meanwhile."""
    assert partition.failure is not None
    return error_row(partition, partition.failure)


def error_row(partition: ErasedPartition, error: MirrorlakeError) -> EraseRow:
    """Returns the row of an error of a partition: it waits where others changed it meanwhile."""
    if isinstance(error, PositionMovedError):
        until = _until(error)
        return EraseRow(place=partition.place, result="waits", reason=why_moved(error), until_seconds=until)
    return EraseRow(place=partition.place, result="failed", error=error)


def done_row(partition: ErasedPartition, task: EraseTask, result: TaskResult) -> EraseRow:
    """Returns the row of a group that a task has dealt with."""
    names = tuple(each.name for each in task.inputs if each.name in partition.found)
    group = next(each for each in partition.plan.groups if each.inputs == task.inputs)
    group = replace(group, holding=names)
    if isinstance(result.error, PositionMovedError):
        row = group_row(partition, group, "waits", reason=why_moved(result.error))
        return replace(row, until_seconds=_until(result.error))
    if result.error is not None:
        return group_row(partition, group, "failed", error=result.error)
    assert isinstance(result.done, Erased)
    return group_row(partition, group, "erased", records=result.done.records)


def _until(error: MirrorlakeError) -> float | None:
    """Returns when what an error waits for is over, in Unix seconds; None where it does not say."""
    until = error.facts.get("until_seconds")
    return until if isinstance(until, float) else None


def waiting_rows(partition: ErasedPartition) -> list[EraseRow]:
    """Returns a row for each segment that waits."""
    return [
        EraseRow(
            place=partition.place,
            result="waits",
            inputs=1,
            start=each.segment.name.from_offset,
            end=each.segment.name.end_offset,
            records=partition.found.get(each.segment.name),
            size_bytes=each.segment.size_bytes,
            until_seconds=each.until_seconds,
            reason=each.reason,
        )
        for each in partition.plan.waiting
    ]


def group_row(
    partition: ErasedPartition,
    group: EraseGroup,
    result: str,
    *,
    records: int | None = None,
    reason: str = "",
    error: MirrorlakeError | None = None,
) -> EraseRow:
    """Returns the row of a group; ``records`` are those that were found in it where nothing else is said."""
    return EraseRow(
        place=partition.place,
        result=result,
        inputs=len(group.inputs),
        start=group.offsets.start_offset,
        end=group.offsets.end_offset,
        records=records if records is not None else sum(partition.found[name] for name in group.holding),
        size_bytes=group.size_bytes,
        reason=reason or group.note or ("" if group.holding else "another eraser left it unfinished"),
        error=error,
    )


def nothing_row(partition: ErasedPartition) -> EraseRow:
    """Returns the row of a partition in which no record has any of the keys."""
    return EraseRow(place=partition.place, result="nothing", records=0, reason="no record has any of the keys")


def order_of(row: EraseRow) -> tuple[str, int, str, int]:
    """Returns what rows are sorted by."""
    return row.place.name, row.place.partition, row.place.store.where(""), row.start or 0
