"""Requests about consumer groups and their offsets: what is sent, and what the answers say."""

from collections.abc import Mapping, Sequence
from typing import Any

from mirrorlake.kafka.control.control_requests import ControlRequest, Refused, WrittenRequest, by_topic
from mirrorlake.kafka.control.descriptions import CommittedOffset, ListedGroup
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.group_offsets import (
    OFFSET_COMMIT_VERSION,
    OFFSET_FETCH_VERSION,
    FetchedGroup,
    OffsetToCommit,
    decode_offset_commit,
    decode_offset_fetch,
    encode_offset_commit,
    encode_offset_fetch,
    fits_offset_commit,
    is_all_committed,
)
from mirrorlake.kafka.wire.protocol_classes import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from mirrorlake.offsets import TopicPartition

_NO_GENERATION = -1
_NO_MEMBER = ""
"""Who commits so is no member, and is accepted only while there is none (``validateOffsetCommit`` in Kafka)."""

_NO_OFFSET = -1
_STATES_VERSION = 4
_TYPES_VERSION = 5
_MANY_GROUPS_VERSION = OFFSET_FETCH_VERSION
"""From which on OffsetFetch takes many groups (KIP-709)."""

Offsets = Mapping[TopicPartition, CommittedOffset | Refused | None]
"""What a group has committed; None for partitions that were asked for by name and have no offset."""


def list_groups_request() -> ControlRequest[tuple[ListedGroup, ...] | Refused]:
    """Asks a broker for the groups it coordinates, those of them this user may describe."""

    def message(version: int) -> Any:
        filters: dict[str, list[str]] = {}
        if version >= _STATES_VERSION:
            filters["states_filter"] = []
        if version >= _TYPES_VERSION:
            filters["types_filter"] = []
        return ListGroupsRequest(**filters, version=version)

    def read(answer: Any) -> tuple[ListedGroup, ...] | Refused:
        if answer.error_code:
            return Refused(answer.error_code)
        return tuple(
            ListedGroup(
                group=each.group_id,
                protocol_type=each.protocol_type,
                state=(each.group_state or "") if answer.version >= _STATES_VERSION else "",
                type=(each.group_type or "") if answer.version >= _TYPES_VERSION else "",
            )
            for each in answer.groups
        )

    return ControlRequest(api=Api.LIST_GROUPS, message=message, answer=ListGroupsResponse, read=read)


def describe_groups_request(groups: Sequence[str]) -> ControlRequest[dict[str, str | Refused]]:
    """Asks a coordinator for the states of groups, by Kafka's names.

    ``Dead`` stands for one that is not there, and for one of KIP-848's protocol, which `list_groups_request` tells.
    """

    def message(version: int) -> Any:
        asked: dict[str, object] = {"groups": list(groups)}
        if version >= 3:
            asked["include_authorized_operations"] = False
        return DescribeGroupsRequest(**asked, version=version)

    def read(answer: Any) -> dict[str, str | Refused]:
        return {
            each.group_id: Refused(each.error_code) if each.error_code else each.group_state for each in answer.groups
        }

    return ControlRequest(api=Api.DESCRIBE_GROUPS, message=message, answer=DescribeGroupsResponse, read=read)


def fetch_offsets_request(
    groups: Mapping[str, Sequence[TopicPartition] | None], *, is_stable: bool = False
) -> ControlRequest[dict[str, Offsets | Refused]]:
    """Asks a coordinator for the committed offsets of groups; at least one.

    What a transaction would commit that has not ended is not among them. A broker before Kafka 3.0 is asked about the
    first group alone: ask again about those left out.

    Args:
        groups: the partitions to ask for, by group. None for all that it has offsets of; then partitions of topics this
            user may not describe are left out without a word.
        is_stable: partitions of which a transaction would commit an offset are refused with UNSTABLE_OFFSET_COMMIT
            (KIP-447). A broker before Kafka 2.5 knows no such question, and says what was committed before.
    """

    def message(version: int) -> Any:
        many = version >= _MANY_GROUPS_VERSION
        kind = OffsetFetchRequest.OffsetFetchRequestGroup if many else OffsetFetchRequest
        topic = kind.OffsetFetchRequestTopics if many else kind.OffsetFetchRequestTopic

        def topics(partitions: Sequence[TopicPartition] | None) -> list[Any] | None:
            if partitions is None:
                return None
            return [topic(name=name, partition_indexes=numbers) for name, numbers in by_topic(partitions).items()]

        if not many:
            group, partitions = next(iter(groups.items()))
            asked = {"group_id": group, "topics": topics(partitions)}
            return OffsetFetchRequest(
                **asked, **({"require_stable": is_stable} if version >= 7 else {}), version=version
            )
        return OffsetFetchRequest(
            groups=[kind(group_id=group, topics=topics(partitions)) for group, partitions in groups.items()],
            require_stable=is_stable,
            version=version,
        )

    def read(answer: Any) -> dict[str, Offsets | Refused]:
        if answer.version < _MANY_GROUPS_VERSION:
            return {next(iter(groups)): _read_offsets(answer)}
        return {each.group_id: _read_offsets(each) for each in answer.groups}

    def body() -> bytes:
        asked = {group: None if theirs is None else by_topic(theirs) for group, theirs in groups.items()}
        return encode_offset_fetch(asked, is_stable=is_stable)

    def read_written(view: memoryview) -> dict[str, Offsets | Refused]:
        # A partition is one object for all groups: there are many of each.
        partitions: dict[str, dict[int, TopicPartition]] = {}
        return {each.group: _offsets_of(each, partitions) for each in decode_offset_fetch(view)}

    return ControlRequest(
        api=Api.OFFSET_FETCH,
        message=message,
        answer=OffsetFetchResponse,
        read=read,
        written=WrittenRequest(version=OFFSET_FETCH_VERSION, body=body, read=read_written),
    )


