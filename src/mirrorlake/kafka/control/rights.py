"""What this user may do with topics and with the cluster, as brokers tell whoever may describe them (KIP-430)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from mirrorlake.kafka.control.control_requests import ControlRequest
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.protocol_classes import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)

OPERATIONS: Final[Mapping[int, str]] = MappingProxyType(
    {
        3: "READ",
        4: "WRITE",
        5: "CREATE",
        6: "DELETE",
        7: "ALTER",
        8: "DESCRIBE",
        9: "CLUSTER_ACTION",
        10: "DESCRIBE_CONFIGS",
        11: "ALTER_CONFIGS",
        12: "IDEMPOTENT_WRITE",
    }
)
"""Of topics and of clusters, by Kafka's codes (``AclOperation``)."""

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
        # None: a broker of another make that does not tell.
        if topic.error_code == 0 and topic.authorized_operations is not None
    }


def cluster_rights_request() -> ControlRequest[frozenset[str] | None]:
    """Asks what may be done with the cluster; None where that is not told.

    A broker tells none at all to whoever may not describe the cluster, which is no answer (``AuthHelper`` of Kafka
    4.3.0). Brokers know the request since Kafka 2.8 (KIP-700). One without an authorizer allows everything, and
    says so.
    """

    def message(version: int) -> Any:
        return DescribeClusterRequest(include_cluster_authorized_operations=True, version=version)

    return ControlRequest(api=Api.DESCRIBE_CLUSTER, message=message, answer=DescribeClusterResponse, read=_read_cluster)


def _read_cluster(answer: Any) -> frozenset[str] | None:
    if answer.error_code:
        return None
    told = frozenset(OPERATIONS[code] for code in answer.authorized_operations or () if code in OPERATIONS)
    return told if "DESCRIBE" in told else None
