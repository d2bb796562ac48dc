"""``plan``: what ``run`` would do now, partition by partition; changes nothing."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mirrorlake.clock import SystemClock
from mirrorlake.config.resolved import Configuration, TruncationPolicy
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.record_clock import CREATE_TIME, TIMESTAMP_TYPE
from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kinds.kafka_warnings import lost_to_cleaner, missed_deletions
from mirrorlake.kinds.kind import Look
from mirrorlake.kinds.registry import kind_of, look_at_destinations
from mirrorlake.kinds.standing import Sample
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.service.plan.heartbeats import heartbeat_warnings
from mirrorlake.service.plan.rights import missing_rights
from mirrorlake.service.plan.samples import read_samples
from mirrorlake.service.sight.park_names import park_name
from mirrorlake.service.status import StatusRow, read_rows
from mirrorlake.together import all_of
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.idle_selections import IdleSelection, idle_selections
from mirrorlake.topics.sources import remarks_of, window_of
from mirrorlake.topics.targets import Target
from mirrorlake.topics.topic_creation import with_new_topics
from mirrorlake.topics.windows import count_left_out

AS_USUAL = (TIMESTAMP_TYPE, CREATE_TIME)
"""Set on every topic that is made, and expected by everybody: not worth a word."""

SETTINGS_SHOWN_MAX = 6
"""Settings of a topic that the table names; an archive has all of a topic's, thirty and more."""


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
    destination would delete or refuse, and what gaps take; each names its topic. ``brief`` is what the table has in
    place of ``note``, where that names more settings than one wants to read; else it is empty.
    """

    status: StatusRow
    action: Action
    start: int | None = None
    end: int | None = None
    note: str = ""
    brief: str = ""
    warnings: tuple[str, ...] = ()
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, str | int | list[str] | None]:
        """Returns the row of ``plan --format json``: with the whole note, and ``warnings`` where there are some."""
        warnings = {"warnings": list(self.warnings)} if self.warnings else {}
        return {**self.as_row(), "note": self.note or None, **warnings}

    def as_row(self) -> dict[str, str | int | None]:
        """Returns the row of the table; ``error`` is present exactly when it has one, ``reason`` when it is refused."""
        target = self.status.target
        row: dict[str, str | int | None] = {
            **target.as_json(),
            "to": kind_of(target.destination).place(target),
            "action": self.action.value,
            "start": self.start,
            "end": self.end,
            "offsets": None if self.start is None or self.end is None else self.end - self.start,
            "note": self.brief or self.note or None,
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
        left_out = await all_of(_left_out(row, clients) for row in rows)
        looks = await look_at_destinations(rows, clients)
        now_ms = int(SystemClock().now_seconds() * 1000)
        planned = [
            _with_warnings(plan_row(row, found), found, sample, now_ms, [*remarks_of(row.target.mirror), *more])
            for row, found, sample, more in zip(rows, looks, samples, left_out, strict=True)
        ]
        planned = with_warnings(planned, await heartbeat_warnings(config.enabled_mirrors, clients))
        return Plan(
            rows=await all_of(asyncio.to_thread(_with_removals, row, now_ms) for row in planned),
            idle=idle_selections(config.enabled_mirrors, targets),
        )
    finally:
        await clients.close()


def with_warnings(rows: Sequence[PlanRow], of_mirrors: Mapping[str, Sequence[str]]) -> list[PlanRow]:
    """Returns the rows with what is to be said of whole mirrors, in the first row of each. Pure."""
    left = dict(of_mirrors)
    return [replace(row, warnings=(*row.warnings, *left.pop(row.status.target.mirror.name, ()))) for row in rows]


async def read_plan(config: Configuration) -> list[PlanRow]:
    """Returns one row per target, in the configuration's order."""
    return list((await read_whole_plan(config)).rows)


def _with_warnings(row: PlanRow, found: Look, sample: Sample, now_ms: int, more: Sequence[str]) -> PlanRow:
    target = row.status.target
    if row.action in (Action.REFUSE, Action.UNREACHABLE):
        return replace(row, warnings=tuple(more))
    if row.action is Action.NOTHING:
        return replace(row, warnings=(*lost_to_cleaner(target), *more))
    late = missed_deletions(target, held_until_ms=found.held_until_ms, now_ms=now_ms)
    return replace(row, warnings=(*kind_of(target.destination).warnings(target, sample, now_ms=now_ms), *late, *more))


