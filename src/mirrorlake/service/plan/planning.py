"""``plan``: what ``run`` would do now, partition by partition; changes nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mirrorlake.archive.snapshots.followed import followed_snapshots
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.clock import SystemClock
from mirrorlake.config.resolved import ArchiveDestination, Configuration, KafkaDestination, TruncationPolicy
from mirrorlake.destinations.record_clock import CREATE_TIME, TIMESTAMP_TYPE
from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.destinations.transactions.gap_cost import FILLER_BYTES_PER_OFFSET, fill_seconds
from mirrorlake.errors import MirrorlakeError, SourceGapError
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.offsets import GapFill
from mirrorlake.service.mapped import MappedPosition
from mirrorlake.service.plan.looks import Look, look_at_destinations
from mirrorlake.service.plan.rights import missing_rights
from mirrorlake.service.plan.samples import Sample, read_samples
from mirrorlake.service.plan.warnings import warnings_of
from mirrorlake.service.sight.park_names import park_name
from mirrorlake.service.states import archived_partition, origin_of
from mirrorlake.service.status import StatusRow, read_rows
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.idle_selections import IdleSelection, idle_selections
from mirrorlake.topics.targets import Target, is_deleting
from mirrorlake.topics.topic_creation import with_new_topics

AS_USUAL = (TIMESTAMP_TYPE, CREATE_TIME)
"""Set on every topic that is made, and expected by everybody: not worth a word."""


class Action(StrEnum):
    """What would happen to a partition."""

    COPY = "copy"
    CREATE_AND_COPY = "create and copy"
    REPLACE_AND_COPY = "delete, create and copy"
    GROW_AND_COPY = "add partitions and copy"
    NOTHING = "nothing to do"
    REFUSE = "refused"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One source partition at one destination: the range ``[start, end)`` that would be copied, or why not.

    Where a cluster or store did not answer, what would be done is not known: ``unreachable``. ``warnings`` say what the
    destination would delete or refuse, and what gaps take; each names its topic.
    """

    status: StatusRow
    action: Action
    start: int | None = None
    end: int | None = None
    note: str = ""
    warnings: tuple[str, ...] = ()
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, str | int | list[str] | None]:
        """Returns the row of ``plan --format json``: with its ``warnings``, where there are some."""
        return {**self.as_row(), **({"warnings": list(self.warnings)} if self.warnings else {})}

    def as_row(self) -> dict[str, str | int | None]:
        """Returns the row of the table; ``error`` is present exactly when it has one, ``reason`` when it is refused."""
        row: dict[str, str | int | None] = {
            **self.status.target.as_json(),
            "to": _where(self.status),
            "action": self.action.value,
            "start": self.start,
            "end": self.end,
            "offsets": None if self.start is None or self.end is None else self.end - self.start,
            "note": self.note or None,
        }
        if self.error is not None:
            if self.action is Action.REFUSE:
                row["reason"] = park_name(self.error)
            row["error"] = str(self.error)
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything ``plan`` shows: one row per target, and what selects nothing."""

    rows: Sequence[PlanRow]
    idle: Sequence[IdleSelection]


async def read_whole_plan(config: Configuration) -> Plan:
    """Returns what `run` would do, and what it would find nothing to do for."""
    clients = WorkerCache()
    try:
        targets = await find_targets(config, clients)
        rows = await read_rows(await with_new_topics(targets, clients), clients)
        denied = await missing_rights(rows, clients)
        rows = [replace(row, error=error) if error else row for row, error in zip(rows, denied, strict=True)]
        samples = await read_samples(rows, clients)
        looks = await look_at_destinations(rows, clients)
        now_ms = int(SystemClock().now_seconds() * 1000)
        planned = [
            _with_warnings(plan_row(row, found), sample, now_ms)
            for row, found, sample in zip(rows, looks, samples, strict=True)
        ]
        return Plan(
            rows=await asyncio.gather(*(asyncio.to_thread(_with_removals, row, now_ms) for row in planned)),
            idle=idle_selections(config.enabled_mirrors, targets),
        )
    finally:
        await clients.close()


async def read_plan(config: Configuration) -> list[PlanRow]:
    """Returns one row per target, in the configuration's order."""
    return list((await read_whole_plan(config)).rows)


def _with_warnings(row: PlanRow, sample: Sample, now_ms: int) -> PlanRow:
    if row.action in (Action.NOTHING, Action.REFUSE, Action.UNREACHABLE):
        return row
    return replace(row, warnings=tuple(warnings_of(row.status.target, sample, now_ms=now_ms)))


def _with_removals(row: PlanRow, now_ms: int) -> PlanRow:
    """Says which snapshots would be removed, by the function that decides it for `run`."""
    target = row.status.target
    destination = target.destination
    if not isinstance(destination, ArchiveDestination) or destination.snapshots_kept is None or row.error is not None:
        return row
    folder = archived_partition(target)
    if not isinstance(folder, SnapshotPartition):
        return row
    try:
        going = followed_snapshots(
            folder, kept=destination.snapshots_kept, origin=origin_of(target), now_seconds=now_ms / 1000
        )
    except MirrorlakeError as error:
        return replace(row, warnings=(*row.warnings, f"{folder.prefix}: what would be removed is not known: {error}"))
    if not going:
        return row
    text = f"{folder.prefix}: removes {len(going)} snapshot(s) that newer ones have followed, {going[0].name} first"
    return replace(row, warnings=(*row.warnings, text))


