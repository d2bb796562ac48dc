"""Finds the targets of a configuration by asking the clusters; reads only."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.config.destinations.archive import ArchiveDestination, Compaction
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.size_limit import batch_bytes_max_of
from mirrorlake.destinations.transactions.owner_states import OwnerState, find_states
from mirrorlake.errors import (
    LoopError,
    MirrorlakeError,
    TopicMissingError,
)
from mirrorlake.kafka.control.descriptions import ClusterMetadata, ConfigValue, TopicMetadata
from mirrorlake.kafka.control.topic_configs import read_topic_configs
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.client import SourceTopic, SourceTopics
from mirrorlake.stores.opening import open_store
from mirrorlake.together import all_of
from mirrorlake.topics.archive_folders import ArchivedTopic, find_folder
from mirrorlake.topics.clashes import Way, judged_together, origins_of
from mirrorlake.topics.destination_topics import (
    TopicConfigs,
    clock_error,
    count_error,
    creation_of,
    growth_of,
    not_created,
    route_error,
    rule_error,
    values_of,
)
from mirrorlake.topics.destination_versions import check_destination
from mirrorlake.topics.found_filled import with_what_is_there
from mirrorlake.topics.handover import States, known_of, with_configured_partitions
from mirrorlake.topics.heartbeat_topics import without_heartbeats_of_others
from mirrorlake.topics.letter_topics import (
    clash_with_letters,
    letters_creation,
    letters_error,
    letters_topic,
    without_own_letters,
)
from mirrorlake.topics.map_topics import NOT_MAPPED, find_mapped
from mirrorlake.topics.provenance import Placement, place
from mirrorlake.topics.sources import identified, source_of, window_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target, TopicCreation, TopicGrowth
from mirrorlake.topics.verdicts import judged
from mirrorlake.topics.windows import with_window


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
    found = await all_of(_MirrorDiscovery(m, clients, everyone).targets() for m in mirrors)
    return judged_together([target for targets in found for target in targets], everyone, served)


class _MirrorDiscovery:
    """Finds one mirror's targets; ``everyone`` are all mirrors of the configuration."""

    def __init__(self, mirror: Mirror, clients: WorkerCache, everyone: Sequence[Mirror]) -> None:
        self._mirror = mirror
        self._everyone = everyone
        self._clients = clients
        self._source_work = source_of(mirror)
        self._source = self._source_work.client(clients)
        self._outside: Mapping[TopicPartition, MirrorlakeError] = {}
        self._not_due: frozenset[TopicPartition] = frozenset()
        self._known_values: dict[int, tuple[Mapping[str, ConfigValue], Mapping[str, str | None]]] = {}

    async def targets(self) -> list[Target]:
        selection = self._mirror.source.topics
        try:
            asked = None if selection.needs_discovery else sorted(selection.known_names)
            source = await self._source.topics(asked)
            self._source_work = identified(self._source_work, source.source_id)
            # An archive of mirror-v3 has no marker: it is known by its place.
            source = source if source.source_id else replace(source, source_id=self._unnamed())
            missing = [name for name in selection.names if name not in source.topics]
            missing += self._unread(source, missing)
            chosen = [t for n, t in sorted(source.topics.items()) if selection.selects(n) and not t.is_internal]
            chosen = without_own_letters(self._mirror, chosen)
            chosen = without_heartbeats_of_others(self._mirror, self._everyone, chosen)
            configs = await self._source.topic_configs([t.name for t in chosen])
            await self._find_window(chosen)
        except MirrorlakeError as error:
            names = selection.names or ("(by pattern)",)
            return [self._refused(d, TopicPartition(n, UNKNOWN_PARTITION), error) for n in names for d in self._all()]
        targets = [self._missing(name, d, source.errors.get(name)) for name in missing for d in self._all()]
        copies = await self._copies()
        for destination in self._all():
            if isinstance(destination, KafkaDestination):
                found = await self._to_kafka(destination, source.source_id, chosen, configs)
                targets += _with_origins(found, copies)
            else:
                for topic in chosen:
                    targets += await asyncio.to_thread(self._to_archive, destination, source.source_id, topic, configs)
        if self._not_due:
            targets = [replace(each, is_due=each.source not in self._not_due) for each in targets]
        return sorted(targets, key=lambda t: (t.source, [d.label for d in self._all()].index(t.destination.label)))

    def _unread(self, source: SourceTopics, missing: Sequence[str]) -> list[str]:
        """Returns the topics that an expression selects and that could not be looked into: they are there all the same.

        One that was deleted between two requests is not.
        """
        errors = sorted(source.errors.items())
        unread = [name for name, error in errors if not isinstance(error, TopicMissingError)]
        return [name for name in unread if name not in missing and self._mirror.source.topics.selects(name)]

    async def _find_window(self, topics: Sequence[SourceTopic]) -> None:
        """Bounds the source by the mirror's window; what is found is of this look."""
        partitions = [
            TopicPartition(topic.name, partition)
            for topic in topics
            for partition in self._partitions(topic)
            if partition in topic.partitions
        ]
        found = await with_window(self._source_work, window_of(self._mirror), partitions, self._clients)
        self._source_work, self._outside, self._not_due = found.work, found.errors, found.not_due

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
            return self._outside.get(TopicPartition(topic.name, partition))
        return TopicMissingError(
            f"source topic {topic.name} has no partition {partition}, it has {topic.partition_count}",
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
                source_partitions=topic.partition_count,
                source_configs=values_of(configs, topic.name),
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
            letters = {name for topic in topics if (name := letters_topic(self._mirror, topic.name))}
            there = await client.metadata([*names, *sorted(letters)], refresh=True)
            known = [name for name in {*names, *letters} if name in there.topics]
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
            self._kafka_targets(destination, places[topic.name], source_id, topic, configs, there, there_configs, own)
            for topic in topics
        ]
        if letters:
            found = [
                [self._with_letters(target, destination, topic, letters, there, there_configs) for target in targets]
                for topic, targets in zip(topics, found, strict=True)
            ]
        sound = [target for targets in found for target in await judged(targets, states, client)]
        return [mapped.added_to(target) for target in await with_what_is_there(sound, states, client, self._source)]

    def _values(self, configs: TopicConfigs, topic: str) -> Mapping[str, str | None]:
        """Returns what `values_of` does, once for all topics that share their configurations."""
        held = configs.get(topic)
        if held is None:
            return {}
        # The mapping is kept beside its values: the number of one that is gone may be another's.
        known = self._known_values.get(id(held))
        if known is None:
            known = self._known_values[id(held)] = held, values_of(configs, topic)
        return known[1]

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
        owner: OwnerState | None,
    ) -> list[Target]:
        name = placed.topic
        held = there.topics.get(name)
        creation = creation_of(name, destination, topic, configs) if held is None or placed.replaces else None
        values = self._values(there_configs, name) if held is not None or creation is None else creation.configs
        source_values = self._values(configs, topic.name)
        growth, error = self._count(destination, placed, topic, there)
        error = error or self._own_origin(topic, held) or clock_error(destination, name, values)
        count = _partitions_of(held, creation, topic)
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
                destination_partitions=count,
                destination_cluster_id=there.cluster_id or "",
                batch_bytes_max=batch_bytes_max_of(values),
                source_configs=source_values,
                destination_configs=values,
                owner=owner,
                creation=creation,
                replaces=placed.replaces,
                growth=growth,
                error=self._no_partition(topic, partition)
                or error
                or route_error(name, topic, partition, destination, count=count, is_there=held is not None),
            )
            for partition in self._partitions(topic)
        ]

    def _with_letters(
        self,
        target: Target,
        destination: KafkaDestination,
        topic: SourceTopic,
        letters: Collection[str],
        there: ClusterMetadata,
        there_configs: TopicConfigs,
    ) -> Target:
        """Returns a target with what has to be done about its topic for dead letters, or what is wrong with that."""
        if target.error is not None:
            return target
        name = letters_topic(self._mirror, topic.name)
        is_same_cluster = target.source_cluster_id == target.destination_cluster_id != ""
        error = clash_with_letters(topic.name, target.destination_topic, letters, is_same_cluster=is_same_cluster)
        if not name:  # heartbeats have no letters, whatever the mirror's other topics have
            return replace(target, error=error)
        values = values_of(there_configs, name)
        error = error or letters_error(name, destination, there, values)
        if error is not None or name in there.topics:
            return replace(target, error=error, letters_bytes_max=batch_bytes_max_of(values) if error is None else 0)
        return replace(target, letters_creation=letters_creation(name, destination, topic, target.source_configs))

    def _count(
        self, destination: KafkaDestination, placed: Placement, topic: SourceTopic, there: ClusterMetadata
    ) -> tuple[TopicGrowth | None, MirrorlakeError | None]:
        """Returns how the destination topic is to grow, or why it cannot be one, as far as its partitions go."""
        held = there.topics.get(placed.topic)
        if held is None:
            error = there.errors.get(placed.topic)  # such as no right to see whether it is there
            if error is None and not destination.creates_topics:
                return None, not_created(placed.topic, topic, destination)
            return None, error or rule_error(self._mirror, placed.topic, topic, destination)
        if placed.replaces:
            return None, rule_error(self._mirror, placed.topic, topic, destination)
        if destination.offsets is OffsetMode.MAP:
            return None, None  # any number of partitions will do
        growth = growth_of(self._mirror, topic, held, destination)
        if growth is not None and (refused := rule_error(self._mirror, placed.topic, topic, destination)):
            return None, refused
        return growth, None if growth else count_error(self._mirror, topic, held, destination)

    def _unnamed(self) -> str:
        """Returns what tells a source from others that has no id of its own; empty where nothing does."""
        return self._source_work.place if isinstance(self._mirror.source, ArchiveSource) else ""

    def _own_origin(self, topic: SourceTopic, held: TopicMetadata | None) -> MirrorlakeError | None:
        """Returns why an archive is not brought back into the very topic it is made of, which is there still."""
        is_itself = held is not None and held.topic_id == topic.topic_id != ""
        if held is None or not is_itself or not isinstance(self._mirror.source, ArchiveSource):
            return None
        return LoopError(
            f"records would go round: topic {held.name} (topic id {held.topic_id}) is the one that "
            f"{self._source_work.label} was made of",
            hint="bring it back to a topic of another name, or delete what is left of this one first",
            topic=topic.name,
            origin=held.name,
        )


def _partitions_of(held: TopicMetadata | None, creation: TopicCreation | None, topic: SourceTopic) -> int:
    """Returns how many partitions a destination topic has, or will have where it is not there."""
    if held is not None:
        return len(held.partitions)
    return creation.partitions if creation is not None else topic.partition_count


def _with_origins(targets: Sequence[Target], copies: States | MirrorlakeError) -> list[Target]:
    if isinstance(copies, MirrorlakeError):
        return [replace(target, origins_unread=copies) for target in targets]
    origins = {topic: origins_of(topic, copies) for topic in {target.source.topic for target in targets}}
    return [replace(target, origins=found) if (found := origins[target.source.topic]) else target for target in targets]
