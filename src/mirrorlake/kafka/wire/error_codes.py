"""The single place where a broker's error code becomes one of our errors.

Source of codes and names: ``org.apache.kafka.common.protocol.Errors`` of Apache Kafka 4.3.0. Which of them are worth
another try is decided here for a mirror, not as the Java producer does it: a lost race for a position is read again, a
topic that does not exist parks the partition.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mirrorlake.errors import (
    BrokerNotReadyError,
    BrokerUnreachableError,
    CorruptBatchError,
    Fact,
    MirrorlakeError,
    OutcomeUnknownError,
    PermissionDeniedError,
    PositionMovedError,
    RecordRefusedError,
    RecordTooLargeError,
    SourceTruncatedError,
    TopicMissingError,
    UnsupportedError,
)
from mirrorlake.kafka.wire.permissions import missing_right

NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
BROKER_NOT_AVAILABLE: Final = 8
NOT_LEADER_OR_FOLLOWER: Final = 6
MESSAGE_TOO_LARGE: Final = 10
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
RECORD_LIST_TOO_LARGE: Final = 18
ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
TOPIC_ALREADY_EXISTS: Final = 36
POLICY_VIOLATION: Final = 44
INVALID_PRODUCER_ID_MAPPING: Final = 49
OPERATION_NOT_ATTEMPTED: Final = 55
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106
CONCURRENT_TRANSACTIONS: Final = 51
GROUP_ID_NOT_FOUND: Final = 69
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
UNSTABLE_OFFSET_COMMIT: Final = 88
"""A transaction that has not ended would commit an offset, and who asks wants only what is settled (KIP-447)."""
TRANSACTIONAL_ID_NOT_FOUND: Final = 105

STALE_METADATA: Final = frozenset({NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH})
"""Asked the wrong broker, or with the epoch of another leader: metadata must be read again."""
COORDINATOR_MOVES: Final = frozenset({COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
"""The coordinator loads or moves; right after a broker's start this is the normal answer."""
GROUP_HAS_MEMBERS: Final = frozenset({ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS})
"""What OffsetCommit of somebody who is no member is answered with while a group has members; nothing was committed."""

