"""The topics that heartbeats lie in: who copies them, and which of them nothing may be written to. Pure."""

from collections.abc import Iterable, Sequence

from mirrorlake.config.resolved import Mirror
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import CollisionError
from mirrorlake.sources.client import SourceTopic
from mirrorlake.topics.clashes import BACK_SUFFIX, origins_of

MADE_LIKE = {"cleanup.policy": "delete", "retention.ms": str(7 * 86_400_000), "message.timestamp.type": "CreateTime"}
"""Of a topic that is made. Seven days are what Kafka keeps of any topic, so that a copy that stood still finds its
place again where the others do: some 20 MB at a heartbeat every ten seconds."""


def without_heartbeats_of_others(
    mirror: Mirror, mirrors: Iterable[Mirror], topics: Sequence[SourceTopic]
) -> list[SourceTopic]:
    """Returns topics without those that hold heartbeats of other mirrors of the same source alone.

    Each mirror copies its own, which says what it is worth. Those that are given by name stay.

    Args:
        mirror: whose expressions have selected the topics.
        mirrors: all that are configured.
        topics: of its source.
    """
    source = mirror.source
    if not isinstance(source, KafkaSource):
        return list(topics)
    others = {
        each.heartbeats.topic
        for each in mirrors
        if each.heartbeats is not None
        and isinstance(each.source, KafkaSource)
        and each.source.cluster.is_same_as(source.cluster)
    }
    return [topic for topic in topics if topic.name not in others or topic.name in source.topics.known_names]


def copied_into(mirror: str, topic: str, states: dict[str, OwnerState]) -> CollisionError | None:
    """Returns why no heartbeats are written to a topic: it is the copy of another one. None where it is not.

    A way back that has ended (``failback``) made no copy of it, but brought back what was its own.

    Args:
        mirror: whose heartbeats they would be.
        topic: of its source.
        states: the state records of that very cluster.
    """
    for origin in origins_of(topic, states):
        if origin.mirror == f"{mirror}{BACK_SUFFIX}" and not origin.is_held:
            continue
        return CollisionError(
            f"mirror {origin.mirror} copies {origin.topic} of another cluster to topic {topic}, so mirror {mirror} "
            "writes no heartbeats there",
            hint="name another topic in its `heartbeats`, such as `mirrorlake.heartbeats.{mirror}`",
            topic=topic,
            mirror=origin.mirror,
        )
    return None


def remark_of(mirror: Mirror) -> str:
    """Returns what people are told of the heartbeats of a mirror before it runs; empty where it has none."""
    heartbeats = mirror.heartbeats
    if heartbeats is None:
        return ""
    return (
        f"mirror {mirror.name}: `run` writes a heartbeat every {heartbeats.interval_seconds:g} s to topic "
        f"{heartbeats.topic} of {mirror.source.label}, which is its source, and makes that topic where it is not there"
    )
