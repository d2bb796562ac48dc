"""Takes the ownership of mirrors at their Kafka destinations, and notices when another process takes it over."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf

import structlog

from mirrorlake.clock import Clock
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import OwnerState, read_states
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.errors import CollisionError, LoopError, MirrorlakeError, OtherMirrorError, SupersededError
from mirrorlake.offsets import TopicPartition
from mirrorlake.own_topics import STATE_TOPIC
from mirrorlake.service.owners.comparing import compare, last_state, write_state
from mirrorlake.service.owners.holding import Holding
from mirrorlake.service.owners.owner_life import CHECK_SECONDS, living_at, living_by_cluster
from mirrorlake.service.owners.owner_records import record_after
from mirrorlake.service.owners.owner_refusals import Place, find_refused, newly_held, place_of
from mirrorlake.service.owners.take_overs import (
    TakeOver,
    by_cluster,
    inherited_seconds,
    left_seconds,
    map_shards,
    refuse,
    say_continued,
    say_taken,
    targets_after,
    wait_seconds,
    with_hold,
)
from mirrorlake.service.owners.writer_ids import find_former_ids, find_map_producer_ids, find_producer_ids, shards_of
from mirrorlake.together import all_of, all_to_the_end
from mirrorlake.topics.handover import States, holdings_after, with_configured_partitions, with_holdings
from mirrorlake.topics.provenance import of_another_source
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")

TAKES_AT_ONCE = 8


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
        self._take_overs: dict[tuple[str, str], TakeOver] = {}
        self._began_ms = int(clock.now_seconds() * 1000)
        # State records are written one after another: topics are found while owners are compared.
        self._turn = asyncio.Lock()
        self._unseen: frozenset[tuple[str, str]] = frozenset()

    def holding(self, mirror: str, cluster: str, shard: int, destination: TopicPartition) -> Holding:
        """Returns what this process holds of a shard of ``mirror`` at a destination partition. May be called anywhere.

        Args:
            mirror: its name.
            cluster: the destination's.
            shard: the one that ``destination`` is written by.
            destination: other mirrors whose copy went on under this one have written there under ids of their own.
        """
        take_over = self._take_overs.get((mirror, cluster))
        state = take_over.ownership.state if take_over is not None else None
        if take_over is None:
            return Holding()
        if state is None:
            return Holding(refusal=take_over.refusal)
        former = state.former_ids.get(destination.topic, {}).get(destination.partition, ())
        return Holding(
            own_producer_ids=frozenset(state.producer_ids.get(shard, ())) | frozenset(former),
            fills_from_seconds=take_over.fills_from,
        )

    def as_taken(self, targets: Iterable[Target]) -> list[Target]:
        """Returns targets with the state records that this process wrote of them; the others as they were found.

        A look finds them before the mirrors are taken, and a lease is to know the producer ids of all their shards.
        """
        return [replace(each, owner=self._written(each) or each.owner) for each in targets]

    def _written(self, target: Target) -> OwnerState | None:
        found = self._take_overs.get(_key(target)) if target.is_topic else None
        return found.ownership.state if found is not None else None

    def owns(self, mirror: str, clusters: Iterable[str]) -> bool:
        """Tells whether this process owns a mirror at all of these destination clusters. May be called anywhere."""
        found = [self._take_overs.get((mirror, cluster)) for cluster in clusters]
        return all(each is not None and each.ownership.is_held for each in found)

    def lacks(self, mirror: str, cluster: str) -> bool:
        """Tells whether this process has asked for a mirror at a cluster and does not own it: not yet, or not any more.

        False also where there was nothing to ask for, as nothing of the mirror goes there yet. May be called anywhere.
        """
        found = self._take_overs.get((mirror, cluster))
        return found is not None and not found.ownership.is_held

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
            take_over = self._take_overs.get(_key(target)) if target.is_topic else None
            if take_over is not None and place_of(target) in take_over.refused:
                errors[index] = take_over.refused[place_of(target)]
        return errors

    async def _take_all(self, groups: dict[tuple[str, str], TakeOver]) -> None:
        limit = asyncio.Semaphore(TAKES_AT_ONCE)
        everyone = {**self._take_overs, **groups}
        states = {name: await self._states(group, everyone) for name, group in by_cluster(groups).items()}

        async def take_one(take_over: TakeOver) -> None:
            async with limit:
                await self._take(take_over, states[take_over.settings.name])

        # One that fails ends no other in the middle of what it writes.
        await all_to_the_end(take_one(take_over) for take_over in groups.values())
        self._take_overs |= groups
        for cluster, group in by_cluster(groups).items():
            await self._give_way(group, states[cluster])

    async def _give_way(self, group: Sequence[TakeOver], before: States | None) -> None:
        """Looks once more: a mirror that took the same partitions at the same moment was not seen when we did.

        Who sees the other one gives way; nothing was appended yet. Both may: whoever tries again first has it then.
        """
        if before is None or (after := await self._states(group, self._take_overs)) is None:
            return
        for take_over in group:
            found = {place_of(target): newly_held(target, before, after) for target in take_over.targets}
            lost = {
                place: error for place, error in found.items() if error is not None and place not in take_over.refused
            }
            if not lost or take_over.ownership.state is None:
                continue
            take_over.refused |= lost
            refused = [target for target in take_over.targets if place_of(target) in lost]
            state = take_over.ownership.state
            holdings = holdings_after((), refused, state, take_over.targets[0].mirror)
            await write_state(take_over, with_holdings(state, holdings))

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
        """Compares owners once, takes what could not be taken before, and keeps the state records true.

        Returns:
            Targets that ``take`` had let through because their cluster could not be asked, and that its state
            records now turn out to give to another source or mirror, each with the reason.

        Raises:
            SupersededError: another process has taken a mirror over.
        """
        async with self._turn:
            await self._write_missing()
            groups = by_cluster(self._take_overs).values()
            return [each for group in groups for each in await self._check_cluster(group)]

    async def _check_cluster(self, group: Sequence[TakeOver]) -> list[tuple[Target, MirrorlakeError]]:
        refused = await self._take_missing([take_over for take_over in group if not take_over.ownership.is_held])
        await compare(self._clients, group, hold_seconds=self._hold_seconds, clock=self._clock)
        return refused

    async def _take_missing(self, missing: Sequence[TakeOver]) -> list[tuple[Target, MirrorlakeError]]:
        """Takes what is not held, or not any more; returns what only now turns out to be another's."""
        if not missing:
            return []
        states = await self._states(missing, self._take_overs)
        found: list[tuple[Target, MirrorlakeError]] = []
        for take_over in missing:
            await self._leave_to_a_later_start(take_over, states)
            known = dict(take_over.refused)
            await self._take(take_over, states)
            found += [
                (target, take_over.refused[place_of(target)])
                for target in take_over.targets
                if place_of(target) in take_over.refused and place_of(target) not in known
            ]
        return found

    async def _leave_to_a_later_start(self, take_over: TakeOver, states: States | None) -> None:
        """Ends this process where one that started later owns the mirror and lives: the newest start is meant.

        By the clocks of both; where they differ by more than lies between the two starts, the older one may stay.

        Raises:
            SupersededError: so it is.
        """
        mirror = take_over.ownership.mirror
        found = (states or {}).get(mirror)
        if (
            found is None
            or found.is_released
            or found.taken_at_ms <= self._began_ms
            or take_over.ownership.wrote(found)
        ):
            return
        if not await living_at(self._clients, take_over.settings, {mirror}, clock=self._clock):
            return
        raise SupersededError(
            f"mirror {mirror} belongs to {found.owner} at cluster {take_over.settings.name}, which started later than "
            "this process, took it while this one could not, and is at work",
            hint=f"run one process per mirror; the newest record of {mirror} in {STATE_TOPIC} names the owner",
            mirror=mirror,
        )

    def records_unseen(self, keys: Iterable[tuple[str, str]]) -> None:
        """Takes which state records a look did not find; what is ours and gone is written anew. May be called anywhere.

        Args:
            keys: mirrors by name, with the name of their destination cluster.
        """
        self._unseen = self._unseen | {*keys}

    async def _write_missing(self) -> None:
        """Writes the state records of our mirrors anew that are gone: somebody has deleted them, or their topic.

        Until they are there nobody else knows whose the copies are.

        Raises:
            SupersededError: another process has taken a mirror over.
        """
        unseen, self._unseen = self._unseen, frozenset()
        mine = {key: self._take_overs[key] for key in unseen if self.owns(key[0], [key[1]])}
        for group in by_cluster(mine).values():
            states = await self._states(group, self._take_overs)
            for take_over in group:
                state = take_over.ownership.state
                if states is None or state is None or state.mirror in states:
                    continue
                _log.warning(
                    "the state record of the mirror is gone, and is written anew",
                    mirror=state.mirror,
                    cluster=take_over.settings.name,
                    hint=f"topic {STATE_TOPIC} says whose the copies are: nobody must delete it, or its records, as "
                    "each cleanup.policy but compact does",
                )
                await write_state(take_over, state)

    async def release(self) -> None:
        """Notes in the state records that nothing of this process is under way; call when the last lease has ended.

        Who comes next need not wait for this one's leases then, only for those that this one waits for. Producer ids
        that leases got since the last look are remembered, as they may expire before the next process. Errors are only
        logged: the record then says what is true anyway, that this process was the last owner.
        """
        async with self._turn:
            held = [each for each in self._take_overs.values() if each.ownership.is_held]
            states = await all_of(last_state(self._clients, each) for each in held)
            for take_over, state in zip(held, states, strict=True):
                if state is None:
                    continue
                try:
                    left = left_seconds(take_over, now=self._clock.elapsed_seconds())
                    state = with_hold(state, own_seconds=self._hold_seconds, before_seconds=left)
                    await take_over.ownership.update(replace(state, is_released=True))
                except MirrorlakeError as error:
                    _log.warning("mirror not released", mirror=state.mirror, error=error.message)

    def _group(self, targets: Iterable[Target]) -> dict[tuple[str, str], TakeOver]:
        """Returns what the targets are part of; what is held already is taken along, with the targets it had."""
        groups: dict[tuple[str, str], TakeOver] = {}
        found: dict[tuple[str, str], dict[Place, Target]] = {}
        for target in targets:
            if not target.is_topic or not target.source_cluster_id:
                continue
            if isinstance(target.error, CollisionError | LoopError):
                continue  # nothing is copied, so nothing is to be held either
            key = _key(target)
            if key not in groups:
                groups[key] = self._take_overs.get(key) or self._new(target)
            found.setdefault(key, {})[place_of(target)] = target
        for key, take_over in groups.items():
            take_over.targets = targets_after(take_over.targets, [*found[key].values()])
        return groups

    def _new(self, target: Target) -> TakeOver:
        settings = target.destination_cluster
        ownership = Ownership(
            self._clients.client(settings), mirror=target.mirror.name, owner=self._owner, clock=self._clock
        )
        return TakeOver(settings, ownership, [])

    async def _states(self, group: Sequence[TakeOver], everyone: Mapping[tuple[str, str], TakeOver]) -> States | None:
        """Returns the state records of a group's cluster, None where they cannot be read now.

        ``everyone`` are all this process serves: what it is configured for says more than records of before.
        """
        settings = group[0].settings
        try:
            states = await read_states(self._clients.client(settings))
        except MirrorlakeError as error:
            is_new = any(str(each.refusal or "") != str(error) for each in group)
            for take_over in group:
                take_over.refusal = error
            if is_new:
                _log.warning("owners cannot be read", cluster=settings.name, error=error.message, hint=error.hint)
            return None
        return with_configured_partitions(states, (each.targets[0].mirror for each in everyone.values()))

    async def _take(self, take_over: TakeOver, states: States | None) -> None:
        if states is None:
            return
        mirror = take_over.ownership.mirror
        if (written := take_over.ownership.state) is not None and mirror not in states:
            states = {**states, mirror: written}  # it was deleted, and is true all the same
        before = states.get(mirror)
        is_ours = before is not None and take_over.ownership.wrote(before)
        if not is_ours:
            take_over.owner_before = before
        # One that was in doubt for a moment has waited before, and nobody else has filled gaps since. A record of ours
        # alone does not say so: the answer to the first one may have been lost.
        is_new = not take_over.ownership.is_held and not (is_ours and take_over.fills_from < inf)
        try:
            take_over.refused = await find_refused(take_over.targets, states, self._clients.client(take_over.settings))
            first = take_over.targets[0]
            if before is not None and before.source_cluster_id != first.source_cluster_id:
                # Its topics may be empty, and are copied to then; but their gaps would wait for an owner for ever.
                refuse(take_over, of_another_source(first, before))
            if before is None or before.source_cluster_id == first.source_cluster_id:
                client = self._clients.client(take_over.settings)
                accepted = [t for t in take_over.targets if place_of(t) not in take_over.refused]
                # Before the record, and the record before any lease: a producer id is known before it has written.
                shards, mapped_shards = shards_of(accepted)
                state = record_after(
                    first.mirror,
                    states,
                    source_cluster_id=first.source_cluster_id,
                    accepted=accepted,
                    of_others=[
                        t for t in take_over.targets if isinstance(take_over.refused.get(place_of(t)), OtherMirrorError)
                    ],
                    producer_ids=await find_producer_ids(client, mirror, before, to_write=shards),
                    map_producer_ids=await find_map_producer_ids(
                        client, mirror, before, shards=map_shards(take_over), to_write=mapped_shards
                    ),
                    former_ids=await find_former_ids(client, accepted, states),
                    hold_seconds=self._hold_seconds,
                )
                inherited = inherited_seconds(accepted, before, states)
                wait = max(inherited, self._wait_seconds(take_over, is_new=is_new))
                state = with_hold(state, own_seconds=self._hold_seconds, before_seconds=wait)
                if not is_new:  # before the record says that the copy is ours: gaps of it may be filled from then on
                    take_over.fills_from = max(take_over.fills_from, self._clock.elapsed_seconds() + inherited)
                await take_over.ownership.update(state)
                take_over.refusal = None
                if is_new:
                    take_over.fills_from = self._clock.elapsed_seconds() + wait
                    say_taken(take_over, self._owner)
                    say_continued(accepted, take_over.owner_before, states)
        except SupersededError:
            raise
        except MirrorlakeError as error:
            refuse(take_over, error)

    def _wait_seconds(self, take_over: TakeOver, *, is_new: bool) -> float:
        """Returns how long leases of owners before may still append, once the record that comes next is written."""
        if is_new:
            return wait_seconds(take_over.owner_before, or_else=self._hold_seconds)
        return left_seconds(take_over, now=self._clock.elapsed_seconds())

    async def find_living(self, targets: Sequence[Target]) -> dict[str, list[OwnerState]]:
        """Returns the mirrors of ``targets`` that somebody else is alive to serve, by destination cluster.

        Waits some seconds for the answer of an owner that has not let go. Takes nothing. Where nothing can be found out
        that is logged, and the cluster left out: a dead owner must not keep anybody away.
        """
        return await living_by_cluster(self._clients, targets, clock=self._clock)


def _key(target: Target) -> tuple[str, str]:
    return target.mirror.name, target.kafka.cluster.name
