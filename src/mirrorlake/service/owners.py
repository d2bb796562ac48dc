"""Takes the ownership of mirrors at their Kafka destinations, and notices when another process takes it over."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import structlog

from mirrorlake.clock import Clock
from mirrorlake.config.resolved import KafkaDestination
from mirrorlake.destinations.owner_states import OwnerState, read_states, transactional_id
from mirrorlake.destinations.ownership import Ownership
from mirrorlake.errors import MirrorlakeError, SupersededError, UnsupportedError
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.kafka.descriptions import LogEnd, TransactionState
from mirrorlake.kafka.settings import ClusterSettings
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.service.holding import Holding
from mirrorlake.service.provenance import States, generations_after, refusal
from mirrorlake.service.targets import SHARDS_PER_MIRROR, Target, cluster_settings, transactional_id_of

_log = structlog.get_logger("mirrorlake")

CHECK_SECONDS = 5.0
"""How often the owners are compared: a superseded process ends within about a lease."""

TAKES_AT_ONCE = 8


@dataclass(slots=True)
class _Claimed:
    """One mirror at one destination cluster. ``fills_from`` reads the clock, ``refusal`` says why it is not ours."""

    settings: ClusterSettings
    ownership: Ownership
    targets: list[Target]
    refused_topics: dict[str, MirrorlakeError] = field(default_factory=dict)
    fills_from: float = inf
    refusal: MirrorlakeError | None = None


class Owners:
    """The ownerships of one process.

    Args:
        clients: the driver's cluster clients.
        owner: how this process calls itself.
        clock: dates state records.
        hold_seconds: how long a lease of this process may append, at most; the next owner is told.
    """

    def __init__(self, clients: WorkerCache, *, owner: str, clock: Clock, hold_seconds: float = 0.0) -> None:
        self._clients = clients
        self._owner = owner
        self._clock = clock
        # A process that was superseded may begin leases until it looks again.
        self._hold_seconds = hold_seconds + CHECK_SECONDS
        self._claimed: dict[tuple[str, str], _Claimed] = {}
        # State records are written one after another: topics are found while owners are compared.
        self._turn = asyncio.Lock()

    def holding(self, mirror: str, cluster: str, shard: int) -> Holding:
        """Returns what this process holds of a shard of ``mirror`` at a destination cluster. May be called anywhere."""
        claimed = self._claimed.get((mirror, cluster))
        state = claimed.ownership.state if claimed is not None else None
        if claimed is None:
            return Holding()
        if state is None:
            return Holding(refusal=claimed.refusal)
        return Holding(
            own_producer_ids=frozenset(state.producer_ids.get(shard, ())), fills_from_seconds=claimed.fills_from
        )

    async def take(self, targets: Sequence[Target]) -> dict[int, MirrorlakeError]:
        """Becomes the owner of every mirror with a Kafka destination among ``targets``.

        Returns:
            Errors by the index of the target: the state record says that the destination belongs to another
            source or mirror. A cluster that cannot be asked is no error here: copying is safe without ownership, and
            it is taken later.
        """
        async with self._turn:
            await self._take_all(self._group(targets))
        errors: dict[int, MirrorlakeError] = {}
        for index, target in enumerate(targets):
            claimed = self._claimed.get(_key(target)) if isinstance(target.destination, KafkaDestination) else None
            if claimed is not None and target.source.topic in claimed.refused_topics:
                errors[index] = claimed.refused_topics[target.source.topic]
        return errors

    async def _take_all(self, groups: dict[tuple[str, str], _Claimed]) -> None:
        limit = asyncio.Semaphore(TAKES_AT_ONCE)
        states = {cluster: await self._states(group) for cluster, group in _by_cluster(groups).items()}

        async def take_one(claimed: _Claimed) -> None:
            async with limit:
                await self._take(claimed, states[claimed.settings.name])

        await asyncio.gather(*(take_one(claimed) for claimed in groups.values()))
        self._claimed |= groups

    async def watch(self, superseded: Callable[[SupersededError], None]) -> None:
        """Compares owners again and again, until cancelled; calls ``superseded`` once where another one is found."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.check()
            except SupersededError as error:
                superseded(error)
                return

    async def check(self) -> None:
        """Compares owners once, takes what could not be taken before, and remembers new producer ids.

        Raises:
            SupersededError: another process has taken a mirror over.
        """
        async with self._turn:
            for group in _by_cluster(self._claimed).values():
                await self._check_cluster(group)

    async def _check_cluster(self, group: Sequence[_Claimed]) -> None:
        missing = [claimed for claimed in group if not claimed.ownership.is_held]
        states = await self._states(missing) if missing else None
        for claimed in missing:
            await self._take(claimed, states)
        names = [transactional_id(claimed.ownership.mirror) for claimed in group]
        try:
            found = await self._clients.client(group[0].settings).describe_transactions(names)
        except MirrorlakeError:
            return  # not being able to ask is no reason to end
        for claimed, name in zip(group, names, strict=True):
            state = found.get(name)
            if isinstance(state, UnsupportedError):
                await _prove(claimed.ownership)
            else:
                claimed.ownership.check(state)
        for claimed in group:
            await self._remember(claimed)

    async def release(self) -> None:
        """Notes in the state records that nothing of this process is under way; call when the last lease has ended.

        Who comes next need not wait for this one's leases then. Errors are only logged: the record then says what is
        true anyway, that this process was the last owner.
        """
        async with self._turn:
            for claimed in self._claimed.values():
                state = claimed.ownership.state
                if state is None or not claimed.ownership.is_held:
                    continue
                try:
                    await claimed.ownership.update(replace(state, is_released=True))
                except MirrorlakeError as error:
                    _log.warning("mirror not released", mirror=state.mirror, error=error.message)

    def _group(self, targets: Iterable[Target]) -> dict[tuple[str, str], _Claimed]:
        """Returns what the targets are part of; what is held already is taken along, with the targets it had."""
        groups: dict[tuple[str, str], _Claimed] = {}
        for target in targets:
            if not isinstance(target.destination, KafkaDestination) or not target.source_cluster_id:
                continue
            key = _key(target)
            if key not in groups:
                groups[key] = self._claimed.get(key) or self._new(target, target.destination)
            known = [t for t in groups[key].targets if _place(t) != _place(target)]
            groups[key].targets = [*known, target]
        return groups

    def _new(self, target: Target, destination: KafkaDestination) -> _Claimed:
        settings = cluster_settings(destination.cluster)
        ownership = Ownership(
            self._clients.client(settings), mirror=target.mirror.name, owner=self._owner, clock=self._clock
        )
        return _Claimed(settings, ownership, [])

    async def _states(self, group: Sequence[_Claimed]) -> States | None:
        """Returns the state records of a group's cluster, None where they cannot be read now."""
        settings = group[0].settings
        try:
            return await read_states(self._clients.client(settings))
        except MirrorlakeError as error:
            for claimed in group:
                claimed.refusal = error
            _log.warning("owners cannot be read", cluster=settings.name, error=error.message, hint=error.hint)
            return None

    async def _take(self, claimed: _Claimed, states: States | None) -> None:
        if states is None:
            return
        mirror = claimed.ownership.mirror
        before = states.get(mirror)
        was_held = claimed.ownership.is_held
        try:
            claimed.refused_topics = await self._refused(claimed, states)
            first = claimed.targets[0]
            if before is None or before.source_cluster_id == first.source_cluster_id:
                producer_ids = await self._producer_ids(claimed, before)
                state = _state_of(claimed, before, producer_ids, self._hold_seconds)
                await claimed.ownership.update(state)
                if not was_held:
                    claimed.fills_from = self._clock.elapsed_seconds() + self._wait_seconds(before)
                    _log.info("mirror taken over", mirror=mirror, cluster=claimed.settings.name, owner=self._owner)
        except SupersededError:
            raise
        except MirrorlakeError as error:
            claimed.refusal = error
            _log.warning("ownership not taken, trying again", mirror=mirror, error=error.message, hint=error.hint)

    def _wait_seconds(self, before: OwnerState | None) -> float:
        """Returns how long leases of the owner before may still be under way; nothing of a released one is."""
        if before is None or before.is_released:
            return 0.0
        # A record of an older version does not say; its leases are most likely as long as ours.
        return self._hold_seconds if before.hold_seconds is None else before.hold_seconds

    async def _producer_ids(self, claimed: _Claimed, known: OwnerState | None) -> dict[int, tuple[int, ...]]:
        """Returns every producer id the mirror's shards wrote under: those known, and those they stand for now.

        Raises:
            MirrorlakeError: the coordinators could not be asked.
        """
        names = {transactional_id_of(claimed.ownership.mirror, shard): shard for shard in range(SHARDS_PER_MIRROR)}
        found = await self._clients.client(claimed.settings).describe_transactions(list(names))
        ids = {shard: set(held) for shard, held in known.producer_ids.items()} if known else {}
        for name, shard in names.items():
            state = found.get(name)
            if isinstance(state, UnsupportedError):
                continue  # before Kafka 3.0, where `offsets: preserve`, which needs them, is refused
            if isinstance(state, MirrorlakeError):
                raise state
            if isinstance(state, TransactionState):
                ids.setdefault(shard, set()).add(state.producer_id)
        return {shard: tuple(sorted(held)) for shard, held in sorted(ids.items())}

    async def _remember(self, claimed: _Claimed) -> None:
        """Writes the state record anew where a shard's transactional id stands for another producer id than before."""
        state = claimed.ownership.state
        if state is None or not claimed.ownership.is_held:
            return
        try:
            producer_ids = await self._producer_ids(claimed, state)
            if producer_ids != state.producer_ids:
                await claimed.ownership.update(replace(state, producer_ids=producer_ids))
        except SupersededError:
            raise
        except MirrorlakeError as error:
            _log.warning("producer ids not remembered, trying again", mirror=state.mirror, error=error.message)

    async def _refused(self, claimed: _Claimed, states: States) -> dict[str, MirrorlakeError]:
        """Returns, by source topic, why the destination belongs to another source or mirror than the one configured."""
        refused: dict[str, MirrorlakeError] = {}
        for target in claimed.targets:
            topic = target.source.topic
            error = refusal(target, states)
            if error is not None and topic not in refused and not await self._is_empty(claimed, topic):
                refused[topic] = error
        return refused

    async def _is_empty(self, claimed: _Claimed, topic: str) -> bool:
        """Tells whether nothing was copied to the destination of ``topic`` yet, or it was made anew."""
        partitions = [t.destination_partition for t in claimed.targets if t.source.topic == topic]
        client: ClusterClient = self._clients.client(claimed.settings)
        ends = (await client.log_ends(partitions)).values()
        return all(isinstance(end, LogEnd) and end.end_offset == 0 for end in ends)


