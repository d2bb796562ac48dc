"""Moves positions with mapped offsets while nobody copies.

Order of effects, for each mirror at each destination cluster:

1. An owner that is alive answers a knock: nothing is written then, the mirror runs.
2. The mirror's own topics are made where it has none yet, and the number of its shards is written.
3. The ownership is taken; where the answer was lost, once more, unless somebody came meanwhile. A process that was
   frozen, or did not hear the knock, learns of it and ends.
4. For each shard: its transactional id is taken over, which fences who writes under it. The ownership is looked at once
   more: a process that started meanwhile has it, and copies. Then the positions of the shard are written in one
   transaction and read back.
5. The ownership is let go of.

A crash leaves each shard as it was or as it is to be. A process that starts after the last look of step 4 takes the
shard over itself, before it reads where it stands: it fences this one, or finds what was written.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.clock import Clock, utc_text
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.map.moves import write_moves
from mirrorlake.destinations.transactions.owner_states import OwnerState, find_states
from mirrorlake.errors import CommandRefusedError, MirrorlakeError, OutcomeUnknownError
from mirrorlake.service.map_shards import with_settled_shards
from mirrorlake.service.owners.owner_life import find_living
from mirrorlake.service.owners.owners import Owners
from mirrorlake.service.positions.moves import Move
from mirrorlake.service.states import writer_name
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.topics.targets import Target

Place = tuple[str, str]
"""A mirror, and a destination cluster."""

STEP_KNOCK, STEP_SETTLE, STEP_OWN, STEP_RELEASE = "knock", "settle shards", "take ownership", "let go"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Which moves are written, and why the others are not: None where all are."""

    done: Sequence[Move]
    error: MirrorlakeError | None = None


async def move_all(
    moves: Sequence[Move],
    targets: Sequence[Target],
    config: Configuration,
    clients: WorkerCache,
    *,
    clock: Clock,
    crash_point: CrashPoint = no_crash,
) -> Moved:
    """Moves positions; ends at the first error, with what was written before it.

    Args:
        moves: all of them checked.
        targets: of the whole configuration: what else a mirror fills stays its own.
        config: of the mirrors.
        clients: of all clusters.
        clock: dates what is written.
        crash_point: called before every step; for tests.
    """
    done: list[Move] = []
    by_place: dict[Place, list[Move]] = defaultdict(list)
    for move in moves:
        by_place[move.row.target.mirror.name, move.row.target.kafka.cluster.name].append(move)
    before: dict[Place, OwnerState | None] = {}
    try:
        crash_point(STEP_KNOCK)
        for place, group in by_place.items():  # all of them, before the first is written
            before[place] = await _owner_before(place, group[0].row.target, clients, clock)
        for place, group in by_place.items():
            of_place = [target for target in targets if _place_of(target) == place]
            mover = _Mover(place, of_place, config, clients, clock, crash_point)
            await mover.move(group, before[place], done)
    except MirrorlakeError as error:
        return Moved(done=done, error=error)
    return Moved(done=done)


def _place_of(target: Target) -> Place | None:
    return (target.mirror.name, target.kafka.cluster.name) if target.is_topic else None


async def _owner_before(place: Place, target: Target, clients: WorkerCache, clock: Clock) -> OwnerState | None:
    """Returns the mirror's state record; None for none.

    Raises:
        CommandRefusedError: its owner is alive.
        MirrorlakeError: that could not be found out.
    """
    mirror, cluster = place
    client = clients.client(target.destination_cluster)
    for living in await find_living(client, [mirror], clock=clock):
        raise CommandRefusedError(
            f"mirror {mirror} runs: {living.owner} has owned it at cluster {cluster} since "
            f"{utc_text(living.taken_at_ms)}, and is alive",
            hint="end it first, and start it again once the position is moved; nothing was changed",
        )
    return (await find_states(client)).get(mirror)


class _Mover:
    """One mirror at one destination cluster."""

    def __init__(
        self,
        place: Place,
        targets: Sequence[Target],
        config: Configuration,
        clients: WorkerCache,
        clock: Clock,
        crash_point: CrashPoint,
    ) -> None:
        self._place = place
        self._targets = [target for target in targets if target.is_due or target.error is not None]
        self._config = config
        self._clients = clients
        self._clock = clock
        self._crash_point = crash_point
        self._owners = Owners(clients, owner=writer_name(), clock=clock)

    async def move(self, moves: Sequence[Move], before: OwnerState | None, done: list[Move]) -> None:
        self._crash_point(STEP_SETTLE)
        lanes = self._config.engine.lanes
        targets = await with_settled_shards(self._targets, self._clients, lanes=lanes, clock=self._clock)
        by_key = {(target.destination_topic, target.source): target for target in targets if target.is_mapped}
        settled = [(move, by_key[move.key.destination_topic, move.key.source]) for move in moves]
        for _, target in settled:
            if target.error is not None:
                raise target.error
        try:
            self._crash_point(STEP_OWN)
            await self._take(targets, [target for _, target in settled])
            await self._write(settled, done)
        finally:
            # Leases of an owner that has not let go may still be under way, and the next owner is to wait for them.
            if before is None or before.is_released:
                self._crash_point(STEP_RELEASE)
                await self._owners.release()

    async def _take(self, targets: Sequence[Target], wanted: Sequence[Target]) -> None:
        refused = await self._owners.take(targets)
        for index, error in refused.items():
            if targets[index] in wanted:
                raise error
        if isinstance(self._refusal(wanted[0]), OutcomeUnknownError):
            # It may be ours without our knowing, and would not be let go of: whoever comes next would wait for us.
            refused_late = await self._owners.check()
            for target, error in refused_late:
                if target in wanted:
                    raise error
        if (refusal := self._refusal(wanted[0])) is not None:
            raise refusal

    def _refusal(self, target: Target) -> MirrorlakeError | None:
        """Returns why the mirror is not ours; None where it is."""
        mirror, cluster = self._place
        if self._owners.owns(mirror, [cluster]):
            return None
        held = self._owners.holding(mirror, cluster, target.map_shard, target.destination_partition)
        return held.refusal or CommandRefusedError(f"the ownership of mirror {mirror} could not be taken")

    async def _write(self, settled: Sequence[tuple[Move, Target]], done: list[Move]) -> None:
        client = self._clients.client(settled[0][1].destination_cluster)
        for shard, group in _by_shard(settled).items():
            await write_moves(
                client,
                group[0][1].progress_topics,
                shard,
                [move.written for move, _ in group],
                clock=self._clock,
                before_write=self._check_owner,
                crash_point=self._crash_point,
            )
            done += [move for move, _ in group]

    async def _check_owner(self) -> None:
        await self._owners.check()


def _by_shard(settled: Sequence[tuple[Move, Target]]) -> Mapping[int, list[tuple[Move, Target]]]:
    groups: dict[int, list[tuple[Move, Target]]] = defaultdict(list)
    for move, target in settled:
        groups[target.map_shard].append((move, target))
    return groups