async def _left_out(row: StatusRow, clients: WorkerCache) -> list[str]:
    """Says how many records a point in time leaves out although they are not later than it."""
    target = row.target
    if row.error is not None or row.source_end is None or not target.is_due:
        return []
    try:
        count = await count_left_out(target.source_work, window_of(target.mirror), target.source, clients)
    except MirrorlakeError as error:
        return [f"{target.source}: how many records `until` leaves out is not known: {error}"]
    if not count:
        return []
    return [
        f"{target.source}: {count} record(s) behind offset {row.source_end} are not later than `until` and are left "
        "out: the first that is later stands before them"
    ]


def _with_removals(row: PlanRow, now_ms: int) -> PlanRow:
    """Says what `run` would delete of what is there."""
    target = row.status.target
    if row.error is not None:
        return row
    removals = kind_of(target.destination).removals(target, now_ms=now_ms)
    return replace(row, warnings=(*row.warnings, *removals)) if removals else row


def plan_row(row: StatusRow, found: Look) -> PlanRow:
    """Returns what would happen to one partition. Pure."""
    if row.error is None and not row.target.is_due:
        return PlanRow(status=row, action=Action.NOTHING, note="no record is as late as `from` yet")
    error = row.error or found.error or _refusal(row, is_new=found.is_new)
    if error is not None:
        is_refused = between_leases(error) is Decision.PARK
        action = Action.REFUSE if is_refused else Action.UNREACHABLE
        return PlanRow(status=row, action=action, start=row.position, end=row.source_end, error=error)
    start, end = row.position, row.source_end
    if start is None or end is None or start >= end:
        return PlanRow(status=row, action=Action.NOTHING, start=start, end=end, note=", ".join(_end_notes(row)))
    others = [*kind_of(row.target.destination).notes(row, is_new=found.is_new), *_end_notes(row)]
    note, brief = (
        ", ".join([*_topic_notes(row.target, settings_max=most), *others]) for most in (None, SETTINGS_SHOWN_MAX)
    )
    action = _action(row.target)
    return PlanRow(status=row, action=action, start=start, end=end, note=note, brief=brief if brief != note else "")


def _action(target: Target) -> Action:
    if target.replaces:
        return Action.REPLACE_AND_COPY
    if target.creation is not None:
        return Action.CREATE_AND_COPY
    return Action.GROW_AND_COPY if target.is_to_be_made else Action.COPY


def _topic_notes(target: Target, *, settings_max: int | None) -> list[str]:
    notes: list[str] = []
    if target.replaces:
        notes.append("the source topic was recreated")
    elif target.destination_topic != target.base_topic:
        notes.append(f"the source topic was recreated, what {target.base_topic} holds stays")
    if target.creation is not None:
        notes.append(f"topic with {target.creation.partitions} partition(s)")
        if target.creation.replication_factor > 0:
            notes.append(f"replication factor {target.creation.replication_factor}")
        settings = [f"{key}={value}" for key, value in target.creation.configs.items() if (key, value) != AS_USUAL]
        is_many = settings_max is not None and len(settings) > settings_max
        notes += [f"{len(settings)} settings (`--format json` has them)"] if is_many else settings
    if target.growth is not None and target.is_to_be_made:
        notes.append(f"from {target.growth.partitions_before} to {target.growth.partitions} partitions")
    return notes


def _end_notes(row: StatusRow) -> list[str]:
    """Says where a partition of a cluster ends for a mirror that has an end, or that it is not known yet."""
    if not row.target.source_work.is_bounded:
        return []
    if row.has_ended:
        return [f"has ended, at offset {row.limit}"]
    if row.limit is not None:
        return [f"ends at offset {row.limit}"]
    if window_of(row.target.mirror).until_ms is None:
        return []
    return ["no end yet: no record is later than `until`"]


def _refusal(row: StatusRow, *, is_new: bool) -> MirrorlakeError | None:
    """Returns what a lease would find against the partition before it copied anything."""
    if row.position is None or row.source_start is None or row.source_end is None or row.source_start <= row.position:
        return None
    if not (is_new or row.target.mirror.on_truncation is TruncationPolicy.SKIP):
        return explain_out_of_range(row.target.source, row.position, row.source_start, row.source_end)
    return kind_of(row.target.destination).refusal(row)