ERROR_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        -1: "UNKNOWN_SERVER_ERROR",
        1: "OFFSET_OUT_OF_RANGE",
        2: "CORRUPT_MESSAGE",
        3: "UNKNOWN_TOPIC_OR_PARTITION",
        4: "INVALID_FETCH_SIZE",
        5: "LEADER_NOT_AVAILABLE",
        6: "NOT_LEADER_OR_FOLLOWER",
        7: "REQUEST_TIMED_OUT",
        8: "BROKER_NOT_AVAILABLE",
        9: "REPLICA_NOT_AVAILABLE",
        10: "MESSAGE_TOO_LARGE",
        11: "STALE_CONTROLLER_EPOCH",
        12: "OFFSET_METADATA_TOO_LARGE",
        13: "NETWORK_EXCEPTION",
        14: "COORDINATOR_LOAD_IN_PROGRESS",
        15: "COORDINATOR_NOT_AVAILABLE",
        16: "NOT_COORDINATOR",
        17: "INVALID_TOPIC_EXCEPTION",
        18: "RECORD_LIST_TOO_LARGE",
        19: "NOT_ENOUGH_REPLICAS",
        20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        21: "INVALID_REQUIRED_ACKS",
        22: "ILLEGAL_GENERATION",
        23: "INCONSISTENT_GROUP_PROTOCOL",
        24: "INVALID_GROUP_ID",
        25: "UNKNOWN_MEMBER_ID",
        26: "INVALID_SESSION_TIMEOUT",
        27: "REBALANCE_IN_PROGRESS",
        28: "INVALID_COMMIT_OFFSET_SIZE",
        29: "TOPIC_AUTHORIZATION_FAILED",
        30: "GROUP_AUTHORIZATION_FAILED",
        31: "CLUSTER_AUTHORIZATION_FAILED",
        32: "INVALID_TIMESTAMP",
        33: "UNSUPPORTED_SASL_MECHANISM",
        34: "ILLEGAL_SASL_STATE",
        35: "UNSUPPORTED_VERSION",
        36: "TOPIC_ALREADY_EXISTS",
        37: "INVALID_PARTITIONS",
        38: "INVALID_REPLICATION_FACTOR",
        39: "INVALID_REPLICA_ASSIGNMENT",
        40: "INVALID_CONFIG",
        41: "NOT_CONTROLLER",
        42: "INVALID_REQUEST",
        43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        44: "POLICY_VIOLATION",
        45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
        46: "DUPLICATE_SEQUENCE_NUMBER",
        47: "INVALID_PRODUCER_EPOCH",
        48: "INVALID_TXN_STATE",
        49: "INVALID_PRODUCER_ID_MAPPING",
        50: "INVALID_TRANSACTION_TIMEOUT",
        51: "CONCURRENT_TRANSACTIONS",
        52: "TRANSACTION_COORDINATOR_FENCED",
        53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        54: "SECURITY_DISABLED",
        55: "OPERATION_NOT_ATTEMPTED",
        56: "KAFKA_STORAGE_ERROR",
        57: "LOG_DIR_NOT_FOUND",
        58: "SASL_AUTHENTICATION_FAILED",
        59: "UNKNOWN_PRODUCER_ID",
        60: "REASSIGNMENT_IN_PROGRESS",
        61: "DELEGATION_TOKEN_AUTH_DISABLED",
        62: "DELEGATION_TOKEN_NOT_FOUND",
        63: "DELEGATION_TOKEN_OWNER_MISMATCH",
        64: "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
        65: "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
        66: "DELEGATION_TOKEN_EXPIRED",
        67: "INVALID_PRINCIPAL_TYPE",
        68: "NON_EMPTY_GROUP",
        69: "GROUP_ID_NOT_FOUND",
        70: "FETCH_SESSION_ID_NOT_FOUND",
        71: "INVALID_FETCH_SESSION_EPOCH",
        72: "LISTENER_NOT_FOUND",
        73: "TOPIC_DELETION_DISABLED",
        74: "FENCED_LEADER_EPOCH",
        75: "UNKNOWN_LEADER_EPOCH",
        76: "UNSUPPORTED_COMPRESSION_TYPE",
        77: "STALE_BROKER_EPOCH",
        78: "OFFSET_NOT_AVAILABLE",
        79: "MEMBER_ID_REQUIRED",
        80: "PREFERRED_LEADER_NOT_AVAILABLE",
        81: "GROUP_MAX_SIZE_REACHED",
        82: "FENCED_INSTANCE_ID",
        83: "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        84: "ELECTION_NOT_NEEDED",
        85: "NO_REASSIGNMENT_IN_PROGRESS",
        86: "GROUP_SUBSCRIBED_TO_TOPIC",
        87: "INVALID_RECORD",
        88: "UNSTABLE_OFFSET_COMMIT",
        89: "THROTTLING_QUOTA_EXCEEDED",
        90: "PRODUCER_FENCED",
        91: "RESOURCE_NOT_FOUND",
        92: "DUPLICATE_RESOURCE",
        93: "UNACCEPTABLE_CREDENTIAL",
        94: "INCONSISTENT_VOTER_SET",
        95: "INVALID_UPDATE_VERSION",
        96: "FEATURE_UPDATE_FAILED",
        97: "PRINCIPAL_DESERIALIZATION_FAILURE",
        98: "SNAPSHOT_NOT_FOUND",
        99: "POSITION_OUT_OF_RANGE",
        100: "UNKNOWN_TOPIC_ID",
        101: "DUPLICATE_BROKER_REGISTRATION",
        102: "BROKER_ID_NOT_REGISTERED",
        103: "INCONSISTENT_TOPIC_ID",
        104: "INCONSISTENT_CLUSTER_ID",
        105: "TRANSACTIONAL_ID_NOT_FOUND",
        106: "FETCH_SESSION_TOPIC_ID_ERROR",
        107: "INELIGIBLE_REPLICA",
        108: "NEW_LEADER_ELECTED",
        109: "OFFSET_MOVED_TO_TIERED_STORAGE",
        110: "FENCED_MEMBER_EPOCH",
        111: "UNRELEASED_INSTANCE_ID",
        112: "UNSUPPORTED_ASSIGNOR",
        113: "STALE_MEMBER_EPOCH",
        114: "MISMATCHED_ENDPOINT_TYPE",
        115: "UNSUPPORTED_ENDPOINT_TYPE",
        116: "UNKNOWN_CONTROLLER_ID",
        117: "UNKNOWN_SUBSCRIPTION_ID",
        118: "TELEMETRY_TOO_LARGE",
        119: "INVALID_REGISTRATION",
        120: "TRANSACTION_ABORTABLE",
        121: "INVALID_RECORD_STATE",
        122: "SHARE_SESSION_NOT_FOUND",
        123: "INVALID_SHARE_SESSION_EPOCH",
        124: "FENCED_STATE_EPOCH",
        125: "INVALID_VOTER_KEY",
        126: "DUPLICATE_VOTER",
        127: "VOTER_NOT_FOUND",
        128: "INVALID_REGULAR_EXPRESSION",
        129: "REBOOTSTRAP_REQUIRED",
        130: "STREAMS_INVALID_TOPOLOGY",
        131: "STREAMS_INVALID_TOPOLOGY_EPOCH",
        132: "STREAMS_TOPOLOGY_FENCED",
        133: "SHARE_SESSION_LIMIT_REACHED",
    }
)
"""Kafka's name of each code."""


def _codes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


