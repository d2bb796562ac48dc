"""Why a partition stands parked: names that scripts and alerts may rely on; ``docs/operations.md`` explains each."""

from collections.abc import Mapping
from types import MappingProxyType

from mirrorlake.errors import (
    AuthenticationFailedError,
    BatchTooLargeError,
    ChainBrokenError,
    CollisionError,
    CorruptBatchError,
    DestinationAheadError,
    DestinationForeignError,
    LoopError,
    LostProgressError,
    LostTailError,
    MirrorlakeError,
    MisalignedError,
    NotKafkaError,
    OtherMirrorError,
    OtherSourceError,
    PartitionCountError,
    PermissionDeniedError,
    RecordRefusedError,
    RecordTooLargeError,
    RemoteTierError,
    RouteChangedError,
    RouteFailedError,
    SchemaUnknownError,
    SchemaUnreadableError,
    SelectFailedError,
    SourceDivergedError,
    SourceGapError,
    SourceTruncatedError,
    StoreUnusableError,
    TopicMissingError,
    TopicRecreatedError,
    UnsupportedError,
    UntrustedBrokerError,
    WrongTimestampsError,
)

PARK_NAMES: Mapping[type[MirrorlakeError], str] = MappingProxyType(
    {
        SourceTruncatedError: "truncated",
        SourceDivergedError: "diverged",
        TopicRecreatedError: "recreated",
        TopicMissingError: "missing",
        SourceGapError: "gap",
        CorruptBatchError: "corrupt",
        BatchTooLargeError: "batch-too-large",
        DestinationAheadError: "ahead",
        LostTailError: "lost-tail",
        LostProgressError: "lost-progress",
        DestinationForeignError: "foreign",
        MisalignedError: "misaligned",
        WrongTimestampsError: "wrong-timestamps",
        OtherSourceError: "other-source",
        OtherMirrorError: "other-mirror",
        CollisionError: "collision",
        LoopError: "loop",
        PartitionCountError: "partition-count",
        RecordTooLargeError: "too-large",
        RecordRefusedError: "record-refused",
        SchemaUnreadableError: "unreadable-schema",
        SelectFailedError: "select-failed",
        RouteFailedError: "route-failed",
        RouteChangedError: "route-changed",
        ChainBrokenError: "chain-broken",
        StoreUnusableError: "store-unusable",
        PermissionDeniedError: "denied",
        AuthenticationFailedError: "not-authenticated",
        UntrustedBrokerError: "untrusted-broker",
        NotKafkaError: "not-kafka",
        UnsupportedError: "unsupported",
    }
)
"""One name for each class of errors that park; a class without a name of its own has its parent's."""


WAIT_NAMES: Mapping[type[MirrorlakeError], str] = MappingProxyType(
    {RemoteTierError: "remote-tier", SchemaUnknownError: "schema-ids"}
)
"""What partitions wait for that nothing is wrong with; all other errors that do not park are failures."""


def wait_name(error: MirrorlakeError | None) -> str:
    """Returns the name of what a partition waits for, empty where it does not wait."""
    return "" if error is None else WAIT_NAMES.get(type(error), "")


def park_name(error: MirrorlakeError) -> str:
    """Returns the name of what parks a partition: that of the error's class, or of the nearest class above it."""
    for kind in type(error).__mro__:
        if issubclass(kind, MirrorlakeError) and kind in PARK_NAMES:
            return PARK_NAMES[kind]
    return "parked"
