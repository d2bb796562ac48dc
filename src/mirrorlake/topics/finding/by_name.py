"""Targets where the configuration alone says where a topic goes."""

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.client import SourceTopic
from mirrorlake.topics.finding.look import SourceLook
from mirrorlake.topics.targets import Target


async def targets_by_name(look: SourceLook, destination: Destination) -> list[Target]:
    """Returns a target for each partition, of the name the configuration gives its topic; asks nobody."""
    return [
        target
        for topic in look.topics
        for target in targets_named(look, destination, topic, destination.name_for(topic.name))
    ]


def targets_named(look: SourceLook, destination: Destination, topic: SourceTopic, name: str) -> list[Target]:
    """Returns a target for each partition of a topic, of a name that is no topic's."""
    values = look.values(look.configs, topic.name)
    return [
        Target(
            mirror=look.mirror,
            destination=destination,
            source_work=look.work,
            source=TopicPartition(topic.name, partition),
            source_cluster_id=look.source_id,
            topic_id=topic.topic_id,
            destination_topic=name,
            source_partitions=topic.partition_count,
            source_configs=values,
            error=look.no_partition(topic, partition),
        )
        for partition in look.partitions(topic)
    ]
