"""``status``: where every partition stands, read from the clusters and stores themselves; changes nothing."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirrorlake.clock import utc_text
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.source_bounds import destination_ahead
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kinds.registry import read_positions
from mirrorlake.kinds.standing import Position, Standing
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import StateName
from mirrorlake.service.sight.live import Key, LivePartition, LiveService, ask_service
from mirrorlake.service.sight.park_names import park_name
from mirrorlake.sources.client import Bounds
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.idle_selections import IdleSelection, idle_selections
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target

Ends = Mapping[TopicPartition, Bounds | MirrorlakeError]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRow(Standing):
    """Where one source partition stands at one destination.

    ``live`` is what a running service says of the partition; None where none answered, or none that serves it.
    """

    live: LivePartition | None = None

    @property
    def lag(self) -> int | None:
        """Offsets the destination is behind; negative where it is ahead of the source."""
        if self.source_end is None or self.position is None:
            return None
        return self.source_end - self.position

    @property
    def lag_seconds(self) -> float | None:
        """How long the oldest offset not copied has been waiting; None where no service is there to have seen it."""
        if self.lag == 0:
            return 0.0
        return self.live.lag_seconds if self.live is not None else None

    @property
    def state(self) -> StateName:
        """``parked`` where a permanent error stands or the service says so, ``paused`` where the service says that.

        Else ``caught-up`` at the source's end, ``running`` where a service that answers copies it, ``behind`` where
        none is known to, ``unknown`` where the offsets could not be read.
        """
        if self.error is not None:
            return StateName.PARKED if between_leases(self.error) is Decision.PARK else StateName.UNKNOWN
        if self.live is not None and self.live.state in (StateName.PARKED, StateName.PAUSED):
            return self.live.state
        if self.lag is None:
            return StateName.UNKNOWN
        if self.lag == 0:
            return StateName.CAUGHT_UP
        is_served = self.live is not None and self.live.state in (StateName.RUNNING, StateName.CAUGHT_UP)
        return StateName.RUNNING if is_served else StateName.BEHIND

    def as_json(self) -> dict[str, str | int | float | None]:
        """Returns the row of ``status --format json``.

        ``error`` is present exactly when the row failed, ``reason`` when it is parked: one of ``PARK_NAMES``. Where a
        running service waits, ``waiting`` says for what, and ``reason`` is one of ``WAIT_NAMES``.
        ``owner`` and ``owner_since`` are where a process has taken the mirror at a Kafka destination, and not let go.
        ``service`` is what a running service calls the partition's state, ``unknown`` where none answers.
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
        if self.error is not None:
            if self.state is StateName.PARKED:
                row["reason"] = park_name(self.error)
            row["error"] = str(self.error)
        elif self.live is not None and self.live.state is StateName.PARKED:
            row["reason"], row["error"] = self.live.reason, self.live.error
        elif self.live is not None and self.live.reason:
            row["reason"], row["waiting"] = self.live.reason, self.live.error
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
        service = await asking
    return Status(
        rows=[replace(row, live=service.partitions.get(_key(row.target))) for row in rows],
        idle=idle_selections(config.enabled_mirrors, targets),
        service=service,
    )


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


async def read_rows(targets: list[Target], clients: WorkerCache) -> list[StatusRow]:
    """Returns one row per target, with whatever could be read."""
    positions = await read_positions(targets, clients)
    # Only then: a copy that is served meanwhile never stands past an end that was read after its position.
    sources = await _source_ends(targets, clients)
    return [_row(target, sources, positions.get(number)) for number, target in enumerate(targets)]


def _row(target: Target, sources: Mapping[str, Ends], found: Position | MirrorlakeError | None) -> StatusRow:
    ends = sources.get(target.mirror.name, {}).get(target.source)
    start, end = ends if isinstance(ends, Bounds) else (None, None)
    position = found.offset if isinstance(found, Position) else None
    error = target.error or next((e for e in (ends, found) if isinstance(e, MirrorlakeError)), None)
    if error is None and end is not None and position is not None and position > end:
        error = destination_ahead(target.source, position, end)
    return StatusRow(
        target=target,
        source_start=start,
        source_end=end,
        position=position,
        mapped=found.mapped if isinstance(found, Position) else None,
        error=error,
    )


async def _source_ends(targets: list[Target], clients: WorkerCache) -> dict[str, Ends]:
    groups: dict[str, set[TopicPartition]] = defaultdict(set)
    sources = {}
    for target in targets:
        if target.source.partition != UNKNOWN_PARTITION and target.source_cluster_id:
            groups[target.mirror.name].add(target.source)
            sources[target.mirror.name] = target.source_work

    async def read(mirror: str) -> tuple[str, Ends]:
        partitions = sorted(groups[mirror])
        try:
            return mirror, await sources[mirror].client(clients).bounds(partitions)
        except MirrorlakeError as error:
            return mirror, dict.fromkeys(partitions, error)

    return dict(await asyncio.gather(*(read(mirror) for mirror in groups)))
