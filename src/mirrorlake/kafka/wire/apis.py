"""The APIs of the Kafka protocol that are used here, and up to which version.

Sources: ``clients/src/main/resources/common/message/*.json`` of Apache Kafka 4.3.0 (keys, flexible versions).
The caps are ours: Fetch 13 and Produce 13 name topics by id only, EndTxn 5 and Produce 12 belong to
transactions version 2, which lets a broker accept what transactions version 1 refuses; so no version is ever
chosen because both sides happen to know it.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class Api(IntEnum):
    """API keys by the names Kafka gives them."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    INCREMENTAL_ALTER_CONFIGS = 44
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65

    @property
    def title(self) -> str:
        """The name as Kafka's documentation writes it, such as ``OffsetForLeaderEpoch``."""
        return "".join(word.capitalize() for word in self.name.split("_"))


FETCH_VERSION: Final = 11
PRODUCE_VERSION: Final = 8

VERSION_CAPS: Final[Mapping[int, int]] = MappingProxyType(
    {
        Api.PRODUCE: PRODUCE_VERSION,
        Api.FETCH: FETCH_VERSION,
        Api.LIST_OFFSETS: 8,  # the start of the local log; 10 waits for a remote tier in another way
        Api.METADATA: 12,
        Api.OFFSET_COMMIT: 8,  # 10 names topics by id only
        Api.OFFSET_FETCH: 8,  # 10 names topics by id only
        Api.FIND_COORDINATOR: 4,
        Api.DESCRIBE_GROUPS: 5,
        Api.LIST_GROUPS: 5,
        Api.SASL_HANDSHAKE: 1,
        Api.API_VERSIONS: 0,
        Api.CREATE_TOPICS: 6,
        Api.DELETE_TOPICS: 5,
        Api.DELETE_RECORDS: 2,
        Api.INIT_PRODUCER_ID: 4,
        Api.OFFSET_FOR_LEADER_EPOCH: 4,
        Api.ADD_PARTITIONS_TO_TXN: 3,
        Api.END_TXN: 4,
        Api.DESCRIBE_ACLS: 3,
        Api.CREATE_ACLS: 3,
        Api.DELETE_ACLS: 3,
        Api.DESCRIBE_CONFIGS: 4,
        Api.SASL_AUTHENTICATE: 1,
        Api.CREATE_PARTITIONS: 3,
        Api.INCREMENTAL_ALTER_CONFIGS: 1,
        Api.DESCRIBE_CLUSTER: 0,
        Api.DESCRIBE_PRODUCERS: 0,
        Api.DESCRIBE_TRANSACTIONS: 0,
    }
)
"""Highest version that is ever sent, per API."""

VERSION_FLOORS: Final[Mapping[int, int]] = MappingProxyType(
    {
        Api.PRODUCE: PRODUCE_VERSION,
        Api.FETCH: FETCH_VERSION,
        Api.LIST_OFFSETS: 4,  # the leader epoch is checked
        Api.METADATA: 7,  # leader epochs; topic ids come with 10
        Api.OFFSET_COMMIT: 6,  # leader epochs
        Api.OFFSET_FETCH: 5,  # leader epochs; many groups at once come with 8
        Api.FIND_COORDINATOR: 1,  # transactional ids; many keys at once come with 4
        Api.DESCRIBE_GROUPS: 2,
        Api.LIST_GROUPS: 2,  # states come with 4, types with 5
        Api.SASL_HANDSHAKE: 1,  # what follows is wrapped in SaslAuthenticate
        Api.API_VERSIONS: 0,
        Api.CREATE_TOPICS: 5,
        Api.DELETE_TOPICS: 4,
        Api.DELETE_RECORDS: 1,
        Api.INIT_PRODUCER_ID: 2,
        Api.OFFSET_FOR_LEADER_EPOCH: 3,  # the replica id can be given
        Api.ADD_PARTITIONS_TO_TXN: 1,
        Api.END_TXN: 1,
        Api.DESCRIBE_ACLS: 1,  # patterns of names (KIP-290)
        Api.CREATE_ACLS: 1,
        Api.DELETE_ACLS: 1,
        Api.DESCRIBE_CONFIGS: 1,
        Api.SASL_AUTHENTICATE: 1,  # the session's lifetime
        Api.CREATE_PARTITIONS: 1,
        Api.INCREMENTAL_ALTER_CONFIGS: 0,  # Kafka 2.3 (KIP-339)
        Api.DESCRIBE_CLUSTER: 0,
        Api.DESCRIBE_PRODUCERS: 0,
        Api.DESCRIBE_TRANSACTIONS: 0,
    }
)
"""Lowest version that carries what is needed, per API. `SINCE` says which Apache Kafka has it first."""

OLDEST_KAFKA: Final = "2.4"
"""The first Apache Kafka that knows everything in `VERSION_FLOORS` but what `SINCE` names."""

SINCE: Final[Mapping[int, str]] = MappingProxyType(
    {
        Api.DESCRIBE_CLUSTER: "2.8 (KIP-700)",
        Api.DESCRIBE_PRODUCERS: "2.8 (KIP-664)",
        Api.DESCRIBE_TRANSACTIONS: "3.0 (KIP-664)",
    }
)
"""First Apache Kafka with an API that came after `OLDEST_KAFKA`."""


def lacks(versions: Mapping[int, tuple[int, int]], api: Api) -> bool:
    """Tells whether a broker knows no version of an API that carries what is needed.

    Args:
        versions: lowest and highest version (both inclusive) the broker knows, by API key.
        api: which.
    """
    lowest, highest = versions.get(api, (0, -1))
    return max(lowest, VERSION_FLOORS[api]) > min(highest, VERSION_CAPS[api])


FLEXIBLE_SINCE: Final[Mapping[int, int]] = MappingProxyType(
    {
        Api.PRODUCE: 9,
        Api.FETCH: 12,
        Api.LIST_OFFSETS: 6,
        Api.METADATA: 9,
        Api.OFFSET_COMMIT: 8,
        Api.OFFSET_FETCH: 6,
        Api.FIND_COORDINATOR: 3,
        Api.DESCRIBE_GROUPS: 5,
        Api.LIST_GROUPS: 3,
        Api.SASL_HANDSHAKE: 2,  # never: it has versions 0 and 1 only
        Api.API_VERSIONS: 3,
        Api.CREATE_TOPICS: 5,
        Api.DELETE_TOPICS: 4,
        Api.DELETE_RECORDS: 2,
        Api.INIT_PRODUCER_ID: 2,
        Api.OFFSET_FOR_LEADER_EPOCH: 4,
        Api.ADD_PARTITIONS_TO_TXN: 3,
        Api.END_TXN: 3,
        Api.DESCRIBE_ACLS: 2,
        Api.CREATE_ACLS: 2,
        Api.DELETE_ACLS: 2,
        Api.DESCRIBE_CONFIGS: 4,
        Api.SASL_AUTHENTICATE: 2,
        Api.CREATE_PARTITIONS: 2,
        Api.INCREMENTAL_ALTER_CONFIGS: 1,
        Api.DESCRIBE_CLUSTER: 0,
        Api.DESCRIBE_PRODUCERS: 0,
        Api.DESCRIBE_TRANSACTIONS: 0,
    }
)
"""First version with compact strings and tagged fields (KIP-482); from it on request headers are version
2."""