def _offsets_of(found: FetchedGroup, partitions: dict[str, dict[int, TopicPartition]]) -> Offsets | Refused:
    if found.error_code:
        return Refused(found.error_code)
    offsets: dict[TopicPartition, CommittedOffset | Refused | None] = {}
    for topic, held in found.topics:
        numbers = partitions.setdefault(topic, {})
        for number, code, offset, epoch, metadata in held:
            partition = numbers.get(number)
            if partition is None:
                partition = numbers[number] = TopicPartition(topic, number)
            if code:
                offsets[partition] = Refused(code)
            elif offset == _NO_OFFSET:
                offsets[partition] = None
            else:
                offsets[partition] = CommittedOffset(offset, epoch, metadata)
    return offsets


def _read_offsets(answer: Any) -> Offsets | Refused:
    if answer.error_code:
        return Refused(answer.error_code)
    return {
        TopicPartition(topic.name, partition.partition_index): _read_offset(partition)
        for topic in answer.topics
        for partition in topic.partitions
    }


def _read_offset(partition: Any) -> CommittedOffset | Refused | None:
    if partition.error_code:
        return Refused(partition.error_code)
    if partition.committed_offset == _NO_OFFSET:
        return None
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata or "",
    )


def commit_offsets_request(
    group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> ControlRequest[dict[TopicPartition, Refused | None]]:
    """Asks a coordinator to commit offsets of a group that has no members; None for each that is committed."""

    def message(version: int) -> Any:
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        partition = topic.OffsetCommitRequestPartition
        return OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=_NO_GENERATION,
            member_id=_NO_MEMBER,
            **({"group_instance_id": None} if version >= 7 else {}),
            topics=[
                topic(
                    name=name,
                    partitions=[
                        partition(
                            partition_index=number,
                            committed_offset=committed.offset,
                            committed_leader_epoch=committed.leader_epoch,
                            committed_metadata=committed.metadata,
                        )
                        for number, committed in ((number, offsets[TopicPartition(name, number)]) for number in numbers)
                    ],
                )
                for name, numbers in by_topic(offsets).items()
            ],
            version=version,
        )

    def read(answer: Any) -> dict[TopicPartition, Refused | None]:
        return {
            TopicPartition(topic.name, partition.partition_index): Refused(partition.error_code)
            if partition.error_code
            else None
            for topic in answer.topics
            for partition in topic.partitions
        }

    topics: dict[str, list[OffsetToCommit]] = {}
    for partition, each in offsets.items():
        topics.setdefault(partition.topic, []).append((partition.partition, *each))

    def read_written(view: memoryview) -> dict[TopicPartition, Refused | None]:
        if is_all_committed(view, topics):
            return dict.fromkeys(offsets)
        return {
            TopicPartition(topic, number): Refused(code) if code else None
            for topic, number, code in decode_offset_commit(view)
        }

    written = WrittenRequest(
        version=OFFSET_COMMIT_VERSION, body=lambda: encode_offset_commit(group, topics), read=read_written
    )
    return ControlRequest(
        api=Api.OFFSET_COMMIT,
        message=message,
        answer=OffsetCommitResponse,
        read=read,
        written=written if fits_offset_commit(group, topics) else None,
    )
