"""Which subjects hold the schemas of a topic's records, and what they are called where the topic is another. Pure.

Source: `TopicNameStrategy`, `RecordNameStrategy` and `TopicRecordNameStrategy` of Confluent's serializers.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

_RECORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
"""The full name of a record of Avro or a message of Protobuf. A title of JSON Schema may be anything."""


class SubjectStrategy(StrEnum):
    """How a serializer names the subject of a record's key or value."""

    TOPIC_NAME = "topic-name"
    RECORD_NAME = "record-name"
    TOPIC_RECORD_NAME = "topic-record-name"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSubject:
    """A subject of the source and its name at the destination."""

    source: str
    destination: str


def subject_of_topic(topic: str, *, is_key: bool) -> str:
    """Returns the one subject of a topic's keys or values by the strategy `topic-name`."""
    return f"{topic}-key" if is_key else f"{topic}-value"


def subjects_of_topic(
    strategy: SubjectStrategy, topic: str, destination_topic: str, *, is_key: bool, listed: Iterable[str] = ()
) -> list[NamedSubject]:
    """Returns the subjects of a topic that can be told from names, in the order of ``listed``.

    By `topic-name` that is one, whether it is there or not; by `topic-record-name` all that are listed and begin with
    the topic's name, whose rest is a record's; by `record-name` none: only the records say which are theirs.

    Args:
        strategy: how they are named.
        topic: at the source.
        destination_topic: at the destination.
        is_key: whether keys are meant.
        listed: the subjects there are.
    """
    if strategy is SubjectStrategy.TOPIC_NAME:
        source = subject_of_topic(topic, is_key=is_key)
        return [NamedSubject(source=source, destination=subject_of_topic(destination_topic, is_key=is_key))]
    if strategy is not SubjectStrategy.TOPIC_RECORD_NAME:
        return []
    records = (name.removeprefix(f"{topic}-") for name in listed if name.startswith(f"{topic}-"))
    return [
        NamedSubject(source=f"{topic}-{record}", destination=f"{destination_topic}-{record}")
        for record in records
        if _RECORD.fullmatch(record) and record not in ("key", "value")
    ]


def destination_subject(
    strategy: SubjectStrategy, subject: str, topic: str, destination_topic: str, *, is_key: bool
) -> str:
    """Returns what a subject of a topic's records is called at the destination; as it is where it is of another topic.

    A record may carry an id of a subject that is not its topic's: that keeps its name.
    """
    if strategy is SubjectStrategy.TOPIC_NAME and subject == subject_of_topic(topic, is_key=is_key):
        return subject_of_topic(destination_topic, is_key=is_key)
    if strategy is SubjectStrategy.TOPIC_RECORD_NAME and subject.startswith(f"{topic}-"):
        return f"{destination_topic}-{subject.removeprefix(f'{topic}-')}"
    return subject
