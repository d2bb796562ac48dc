"""Reads what topics and their copies are like; changes nothing."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError
from mirrorlake.kafka.control.descriptions import ClusterMetadata, ConfigValue
from mirrorlake.kafka.control.rights import Rights
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.sources.client import SourceClient, SourceTopics
from mirrorlake.together import all_of, both
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.sync.differences import TopicFacts
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target
from mirrorlake.topics.topic_creation import with_new_topics

ASKED_AT_ONCE = 16
Configs = Mapping[str, Mapping[str, ConfigValue] | MirrorlakeError]


async def read_facts(
    config: Configuration, clients: WorkerCache, mirrors: Sequence[str] | None = None
) -> list[TopicFacts]:
    """Returns a row for each topic of each mirror at each Kafka destination, in the configuration's order.

    Args:
        config: says what to look for.
        clients: of the clusters.
        mirrors: their names; None for all.
    """
    targets = [t for t in await find_targets(config, clients, only=mirrors) if t.is_topic]
    first: dict[tuple[str, str, str], Target] = {}
    for target in await with_new_topics(targets, clients):
        key = (target.mirror.name, target.source.topic, target.destination.label)
        # Of a topic's partitions the one that stands for it is one against which something stands.
        if key not in first or (first[key].error is None and target.error is not None):
            first[key] = target
    sources, sides = await both(_sources(list(first.values()), clients), _sides(first.values(), clients))
    return [_facts(target, sources[target.mirror.name], sides[target.kafka.cluster.name]) for target in first.values()]


class _Source:
    """What was read of a mirror's source."""

    def __init__(self, topics: SourceTopics | MirrorlakeError, configs: Configs) -> None:
        self.topics = topics
        self.configs = configs


class _Side:
    """What was read of a destination cluster."""

    def __init__(self, there: ClusterMetadata, configs: Configs, rights: Rights) -> None:
        self.there = there
        self.configs = configs
        self.rights = rights


def _facts(target: Target, source: _Source, side: _Side | MirrorlakeError) -> TopicFacts:
    facts = TopicFacts(
        mirror=target.mirror,
        destination=target.kafka,
        topic=target.source.topic,
        name=target.destination_topic,
        source_configs=source.configs.get(target.source.topic, {}),
        held_configs={},
        creation=target.creation,
        is_replaced=bool(target.replaces),
        error=target.error,
    )
    if isinstance(source.topics, MirrorlakeError):
        return replace(facts, error=facts.error or source.topics)
    if isinstance(side, MirrorlakeError):
        return replace(facts, error=facts.error or side)
    name, topic = target.destination_topic, source.topics.topics.get(target.source.topic)
    return replace(
        facts,
        source=topic,
        held=side.there.topics.get(name),
        held_configs=side.configs.get(name, {}),
        rights=side.rights.get(name),
        error=facts.error
        or source.topics.errors.get(target.source.topic)
        or side.there.errors.get(name)
        or _vanished(target, is_there=name in side.there.topics),
    )


def _vanished(target: Target, *, is_there: bool) -> MirrorlakeError | None:
    if is_there or target.creation is not None or target.error is not None:
        return None
    return BrokerNotReadyError(
        f"destination topic {target.destination_topic} was there a moment ago, and is not now",
        hint="look again",
    )


async def _sources(targets: Sequence[Target], clients: WorkerCache) -> Mapping[str, _Source]:
    names: dict[str, set[str]] = {}
    work = {target.mirror.name: target.source_work for target in targets}
    for target in targets:
        topics = names.setdefault(target.mirror.name, set())
        if target.source.partition != UNKNOWN_PARTITION:
            topics.add(target.source.topic)

    async def read(mirror: str) -> _Source:
        if not names[mirror]:
            return _Source(SourceTopics(source_id="", topics={}), {})
        client = work[mirror].client(clients)
        try:
            topics = await client.topics(sorted(names[mirror]))
        except MirrorlakeError as error:
            return _Source(error, {})
        return _Source(topics, await _source_configs(client, sorted(topics.topics)))

    return dict(zip(work, await all_of(map(read, work)), strict=True))


async def _source_configs(client: SourceClient, topics: Sequence[str]) -> Configs:
    """Returns each topic's settings, or why they could not be read."""
    try:
        return await client.topic_configs(topics)
    except MirrorlakeError:
        pass  # of which of them is found out one by one
    limit = asyncio.Semaphore(ASKED_AT_ONCE)

    async def read(topic: str) -> Mapping[str, ConfigValue] | MirrorlakeError:
        async with limit:
            try:
                return (await client.topic_configs([topic])).get(topic, {})
            except MirrorlakeError as error:
                return error

    return dict(zip(topics, await all_of(map(read, topics)), strict=True))


async def _sides(targets: Iterable[Target], clients: WorkerCache) -> Mapping[str, _Side | MirrorlakeError]:
    names: dict[str, set[str]] = {}
    settings: dict[str, ClusterSettings] = {}
    for target in targets:
        settings[target.kafka.cluster.name] = target.destination_cluster
        names.setdefault(target.kafka.cluster.name, set()).add(target.destination_topic)

    async def read(cluster: str) -> _Side | MirrorlakeError:
        client, wanted = clients.client(settings[cluster]), sorted(names[cluster])
        try:
            there = await client.metadata(wanted, refresh=True)
            known = [name for name in wanted if name in there.topics]
            configs = await client.topics.configs(known) if known else {}
            return _Side(there, configs, await client.topics.rights(known))
        except MirrorlakeError as error:
            return error

    return dict(zip(settings, await all_of(map(read, settings)), strict=True))
