"""``status``: where every partition stands, read from the clusters and stores themselves; changes nothing."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirrorlake.archive.names import partition_prefix
from mirrorlake.clock import utc_text
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.source_bounds import destination_ahead
from mirrorlake.errors import DestinationAheadError, DestinationForeignError, MirrorlakeError, RangeUnknownError
from mirrorlake.kinds.registry import look_at_destinations, read_positions
from mirrorlake.kinds.standing import Position, Standing
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import StateName
from mirrorlake.service.sight.live import DoubtedKeeping, FailedKeeping, Key, LivePartition, LiveService, ask_service
from mirrorlake.service.sight.park_names import park_name
from mirrorlake.service.sight.whose_answer import of_this_file
from mirrorlake.sources.client import Bounds, concerns, seen_from
from mirrorlake.together import all_of
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.idle_selections import IdleSelection, idle_selections
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Where a source partition begins and ends, and why it cannot be read further where something is missing."""

    bounds: Bounds
    missing: MirrorlakeError | None = None


Ends = Mapping[TopicPartition, Seen | MirrorlakeError]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRow(Standing):
    """Where one source partition stands at one destination.

    ``live`` is what a running service says of the partition; None where none answered, or none that serves it.
    ``limit`` is where the source ends for the mirror (`until`), None where it has no end that is known.
    ``failed_keeping`` are schedules of its archive whose last run failed there, ``doubt`` is why that of retention left
    its folder alone.
    """

    live: LivePartition | None = None
    limit: int | None = None
    failed_keeping: tuple[FailedKeeping, ...] = ()
    doubt: str = ""

    @property
    def lag(self) -> int | None:
        """Offsets the destination is behind; negative where it is ahead of the source."""
        if self.source_end is None or self.position is None:
            return None
        return self.source_end - self.position

    @property
    def has_ended(self) -> bool:
        """True where the copy has all that the mirror is to copy, whatever the source gains."""
        return self.limit is not None and self.position is not None and self.position >= self.limit

    @property
    def lag_seconds(self) -> float | None:
        """How long the oldest offset not copied has been waiting; None where no service is there to have seen it."""
        if self.lag == 0:
            return 0.0
        return self.live.lag_seconds if self.live is not None else None

    @property
    def state(self) -> StateName:
        """``parked`` where a permanent error stands or the service says so, ``paused`` where the service says that.

        Else ``ended`` where nothing is left for the mirror to copy, whatever comes, ``caught-up`` at the source's end,
        ``running`` where a service that answers copies it, ``behind`` where
        none is known to, ``unknown`` where the offsets could not be read.
        """
        if self._is_parked_by_service:
            return StateName.PARKED
        if self.error is not None:
            return StateName.PARKED if between_leases(self.error) is Decision.PARK else StateName.UNKNOWN
        if self.live is not None and self.live.state is StateName.PAUSED:
            return StateName.PAUSED
        if self.lag is None:
            return StateName.UNKNOWN
        if self.has_ended:
            return StateName.ENDED
        if self.lag == 0:
            return StateName.CAUGHT_UP
        is_served = self.live is not None and self.live.state in (StateName.RUNNING, StateName.CAUGHT_UP)
        return StateName.RUNNING if is_served else StateName.BEHIND

    @property
    def _is_parked_by_service(self) -> bool:
        return self.live is not None and self.live.state is StateName.PARKED

    def as_json(self) -> dict[str, str | int | float | None]:
        """Returns the row of ``status --format json``.

        ``error`` is present exactly when the row failed, ``reason`` when it is parked: one of ``PARK_NAMES``. Where a
        running service has parked the partition, both are the service's own: its lease saw more than a look from
        outside does. Where it waits, ``waiting`` says for what, and ``reason`` is one of ``WAIT_NAMES``; where it fails
        and is tried again, ``failing`` says at what.
        ``owner`` and ``owner_since`` are where a process has taken the mirror at a Kafka destination, and not let go.
        ``service`` is what a running service calls the partition's state, ``unknown`` where none answers. ``keeping``
        is there where the last run of a schedule of its archive failed, which is no failure of the row, ``doubt`` where
        that of retention left its folder alone, as it is not certain whose it is. ``stale`` is there where a running
        service says that the copy is further behind, in time, than its mirror allows, which is no failure either.
        """
        row: dict[str, str | int | float | None] = {
            **self.target.as_json(),
            "source_low": self.source_start,
            "source_high": self.source_end,
            "dest_next": self.position,
            "lag": self.lag,
            "lag_seconds": self.lag_seconds,
            "state": self.state.value,
            "service": (self.live.state if self.live is not None else StateName.UNKNOWN).value,
        }
        if (owner := self.target.owner) is not None and not owner.is_released:
            row |= {"owner": owner.owner, "owner_since": utc_text(owner.taken_at_ms)}
        if self.live is not None and self._is_parked_by_service:
            row["reason"], row["error"] = self.live.reason, self.live.error
        elif self.error is not None:
            if self.state is StateName.PARKED:
                row["reason"] = park_name(self.error)
            row["error"] = str(self.error)
        elif self.live is not None and self.live.reason:
            row["reason"], row["waiting"] = self.live.reason, self.live.error
        elif self.live is not None and self.live.error:
            row["failing"] = self.live.error
        if self.live is not None and self.live.stale:
            row["stale"] = self.live.stale
        if self.failed_keeping:
            row["keeping"] = "; ".join(each.message for each in self.failed_keeping)
        if self.doubt:
            row["doubt"] = self.doubt
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Everything ``status`` shows: one row per target, what selects nothing, and what a running service said."""

    rows: Sequence[StatusRow]
    idle: Sequence[IdleSelection]
    service: LiveService


async def read_live_status(config: Configuration) -> Status:
    """Returns how everything stands by the clusters and stores, and by the service that listens where `run` would."""
    clients = WorkerCache()
    asking = asyncio.create_task(asyncio.to_thread(ask_service, config.service.metrics))
    try:
        targets = await find_targets(config, clients)
        rows = await read_rows(targets, clients)
    finally:
        await clients.close()
        service = of_this_file(await asking, config)
    return Status(
        rows=[
            replace(
                row,
                live=service.partitions.get(_key(row.target)),
                failed_keeping=tuple(each for each in service.failed_keeping if _is_of(each, row.target)),
                doubt=_doubt(service, row.target),
            )
            for row in rows
        ],
        idle=idle_selections(config.enabled_mirrors, targets),
        service=service,
    )


def _doubt(service: LiveService, target: Target) -> str:
    """Returns why retention left a target's folder alone; empty where it did not, or nobody says so."""
    if not service.doubted_keeping or target.source.partition == UNKNOWN_PARTITION:
        return ""
    folder = partition_prefix(target.destination_topic, target.source.partition)
    return next(
        (each.reasons[folder] for each in service.doubted_keeping if _is_of(each, target) and folder in each.reasons),
        "",
    )


