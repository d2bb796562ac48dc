"""Takes the ownership of mirrors at their Kafka destinations, and notices when another process takes it over."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import structlog

from mirrorlake.clock import Clock, utc_text
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import OwnerState, knock_id, read_states, transactional_id
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.errors import (
    CollisionError,
    LoopError,
    MirrorlakeError,
    OtherMirrorError,
    SupersededError,
    UnsupportedError,
)
from mirrorlake.kafka.control.descriptions import TransactionState
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.own_topics import STATE_TOPIC
from mirrorlake.service.owners.holding import Holding
from mirrorlake.service.owners.owner_life import CHECK_SECONDS, find_living
from mirrorlake.service.owners.owner_records import record_after
from mirrorlake.service.owners.owner_refusals import Place, find_refused, newly_held, place_of
from mirrorlake.service.owners.writer_ids import find_former_ids, find_map_producer_ids, find_producer_ids
from mirrorlake.topics.handover import (
    States,
    holdings_after,
    predecessors,
    with_configured_partitions,
    with_holdings,
)
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")

TAKES_AT_ONCE = 8


@dataclass(slots=True)
class _Claimed:
    """One mirror at one destination cluster.

    ``fills_from`` reads the clock, ``refusal`` says why it is not ours, ``heard`` is the knock that was answered last.
    """

    settings: ClusterSettings
    ownership: Ownership
    targets: list[Target]
    refused: dict[Place, MirrorlakeError] = field(default_factory=dict)
    fills_from: float = inf
    refusal: MirrorlakeError | None = None
    heard: tuple[int, int] | None = None


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
        self._began_ms = int(clock.now_seconds() * 1000)
        # State records are written one after another: topics are found while owners are compared.
        self._turn = asyncio.Lock()

    def holding(self, mirror: str, cluster: str, shard: int, destination: TopicPartition) -> Holding:
        """Returns what this process holds of a shard of ``mirror`` at a destination partition. May be called anywhere.

        Args:
            mirror: its name.
            cluster: the destination's.
            shard: the one that ``destination`` is written by.
            destination: other mirrors whose copy went on under this one have written there under ids of their own.
        """
        claimed = self._claimed.get((mirror, cluster))
        state = claimed.ownership.state if claimed is not None else None
        if claimed is None:
            return Holding()
        if state is None:
            return Holding(refusal=claimed.refusal)
        former = state.former_ids.get(destination.topic, {}).get(destination.partition, ())
        return Holding(
            own_producer_ids=frozenset(state.producer_ids.get(shard, ())) | frozenset(former),
            fills_from_seconds=claimed.fills_from,
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
            claimed = self._claimed.get(_key(target)) if not target.is_archive else None
            if claimed is not None and place_of(target) in claimed.refused:
                errors[index] = claimed.refused[place_of(target)]
        return errors

    async def _take_all(self, groups: dict[tuple[str, str], _Claimed]) -> None:
        limit = asyncio.Semaphore(TAKES_AT_ONCE)
        everyone = {**self._claimed, **groups}
        states = {name: await self._states(group, everyone) for name, group in _by_cluster(groups).items()}

        async def take_one(claimed: _Claimed) -> None:
            async with limit:
                await self._take(claimed, states[claimed.settings.name])

        await asyncio.gather(*(take_one(claimed) for claimed in groups.values()))
        self._claimed |= groups
        for cluster, group in _by_cluster(groups).items():
            await self._give_way(group, states[cluster])

    async def _give_way(self, group: Sequence[_Claimed], before: States | None) -> None:
        """Looks once more: a mirror that took the same partitions at the same moment was not seen when we did.

        Who sees the other one gives way; nothing was appended yet. Both may: whoever tries again first has it then.
        """
        if before is None or (after := await self._states(group, self._claimed)) is None:
            return
        for claimed in group:
            found = {place_of(target): newly_held(target, before, after) for target in claimed.targets}
            lost = {
                place: error for place, error in found.items() if error is not None and place not in claimed.refused
            }
            if not lost or claimed.ownership.state is None:
                continue
            claimed.refused |= lost
            refused = [target for target in claimed.targets if place_of(target) in lost]
            state = claimed.ownership.state
            holdings = holdings_after((), refused, state, claimed.targets[0].mirror)
            await self._write(claimed, with_holdings(state, holdings))

    async def _write(self, claimed: _Claimed, state: OwnerState) -> None:
        try:
            await claimed.ownership.update(state)
        except SupersededError:
            raise
        except MirrorlakeError as error:
            claimed.refusal = error
            _log.warning("state record not written, trying again", mirror=state.mirror, error=error.message)

    async def watch(
        self, superseded: Callable[[SupersededError], None], refused: Callable[[Target, MirrorlakeError], None]
    ) -> None:
        """Compares owners again and again, until cancelled.

        Args:
            superseded: called once where another owner is found.
            refused: called for each target that was let through because nobody could be asked, and belongs to another.
        """
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                for target, error in await self.check():
                    refused(target, error)
            except SupersededError as error:
                superseded(error)
                return

    async def check(self) -> list[tuple[Target, MirrorlakeError]]:
        """Compares owners once, takes what could not be taken before, and remembers new producer ids.

        Returns:
            Targets that ``take`` had let through because their cluster could not be asked, and that its state
            records now turn out to give to another source or mirror, each with the reason.

        Raises:
            SupersededError: another process has taken a mirror over.
        """
        async with self._turn:
            groups = _by_cluster(self._claimed).values()
            return [each for group in groups for each in await self._check_cluster(group)]

    async def _check_cluster(self, group: Sequence[_Claimed]) -> list[tuple[Target, MirrorlakeError]]:
        refused = await self._take_missing([claimed for claimed in group if not claimed.ownership.is_held])
        await self._compare(group)
        return refused

    async def _take_missing(self, missing: Sequence[_Claimed]) -> list[tuple[Target, MirrorlakeError]]:
        """Takes what is not held, or not any more; returns what only now turns out to be another's."""
        if not missing:
            return []
        states = await self._states(missing, self._claimed)
        found: list[tuple[Target, MirrorlakeError]] = []
        for claimed in missing:
            await self._leave_to_a_later_start(claimed, states)
            known = dict(claimed.refused)
            await self._take(claimed, states)
            found += [
                (target, claimed.refused[place_of(target)])
                for target in claimed.targets
                if place_of(target) in claimed.refused and place_of(target) not in known
            ]
        return found

    async def _leave_to_a_later_start(self, claimed: _Claimed, states: States | None) -> None:
        """Ends this process where one that started later owns the mirror and lives: the newest start is meant.

        By the clocks of both; where they differ by more than lies between the two starts, the older one may stay.

        Raises:
            SupersededError: so it is.
        """
        mirror = claimed.ownership.mirror
        found = (states or {}).get(mirror)
        if found is None or found.is_released or found.taken_at_ms <= self._began_ms or claimed.ownership.wrote(found):
            return
        if not await self._living_at(claimed.settings, {mirror}):
            return
        raise SupersededError(
            f"mirror {mirror} belongs to {found.owner} at cluster {claimed.settings.name}, which started later than "
            "this process, took it while this one could not, and is at work",
            hint=f"run one process per mirror; the newest record of {mirror} in {STATE_TOPIC} names the owner",
            mirror=mirror,
        )

    async def _compare(self, group: Sequence[_Claimed]) -> None:
        names = [transactional_id(claimed.ownership.mirror) for claimed in group]
        knocks = [knock_id(claimed.ownership.mirror) for claimed in group]
        try:
            found = await self._clients.client(group[0].settings).describe_transactions([*names, *knocks])
        except MirrorlakeError:
            return  # not being able to ask is no reason to end
        for claimed, name in zip(group, names, strict=True):
            state = found.get(name)
            if isinstance(state, UnsupportedError):
                await _prove(claimed.ownership)
            else:
                claimed.ownership.check(state)
        for claimed, knock in zip(group, knocks, strict=True):
            if not await self._remember(claimed):
                await self._answer(claimed, found.get(knock))

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
            if target.is_archive or not target.source_cluster_id:
                continue
            if isinstance(target.error, CollisionError | LoopError):
                continue  # nothing is copied, so nothing is to be held either
            key = _key(target)
            if key not in groups:
                groups[key] = self._claimed.get(key) or self._new(target)
            known = [t for t in groups[key].targets if place_of(t) != place_of(target)]
            groups[key].targets = [*known, target]
        return groups

    def _new(self, target: Target) -> _Claimed:
        settings = target.destination_cluster
        ownership = Ownership(
            self._clients.client(settings), mirror=target.mirror.name, owner=self._owner, clock=self._clock
        )
        return _Claimed(settings, ownership, [])

    async def _states(self, group: Sequence[_Claimed], everyone: Mapping[tuple[str, str], _Claimed]) -> States | None:
        """Returns the state records of a group's cluster, None where they cannot be read now.

        ``everyone`` are all this process serves: what it is configured for says more than records of before.
        """
        settings = group[0].settings
        try:
            states = await read_states(self._clients.client(settings))
        except MirrorlakeError as error:
            for claimed in group:
                claimed.refusal = error
            _log.warning("owners cannot be read", cluster=settings.name, error=error.message, hint=error.hint)
            return None
        return with_configured_partitions(states, (each.targets[0].mirror for each in everyone.values()))

    async def _take(self, claimed: _Claimed, states: States | None) -> None:
        if states is None:
            return
        mirror = claimed.ownership.mirror
        before = states.get(mirror)
        # One that was in doubt for a moment has waited before, and nobody else has filled gaps since.
        is_new = not claimed.ownership.is_held and not (before is not None and claimed.ownership.wrote(before))
        try:
            claimed.refused = await find_refused(claimed.targets, states, self._clients.client(claimed.settings))
            first = claimed.targets[0]
            if before is None or before.source_cluster_id == first.source_cluster_id:
                client = self._clients.client(claimed.settings)
                accepted = [t for t in claimed.targets if place_of(t) not in claimed.refused]
                state = record_after(
                    first.mirror,
                    states,
                    source_cluster_id=first.source_cluster_id,
                    accepted=accepted,
                    of_others=[
                        t for t in claimed.targets if isinstance(claimed.refused.get(place_of(t)), OtherMirrorError)
                    ],
                    producer_ids=await find_producer_ids(client, mirror, before),
                    map_producer_ids=await find_map_producer_ids(client, mirror, before, shards=_map_shards(claimed)),
                    former_ids=await find_former_ids(client, accepted, states),
                    hold_seconds=self._hold_seconds,
                )
                await claimed.ownership.update(state)
                if is_new:
                    claimed.fills_from = self._clock.elapsed_seconds() + self._wait_seconds(before)
                    self._say_taken(claimed, before)
                    self._say_gone_on(accepted, before, states)
        except SupersededError:
            raise
        except MirrorlakeError as error:
            claimed.refusal = error
            _log.warning("ownership not taken, trying again", mirror=mirror, error=error.message, hint=error.hint)

    def _say_taken(self, claimed: _Claimed, before: OwnerState | None) -> None:
        facts = {"mirror": claimed.ownership.mirror, "cluster": claimed.settings.name, "owner": self._owner}
        if before is None or before.is_released:
            _log.info("mirror taken over", **facts)
        else:
            _log.warning(
                "mirror taken over from an owner that has not let go: it died, or ends within seconds",
                **facts,
                owner_before=before.owner,
                owner_since=utc_text(before.taken_at_ms),
            )

    async def find_living(self, targets: Sequence[Target]) -> dict[str, list[OwnerState]]:
        """Returns the mirrors of ``targets`` that somebody else is alive to serve, by destination cluster.

        Waits some seconds for the answer of an owner that has not let go. Takes nothing. Where nothing can be found out
        that is logged, and the cluster left out: a dead owner must not keep anybody away.
        """
        wanted: dict[str, tuple[ClusterSettings, set[str]]] = {}
        for target in targets:
            if not target.is_archive:
                settings = target.destination_cluster
                wanted.setdefault(settings.name, (settings, set()))[1].add(target.mirror.name)
        found = await asyncio.gather(*(self._living_at(*each) for each in wanted.values()))
        return {name: living for name, living in zip(wanted, found, strict=True) if living}

    async def _living_at(self, settings: ClusterSettings, mirrors: set[str]) -> list[OwnerState]:
        try:
            return await find_living(self._clients.client(settings), mirrors, clock=self._clock)
        except MirrorlakeError as error:
            _log.warning("not known who else serves the mirrors", cluster=settings.name, error=str(error))
            return []

    def _wait_seconds(self, before: OwnerState | None) -> float:
        """Returns how long leases of the owner before may still be under way; nothing of a released one is."""
        if before is None or before.is_released:
            return 0.0
        # A record of an older version does not say; its leases are most likely as long as ours.
        return self._hold_seconds if before.hold_seconds is None else before.hold_seconds

    def _say_gone_on(self, accepted: Sequence[Target], before: OwnerState | None, states: States) -> None:
        for target in accepted:
            for state in predecessors(target, states):
                if before is not None and before.taken_at_ms > state.taken_at_ms:
                    continue  # it was said when that happened
                _log.info(
                    "continues the copy of another mirror, which has released it",
                    mirror=target.mirror.name,
                    topic=target.destination_topic,
                    partition=target.source.partition,
                    mirror_before=state.mirror,
                    owner_before=state.owner,
                )

    async def _answer(self, claimed: _Claimed, knock: TransactionState | MirrorlakeError | None) -> None:
        """Writes the state record anew where somebody wants to know whether its owner is alive."""
        state = claimed.ownership.state
        if state is None or not claimed.ownership.is_held or not isinstance(knock, TransactionState):
            return
        heard = knock.producer_id, knock.producer_epoch
        if heard != claimed.heard:
            await self._write(claimed, state)
            claimed.heard = heard

    async def _remember(self, claimed: _Claimed) -> bool:
        """Writes the state record anew where a shard's transactional id stands for another producer id than before.

        Returns:
            Whether it was written.
        """
        state = claimed.ownership.state
        if state is None or not claimed.ownership.is_held:
            return False
        try:
            client = self._clients.client(claimed.settings)
            producer_ids = await find_producer_ids(client, state.mirror, state)
            map_ids = await find_map_producer_ids(client, state.mirror, state, shards=_map_shards(claimed))
            if producer_ids != state.producer_ids or map_ids != state.map_producer_ids:
                state = replace(state, producer_ids=producer_ids, map_producer_ids=map_ids)
                await claimed.ownership.update(state)
                return True
        except SupersededError:
            raise
        except MirrorlakeError as error:
            _log.warning("producer ids not remembered, trying again", mirror=state.mirror, error=error.message)
        return False


def _is_of_another(error: MirrorlakeError | None) -> bool:
    return isinstance(error, OtherMirrorError)


def _map_shards(claimed: _Claimed) -> int:
    return max((target.map_shards for target in claimed.targets if target.is_mapped), default=0)


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
    return target.mirror.name, target.kafka.cluster.name
