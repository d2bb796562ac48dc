"""Why a partition stands parked: names that scripts and alerts may rely on; ``docs/operations.md`` explains each."""

from collections.abc import Mapping
from types import MappingProxyType

from mirrorlake.errors import (
    AuthenticationFailedError,
    ChainBrokenError,
    CorruptBatchError,
    DestinationAheadError,
    DestinationForeignError,
    MirrorlakeError,
    MisalignedError,
    NotKafkaError,
    OtherMirrorError,
    OtherSourceError,
    PartitionCountError,
    PermissionDeniedError,
    RecordRefusedError,
    RecordTooLargeError,
    SourceDivergedError,
    SourceGapError,
    SourceTruncatedError,
    StoreUnusableError,
    TopicMissingError,
    TopicRecreatedError,
    UnsupportedError,
    UntrustedBrokerError,
)

PARK_NAMES: Mapping[type[MirrorlakeError], str] = MappingProxyType(
    {
        SourceTruncatedError: "truncated",
        SourceDivergedError: "diverged",
        TopicRecreatedError: "recreated",
        TopicMissingError: "missing",
        SourceGapError: "gap",
        CorruptBatchError: "corrupt",
        DestinationAheadError: "ahead",
        DestinationForeignError: "foreign",
        MisalignedError: "misaligned",
        OtherSourceError: "other-source",
        OtherMirrorError: "other-mirror",
        PartitionCountError: "partition-count",
        RecordTooLargeError: "too-large",
        RecordRefusedError: "record-refused",
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


def park_name(error: MirrorlakeError) -> str:
    """Returns the name of what parks a partition: that of the error's class, or of the nearest class above it."""
    for kind in type(error).__mro__:
        if issubclass(kind, MirrorlakeError) and kind in PARK_NAMES:
            return PARK_NAMES[kind]
    return "parked"
