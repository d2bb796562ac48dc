"""How the native form says that a mirror has heartbeats, and where they cannot be."""

from collections.abc import Sequence
from dataclasses import replace

from mirrorlake.config import section as fields
from mirrorlake.config.assignments import named_assignments
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.document import Document
from mirrorlake.config.problems import FieldPath, ProblemList
from mirrorlake.config.resolved import Heartbeats, Mirror
from mirrorlake.config.section import Section, lasting, option
from mirrorlake.config.sources.source import KafkaSource, Source
from mirrorlake.config.values.names import topic_flaw

HEARTBEATS_PARTITION = 0
"""The one that a topic of heartbeats has, and the one that is written to where somebody made more."""


class HeartbeatsForm(Section):
    """A record every few seconds, written to a topic of the source cluster while `run` serves the mirror.

    The topic is made where it is not there, and copied by this mirror whether `source.topics` selects it or not.
    """

    topic: fields.Template = option(
        "mirrorlake.heartbeats.{mirror}",
        "The topic at the source cluster; knows `{mirror}` and `{cluster}`. Mirrors of one source may share one.",
    )
    interval: fields.HeartbeatsTime = lasting("10s", "Time between two heartbeats.")
    replication_factor: fields.Replication | None = option(
        None, "Of the topic, where it is made; left out, the source cluster decides."
    )


def heartbeats_of(
    form: HeartbeatsForm | None, topic: str, source: Source, path: FieldPath, document: Document
) -> Heartbeats | None:
    """Returns the heartbeats of a mirror, or None where it has none, or after noting that its source takes none.

    Args:
        form: as it stands in the file.
        topic: its topic, with mirror and cluster filled in.
        source: of the mirror.
        path: of the form.
        document: the file; takes what is wrong.
    """
    if form is None:
        return None
    if not isinstance(source, KafkaSource):
        document.note(path, "has no meaning for an archive as source", "heartbeats are written to a cluster")
        return None
    if "{topic}" in topic:
        document.note((*path, "topic"), "the placeholder {topic} is not known", "it knows {mirror} and {cluster}")
        return None
    return Heartbeats(
        topic=topic,
        interval_seconds=form.interval,
        replication_factor=form.replication_factor,
        place=document.place(path),
    )


def with_heartbeats(source: Source, heartbeats: Heartbeats | None) -> Source:
    """Returns the source with the topic of heartbeats among those that are copied, or with none. Pure."""
    return replace(source, topics=replace(source.topics, heartbeats=heartbeats.topic if heartbeats else ""))


def check_heartbeats(mirrors: Sequence[Mirror], problems: ProblemList) -> None:
    """Notes heartbeats that would not be copied, or that would lie among records of others."""
    for mirror in mirrors:
        if mirror.heartbeats is not None:
            _check_topic(mirror, mirror.heartbeats, problems)
            _check_destinations(mirror, mirror.heartbeats, problems)
            _check_copies(mirror, mirror.heartbeats, mirrors, problems)


def _check_topic(mirror: Mirror, heartbeats: Heartbeats, problems: ProblemList) -> None:
    source, topic = mirror.source, heartbeats.topic
    if flaw := topic_flaw(topic):
        problems.add(heartbeats.place, f"heartbeats would go to topic `{topic}`", flaw)
    if source.topics.excludes(topic):
        message = f"the mirror excludes topic {topic}, which its heartbeats go to"
        problems.add(heartbeats.place, message, "take it out of `exclude`, or name another topic")
    if source.partitions is not None and HEARTBEATS_PARTITION not in source.partitions:
        message = f"heartbeats go to partition {HEARTBEATS_PARTITION} of {topic}, which is not mirrored"
        problems.add(heartbeats.place, message, "give them a mirror of their own")


def _check_destinations(mirror: Mirror, heartbeats: Heartbeats, problems: ProblemList) -> None:
    for destination in mirror.destinations:
        template, branch = destination.name_for("{topic}"), destination.branch
        if branch is not None:
            if branch.topic == branch.topics[0]:
                message = "heartbeats have no topic among those of a route"
                problems.add(heartbeats.place, message, "give them a mirror of their own")
        elif "{topic}" not in template:
            message = f"heartbeats would be copied to `{template}` of {destination.label}, as everything of the mirror"
            problems.add(heartbeats.place, message, "use `{topic}` there, or give them a mirror of their own")


def _check_copies(mirror: Mirror, heartbeats: Heartbeats, mirrors: Sequence[Mirror], problems: ProblemList) -> None:
    """Notes a topic that a mirror copies to: what is written there is not in the source of the copy."""
    assert isinstance(mirror.source, KafkaSource)
    cluster = mirror.source.cluster
    for copied in named_assignments(mirrors):
        there = copied.destination
        is_same = isinstance(there, KafkaDestination) and there.cluster.is_same_as(cluster)
        if is_same and copied.mirror is not mirror and copied.destination_name == heartbeats.topic:
            message = (
                f"heartbeats would go to topic {heartbeats.topic} of cluster {cluster.name}, which mirror "
                f"{copied.mirror.name} copies {copied.topic} to"
            )
            problems.add(heartbeats.place, message, "name another topic, such as `mirrorlake.heartbeats.{mirror}`")
            return
