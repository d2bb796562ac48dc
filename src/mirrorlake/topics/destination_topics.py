"""What a destination topic should be like, and what is wrong with the one that is there. Pure."""

from collections.abc import Mapping

from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode, TimestampMode
from mirrorlake.config.resolved import Mirror
from mirrorlake.config.topics.policy import SyncMode
from mirrorlake.destinations.record_clock import CREATE_TIME, LOG_APPEND_TIME, TIMESTAMP_TYPE
from mirrorlake.errors import MirrorlakeError, PartitionCountError, TopicMissingError, UnsupportedError
from mirrorlake.kafka.control.descriptions import ConfigValue, TopicMetadata
from mirrorlake.sources.client import SourceTopic
from mirrorlake.topics.targets import TopicCreation, TopicGrowth

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


def creation_of(name: str, destination: KafkaDestination, topic: SourceTopic, configs: TopicConfigs) -> TopicCreation:
    """Returns the destination topic as it is to be made: by default with the source's partitions and settings."""
    chosen = wanted_configs(destination, configs.get(topic.name, {}))
    # Said in both modes: the destination's brokers may stamp their own times unless a topic says otherwise.
    is_stamped = destination.timestamp_mode is TimestampMode.DESTINATION
    chosen[TIMESTAMP_TYPE] = LOG_APPEND_TIME if is_stamped else CREATE_TIME
    return TopicCreation(
        topic=name,
        partitions=destination.partition_rule.count_for(topic.partition_count),
        replication_factor=replication_of(destination, topic) or -1,
        configs=chosen,
    )


def wanted_configs(destination: KafkaDestination, source: Mapping[str, ConfigValue]) -> dict[str, str]:
    """Returns what a copy has set: every setting the source's owner chose, as far as wanted, and what goes over it.

    Whose times records have is no matter of the source: it is not in it.
    """
    chosen = {
        key: value.value
        for key, value in source.items()
        if value.value is not None and is_copied(destination, key) and is_chosen(key, value)
    }
    return dict(sorted((chosen | dict(destination.sync.override)).items()))


def is_copied(destination: KafkaDestination, key: str) -> bool:
    """Tells whether the source decides a setting of the copy's, where it has it."""
    return key != TIMESTAMP_TYPE and destination.sync.copies(key, usually=key not in NOT_COPIED_CONFIGS)


def is_chosen(key: str, value: ConfigValue) -> bool:
    """Tells whether somebody chose it: for the topic, or, of what deletes and refuses records, for all the brokers."""
    return not value.is_default or (key in KEEPING_CONFIGS and value.source != "DEFAULT_CONFIG")


def replication_of(destination: KafkaDestination, topic: SourceTopic) -> int | None:
    """Returns how many replicas a copy is to have; None where that is the destination cluster's to decide."""
    rule = destination.replication_rule
    if rule is None or (rule.fixed is None and topic.replicas is None):
        return None
    return rule.count_for(topic.replicas or 0)


def rule_error(mirror: Mirror, name: str, topic: SourceTopic, destination: KafkaDestination) -> MirrorlakeError | None:
    """Returns why partitions by the rule cannot hold a copy with equal offsets; None where they can."""
    given = destination.partition_rule.count_for(topic.partition_count)
    is_chosen_one_by_one = mirror.source.partitions is not None
    needed = partitions_needed(mirror, topic)
    if destination.offsets is OffsetMode.MAP or given == needed or (is_chosen_one_by_one and given > needed):
        return None
    return PartitionCountError(
        f"`create-topics` gives destination topic {name} on cluster {destination.cluster.name} {given} partition(s) by "
        f"`partitions: {destination.partition_rule.text}`, and source topic {topic.name} has {needed}: equal offsets "
        "need as many",
        hint=f"let the rule give {needed}, or use `offsets: map`",
        source_partitions=needed,
        destination_partitions=given,
    )


def route_error(
    name: str, source: SourceTopic, partition: int, destination: KafkaDestination, *, count: int, is_there: bool
) -> MirrorlakeError | None:
    """Returns why a topic of a route has no place for a source partition, which keeps its number; None where it has.

    Args:
        name: the topic.
        source: the source topic.
        partition: of the source topic.
        destination: where the topic is.
        count: how many partitions it has, or will have.
        is_there: False where it is yet to be made.
    """
    if destination.branch is None or partition < count:
        return None
    needed = source.partition_count
    add = f"add partitions to {name}: kafka-topics.sh --alter --topic {name} --partitions {needed}"
    return PartitionCountError(
        f"partition {partition} of source topic {source.name} has no partition of its number in {name} on cluster "
        f"{destination.cluster.name}, which {'has' if is_there else 'would have'} {count} of them: records keep their "
        "partition in a route",
        hint=add if is_there else f"let `create-topics` give {needed}, or make {name} yourself",
        source_partitions=needed,
        destination_partitions=count,
    )


def not_created(name: str, source: SourceTopic, destination: KafkaDestination) -> MirrorlakeError:
    """Returns the error of a destination topic that is not there, and that nobody here may create."""
    return TopicMissingError(
        f"destination topic {name} does not exist on cluster {destination.cluster.name}",
        hint=f"create it like the source: kafka-topics.sh --create --topic {name} --partitions "
        f"{source.partition_count}; the native form does so itself with `create-topics: true`",
        topic=name,
    )


def values_of(configs: TopicConfigs, topic: str) -> dict[str, str | None]:
    """Returns the settings of a topic, without where they come from; none of one that is not there."""
    return {key: value.value for key, value in configs.get(topic, {}).items()}


def clock_error(destination: KafkaDestination, name: str, values: Mapping[str, str | None]) -> MirrorlakeError | None:
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


def partitions_needed(mirror: Mirror, topic: SourceTopic) -> int:
    """Returns how many partitions a copy with equal offsets has, or has at least where they are chosen one by one."""
    wanted = mirror.source.partitions
    return topic.partition_count if wanted is None else max(wanted) + 1


def growth_of(
    mirror: Mirror, topic: SourceTopic, held: TopicMetadata, destination: KafkaDestination
) -> TopicGrowth | None:
    """Returns the partitions that the destination topic lacks and may be given; None where it lacks none."""
    wanted, found = partitions_needed(mirror, topic), len(held.partitions)
    if destination.partition_sync is not SyncMode.APPLY or found >= wanted:
        return None
    return TopicGrowth(topic=held.name, partitions_before=found, partitions=wanted)


def count_error(
    mirror: Mirror, topic: SourceTopic, held: TopicMetadata, destination: KafkaDestination
) -> MirrorlakeError | None:
    """Returns what is wrong with how many partitions a destination topic with equal offsets has; None if nothing."""
    wanted, found = partitions_needed(mirror, topic), len(held.partitions)
    # Of partitions that are chosen one by one the others are none of this mirror's business.
    if wanted == found or (mirror.source.partitions is not None and found > wanted):
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