def _is_of(failed: FailedKeeping | DoubtedKeeping, target: Target) -> bool:
    return (failed.mirror, failed.destination) == (target.mirror.name, target.destination.label)


def _key(target: Target) -> Key:
    partition = None if target.source.partition == UNKNOWN_PARTITION else target.source.partition
    return (target.mirror.name, target.source.topic, partition, target.destination.label)


async def read_status(config: Configuration) -> list[StatusRow]:
    """Returns one row per target, in the configuration's order."""
    clients = WorkerCache()
    try:
        targets = await find_targets(config, clients)
        return await read_rows(targets, clients)
    finally:
        await clients.close()


async def read_compared_status(config: Configuration) -> list[StatusRow]:
    """Returns one row per target, with an error also where the copy's newest records are not the source's.

    As `plan` and a lease compare them, which takes a read on both sides: positions alone do not tell a copy from
    somebody else's topic of the same name.
    """
    clients = WorkerCache()
    try:
        rows = await read_rows(await find_targets(config, clients), clients)
        looks = await look_at_destinations(rows, clients)
        return [replace(row, error=row.error or look.error) for row, look in zip(rows, looks, strict=True)]
    finally:
        await clients.close()


async def read_rows(targets: list[Target], clients: WorkerCache) -> list[StatusRow]:
    """Returns one row per target, with whatever could be read."""
    positions = await read_positions(targets, clients)
    # Only then: a copy that is served meanwhile never stands past an end that was read after its position.
    sources = await _source_ends(targets, clients)
    rows = [_row(target, sources, positions.get(number)) for number, target in enumerate(targets)]
    return await _with_proven_causes(rows, clients)