_CODES: Final[Mapping[type[MirrorlakeError], tuple[int, ...]]] = MappingProxyType(
    {
        # The broker, the leader, the coordinator or the group will be ready later; UNKNOWN_SERVER_ERROR (-1)
        # may be anything, and a visible retry beats a parked partition.
        BrokerNotReadyError: _codes(
            "-1 5 6 8 9 11 14 15 16 19 22 25 27 41 51 52 55 56 60 68 70 71 72 74 75 77 78 80 81 82 83 84 86"
            " 88 89 102 106 108 110 111 113 116 121 122 123 124 129 131 132 133"
        ),
        BrokerUnreachableError: _codes("13"),
        # Appended or not is open: time ran out, or too few replicas have it. Neither says anything about
        # earlier attempts.
        OutcomeUnknownError: _codes("7 20"),
        # Somebody else appended, fenced, or ended the transaction: read the position again.
        PositionMovedError: _codes("45 46 47 48 49 59 90 120"),
        SourceTruncatedError: _codes("1"),
        CorruptBatchError: _codes("2"),
        TopicMissingError: _codes("3 100 103"),
        RecordTooLargeError: _codes("10 18"),
        RecordRefusedError: _codes("32 87"),
        PermissionDeniedError: _codes("29 30 31 33 34 44 53 54 58 61 62 63 64 65 66 67 93 97"),
    }
)
_KINDS: Final = MappingProxyType({code: kind for kind, codes in _CODES.items() for code in codes})
"""All other known codes are requests that the peer cannot carry out as they stand: UnsupportedError."""

_MEMBERS: Final = "the group has members: stop its consumers, then try again"

_HINTS: Final[Mapping[int, str]] = MappingProxyType(
    {
        2: "the batch was damaged on its way, or the source holds it damaged: dump the source's log segment",
        1: "the offset is before the log's start or after its end: compare the two",
        3: "create the topic, or check its name and the ACL DESCRIBE on it",
        7: "the broker may have done it all the same: read before trying again",
        10: "raise max.message.bytes of the topic; where its compression.type is not producer its brokers compress "
        "batches anew, and one may grow by that: set compression.type=producer",
        12: "raise offset.metadata.max.bytes of the brokers",
        17: "a name has letters, digits, `.`, `_` and `-`, 249 at most, and no two topics of a cluster may differ in "
        "`.` and `_` alone: choose another topic, or another mirror name where the topic is mirrorlake's own",
        18: "raise segment.bytes of the topic",
        19: "the topic has fewer in-sync replicas than min.insync.replicas: bring brokers back",
        20: "appended, but on fewer replicas than min.insync.replicas: bring brokers back",
        22: _MEMBERS,
        25: _MEMBERS,
        27: _MEMBERS,
        29: "grant on the topic: READ and DESCRIBE at the source; WRITE, READ, DESCRIBE at the destination; "
        "CREATE, ALTER, DELETE for managing it; DESCRIBE_CONFIGS for its configuration",
        30: "grant READ and DESCRIBE on the group",
        31: "grant on the cluster: CREATE for new topics, IDEMPOTENT_WRITE for producing, DESCRIBE",
        32: "raise message.timestamp.before.max.ms or message.timestamp.after.max.ms (1 h from Kafka 4.0 on) of the "
        "topic, or let its brokers set the times (`timestamp-mode: destination`)",
        35: "a broker older than the others, or a proxy that names APIs its broker does not know",
        38: "the cluster has fewer brokers than the replication factor, or it is below 1",
        40: "a topic configuration has a name or value the broker does not accept",
        43: "set message.format.version of the topic to 0.11.0 or newer",
        44: "create.topic.policy.class.name or alter.config.policy.class.name of the brokers says no",
        45: "another writer appended to the partition, or an earlier batch is missing",
        47: "another writer with the same transactional id took over",
        50: "raise transaction.max.timeout.ms of the brokers to at least 30000 (900000 is Kafka's own default)",
        53: "grant WRITE and DESCRIBE on the transactional id",
        54: "the brokers have no authorizer, so there are no ACLs to read or set: authorizer.class.name",
        58: "check user, password and mechanism",
        73: "set delete.topic.enable=true on the brokers",
        76: "set another compression.type for the topic",
        87: "a compacted topic takes no record without key; otherwise the broker's log names the reason",
        88: "a transaction that has not ended would commit an offset of the group: end it, or wait for its time-out",
        90: "another writer with the same transactional id took over",
        103: "the topic was deleted and created again",
    }
)


def error_for(code: int, *, what: str, message: str | None = None, **facts: Fact) -> MirrorlakeError:
    """Returns the error for a broker's code.

    It is returned, not raised, so that it can be one partition's result.

    Args:
        code: the broker's code; not 0, which is no error.
        what: what was being done to which topic, partition or id, as the start of a sentence; its first word names
            the API, which tells the right that is missing.
        message: the broker's own words, where the answer had any.
        facts: further fields for logs and JSON; ``code`` and ``code_name`` are added.
    """
    name = ERROR_NAMES.get(code)
    kind = _KINDS.get(code, UnsupportedError)
    said = f": {message}" if message else ""
    hint = missing_right(code, what=what, facts=facts)
    if not hint:
        hint = _HINTS.get(code, "" if name else "a broker newer than this version knows the code")
    return kind(
        f"{what} was answered with {name or 'an unknown code'} ({code}){said}",
        hint=hint,
        code=code,
        code_name=name,
        **facts,
    )
