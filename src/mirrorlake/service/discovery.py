"""Finds the targets of a configuration by asking the clusters; reads only."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import structlog

from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.config.resolved import (
    ArchiveDestination,
    Compaction,
    Configuration,
    KafkaDestination,
    Mirror,
    OffsetMode,
    TimestampMode,
)
from mirrorlake.destinations.owner_states import find_states
from mirrorlake.destinations.shard_count import SHARDS_UNWRITTEN, find_shards
from mirrorlake.errors import (
    MirrorlakeError,
    PartitionCountError,
    TopicMissingError,
    TopicRecreatedError,
    UnsupportedError,
)
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.kafka.descriptions import ClusterMetadata, ConfigValue, LogEnd, TopicMetadata
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.archive_folders import ArchivedTopic, find_folder
from mirrorlake.service.archive_stores import store_settings
from mirrorlake.service.destination_versions import check_destination
from mirrorlake.service.provenance import Placement, States, place, refusal
from mirrorlake.service.targets import UNKNOWN_PARTITION, Target, TopicCreation, TopicGrowth, cluster_settings
from mirrorlake.stores.opening import open_store

_log = structlog.get_logger("mirrorlake")

TIMESTAMP_TYPE = "message.timestamp.type"
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"

NOT_COPIED_CONFIGS = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        # Kafka 4.0 knows these two no more, and what they say is of no use to a copy: records get the format of the
        # destination, and their times have passed the source's check.
        "message.format.version",
        "message.timestamp.difference.max.ms",
        "min.insync.replicas",
        "unclean.leader.election.enable",
        # A destination that stamps its own times would lose the source's.
        TIMESTAMP_TYPE,
        "remote.storage.enable",
    }
)
"""Topic settings that speak of the source cluster's brokers, not of the topic, or that a newer Kafka refuses."""

KEEPING_CONFIGS = frozenset(
    {
        "cleanup.policy",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "retention.bytes",
        "retention.ms",
    }
)
"""What decides which records a topic takes and keeps: a copy has them also where the source's brokers set them."""

TopicConfigs = Mapping[str, Mapping[str, ConfigValue]]


async def find_targets(
    config: Configuration, clients: WorkerCache, *, only: Collection[str] | None = None
) -> list[Target]:
    """Returns every target of every enabled mirror, in the configuration's order, partitions ascending.

    What cannot be found out becomes the target's error; one mirror's trouble does not hide another's.

    Args:
        config: says what to look for.
        clients: of the clusters.
        only: names of mirrors; None for all.
    """
    mirrors = [m for m in config.enabled_mirrors if only is None or m.name in only]
    found = await asyncio.gather(*(_MirrorDiscovery(m, clients).targets() for m in mirrors))
    return [target for targets in found for target in targets]


