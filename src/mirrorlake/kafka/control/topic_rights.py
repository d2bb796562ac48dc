"""What this user may do with topics, as the brokers tell whoever may describe them (KIP-430)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from mirrorlake.kafka.control.control_requests import ControlRequest
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.protocol_classes import MetadataRequest, MetadataResponse

OPERATIONS: Final[Mapping[int, str]] = MappingProxyType(
    {
        3: "READ",
        4: "WRITE",
        5: "CREATE",
        6: "DELETE",
        7: "ALTER",
        8: "DESCRIBE",
        10: "DESCRIBE_CONFIGS",
        11: "ALTER_CONFIGS",
    }
)
"""Of topics, by Kafka's codes (``AclOperation``)."""

SAID_SINCE: Final = 8
"""The first version of Metadata that tells it, Kafka 2.3."""

Rights = Mapping[str, frozenset[str]]


def topic_rights_request(topics: Sequence[str]) -> ControlRequest[Rights]:
    """Asks what may be done with topics; those that do not exist, or may not be described, are not in the answer.

    A cluster without an authorizer allows everything, and says so. An older one does not say: its answer is empty.
    """

    def message(version: int) -> Any:
        return MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=version >= SAID_SINCE,
            version=version,
        )

    return ControlRequest(api=Api.METADATA, message=message, answer=MetadataResponse, read=_read)


def _read(answer: Any) -> Rights:
    if answer.API_VERSION < SAID_SINCE:
        return {}
    return {
        topic.name: frozenset(OPERATIONS[code] for code in topic.authorized_operations if code in OPERATIONS)
        for topic in answer.topics
        if topic.error_code == 0
    }
