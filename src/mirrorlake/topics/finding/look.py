"""What a look at a mirror's source has found, and what of that holds for every destination."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.resolved import Mirror
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError, TopicMissingError
from mirrorlake.kafka.control.descriptions import ConfigValue
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.client import SourceClient, SourceTopic
from mirrorlake.sources.source import SourceWork
from mirrorlake.topics.destination_topics import TopicConfigs, values_of
from mirrorlake.topics.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLook:
    """A mirror, and what its source has now.

    ``topics`` are those it copies, ``configs`` their settings. ``everyone`` are all mirrors of the configuration,
    ``clients`` those of the clusters. ``outside`` says of partitions why their ends are not known.
    """

    mirror: Mirror
    everyone: Sequence[Mirror]
    clients: WorkerCache
    work: SourceWork
    client: SourceClient
    source_id: str
    topics: Sequence[SourceTopic]
    configs: TopicConfigs
    outside: Mapping[TopicPartition, MirrorlakeError]
    known_values: dict[int, tuple[Mapping[str, ConfigValue], Mapping[str, str | None]]] = field(default_factory=dict)

    def partitions(self, topic: SourceTopic) -> list[int]:
        """Returns the numbers of a topic's partitions that are copied, ascending."""
        return partitions_of(self.mirror, topic)

    def no_partition(self, topic: SourceTopic, partition: int) -> MirrorlakeError | None:
        """Returns why a partition cannot be read; None where it can."""
        if partition in topic.partitions:
            return self.outside.get(TopicPartition(topic.name, partition))
        return TopicMissingError(
            f"source topic {topic.name} has no partition {partition}, it has {topic.partition_count}",
            hint="correct the partition",
            topic=topic.name,
            partition=partition,
        )

    def values(self, configs: TopicConfigs, topic: str) -> Mapping[str, str | None]:
        """Returns what `values_of` does, once for all topics that share their configurations."""
        held = configs.get(topic)
        if held is None:
            return {}
        # The mapping is kept beside its values: the number of one that is gone may be another's.
        known = self.known_values.get(id(held))
        if known is None:
            known = self.known_values[id(held)] = held, values_of(configs, topic)
        return known[1]

    def targets(self, destination: Destination, topic: SourceTopic, name: str) -> list[Target]:
        """Returns a target for each partition of a topic, of the name it has there: what the source alone tells."""
        values = self.values(self.configs, topic.name)
        return [
            Target(
                mirror=self.mirror,
                destination=destination,
                source_work=self.work,
                source=TopicPartition(topic.name, partition),
                source_cluster_id=self.source_id,
                topic_id=topic.topic_id,
                destination_topic=name,
                source_partitions=topic.partition_count,
                source_configs=values,
                error=self.no_partition(topic, partition),
            )
            for partition in self.partitions(topic)
        ]

    def refused(self, destination: Destination, error: MirrorlakeError) -> list[Target]:
        """Returns the targets of a destination of which nothing can be found out."""
        return [
            refused_target(self.mirror, destination, self.work, TopicPartition(topic.name, partition), error)
            for topic in self.topics
            for partition in self.partitions(topic)
        ]


def partitions_of(mirror: Mirror, topic: SourceTopic) -> list[int]:
    """Returns the numbers of a topic's partitions that a mirror copies, ascending."""
    wanted = mirror.source.partitions
    return sorted(topic.partitions) if wanted is None else sorted(wanted)


def refused_target(
    mirror: Mirror, destination: Destination, work: SourceWork, source: TopicPartition, error: MirrorlakeError
) -> Target:
    """Returns a target of which nothing is known but why it cannot be copied."""
    return Target(
        mirror=mirror,
        destination=destination,
        source_work=work,
        source=source,
        destination_topic=destination.name_for(source.topic),
        error=error,
    )
