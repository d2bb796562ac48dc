"""Requests of the control plane about metadata and partitions: what is sent, and what the answers say."""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.control.descriptions import (
    ClusterMetadata,
    LogEnd,
    PartitionMetadata,
    ProducerState,
    TopicMetadata,
    format_topic_id,
)
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION, error_for
from mirrorlake.kafka.wire.list_offsets import LIST_OFFSETS_VERSION, decode_list_offsets, encode_list_offsets
from mirrorlake.kafka.wire.protocol_classes import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from mirrorlake.offsets import TopicPartition

T = TypeVar("T")

_CONSUMER = -1
"""The replica id of those who are none; anything else makes a broker answer as to a follower."""

LATEST = -1
"""Timestamp that stands for the end: the high watermark, or the last stable offset for `READ_COMMITTED`."""
EARLIEST = -2
"""Timestamp that stands for the log's start; the lowest of those that ask something else than for a time, and that
every version knows."""


class Refused(NamedTuple):
    """A broker's error code for one item of a request, with its own words where it had any."""

    code: int
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRequest(Generic[T]):
    """A request in the one version that is written out by hand, as there are thousands of what it is about.

    Attributes:
        version: which.
        body: makes it.
        read: an answer of that version → our values, or CorruptBatchError.
    """

    version: int
    body: Callable[[], bytes]
    read: Callable[[memoryview], T]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest(Generic[T]):
    """A request and how to read its answer, for whatever version both sides know.

    Attributes:
        api: which API.
        message: version → the request, as an object of kafka-python.
        answer: kafka-python's class of the answer.
        read: its object → our values.
        written: what is asked in place of it where the broker knows that version; None where no version is written out.
    """

    api: Api
    message: Callable[[int], Any]
    answer: Any
    read: Callable[[Any], T]
    written: WrittenRequest[T] | None = None

    async def ask(self, connection: Connection, *, timeout_seconds: float) -> T:
        """Sends the request and returns what the answer says.

        Raises:
            TransientError: no answer; see `Connection.request`.
            UnsupportedError: the broker does not know the API in a version that carries what is needed.
            CorruptBatchError: the answer could not be understood.
        """
        if (written := self.written) is not None and connection.knows(self.api, written.version):
            with await connection.request(
                self.api, written.version, (written.body(),), timeout_seconds=timeout_seconds
            ) as frame:
                return written.read(frame.view)
        version = connection.version(self.api)
        body = bytes(self.message(version).encode(version=version))
        with await connection.request(self.api, version, (body,), timeout_seconds=timeout_seconds) as frame:
            return self.decode(frame.view, version, peer=connection.address)

    def decode(self, view: memoryview, version: int, *, peer: str) -> T:
        """Returns what an answer says.

        Raises:
            CorruptBatchError: it could not be understood.
        """
        try:
            return self.read(self.answer.decode(view, version=version))
        except (struct.error, ValueError, LookupError, TypeError, AttributeError) as error:
            raise CorruptBatchError(
                f"an answer of {peer} to {self.api.title} could not be understood: {error}",
                hint="nothing of it was used",
                address=peer,
            ) from error


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Returns the partition numbers by topic, in the order given."""
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return topics


def metadata_request(topics: Sequence[str] | None) -> ControlRequest[ClusterMetadata]:
    """Asks for brokers and the named topics, or all with None; creates none."""

    def message(version: int) -> Any:
        asked = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        return MetadataRequest(
            topics=asked,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
            version=version,
        )

    return ControlRequest(api=Api.METADATA, message=message, answer=MetadataResponse, read=_read_metadata)


def _read_metadata(answer: Any) -> ClusterMetadata:
    return ClusterMetadata(
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id,
        brokers={broker.node_id: (broker.host, broker.port) for broker in answer.brokers},
        topics={topic.name: _read_topic(topic) for topic in answer.topics if topic.error_code == 0},
        errors={
            topic.name: error_for(topic.error_code, what=f"Metadata of topic {topic.name}", topic=topic.name)
            for topic in answer.topics
            if topic.error_code not in (0, UNKNOWN_TOPIC_OR_PARTITION)
        },
    )


def _read_topic(topic: Any) -> TopicMetadata:
    return TopicMetadata(
        name=topic.name,
        topic_id=format_topic_id(topic.topic_id),
        is_internal=topic.is_internal,
        partitions={
            partition.partition_index: PartitionMetadata(
                partition=partition.partition_index,
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replicas=tuple(partition.replica_nodes),
                isr=tuple(partition.isr_nodes),
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        },
    )


def log_ends_request(epochs: Mapping[TopicPartition, int]) -> ControlRequest[dict[TopicPartition, LogEnd | Refused]]:
    """Asks leaders for their log ends, given the epoch each leads in. Followers and other epochs refuse (KIP-320)."""
    return epoch_ends_request(epochs, asked=epochs)


def epoch_ends_request(
    epochs: Mapping[TopicPartition, int], *, asked: Mapping[TopicPartition, int]
) -> ControlRequest[dict[TopicPartition, LogEnd | Refused]]:
    """Asks leaders where the records of an earlier epoch end, or of the latest before it; −1 where they do not know.

    Args:
        epochs: the one each leads in.
        asked: the one in question.
    """

    def message(version: int) -> Any:
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        return OffsetForLeaderEpochRequest(
            replica_id=_CONSUMER,
            topics=[
                topic(
                    topic=name,
                    partitions=[
                        topic.OffsetForLeaderPartition(
                            partition=number,
                            current_leader_epoch=epochs[TopicPartition(name, number)],
                            leader_epoch=asked[TopicPartition(name, number)],
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(epochs).items()
            ],
            version=version,
        )

    def read(answer: Any) -> dict[TopicPartition, LogEnd | Refused]:
        return {
            TopicPartition(topic.topic, partition.partition): Refused(partition.error_code)
            if partition.error_code
            else LogEnd(leader_epoch=partition.leader_epoch, end_offset=partition.end_offset)
            for topic in answer.topics
            for partition in topic.partitions
        }

    return ControlRequest(
        api=Api.OFFSET_FOR_LEADER_EPOCH, message=message, answer=OffsetForLeaderEpochResponse, read=read
    )


def list_offsets_request(
    epochs: Mapping[TopicPartition, int], *, timestamp: int, isolation_level: int
) -> ControlRequest[dict[TopicPartition, int | Refused]]:
    """Asks leaders for the offset of a timestamp, given the epoch each leads in; -1 where there is none."""
    generic = _list_offsets(epochs, timestamp, isolation_level, read=lambda answer: _numbers_in(answer, "offset"))
    if timestamp < EARLIEST:
        return generic  # a question of later versions
    topics: dict[str, dict[int, TopicPartition]] = {}
    for partition in epochs:
        topics.setdefault(partition.topic, {})[partition.partition] = partition

    def body() -> bytes:
        asked = {
            topic: [(number, epochs[partition]) for number, partition in held.items()] for topic, held in topics.items()
        }
        return encode_list_offsets(asked, timestamp=timestamp, isolation_level=isolation_level)

    def read(view: memoryview) -> dict[TopicPartition, int | Refused]:
        return {
            topics[each.topic][each.partition]: Refused(each.error_code) if each.error_code else each.offset
            for each in decode_list_offsets(view)
            if each.partition in topics.get(each.topic, {})
        }

    return replace(generic, written=WrittenRequest(version=LIST_OFFSETS_VERSION, body=body, read=read))


def list_times_request(
    epochs: Mapping[TopicPartition, int], *, timestamp: int, isolation_level: int
) -> ControlRequest[dict[TopicPartition, int | Refused]]:
    """Asks leaders for the time of the record that `list_offsets_request` finds; -1 where there is none."""
    return _list_offsets(epochs, timestamp, isolation_level, read=lambda answer: _numbers_in(answer, "timestamp"))


def _list_offsets(
    epochs: Mapping[TopicPartition, int],
    timestamp: int,
    isolation_level: int,
    *,
    read: Callable[[Any], dict[TopicPartition, int | Refused]],
) -> ControlRequest[dict[TopicPartition, int | Refused]]:
    def message(version: int) -> Any:
        topic = ListOffsetsRequest.ListOffsetsTopic
        return ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=isolation_level,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.ListOffsetsPartition(
                            partition_index=number,
                            current_leader_epoch=epochs[TopicPartition(name, number)],
                            timestamp=timestamp,
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(epochs).items()
            ],
            version=version,
        )

    return ControlRequest(api=Api.LIST_OFFSETS, message=message, answer=ListOffsetsResponse, read=read)


def _numbers_in(answer: Any, field_name: str) -> dict[TopicPartition, int | Refused]:
    """Returns a number of each partition of an answer, or why it was refused."""
    return {
        TopicPartition(topic.name, partition.partition_index): Refused(partition.error_code)
        if partition.error_code
        else getattr(partition, field_name)
        for topic in answer.topics
        for partition in topic.partitions
    }


Producers = tuple[ProducerState, ...]


def producers_request(
    partitions: Iterable[TopicPartition],
) -> ControlRequest[dict[TopicPartition, Producers | Refused]]:
    """Asks for the producers a broker remembers. Followers answer too: prove leadership besides."""
    topics = by_topic(partitions)

    def message(version: int) -> Any:
        topic = DescribeProducersRequest.TopicRequest
        asked = [topic(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
        return DescribeProducersRequest(topics=asked, version=version)

    def read(answer: Any) -> dict[TopicPartition, Producers | Refused]:
        return {
            TopicPartition(topic.name, partition.partition_index): Refused(
                partition.error_code, partition.error_message
            )
            if partition.error_code
            else tuple(map(_read_producer, partition.active_producers))
            for topic in answer.topics
            for partition in topic.partitions
        }

    return ControlRequest(api=Api.DESCRIBE_PRODUCERS, message=message, answer=DescribeProducersResponse, read=read)


def _read_producer(producer: Any) -> ProducerState:
    start = producer.current_txn_start_offset
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_sequence=producer.last_sequence,
        last_timestamp_ms=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        transaction_start_offset=start if start >= 0 else None,
    )


def delete_records_request(
    before: Mapping[TopicPartition, int], *, timeout_ms: int
) -> ControlRequest[dict[TopicPartition, int | Refused]]:
    """Asks leaders to delete what lies before offsets (exclusive; -1 for all); answers the new log starts."""

    def message(version: int) -> Any:
        topic = DeleteRecordsRequest.DeleteRecordsTopic
        return DeleteRecordsRequest(
            topics=[
                topic(
                    name=name,
                    partitions=[
                        topic.DeleteRecordsPartition(
                            partition_index=number, offset=before[TopicPartition(name, number)]
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(before).items()
            ],
            timeout_ms=timeout_ms,
            version=version,
        )

    def read(answer: Any) -> dict[TopicPartition, int | Refused]:
        return _numbers_in(answer, "low_watermark")

    return ControlRequest(api=Api.DELETE_RECORDS, message=message, answer=DeleteRecordsResponse, read=read)