def plan_row(row: StatusRow, found: Look) -> PlanRow:
    """Returns what would happen to one partition. Pure."""
    error = row.error or found.error or _refusal(row, is_new=found.is_new)
    if error is not None:
        is_refused = between_leases(error) is Decision.PARK
        action = Action.REFUSE if is_refused else Action.UNREACHABLE
        return PlanRow(status=row, action=action, start=row.position, end=row.source_end, error=error)
    start, end = row.position, row.source_end
    if start is None or end is None or start >= end:
        return PlanRow(status=row, action=Action.NOTHING, start=start, end=end)
    notes = _topic_notes(row.target)
    if row.mapped is not None:
        notes += _mapped_notes(row, row.mapped)
    elif row.source_start is not None and row.source_start > start:
        notes.append(_lost_note(row.target, start, row.source_start, is_new=found.is_new))
    return PlanRow(status=row, action=_action(row.target), start=start, end=end, note=", ".join(notes))


def _action(target: Target) -> Action:
    if target.replaces:
        return Action.REPLACE_AND_COPY
    if target.creation is not None:
        return Action.CREATE_AND_COPY
    return Action.GROW_AND_COPY if target.is_to_be_made else Action.COPY


def _topic_notes(target: Target) -> list[str]:
    notes = []
    if target.replaces:
        notes.append("the source topic was made again")
    elif target.destination_topic != target.base_topic:
        notes.append(f"the source topic was made again, what {target.base_topic} holds stays")
    if target.creation is not None:
        notes.append(f"topic with {target.creation.partitions} partition(s)")
        notes += [f"{key}={value}" for key, value in target.creation.configs.items() if (key, value) != AS_USUAL]
    if target.growth is not None and target.is_to_be_made:
        notes.append(f"from {target.growth.partitions_before} to {target.growth.partitions} partitions")
    return notes


def _lost_note(target: Target, start: int, source_start: int, *, is_new: bool) -> str:
    """Returns what becomes of the offsets the source has no more."""
    lost = f"offsets {start}…{source_start - 1} are gone at the source"
    if not isinstance(target.destination, KafkaDestination):
        return f"{lost} and recorded as a gap"
    if is_new:
        filled = f"{lost}: filled, in about {_time(fill_seconds(source_start - start, GapFill.FILLER))}"
        if target.destination_is_compacted and not is_deleting(target.destination_configs):
            return (
                f"{filled}; of a topic that is compacted only nobody can delete them: its cleaner takes them, in time"
            )
        return f"{filled}, and deleted, so that the copy begins where the source does"
    seconds = fill_seconds(source_start - start, target.destination.gap_fill)
    return f"{lost} and filled by {target.destination.gap_fill.value}, in about {_time(seconds)}"


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{max(1, round(seconds * 1000))} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _mapped_notes(row: StatusRow, mapped: MappedPosition) -> list[str]:
    """Returns what is to be said of a partition that takes the destination's offsets."""
    notes = []
    if mapped.destination_partition != row.target.source.partition:
        notes.append(f"into partition {mapped.destination_partition} of {row.target.destination_topic}")
    if row.source_start is not None and row.source_start < mapped.start_offset == mapped.position:
        notes.append(f"offsets {row.source_start}…{mapped.start_offset - 1} are left out, as `start` says")
    if row.source_start is not None and row.source_start > mapped.position:
        notes.append(f"offsets {mapped.position}…{row.source_start - 1} are gone at the source and skipped")
    return notes


def _refusal(row: StatusRow, *, is_new: bool) -> MirrorlakeError | None:
    """Returns what a lease would find against the partition before it copied anything."""
    if row.position is None or row.source_start is None or row.source_end is None or row.source_start <= row.position:
        return None
    destination = row.target.destination
    if not (is_new or row.target.mirror.on_truncation is TruncationPolicy.SKIP):
        return explain_out_of_range(row.target.source, row.position, row.source_start, row.source_end)
    if not isinstance(destination, KafkaDestination) or row.mapped is not None:
        return None
    return _fill_refusal(row.target, destination, row.position, row.source_start)


def _fill_refusal(target: Target, destination: KafkaDestination, start: int, end: int) -> MirrorlakeError | None:
    what = f"source {target.source} starts at offset {end}, the destination needs {start} next"
    if destination.gap_fill is GapFill.REFUSE:
        hint = "use `gap-fill: markers`, `gap-fill: filler` or `offsets: map`, or an archive, which records the gap"
    elif end - start > destination.gap_fill_offsets_max:
        filled = _time(fill_seconds(end - start, GapFill.FILLER))
        what += (
            f": {end - start:,} offsets to fill, about {filled} and {(end - start) * FILLER_BYTES_PER_OFFSET:,.0f} B"
        )
        hint = f"set `gap-fill-max-offsets: {end - start}` or more, or use `offsets: map`"
    else:
        return None
    return SourceGapError(what, hint=hint, position=start, log_start=end)


def _where(row: StatusRow) -> str:
    destination = row.target.destination
    if isinstance(destination, KafkaDestination):
        return f"{destination.cluster.name}/{row.target.destination_topic}"
    return destination.store.settings.where(row.target.destination_topic)