class _MirrorDiscovery:
    """Finds one mirror's targets."""

    def __init__(self, mirror: Mirror, clients: WorkerCache) -> None:
        self._mirror = mirror
        self._clients = clients
        self._settings = cluster_settings(mirror.source.cluster)
        self._source = clients.client(self._settings)

    async def targets(self) -> list[Target]:
        selection = self._mirror.source.topics
        try:
            asked = None if selection.needs_discovery else sorted(selection.names)
            # Asked anew: a topic that has grown, or was made again, looks as before in what is remembered.
            metadata = await self._source.metadata(asked, refresh=True)
            missing = [name for name in selection.names if name not in metadata.topics]
            chosen = [t for n, t in sorted(metadata.topics.items()) if selection.selects(n) and not t.is_internal]
            configs = await _configs(self._source, [t.name for t in chosen])
        except MirrorlakeError as error:
            names = selection.names or ("(by pattern)",)
            return [self._refused(d, TopicPartition(n, UNKNOWN_PARTITION), error) for n in names for d in self._all()]
        targets = [self._missing(name, d, metadata.errors.get(name)) for name in missing for d in self._all()]
        for destination in self._all():
            if isinstance(destination, KafkaDestination):
                targets += await self._to_kafka(destination, metadata, chosen, configs)
            else:
                for topic in chosen:
                    targets += await asyncio.to_thread(self._to_archive, destination, metadata, topic, configs)
        return sorted(targets, key=lambda t: (t.source, [d.label for d in self._all()].index(t.destination.label)))

    def _all(self) -> Sequence[KafkaDestination | ArchiveDestination]:
        return self._mirror.destinations

    def _partitions(self, topic: TopicMetadata) -> list[int]:
        wanted = self._mirror.source.partitions
        return sorted(topic.partitions) if wanted is None else sorted(wanted)

    def _refused(
        self, destination: KafkaDestination | ArchiveDestination, source: TopicPartition, error: MirrorlakeError
    ) -> Target:
        return Target(
            mirror=self._mirror,
            destination=destination,
            source_cluster=self._settings,
            source=source,
            destination_topic=destination.name_for(source.topic),
            error=error,
        )

    def _missing(
        self, topic: str, destination: KafkaDestination | ArchiveDestination, error: MirrorlakeError | None
    ) -> Target:
        partitions = self._mirror.source.partitions
        return self._refused(
            destination,
            TopicPartition(topic, partitions[0] if partitions else UNKNOWN_PARTITION),
            error
            or TopicMissingError(
                f"source topic {topic} does not exist on cluster {self._settings.name} "
                f"({', '.join(self._settings.bootstrap_servers)})",
                hint="check the name, and that this user may describe it",
                topic=topic,
            ),
        )

    def _no_partition(self, topic: TopicMetadata, partition: int) -> MirrorlakeError | None:
        if partition in topic.partitions:
            return None
        return TopicMissingError(
            f"source topic {topic.name} has no partition {partition}, it has {len(topic.partitions)}",
            hint="correct the partition",
            topic=topic.name,
            partition=partition,
        )

    def _to_archive(
        self, destination: ArchiveDestination, metadata: ClusterMetadata, topic: TopicMetadata, configs: TopicConfigs
    ) -> list[Target]:
        archived = ArchivedTopic(
            base=destination.name_for(topic.name),
            partitions=self._partitions(topic),
            extension=extension_of(destination.format.value),
            are_snapshots=destination.compaction is Compaction.LOG,
            cluster_id=metadata.cluster_id or "",
            topic_id=topic.topic_id,
        )
        folder = find_folder(open_store(store_settings(destination)), archived, policy=self._mirror.on_recreate)
        return [
            Target(
                mirror=self._mirror,
                destination=destination,
                source_cluster=self._settings,
                source=TopicPartition(topic.name, partition),
                source_cluster_id=metadata.cluster_id or "",
                topic_id=topic.topic_id,
                destination_topic=folder,
                source_configs=_values(configs, topic.name),
                error=self._no_partition(topic, partition),
            )
            for partition in self._partitions(topic)
        ]

    async def _to_kafka(
        self,
        destination: KafkaDestination,
        metadata: ClusterMetadata,
        topics: Sequence[TopicMetadata],
        configs: TopicConfigs,
    ) -> list[Target]:
        client = self._clients.client(cluster_settings(destination.cluster))
        try:
            await check_destination(client, mode=destination.offsets)
            states = await find_states(client)
            places = {topic.name: self._place(destination, topic, states) for topic in topics}
            names = [place.topic for place in places.values()]
            there = await client.metadata(names, refresh=True)
            known = [name for name in names if name in there.topics]
            there_configs = await _configs(client, known)
            shards = await find_shards(client, self._mirror.name) if destination.offsets is OffsetMode.MAP else None
        except MirrorlakeError as error:
            return [
                self._refused(destination, TopicPartition(topic.name, partition), error)
                for topic in topics
                for partition in self._partitions(topic)
            ]
        found = [
            self._kafka_targets(destination, places[topic.name], metadata, topic, configs, there, there_configs)
            for topic in topics
        ]
        return [
            replace(target, map_shards=shards or SHARDS_UNWRITTEN)
            for targets in found
            for target in await _judged(targets, states, client)
        ]

    def _place(self, destination: KafkaDestination, topic: TopicMetadata, states: States) -> Placement:
        placed = place(
            destination.name_for(topic.name),
            topic=topic.name,
            topic_id=topic.topic_id,
            policy=self._mirror.on_recreate,
            state=states.get(self._mirror.name),
        )
        # What others may have written is not deleted; mapped copies begin anew in the topic as it is.
        return Placement(topic=placed.topic) if destination.offsets is OffsetMode.MAP else placed

    def _kafka_targets(
        self,
        destination: KafkaDestination,
        placed: Placement,
        metadata: ClusterMetadata,
        topic: TopicMetadata,
        configs: TopicConfigs,
        there: ClusterMetadata,
        there_configs: TopicConfigs,
    ) -> list[Target]:
        name = placed.topic
        held = there.topics.get(name)
        values = _values(there_configs, name)
        error: MirrorlakeError | None
        growth = None
        creation = _creation(name, destination, topic, configs) if held is None or placed.replaces else None
        if held is None:
            assert creation is not None
            values = dict(creation.configs)
            error = there.errors.get(name)  # such as no right to see whether it is there
            if error is None and not destination.creates_topics:
                error = _not_created(name, topic, destination)
        elif destination.offsets is OffsetMode.MAP or placed.replaces:
            error = None  # any number of partitions will do, and a topic that is made anew gets the source's
        else:
            growth = self._growth(topic, held, destination)
            error = None if growth else self._count_error(topic, held, destination)
        error = error or _clock_error(destination, name, values)
        return [
            Target(
                mirror=self._mirror,
                destination=destination,
                source_cluster=self._settings,
                source=TopicPartition(topic.name, partition),
                source_cluster_id=metadata.cluster_id or "",
                topic_id=topic.topic_id,
                destination_topic=name,
                destination_topic_id=held.topic_id if held else "",
                destination_partitions=len(held.partitions) if held else len(topic.partitions),
                batch_bytes_max=int(values.get("max.message.bytes") or DEFAULT_BATCH_BYTES_MAX),
                source_configs=_values(configs, topic.name),
                destination_configs=values,
                creation=creation,
                replaces=placed.replaces,
                growth=growth,
                error=self._no_partition(topic, partition) or error,
            )
            for partition in self._partitions(topic)
        ]

    def _partitions_needed(self, topic: TopicMetadata) -> int:
        wanted = self._mirror.source.partitions
        return len(topic.partitions) if wanted is None else max(wanted) + 1

    def _growth(self, topic: TopicMetadata, held: TopicMetadata, destination: KafkaDestination) -> TopicGrowth | None:
        wanted, found = self._partitions_needed(topic), len(held.partitions)
        if not destination.creates_topics or found >= wanted:
            return None
        return TopicGrowth(topic=held.name, partitions_before=found, partitions=wanted)

    def _count_error(
        self, topic: TopicMetadata, held: TopicMetadata, destination: KafkaDestination
    ) -> MirrorlakeError | None:
        wanted, found = self._partitions_needed(topic), len(held.partitions)
        # Of partitions that are chosen one by one the others are none of this mirror's business.
        if wanted == found or (self._mirror.source.partitions is not None and found > wanted):
            return None
        return PartitionCountError(
            f"source topic {topic.name} has {wanted} partition(s), destination topic {held.name} on cluster "
            f"{destination.cluster.name} has {found}",
            hint=(
                f"add partitions to {held.name}: kafka-topics.sh --alter --topic {held.name} --partitions {wanted}"
                if found < wanted
                else f"mirror to another topic, or delete {held.name} to have it made like the source"
            ),
            source_partitions=wanted,
            destination_partitions=found,
        )