def _by_cluster(claimed: Mapping[tuple[str, str], _Claimed]) -> dict[str, list[_Claimed]]:
    groups: dict[str, list[_Claimed]] = defaultdict(list)
    for each in claimed.values():
        groups[each.settings.name].append(each)
    return groups


async def _prove(ownership: Ownership) -> None:
    try:
        await ownership.prove()
    except SupersededError:
        raise
    except MirrorlakeError:
        return  # not being able to ask is no reason to end


def _key(target: Target) -> tuple[str, str]:
    assert isinstance(target.destination, KafkaDestination)
    return target.mirror.name, target.destination.cluster.name


def _place(target: Target) -> tuple[str, str, int]:
    return target.source.topic, target.destination.label, target.source.partition


def _state_of(
    claimed: _Claimed, before: OwnerState | None, producer_ids: Mapping[int, tuple[int, ...]], hold_seconds: float
) -> OwnerState:
    """Returns what to remember from now on; topics that stand refused stay as they were."""
    accepted = [t for t in claimed.targets if t.source.topic not in claimed.refused_topics]
    return OwnerState(
        mirror=claimed.ownership.mirror,
        source_cluster_id=claimed.targets[0].source_cluster_id,
        shards=SHARDS_PER_MIRROR,
        topic_ids={
            **(before.topic_ids if before else {}),
            **{t.source.topic: t.topic_id for t in accepted if t.topic_id},
        },
        producer_ids=producer_ids,
        destinations={t.destination_topic: t.source.topic for t in accepted},
        generations=generations_after(accepted, before.generations if before else {}),
        hold_seconds=hold_seconds,
    )
