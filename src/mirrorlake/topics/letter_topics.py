"""The topics that dead letters go to: how one is made, and what is wrong with the one that is there. Pure."""

from collections.abc import Collection, Mapping, Sequence

from mirrorlake.config.assignments import is_read_from
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.resolved import Mirror
from mirrorlake.destinations.size_limit import batch_bytes_max_of
from mirrorlake.errors import CollisionError, LoopError, MirrorlakeError, TopicMissingError, UnsupportedError
from mirrorlake.kafka.control.descriptions import ClusterMetadata
from mirrorlake.sources.client import SourceTopic
from mirrorlake.topics.destination_topics import replication_of
from mirrorlake.topics.targets import TopicCreation, is_compacted

HEADERS_BYTES_MAX = 4096
"""What a dead letter takes more than its record: names of topics have up to 249 characters, a cluster's id has 22."""


def letters_topic(mirror: Mirror, topic: str) -> str:
    """Returns where dead letters of a source topic go; empty where there are none."""
    schemas = mirror.schemas_of(topic)
    return schemas.letters_topic(topic) if schemas is not None else ""


def without_own_letters(mirror: Mirror, topics: Sequence[SourceTopic]) -> list[SourceTopic]:
    """Returns topics without those that hold the mirror's own dead letters, which an expression selects too.

    Those that are given by name stay, and are refused.
    """
    if not any(is_read_from(mirror.source, each) for each in mirror.destinations):
        return list(topics)
    own = {letters_topic(mirror, topic.name) for topic in topics}
    return [topic for topic in topics if topic.name not in own or topic.name in mirror.source.topics.names]


def letters_creation(
    name: str, destination: KafkaDestination, topic: SourceTopic, source_configs: Mapping[str, str | None]
) -> TopicCreation:
    """Returns a topic for dead letters as it is to be made: with as many partitions and replicas as a copy.

    Nothing is deleted of it: a letter is a record that is nowhere else, and its time may be an old one.
    """
    return TopicCreation(
        topic=name,
        partitions=destination.partition_rule.count_for(topic.partition_count),
        replication_factor=replication_of(destination, topic) or -1,
        configs={
            "cleanup.policy": "delete",
            "max.message.bytes": str(batch_bytes_max_of(source_configs) + HEADERS_BYTES_MAX),
            "retention.bytes": "-1",
            "retention.ms": "-1",
        },
    )


def letters_error(
    name: str, destination: KafkaDestination, there: ClusterMetadata, configs: Mapping[str, str | None]
) -> MirrorlakeError | None:
    """Returns what is wrong with a topic for dead letters as it is, or is not; None if nothing.

    Args:
        name: of the topic.
        destination: says whether it may be made.
        there: of the destination cluster, with the topic where it has it.
        configs: of the topic; empty where it is not there.
    """
    cluster = destination.cluster.name
    if name not in there.topics:
        if name in there.errors or destination.creates_topics:
            return there.errors.get(name)
        return TopicMissingError(
            f"topic {name}, for dead letters, does not exist on cluster {cluster}",
            hint="create it, or let it be made by `create-topics`",
            topic=name,
        )
    if is_compacted(configs):
        return UnsupportedError(
            f"topic {name} of cluster {cluster} is compacted, and dead letters of one key would take one another away",
            hint=f"set cleanup.policy=delete on {name}, or name another topic in `dead-letters`",
            topic=name,
        )
    return None


def clash_with_letters(
    topic: str, copy: str, letters: Collection[str], *, is_same_cluster: bool
) -> MirrorlakeError | None:
    """Returns why a topic is not copied: it would go into a topic for dead letters of its mirror, or is one.

    Args:
        topic: of the source.
        copy: where it goes.
        letters: the topics for dead letters of the mirror at the destination.
        is_same_cluster: whether the mirror reads from the cluster it writes to.
    """
    if copy in letters:
        return CollisionError(
            f"topic {topic} would go to {copy}, which takes dead letters of the same mirror",
            hint="give `dead-letters` another topic, or exclude the topic",
            topic=topic,
        )
    if is_same_cluster and topic in letters:
        return LoopError(
            f"records would go round: topic {topic} takes dead letters of the same mirror",
            hint="give `dead-letters` another topic, or exclude the topic",
            topic=topic,
        )
    return None