async def _with_proven_causes(rows: list[StatusRow], clients: WorkerCache) -> list[StatusRow]:
    """Returns the rows; one whose destination is ahead says that somebody else wrote there, where that is seen.

    Of two numbers the cause cannot be told. Who wrote can be, as a lease would: what that look cannot see, or is not
    allowed to, leaves the row as it is.
    """
    ahead = [number for number, row in enumerate(rows) if isinstance(row.error, DestinationAheadError)]
    looks = await look_at_destinations([replace(rows[number], error=None) for number in ahead], clients)
    for number, look in zip(ahead, looks, strict=True):
        if isinstance(look.error, DestinationForeignError):
            rows[number] = replace(rows[number], error=look.error)
    return rows


def _row(target: Target, sources: Mapping[str, Ends], found: Position | MirrorlakeError | None) -> StatusRow:
    if target.error is None and not target.is_due:
        return _nothing_due(target, found)
    ends = sources.get(target.mirror.name, {}).get(target.source)
    position = found.offset if isinstance(found, Position) else None
    start, end = seen_from(ends.bounds, position) if isinstance(ends, Seen) else (None, None)
    error = target.error or next((e for e in (ends, found) if isinstance(e, MirrorlakeError)), None)
    missing = ends.missing if isinstance(ends, Seen) else None
    error = error or (missing if missing is not None and concerns(missing, position, end) else None)
    if error is None and end is not None and position is not None and position > end:
        error = destination_ahead(target.source, position, end)
    return StatusRow(
        target=target,
        source_start=start,
        source_end=end,
        limit=ends.bounds.limit if isinstance(ends, Seen) else None,
        position=position,
        mapped=found.mapped if isinstance(found, Position) else None,
        error=error,
    )


def _nothing_due(target: Target, found: Position | MirrorlakeError | None) -> StatusRow:
    """Returns the row of a partition that has no record for this mirror yet: it has all there is for it."""
    position = found.offset if isinstance(found, Position) else 0
    # Where a mapped copy would begin is asked of the source, which does not know it yet.
    error = found if isinstance(found, MirrorlakeError) and not isinstance(found, RangeUnknownError) else None
    return StatusRow(
        target=target,
        source_start=position,
        source_end=position,
        position=position,
        mapped=found.mapped if isinstance(found, Position) else None,
        error=error,
    )


async def _source_ends(targets: list[Target], clients: WorkerCache) -> dict[str, Ends]:
    groups: dict[str, set[TopicPartition]] = defaultdict(set)
    sources = {}
    for target in targets:
        if target.source.partition != UNKNOWN_PARTITION and target.source_cluster_id and target.is_due:
            groups[target.mirror.name].add(target.source)
            sources[target.mirror.name] = target.source_work

    async def read(mirror: str) -> tuple[str, Ends]:
        partitions, source = sorted(groups[mirror]), sources[mirror].client(clients)
        try:
            bounds, missing = await source.bounds(partitions), await source.missing(partitions)
        except MirrorlakeError as error:
            return mirror, dict.fromkeys(partitions, error)
        return mirror, {
            each: Seen(bounds=found, missing=missing.get(each)) if isinstance(found, Bounds) else found
            for each, found in bounds.items()
        }

    return dict(await all_of(read(mirror) for mirror in groups))
