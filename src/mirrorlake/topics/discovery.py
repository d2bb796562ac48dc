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
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.record_clock import CREATE_TIME, LOG_APPEND_TIME, TIMESTAMP_TYPE
from mirrorlake.destinations.transactions.owner_states import find_states
from mirrorlake.errors import (
    MirrorlakeError,
    PartitionCountError,
    TopicMissingError,
    TopicRecreatedError,
    UnsupportedError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ClusterMetadata, ConfigValue, LogEnd, TopicMetadata
from mirrorlake.kafka.control.topic_configs import read_topic_configs
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.client import SourceTopic
from mirrorlake.stores.opening import open_store
from mirrorlake.topics.archive_folders import ArchivedTopic, find_folder
from mirrorlake.topics.clashes import Way, judged_together, origins_of
from mirrorlake.topics.destination_versions import check_destination
from mirrorlake.topics.handover import States, known_of, others_holding, with_configured_partitions
from mirrorlake.topics.map_topics import NOT_MAPPED, find_mapped
from mirrorlake.topics.provenance import Placement, place, refusal, shared_and_recreated
from mirrorlake.topics.sources import source_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target, TopicCreation, TopicGrowth

_log = structlog.get_logger("mirrorlake")

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
    config: Configuration,
    clients: WorkerCache,
    *,
    only: Collection[str] | None = None,
    served: Collection[Way] = (),
) -> list[Target]:
    """Returns every target of every enabled mirror, in the configuration's order, partitions ascending.

    What cannot be found out becomes the target's error; one mirror's trouble does not hide another's.

    Args:
        config: says what to look for.
        clients: of the clusters.
        only: names of mirrors; None for all.
        served: what is being copied already.
    """
    mirrors = [m for m in config.enabled_mirrors if only is None or m.name in only]
    everyone = config.enabled_mirrors
    found = await asyncio.gather(*(_MirrorDiscovery(m, clients, everyone).targets() for m in mirrors))
    return judged_together([target for targets in found for target in targets], everyone, served)


