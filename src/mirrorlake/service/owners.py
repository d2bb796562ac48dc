"""Takes the ownership of mirrors at their Kafka destinations, and notices when another process takes it over."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from mirrorlake.clock import Clock
from mirrorlake.config.resolved import KafkaDestination
from mirrorlake.destinations.ownership import Ownership, OwnerState, read_states, transactional_id
from mirrorlake.errors import DestinationForeignError, MirrorlakeError, SupersededError
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.kafka.descriptions import LogEnd
from mirrorlake.kafka.settings import ClusterSettings
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.service.targets import SHARDS_PER_MIRROR, Target, cluster_settings

_log = structlog.get_logger("mirrorlake")

CHECK_SECONDS = 5.0
"""How often the owners are compared: a superseded process ends within about a lease."""

TAKES_AT_ONCE = 8


@dataclass(slots=True)
class _Claimed:
    """One mirror at one destination cluster."""

    settings: ClusterSettings
    ownership: Ownership
    targets: list[Target]
    refused_topics: dict[str, MirrorlakeError] = field(default_factory=dict)


class Owners:
    """The ownerships of one process.

    Args:
        clients: the driver's cluster clients.
        owner: how this process calls itself.
        clock: dates state records.
    """

    def __init__(self, clients: WorkerCache, *, owner: str, clock: Clock) -> None:
        self._clients = clients
        self._owner = owner
        self._clock = clock
        self._claimed: dict[tuple[str, str], _Claimed] = {}

    async def take(self, targets: Sequence[Target]) -> dict[int, MirrorlakeError]:
        """Becomes the owner of every mirror with a Kafka destination among ``targets``.

        Returns:
            Errors by the index of the target: the state record says that the destination belongs to another
            source. A cluster that cannot be asked is no error here: copying is safe without ownership, and it is
            taken later.
        """
        fresh = self._group(targets)
        limit = asyncio.Semaphore(TAKES_AT_ONCE)

        states = {cluster: await self._states(group[0].settings) for cluster, group in _by_cluster(fresh).items()}

        async def take_one(claimed: _Claimed) -> None:
            async with limit:
                await self._take(claimed, states[claimed.settings.name])

        await asyncio.gather(*(take_one(claimed) for claimed in fresh.values()))
        self._claimed |= fresh
        errors: dict[int, MirrorlakeError] = {}
        for index, target in enumerate(targets):
            claimed = self._claimed.get(_key(target)) if isinstance(target.destination, KafkaDestination) else None
            if claimed is not None and target.source.topic in claimed.refused_topics:
                errors[index] = claimed.refused_topics[target.source.topic]
        return errors

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
        """Compares owners once; takes what could not be taken before.

        Raises:
            SupersededError: another process has taken a mirror over.
        """
        for group in _by_cluster(self._claimed).values():
            missing = [claimed for claimed in group if not claimed.ownership.is_held]
            states = await self._states(group[0].settings) if missing else None
            for claimed in missing:
                await self._take(claimed, states)
            names = [transactional_id(claimed.ownership.mirror) for claimed in group]
            try:
                found = await self._clients.client(group[0].settings).describe_transactions(names)
            except MirrorlakeError:
                continue  # not being able to ask is no reason to end
            for claimed, name in zip(group, names, strict=True):
                claimed.ownership.check(found.get(name))

    def _group(self, targets: Iterable[Target]) -> dict[tuple[str, str], _Claimed]:
        groups: dict[tuple[str, str], _Claimed] = {}
        for target in targets:
            if not isinstance(target.destination, KafkaDestination) or not target.topic_id:
                continue
            key = _key(target)
            if key not in groups:
                settings = cluster_settings(target.destination.cluster)
                ownership = Ownership(
                    self._clients.client(settings), mirror=target.mirror.name, owner=self._owner, clock=self._clock
                )
                groups[key] = _Claimed(settings, ownership, [])
            groups[key].targets.append(target)
        return groups

    async def _states(self, settings: ClusterSettings) -> dict[str, OwnerState] | None:
        """Returns the state records of a cluster, None where they cannot be read now."""
        try:
            return await read_states(self._clients.client(settings))
        except MirrorlakeError as error:
            _log.warning("owners cannot be read", cluster=settings.name, error=error.message, hint=error.hint)
            return None

    async def _take(self, claimed: _Claimed, states: dict[str, OwnerState] | None) -> None:
        if states is None:
            return
        mirror = claimed.ownership.mirror
        before = states.get(mirror)
        try:
            claimed.refused_topics = await self._refused(claimed, before)
            first = claimed.targets[0]
            if before is None or before.source_cluster_id == first.source_cluster_id:
                await claimed.ownership.take(
                    source_cluster_id=first.source_cluster_id,
                    topic_ids=_topic_ids(claimed, before),
                    shards=SHARDS_PER_MIRROR,
                )
                _log.info("mirror taken over", mirror=mirror, cluster=claimed.settings.name, owner=self._owner)
        except SupersededError:
            raise
        except MirrorlakeError as error:
            _log.warning("ownership not taken, trying again", mirror=mirror, error=error.message, hint=error.hint)

    async def _refused(self, claimed: _Claimed, before: OwnerState | None) -> dict[str, MirrorlakeError]:
        """Returns, by source topic, why the destination belongs to another source than the one configured."""
        if before is None:
            return {}
        refused: dict[str, MirrorlakeError] = {}
        for target in claimed.targets:
            topic = target.source.topic
            known = before.topic_ids.get(topic)
            if before.source_cluster_id == target.source_cluster_id and known in (None, target.topic_id):
                continue
            if topic not in refused and not await self._is_empty(claimed, topic):
                refused[topic] = _foreign(target, before)
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


def _key(target: Target) -> tuple[str, str]:
    assert isinstance(target.destination, KafkaDestination)
    return target.mirror.name, target.destination.cluster.name


def _topic_ids(claimed: _Claimed, before: OwnerState | None) -> dict[str, str]:
    """Returns the ids to remember: those of topics that stand refused stay as they were."""
    known = dict(before.topic_ids) if before else {}
    current = {t.source.topic: t.topic_id for t in claimed.targets if t.source.topic not in claimed.refused_topics}
    return known | current


def _foreign(target: Target, before: OwnerState) -> MirrorlakeError:
    topic = target.source.topic
    if before.source_cluster_id != target.source_cluster_id:
        return DestinationForeignError(
            f"mirror {target.mirror.name} has filled {target.destination_topic} from cluster id "
            f"{before.source_cluster_id}, the configured source is cluster id {target.source_cluster_id}",
            hint="give the mirror of another source another name and other topics, or re-create its topics",
            expected=before.source_cluster_id,
            found=target.source_cluster_id,
        )
    return DestinationForeignError(
        f"source topic {topic} was deleted and made again (topic id {before.topic_ids[topic]}, now "
        f"{target.topic_id}); {target.destination_topic} holds records of the one before",
        hint=f"re-create {target.destination_topic} to copy the new topic from its start, or mirror to another topic",
        expected=before.topic_ids[topic],
        found=target.topic_id,
    )
