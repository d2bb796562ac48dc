"""Targets in topics of a Kafka cluster, of which the cluster is asked."""

from collections.abc import Collection
from dataclasses import replace

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.destinations.size_limit import batch_bytes_max_of
from mirrorlake.destinations.transactions.owner_states import OwnerState, find_states
from mirrorlake.errors import LoopError, MirrorlakeError
from mirrorlake.kafka.control.descriptions import ClusterMetadata, TopicMetadata
from mirrorlake.kafka.control.topic_configs import read_topic_configs
from mirrorlake.sources.client import SourceTopic
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
from mirrorlake.topics.finding.look import SourceLook
from mirrorlake.topics.found_filled import with_what_is_there
from mirrorlake.topics.handover import States, known_of, with_configured_partitions
from mirrorlake.topics.letter_topics import clash_with_letters, letters_creation, letters_error, letters_topic
from mirrorlake.topics.map_topics import NOT_MAPPED, find_mapped
from mirrorlake.topics.provenance import Placement, place
from mirrorlake.topics.targets import Target, TopicCreation, TopicGrowth
from mirrorlake.topics.verdicts import judged


async def targets_at_cluster(look: SourceLook, destination: Destination) -> list[Target]:
    """Returns a target for each partition, with what the destination cluster has of it, lacks or refuses."""
    assert isinstance(destination, KafkaDestination)
    return await _ClusterFinder(look, destination).targets()


class _ClusterFinder:
    def __init__(self, look: SourceLook, destination: KafkaDestination) -> None:
        self._look = look
        self._destination = destination

    async def targets(self) -> list[Target]:
        """Returns the targets, judged by what the cluster holds already."""
        look, destination = self._look, self._destination
        client = look.clients.client(destination.cluster.settings)
        try:
            await check_destination(client, mode=destination.offsets)
            states = with_configured_partitions(await find_states(client), look.everyone)
            places = {topic.name: self._place(topic, states) for topic in look.topics}
            names = [place.topic for place in places.values()]
            letters = {name for topic in look.topics if (name := letters_topic(look.mirror, topic.name))}
            there = await client.metadata([*names, *sorted(letters)], refresh=True)
            known = [name for name in {*names, *letters} if name in there.topics]
            there_configs = await read_topic_configs(client, known)
            own = states.get(look.mirror.name)
            mapped = await find_mapped(client, look.mirror.name, own, names) if destination.is_mapped else NOT_MAPPED
        except MirrorlakeError as error:
            return look.refused(destination, error)
        found = [self._of_topic(places[topic.name], topic, there, there_configs, own) for topic in look.topics]
        if letters:
            found = [
                [self._with_letters(target, topic, letters, there, there_configs) for target in targets]
                for topic, targets in zip(look.topics, found, strict=True)
            ]
        sound = [target for targets in found for target in await judged(targets, states, client)]
        return [mapped.added_to(target) for target in await with_what_is_there(sound, states, client, look.client)]

    def _place(self, topic: SourceTopic, states: States) -> Placement:
        mirror, base = self._look.mirror, self._destination.name_for(topic.name)
        is_mapped = self._destination.is_mapped
        state = states.get(mirror.name)
        if not is_mapped:
            state = known_of(
                states, mirror=mirror.name, base=base, topic=topic.name, source_cluster_id=self._look.source_id
            )
        placed = place(base, topic=topic.name, topic_id=topic.topic_id, policy=mirror.on_recreate, state=state)
        # What others may have written is not deleted; mapped copies begin anew in the topic as it is.
        return Placement(topic=placed.topic) if is_mapped else placed

    def _of_topic(
        self,
        placed: Placement,
        topic: SourceTopic,
        there: ClusterMetadata,
        there_configs: TopicConfigs,
        owner: OwnerState | None,
    ) -> list[Target]:
        look, destination, name = self._look, self._destination, placed.topic
        held = there.topics.get(name)
        creation = creation_of(name, destination, topic, look.configs) if held is None or placed.replaces else None
        values = look.values(there_configs, name) if held is not None or creation is None else creation.configs
        growth, error = self._count(placed, topic, there)
        error = error or self._own_origin(topic, held) or clock_error(destination, name, values)
        count = _partitions_of(held, creation, topic)
        return [
            replace(
                target,
                destination_topic_id=held.topic_id if held else "",
                destination_partitions=count,
                destination_cluster_id=there.cluster_id or "",
                batch_bytes_max=batch_bytes_max_of(values),
                destination_configs=values,
                owner=owner,
                creation=creation,
                replaces=placed.replaces,
                growth=growth,
                error=target.error
                or error
                or route_error(
                    name, topic, target.source.partition, destination, count=count, is_there=held is not None
                ),
            )
            for target in look.targets(destination, topic, name)
        ]

    def _with_letters(
        self,
        target: Target,
        topic: SourceTopic,
        letters: Collection[str],
        there: ClusterMetadata,
        there_configs: TopicConfigs,
    ) -> Target:
        """Returns a target with what has to be done about its topic for dead letters, or what is wrong with that."""
        if target.error is not None:
            return target
        destination, name = self._destination, letters_topic(self._look.mirror, topic.name)
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
        self, placed: Placement, topic: SourceTopic, there: ClusterMetadata
    ) -> tuple[TopicGrowth | None, MirrorlakeError | None]:
        """Returns how the destination topic is to grow, or why it cannot be one, as far as its partitions go."""
        mirror, destination = self._look.mirror, self._destination
        held = there.topics.get(placed.topic)
        if held is None:
            error = there.errors.get(placed.topic)  # such as no right to see whether it is there
            if error is None and not destination.creates_topics:
                return None, not_created(placed.topic, topic, destination)
            return None, error or rule_error(mirror, placed.topic, topic, destination)
        if placed.replaces:
            return None, rule_error(mirror, placed.topic, topic, destination)
        if destination.is_mapped:
            return None, None  # any number of partitions will do
        growth = growth_of(mirror, topic, held, destination)
        if growth is not None and (refused := rule_error(mirror, placed.topic, topic, destination)):
            return None, refused
        return growth, None if growth else count_error(mirror, topic, held, destination)

    def _own_origin(self, topic: SourceTopic, held: TopicMetadata | None) -> MirrorlakeError | None:
        """Returns why an archive is not brought back into the very topic it is made of, which is there still."""
        is_itself = held is not None and held.topic_id == topic.topic_id != ""
        if held is None or not is_itself or not isinstance(self._look.mirror.source, ArchiveSource):
            return None
        return LoopError(
            f"records would go round: topic {held.name} (topic id {held.topic_id}) is the one that "
            f"{self._look.work.label} was made of",
            hint="bring it back to a topic of another name, or delete what is left of this one first",
            topic=topic.name,
            origin=held.name,
        )


def _partitions_of(held: TopicMetadata | None, creation: TopicCreation | None, topic: SourceTopic) -> int:
    """Returns how many partitions a destination topic has, or will have where it is not there."""
    if held is not None:
        return len(held.partitions)
    return creation.partitions if creation is not None else topic.partition_count
