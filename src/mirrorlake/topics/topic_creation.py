"""Makes the destination topics and partitions that targets lack, and says before what would come of it."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.letters.progress_store import ensure_letter_progress
from mirrorlake.destinations.map.progress_store import ensure_topics
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, PermissionDeniedError, UnsupportedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.topics.targets import Target, TopicCreation, TopicGrowth

_log = structlog.get_logger("mirrorlake")

GROWN_LOOKS = 10
GROWN_PAUSE_SECONDS = 0.2


async def with_new_topics(targets: Sequence[Target], clients: WorkerCache) -> list[Target]:
    """Returns the targets with the settings that topics yet to be made would have; makes none.

    Targets of a topic that the cluster would not make so get the reason as their error. Where it does not say, they
    stay as they are.
    """
    found: dict[tuple[str, str], dict[str, str | None]] = {}
    refused: dict[tuple[str, str], MirrorlakeError] = {}
    for target in targets:
        creation = target.creation
        if creation is None or target.error is not None:
            continue
        key = (target.kafka.cluster.name, creation.topic)
        if key not in found and not target.replaces:
            found[key] = {}
            client = clients.client(target.destination_cluster)
            try:
                found[key] = await _new_configs(creation, creation.configs, client)
            except UnsupportedError as error:
                refused[key] = await _named(error, creation, client)
            except PermissionDeniedError as error:
                refused[key] = error
            except MirrorlakeError:
                continue
    return [_with_configs(target, found, refused) for target in targets]


def _with_configs(
    target: Target,
    found: Mapping[tuple[str, str], Mapping[str, str | None]],
    refused: Mapping[tuple[str, str], MirrorlakeError],
) -> Target:
    if target.creation is None or target.error is not None:
        return target
    key = (target.kafka.cluster.name, target.creation.topic)
    if key in refused:
        return replace(target, error=refused[key])
    return replace(target, destination_configs=found[key]) if found.get(key) else target


async def _new_configs(
    creation: TopicCreation, configs: Mapping[str, str], client: ClusterClient
) -> dict[str, str | None]:
    return await client.topics.configs_if_created(
        creation.topic,
        partitions=creation.partitions,
        replication_factor=creation.replication_factor,
        configs=configs,
    )


async def _named(error: UnsupportedError, creation: TopicCreation, client: ClusterClient) -> MirrorlakeError:
    """Returns why a topic cannot be made as the source is; names all settings its brokers lack, which say one only."""
    with contextlib.suppress(MirrorlakeError):
        known = await _new_configs(creation, {}, client)
        lacking = sorted(creation.configs.keys() - known.keys()) if known else []
        if lacking:
            return UnsupportedError(
                f"destination topic {creation.topic} cannot be made like the source: the brokers of cluster "
                f"{client.settings.name} do not know {', '.join(lacking)}",
                hint=f"create {creation.topic} yourself without (kafka-topics.sh --create --topic {creation.topic} "
                f"--partitions {creation.partitions}), a topic that is there is taken as it is; or upgrade the brokers",
                topic=creation.topic,
            )
    return error


async def create_topics(targets: Sequence[Target], clients: WorkerCache) -> dict[tuple[str, str], MirrorlakeError]:
    """Makes the destination topics and partitions the targets lack; those to be replaced are deleted first.

    Idempotent: what was made meanwhile is fine.

    Returns:
        The error of each topic that could not be made, by destination cluster and topic.
    """
    wanted: dict[tuple[str, str], Target] = {}
    for target in targets:
        if target.error is None and target.is_topic:
            wanted.setdefault((target.kafka.cluster.name, target.destination_topic), target)
    errors: dict[tuple[str, str], MirrorlakeError] = {}
    for key, target in wanted.items():
        try:
            await _make_topic(target, clients.client(target.destination_cluster))
        except MirrorlakeError as error:
            errors[key] = error
    errors |= await _make_letter_topics(targets, clients)
    await _make_progress_topics(targets, clients)
    return errors


async def _make_letter_topics(
    targets: Sequence[Target], clients: WorkerCache
) -> dict[tuple[str, str], MirrorlakeError]:
    """Makes the topics for dead letters that are missing; returns the errors by those who need them."""
    made: dict[tuple[str, str], MirrorlakeError | None] = {}
    errors: dict[tuple[str, str], MirrorlakeError] = {}
    for target in targets:
        creation = target.letters_creation
        if creation is None or target.error is not None:
            continue
        key = (target.kafka.cluster.name, creation.topic)
        if key not in made:
            made[key] = await _make_letter_topic(creation, clients.client(target.destination_cluster))
        if (error := made[key]) is not None:
            errors[target.kafka.cluster.name, target.destination_topic] = error
    return errors


async def _make_letter_topic(creation: TopicCreation, client: ClusterClient) -> MirrorlakeError | None:
    try:
        is_new = await _create(creation, client)
    except MirrorlakeError as error:
        return error
    if is_new:
        _log.info("topic for dead letters created", topic=creation.topic, partitions=creation.partitions)
    return None


async def _make_topic(target: Target, client: ClusterClient) -> None:
    creation, growth = target.creation, target.growth
    if target.replaces:
        await client.topics.delete(target.destination_topic)
        _log.warning(
            "destination topic deleted, because the source topic was recreated and on-recreate is restart",
            topic=target.destination_topic,
            source=target.source.topic,
            topic_id_before=target.replaces,
            topic_id=target.topic_id,
        )
    if creation is not None:
        try:
            is_new = await _create(creation, client)
        except UnsupportedError as error:
            raise await _named(error, creation, client) from error
        if target.replaces and not is_new:
            raise BrokerNotReadyError(
                f"destination topic {creation.topic} is still being deleted", topic=creation.topic
            )
    if growth is not None:
        await grow_topic(growth, client)


async def _create(creation: TopicCreation, client: ClusterClient) -> bool:
    """Makes a topic; returns whether it was not there."""
    return await client.topics.create(
        creation.topic,
        partitions=creation.partitions,
        replication_factor=creation.replication_factor,
        configs=dict(creation.configs),
    )


async def grow_topic(growth: TopicGrowth, client: ClusterClient) -> None:
    """Adds the partitions that a destination topic lacks by now; none where another process was faster."""
    if await _has(growth, client):
        return
    try:
        await client.topics.grow(growth.topic, partitions=growth.partitions)
    except UnsupportedError:
        # The controller may know of another process's partitions before the brokers do.
        for _ in range(GROWN_LOOKS):
            if await _has(growth, client):
                return
            await asyncio.sleep(GROWN_PAUSE_SECONDS)
        raise
    _log.info(
        "partitions added to destination topic",
        topic=growth.topic,
        partitions_before=growth.partitions_before,
        partitions=growth.partitions,
    )


async def _has(growth: TopicGrowth, client: ClusterClient) -> bool:
    there = (await client.metadata([growth.topic], refresh=True)).topics.get(growth.topic)
    return there is not None and len(there.partitions) >= growth.partitions


async def _make_progress_topics(targets: Sequence[Target], clients: WorkerCache) -> None:
    """Makes the topics that mirrors keep their own records in, ahead of their leases, which would all try at once."""
    wanted = {
        (target.kafka.cluster.name, target.mirror.name): (target.destination_cluster, target.progress_topics)
        for target in targets
        if target.is_mapped and target.error is None
    }
    for cluster, topics in wanted.values():
        # Whatever is wrong is found again by the leases, and said of the partitions it concerns.
        with contextlib.suppress(MirrorlakeError):
            await ensure_topics(clients.client(cluster), topics)
    letters = {
        (target.kafka.cluster.name, target.mirror.name): (target.destination_cluster, target.letters)
        for target in targets
        if target.error is None and target.letters is not None and target.letters.topic
    }
    for cluster, settings in letters.values():
        with contextlib.suppress(MirrorlakeError):
            await ensure_letter_progress(clients.client(cluster), settings.mirror, settings.shards)