async def _configs(client: ClusterClient, topics: Sequence[str]) -> TopicConfigs:
    """Returns the topics' configurations.

    Raises:
        MirrorlakeError: one of them could not be read.
    """
    if not topics:
        return {}
    found: dict[str, Mapping[str, ConfigValue]] = {}
    for name, configs in (await client.describe_topic_configs(topics)).items():
        if isinstance(configs, MirrorlakeError):
            raise configs
        found[name] = configs
    return found


DEFAULT_BATCH_BYTES_MAX = 1_048_588
"""Kafka's own default of ``max.message.bytes``."""


async def _judged(targets: list[Target], states: States, client: ClusterClient) -> list[Target]:
    """Returns the targets of one topic: refused where the destination holds what is not theirs, as they are else.

    What a destination topic that was to be replaced holds is not deleted where nothing says that it has to be.
    """
    if not targets or targets[0].error is not None:
        return targets
    error = refusal(targets[0], states)
    if error is None or await _holds_nothing(client, targets):
        return [_not_replaced(target) for target in targets]
    if targets[0].replaces and isinstance(error, TopicRecreatedError):
        return targets
    return [replace(_not_replaced(target), error=error) for target in targets]


def _not_replaced(target: Target) -> Target:
    if not target.replaces or not target.destination_topic_id:
        return replace(target, replaces="")
    return replace(target, replaces="", creation=None)


