"""``plan``: what ``run`` would do now, partition by partition; changes nothing."""

from dataclasses import dataclass, replace
from enum import StrEnum

from mirrorlake.clock import SystemClock
from mirrorlake.config.resolved import Configuration, KafkaDestination, TruncationPolicy
from mirrorlake.destinations.gap_cost import FILLER_BYTES_PER_OFFSET, fill_seconds
from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.errors import MirrorlakeError, SourceGapError
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.offsets import GapFill
from mirrorlake.service.archive_stores import store_settings
from mirrorlake.service.discovery import CREATE_TIME, TIMESTAMP_TYPE, find_targets
from mirrorlake.service.mapped import MappedPosition
from mirrorlake.service.park_names import park_name
from mirrorlake.service.plan_samples import Sample, read_samples
from mirrorlake.service.plan_warnings import warnings_of
from mirrorlake.service.status import StatusRow, read_rows
from mirrorlake.service.targets import Target
from mirrorlake.service.topic_creation import with_new_topics

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One source partition at one destination: the range ``[start, end)`` that would be copied, or why not.

    ``warnings`` say what the destination would delete or refuse, and what gaps take; each names its topic.
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
        """Returns the row of the table; ``error`` and ``reason`` are present exactly when it would be refused."""
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
            row["reason"] = park_name(self.error)
            row["error"] = str(self.error)
        return row


async def read_plan(config: Configuration) -> list[PlanRow]:
    """Returns one row per target, in the configuration's order."""
    clients = WorkerCache()
    try:
        targets = await find_targets(config, clients)
        rows = await read_rows(await with_new_topics(targets, clients), clients)
        samples = await read_samples(rows, clients)
        now_ms = int(SystemClock().now_seconds() * 1000)
        return [_with_warnings(plan_row(row), sample, now_ms) for row, sample in zip(rows, samples, strict=True)]
    finally:
        await clients.close()


def _with_warnings(row: PlanRow, sample: Sample, now_ms: int) -> PlanRow:
    if row.action in (Action.NOTHING, Action.REFUSE):
        return row
    return replace(row, warnings=tuple(warnings_of(row.status.target, sample, now_ms=now_ms)))


def plan_row(row: StatusRow) -> PlanRow:
    """Returns what would happen to one partition. Pure."""
    error = row.error or _refusal(row)
    if error is not None:
        return PlanRow(status=row, action=Action.REFUSE, start=row.position, end=row.source_end, error=error)
    start, end = row.position, row.source_end
    if start is None or end is None or start >= end:
        return PlanRow(status=row, action=Action.NOTHING, start=start, end=end)
    notes = _topic_notes(row.target)
    if row.mapped is not None:
        notes += _mapped_notes(row, row.mapped)
    elif row.source_start is not None and row.source_start > start:
        notes.append(_lost_note(row.target, start, row.source_start))
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


def _lost_note(target: Target, start: int, source_start: int) -> str:
    """Returns what becomes of the offsets the source has no more."""
    lost = f"offsets {start}…{source_start - 1} are gone at the source"
    if not isinstance(target.destination, KafkaDestination):
        return f"{lost} and recorded as a gap"
    if start == 0:
        seconds = fill_seconds(source_start, GapFill.FILLER)
        return f"{lost}: filled, in about {_time(seconds)}, and deleted, so that the copy begins where the source does"
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


def _refusal(row: StatusRow) -> MirrorlakeError | None:
    """Returns what a lease would find against the partition before it copied anything."""
    if row.position is None or row.source_start is None or row.source_end is None or row.source_start <= row.position:
        return None
    destination = row.target.destination
    is_new = row.position == 0 and row.mapped is None
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
    return store_settings(destination).where(row.target.destination_topic)