class _MirrorDiscovery:
    """Finds one mirror's targets; ``everyone`` are all mirrors of the configuration."""

    def __init__(self, mirror: Mirror, clients: WorkerCache, everyone: Sequence[Mirror]) -> None:
        self._mirror = mirror
        self._everyone = everyone
        self._clients = clients
        self._source_work = source_of(mirror)
        self._source = self._source_work.client(clients)

    async def targets(self) -> list[Target]:
        selection = self._mirror.source.topics
        try:
            asked = None if selection.needs_discovery else sorted(selection.names)
            source = await self._source.topics(asked)
            missing = [name for name in selection.names if name not in source.topics]
            chosen = [t for n, t in sorted(source.topics.items()) if selection.selects(n) and not t.is_internal]
            configs = await self._source.topic_configs([t.name for t in chosen])
        except MirrorlakeError as error:
            names = selection.names or ("(by pattern)",)
            return [self._refused(d, TopicPartition(n, UNKNOWN_PARTITION), error) for n in names for d in self._all()]
        targets = [self._missing(name, d, source.errors.get(name)) for name in missing for d in self._all()]
        copies = await self._copies()
        for destination in self._all():
            if isinstance(destination, KafkaDestination):
                found = await self._to_kafka(destination, source.source_id, chosen, configs)
                targets += [_with_origins(target, copies) for target in found]
            else:
                for topic in chosen:
                    targets += await asyncio.to_thread(self._to_archive, destination, source.source_id, topic, configs)
        return sorted(targets, key=lambda t: (t.source, [d.label for d in self._all()].index(t.destination.label)))

    async def _copies(self) -> States | MirrorlakeError:
        """Returns the state records of the source cluster, which say which of its topics are copies; or why not.

        Where this user may not read them nothing is known of copies, which is no reason to copy nothing.
        """
        if not any(isinstance(destination, KafkaDestination) for destination in self._all()):
            return {}
        try:
            return await self._source.owner_states()
        except MirrorlakeError as error:
            return error

    def _all(self) -> Sequence[KafkaDestination | ArchiveDestination]:
        return self._mirror.destinations

    def _partitions(self, topic: SourceTopic) -> list[int]:
        wanted = self._mirror.source.partitions
        return sorted(topic.partitions) if wanted is None else sorted(wanted)

    def _refused(
        self, destination: KafkaDestination | ArchiveDestination, source: TopicPartition, error: MirrorlakeError
    ) -> Target:
        return Target(
            mirror=self._mirror,
            destination=destination,
            source_work=self._source_work,
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
                f"source topic {topic} does not exist on {self._source_work.label} ({self._source_work.place})",
                hint="check the name, and that this user may describe it",
                topic=topic,
            ),
        )

    def _no_partition(self, topic: SourceTopic, partition: int) -> MirrorlakeError | None:
        if partition in topic.partitions:
            return None
        return TopicMissingError(
            f"source topic {topic.name} has no partition {partition}, it has {len(topic.partitions)}",
            hint="correct the partition",
            topic=topic.name,
            partition=partition,
        )

    def _to_archive(
        self, destination: ArchiveDestination, source_id: str, topic: SourceTopic, configs: TopicConfigs
    ) -> list[Target]:
        archived = ArchivedTopic(
            base=destination.name_for(topic.name),
            partitions=self._partitions(topic),
            extension=extension_of(destination.format.value),
            are_snapshots=destination.compaction is Compaction.LOG,
            cluster_id=source_id,
            topic_id=topic.topic_id,
        )
        folder = find_folder(open_store(destination.store.settings), archived, policy=self._mirror.on_recreate)
        return [
            Target(
                mirror=self._mirror,
                destination=destination,
                source_work=self._source_work,
                source=TopicPartition(topic.name, partition),
                source_cluster_id=source_id,
                topic_id=topic.topic_id,
                destination_topic=folder,
                source_partitions=len(topic.partitions),
                source_configs=_values(configs, topic.name),
                error=self._no_partition(topic, partition),
            )
            for partition in self._partitions(topic)
        ]

    async def _to_kafka(
        self,
        destination: KafkaDestination,
        source_id: str,
        topics: Sequence[SourceTopic],
        configs: TopicConfigs,
    ) -> list[Target]:
        client = self._clients.client(destination.cluster.settings)
        try:
            await check_destination(client, mode=destination.offsets)
            states = with_configured_partitions(await find_states(client), self._everyone)
            places = {topic.name: self._place(destination, topic, states, source_id) for topic in topics}
            names = [place.topic for place in places.values()]
            there = await client.metadata(names, refresh=True)
            known = [name for name in names if name in there.topics]
            there_configs = await read_topic_configs(client, known)
            is_mapped = destination.offsets is OffsetMode.MAP
            own = states.get(self._mirror.name)
            mapped = await find_mapped(client, self._mirror.name, own, names) if is_mapped else NOT_MAPPED
        except MirrorlakeError as error:
            return [
                self._refused(destination, TopicPartition(topic.name, partition), error)
                for topic in topics
                for partition in self._partitions(topic)
            ]
        found = [
            self._kafka_targets(destination, places[topic.name], source_id, topic, configs, there, there_configs)
            for topic in topics
        ]
        return [
            replace(mapped.added_to(target), owner=own)
            for targets in found
            for target in await _judged(targets, states, client)
        ]

    def _place(
        self, destination: KafkaDestination, topic: SourceTopic, states: States, source_cluster_id: str
    ) -> Placement:
        base = destination.name_for(topic.name)
        is_mapped = destination.offsets is OffsetMode.MAP
        state = states.get(self._mirror.name)
        if not is_mapped:
            state = known_of(
                states, mirror=self._mirror.name, base=base, topic=topic.name, source_cluster_id=source_cluster_id
            )
        policy = self._mirror.on_recreate
        placed = place(base, topic=topic.name, topic_id=topic.topic_id, policy=policy, state=state)
        # What others may have written is not deleted; mapped copies begin anew in the topic as it is.
        return Placement(topic=placed.topic) if is_mapped else placed

    def _kafka_targets(
        self,
        destination: KafkaDestination,
        placed: Placement,
        source_id: str,
        topic: SourceTopic,
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
                source_work=self._source_work,
                source=TopicPartition(topic.name, partition),
                source_cluster_id=source_id,
                topic_id=topic.topic_id,
                destination_topic=name,
                destination_topic_id=held.topic_id if held else "",
                destination_partitions=len(held.partitions) if held else len(topic.partitions),
                destination_cluster_id=there.cluster_id or "",
                batch_bytes_max=_batch_bytes_max(values),
                source_configs=_values(configs, topic.name),
                destination_configs=values,
                creation=creation,
                replaces=placed.replaces,
                growth=growth,
                error=self._no_partition(topic, partition) or error,
            )
            for partition in self._partitions(topic)
        ]

    def _partitions_needed(self, topic: SourceTopic) -> int:
        wanted = self._mirror.source.partitions
        return len(topic.partitions) if wanted is None else max(wanted) + 1

    def _growth(self, topic: SourceTopic, held: TopicMetadata, destination: KafkaDestination) -> TopicGrowth | None:
        wanted, found = self._partitions_needed(topic), len(held.partitions)
        if not destination.creates_topics or found >= wanted:
            return None
        return TopicGrowth(topic=held.name, partitions_before=found, partitions=wanted)

    def _count_error(
        self, topic: SourceTopic, held: TopicMetadata, destination: KafkaDestination
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


def _with_origins(target: Target, copies: States | MirrorlakeError) -> Target:
    if isinstance(copies, MirrorlakeError):
        return replace(target, origins_unread=copies)
    return replace(target, origins=origins_of(target.source.topic, copies))


DEFAULT_BATCH_BYTES_MAX = 1_048_588
"""Kafka's own default of ``max.message.bytes``."""


def _batch_bytes_max(configs: Mapping[str, str | None]) -> int:
    """Returns the largest batch a topic takes: one that is larger than a log segment is refused too."""
    batch = int(configs.get("max.message.bytes") or DEFAULT_BATCH_BYTES_MAX)
    return min(batch, int(configs.get("segment.bytes") or batch))


async def _judged(targets: list[Target], states: States, client: ClusterClient) -> list[Target]:
    """Returns the targets of one topic: refused where the destination holds what is not theirs, as they are else.

    What a destination topic that was to be replaced holds is not deleted where nothing says that it has to be, nor
    where another mirror fills a part of it.
    """
    sound = [target for target in targets if target.error is None]
    if not sound:
        return targets
    errors = {target.source: refusal(target, states) for target in sound}
    if not any(errors.values()) or await _holds_nothing(client, sound):
        errors = {}
    others = others_holding(sound[0].destination_topic, sound[0].mirror.name, states)
    return [t if t.error else _with_verdict(t, errors.get(t.source), others) for t in targets]


def _with_verdict(target: Target, error: MirrorlakeError | None, others: Sequence[str]) -> Target:
    if error is None:
        return _not_replaced(target)
    if target.replaces and isinstance(error, TopicRecreatedError):
        if not others:
            return target
        error = shared_and_recreated(target, others)
    return replace(_not_replaced(target), error=error)


def _not_replaced(target: Target) -> Target:
    if not target.replaces or not target.destination_topic_id:
        return replace(target, replaces="")
    return replace(target, replaces="", creation=None)


async def _holds_nothing(client: ClusterClient, targets: Sequence[Target]) -> bool:
    """Tells whether nothing was copied to the destination partitions yet, or they were made anew."""
    there = [t.destination_partition for t in targets if t.destination_topic_id]
    ends = (await client.log_ends(there)).values() if there else ()
    return all(isinstance(end, LogEnd) and end.end_offset == 0 for end in ends)


def _creation(name: str, destination: KafkaDestination, topic: SourceTopic, configs: TopicConfigs) -> TopicCreation:
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


def _not_created(name: str, source: SourceTopic, destination: KafkaDestination) -> MirrorlakeError:
    return TopicMissingError(
        f"destination topic {name} does not exist on cluster {destination.cluster.name}",
        hint=f"create it like the source: kafka-topics.sh --create --topic {name} --partitions "
        f"{len(source.partitions)}; the native form does so itself with `create-topics: true`",
        topic=name,
    )


def _values(configs: TopicConfigs, topic: str) -> dict[str, str | None]:
    return {key: value.value for key, value in configs.get(topic, {}).items()}


def _clock_error(destination: KafkaDestination, name: str, values: Mapping[str, str | None]) -> MirrorlakeError | None:
    """Returns what is wrong where the topic's brokers would replace the source's times, which are to be kept.

    The other way round nothing is wrong: onto a topic that keeps what it is given, the copy stamps records itself.
    """
    found = values.get(TIMESTAMP_TYPE) or CREATE_TIME
    if destination.timestamp_mode is TimestampMode.DESTINATION or found == CREATE_TIME:
        return None
    return UnsupportedError(
        f"destination topic {name} has {TIMESTAMP_TYPE}={found}: it would replace every timestamp, and "
        f"`timestamp-mode` is `{destination.timestamp_mode.value}`",
        hint=f"set {TIMESTAMP_TYPE}={CREATE_TIME} on {name}, or `timestamp-mode: destination`",
        topic=name,
    )