async def _holds_nothing(client: ClusterClient, targets: Sequence[Target]) -> bool:
    """Tells whether nothing was copied to the destination partitions yet, or they were made anew."""
    there = [t.destination_partition for t in targets if t.destination_topic_id]
    ends = (await client.log_ends(there)).values() if there else ()
    return all(isinstance(end, LogEnd) and end.end_offset == 0 for end in ends)


def _creation(name: str, destination: KafkaDestination, topic: TopicMetadata, configs: TopicConfigs) -> TopicCreation:
    """Returns the destination topic made like the source: partitions, and every setting the source's owner chose."""
    chosen = {
        key: value.value
        for key, value in sorted(configs.get(topic.name, {}).items())
        if value.value is not None and key not in NOT_COPIED_CONFIGS and _is_chosen(key, value)
    }
    # Said in both modes: the destination's brokers may stamp their own times unless a topic says otherwise.
    is_stamped = destination.timestamp_mode is TimestampMode.DESTINATION
    chosen[TIMESTAMP_TYPE] = LOG_APPEND_TIME if is_stamped else CREATE_TIME
    return TopicCreation(
        topic=name,
        partitions=len(topic.partitions),
        replication_factor=destination.replication_factor or -1,
        configs=chosen,
    )


def _is_chosen(key: str, value: ConfigValue) -> bool:
    """Tells whether somebody chose it: for the topic, or, of what deletes and refuses records, for all the brokers."""
    return not value.is_default or (key in KEEPING_CONFIGS and value.source != "DEFAULT_CONFIG")


def _not_created(name: str, source: TopicMetadata, destination: KafkaDestination) -> MirrorlakeError:
    return TopicMissingError(
        f"destination topic {name} does not exist on cluster {destination.cluster.name}",
        hint=f"create it like the source: kafka-topics.sh --create --topic {name} --partitions "
        f"{len(source.partitions)}; the native form does so itself with `create-topics: true`",
        topic=name,
    )


def _values(configs: TopicConfigs, topic: str) -> dict[str, str | None]:
    return {key: value.value for key, value in configs.get(topic, {}).items()}


def _clock_error(destination: KafkaDestination, name: str, values: Mapping[str, str | None]) -> MirrorlakeError | None:
    """Returns what is wrong where the topic's clock is not the one ``timestamp-mode`` asks for."""
    found = values.get(TIMESTAMP_TYPE) or CREATE_TIME
    if destination.timestamp_mode is TimestampMode.SOURCE:
        wanted, consequence, other = CREATE_TIME, "it would replace every timestamp", "destination"
    else:
        wanted, consequence, other = LOG_APPEND_TIME, "it would keep the source's timestamps", "source"
    if found == wanted:
        return None
    return UnsupportedError(
        f"destination topic {name} has {TIMESTAMP_TYPE}={found}: {consequence}, and `timestamp-mode` is "
        f"`{destination.timestamp_mode.value}`",
        hint=f"set {TIMESTAMP_TYPE}={wanted} on {name}, or `timestamp-mode: {other}`",
        topic=name,
    )
