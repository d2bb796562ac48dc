"""What a cluster says of itself: brokers, topics, producers, transactions. Values only, no connection."""

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import TopicPartition
from mirrorlake.travelling import travelling

NO_LEADER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """One partition as metadata describes it.

    Attributes:
        partition: its number.
        leader: broker id, or -1 where there is none.
        leader_epoch: counts the elections; -1 where the broker does not say.
        replicas: broker ids, the preferred leader first.
        isr: broker ids of the in-sync replicas.
        error_code: 0, or the broker's code (such as LEADER_NOT_AVAILABLE).
    """

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One topic as metadata describes it.

    Attributes:
        name: its name.
        topic_id: Kafka's text form of the id (22 characters); another one after the topic was made anew. Empty
            where the cluster gives no ids (before Kafka 2.8, or an inter.broker.protocol.version before it).
        is_internal: whether brokers keep their own state in it.
        partitions: by number.
    """

    name: str
    topic_id: str
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """A cluster's brokers and topics at one moment.

    Attributes:
        cluster_id: as formatted; None where the broker does not say.
        controller_id: a broker that takes requests for the controller; -1 where none is known.
        brokers: host and port by broker id, as advertised.
        topics: by name; topics that do not exist are absent.
        errors: by name, for topics that were asked for and refused for another reason than not being there.
    """

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, tuple[str, int]]
    topics: Mapping[str, TopicMetadata]
    errors: Mapping[str, MirrorlakeError] = field(default_factory=dict)

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        """Returns one partition, or None where it or its topic is absent."""
        topic = self.topics.get(partition.topic)
        return topic.partitions.get(partition.partition) if topic else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The end of the leader's log, replicated or not.

    Attributes:
        leader_epoch: the epoch in which the answering broker leads.
        end_offset: exclusive.
    """

    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """What a partition's leader remembers of one producer.

    Attributes:
        producer_id: whose.
        producer_epoch: of its last batch or marker.
        last_sequence: of its last record; -1 where it has written none in this epoch.
        last_timestamp_ms: largest record timestamp of its last batch.
        coordinator_epoch: of its last transaction marker; -1 where there was none.
        transaction_start_offset: first offset of its open transaction; None where none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendState:
    """What the next append to a partition has to follow; the producers were read before the end.

    Attributes:
        producers: all the leader remembers, in its order.
        log_end: read after them, from the same leader.
    """

    producers: tuple[ProducerState, ...]
    log_end: LogEnd


@travelling
@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """A producer id and the epoch in which it may write."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """What the coordinator knows of a transactional id.

    Attributes:
        producer_id: the id it stands for now.
        producer_epoch: its current epoch.
        state: Kafka's name of it, such as ``Empty``, ``Ongoing``, ``PrepareAbort``, ``CompleteCommit``.
        timeout_ms: after which an open transaction is aborted.
        partitions: of the open transaction; of one that is ending, those without their marker yet.
    """

    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigValue:
    """The value of one configuration of a topic.

    Attributes:
        value: None where it is secret or not set.
        source: Kafka's name of the level that sets it: ``DYNAMIC_TOPIC_CONFIG``, ``STATIC_BROKER_CONFIG``, …
        is_read_only: whether it cannot be changed.
        is_sensitive: whether the value is kept secret.
    """

    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether the topic itself does not set it, so that another cluster may give it another value."""
        return self.source != "DYNAMIC_TOPIC_CONFIG"


EMPTY_GROUP_STATES = frozenset({"Empty", "Dead"})
"""A group in one of these states has no members, so anybody with the right may commit its offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group that a broker coordinates, as it lists it.

    Attributes:
        group: its id.
        protocol_type: ``consumer``, ``connect``, …; empty for one that only commits offsets.
        state: Kafka's name of it, such as ``Stable`` or ``Empty``; empty where brokers are older than 2.6.
        type: ``classic``, ``consumer`` (KIP-848), ``share``, …; empty where brokers are older than 3.8.
    """

    group: str
    protocol_type: str
    state: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """The groups of a cluster at one moment, as far as this user may describe them.

    Attributes:
        groups: by id. One that moves to another coordinator may be missing for a moment.
        unread: by broker id, why those brokers' groups are not known.
    """

    groups: Mapping[str, ListedGroup]
    unread: Mapping[int, MirrorlakeError] = field(default_factory=dict)


class CommittedOffset(NamedTuple):
    """What a group has committed for a partition. A tuple, as there are tens of thousands of them at a time.

    Attributes:
        offset: of the next record it reads.
        leader_epoch: of the last record it has read, at the cluster it was committed at; -1 where it did not say.
        metadata: text of its own; empty for none.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def parse_topic_id(text: str) -> bytes:
    """Returns the 16 bytes of an id in Kafka's text form, as `format_topic_id` writes it; not for the empty one."""
    return base64.urlsafe_b64decode(text + "==")


def format_topic_id(topic_id: uuid.UUID | None) -> str:
    """Returns Kafka's text form of an id: base64 for URLs, without padding; empty for none and the id of zeros."""
    if topic_id is None or not topic_id.int:
        return ""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode("ascii")
