"""``plan``: what ``run`` would do now, partition by partition; changes nothing."""

from dataclasses import dataclass
from enum import StrEnum

from mirrorlake.config.resolved import Configuration, KafkaDestination, TruncationPolicy
from mirrorlake.errors import MirrorlakeError, SourceGapError, SourceTruncatedError
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.service.discovery import find_targets
from mirrorlake.service.mapped import MappedPosition
from mirrorlake.service.states import store_root
from mirrorlake.service.status import StatusRow, read_rows


class Action(StrEnum):
    """What would happen to a partition."""

    COPY = "copy"
    CREATE_AND_COPY = "create and copy"
    NOTHING = "nothing to do"
    REFUSE = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One source partition at one destination: the range ``[start, end)`` that would be copied, or why not."""

    status: StatusRow
    action: Action
    start: int | None = None
    end: int | None = None
    note: str = ""
    error: MirrorlakeError | None = None

    def as_json(self) -> dict[str, str | int | None]:
        """Returns the row of ``plan --format json``; ``error`` is present exactly when it would be refused."""
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
            row["error"] = str(self.error)
        return row


async def read_plan(config: Configuration) -> list[PlanRow]:
    """Returns one row per target, in the configuration's order."""
    clients = WorkerCache()
    try:
        targets = await find_targets(config, clients)
        rows = await read_rows(targets, clients)
        return [plan_row(row) for row in rows]
    finally:
        await clients.close()


def plan_row(row: StatusRow) -> PlanRow:
    """Returns what would happen to one partition. Pure."""
    error = row.error or _refusal(row)
    if error is not None:
        return PlanRow(status=row, action=Action.REFUSE, start=row.position, end=row.source_end, error=error)
    start, end = row.position, row.source_end
    if start is None or end is None or start >= end:
        return PlanRow(status=row, action=Action.NOTHING, start=start, end=end)
    creation = row.target.creation
    notes = []
    if creation is not None:
        notes.append(f"topic with {creation.partitions} partition(s)")
        notes += [f"{key}={value}" for key, value in creation.configs.items()]
    if row.target.is_archive and row.source_start is not None and row.source_start > start:
        notes.append(f"offsets {start}…{row.source_start - 1} are gone at the source and recorded as a gap")
    if row.mapped is not None:
        notes += _mapped_notes(row, row.mapped)
    return PlanRow(
        status=row,
        action=Action.CREATE_AND_COPY if creation is not None else Action.COPY,
        start=start,
        end=end,
        note=", ".join(notes),
    )


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
    if row.position is None or row.source_start is None or row.source_start <= row.position:
        return None
    if row.target.is_archive and row.position == 0:
        return None
    if row.mapped is not None and row.target.mirror.on_truncation is TruncationPolicy.SKIP:
        return None
    kind = SourceGapError if row.position == 0 and row.mapped is None else SourceTruncatedError
    return kind(
        f"source {row.target.source} starts at offset {row.source_start}, the destination needs {row.position} next",
        hint="an archive can begin there and records the gap; filling it in Kafka comes with the next release",
        position=row.position,
        log_start=row.source_start,
    )


def _where(row: StatusRow) -> str:
    destination = row.target.destination
    if isinstance(destination, KafkaDestination):
        return f"{destination.cluster.name}/{row.target.destination_topic}"
    return str(store_root(destination) / row.target.destination_topic)
