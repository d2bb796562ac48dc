"""The tree of errors. Every error a user can cause is one of these; foreign exceptions are wrapped at the edge.

MirrorlakeError
├── TransientError               try again later, bounded and visible
│   ├── BrokerUnreachableError   no connection, or it broke
│   ├── RequestTimeoutError      no answer before the deadline
│   ├── BrokerNotReadyError      the broker asks for patience (leader moves, coordinator loads, too few replicas)
│   ├── RemoteTierError          the remote tier of a log does not give out what it holds
│   ├── PositionMovedError       another writer moved the position first: read it again
│   ├── StoreUnavailableError    the archive's store does not answer, or is full
│   ├── SourceAbsentError        at the source archive's place is none now, or another one
│   ├── RangeUnknownError        what may be read of a partition is not known yet, so nothing is
│   ├── TokenUnavailableError    the token endpoint does not answer
│   ├── ClaimAheadError          a claim in an archive lies past the source's end, as it may for a moment
│   ├── NotOwnerError            what only the owner of a mirror may do waits for the ownership
│   ├── LeaseLateError           a lease came to its worker when its time was over
│   ├── PartitionUnbegunError    a lease was over before it came to a partition
│   ├── ExecutorUncheckedError   a task came to an executor of a cluster that nobody has looked at yet
│   ├── RegistryUnavailableError  a schema registry does not answer, or asks for patience
│   ├── SubjectMovedError        a subject changes while it is mirrored: look again
│   ├── SchemaUnknownError       records carry schema ids nobody has asked the registry about yet
│   ├── SizeRefusedError         a batch is larger than the destination takes now: its records go in smaller ones
│   └── OutcomeUnknownError      the answer to a write was lost: read the destination, then decide
├── PermanentError               the partition is parked until somebody acts
│   ├── NotKafkaError            something else answers at the address
│   ├── UnsupportedError         the peer, or this version, cannot do what is asked
│   ├── UntrustedBrokerError     the broker's certificate is not one to trust
│   ├── AuthenticationFailedError  the cluster does not believe who we say we are
│   ├── TopicMissingError        no such topic or partition
│   ├── PermissionDeniedError    the cluster or the store says no
│   ├── CorruptBatchError        bytes that are not what they claim to be
│   ├── BatchTooLargeError       a batch decompresses to more than is allowed
│   ├── SourceGapError           the source has no record where the destination needs one
│   ├── SourceTruncatedError     the source no longer has what the destination needs next
│   ├── SourceDivergedError      the source has other records below the position than those copied
│   ├── TopicRecreatedError      the source topic was deleted and recreated
│   ├── DestinationForeignError  the destination holds what this mirror did not write
│   │   ├── MisalignedError      records landed at other offsets than they have at the source
│   │   ├── WrongTimestampsError  records got other times than `timestamp-mode` says
│   │   ├── OtherSourceError     it was filled from another source cluster
│   │   └── OtherMirrorError     another mirror fills it
│   ├── DestinationAheadError    the destination is past the source's end
│   ├── CollisionError           two mirrors would write one place
│   ├── LoopError                records would come back to where they were read
│   ├── LostTailError            the destination no longer holds what was written there last
│   ├── LostProgressError        what a mirror with mapped offsets must know of itself is gone
│   ├── PartitionCountError      source and destination differ in their number of partitions
│   ├── RecordTooLargeError      the destination refuses the size
│   ├── RecordRefusedError       the destination refuses the record for another reason
│   ├── SelectFailedError        an expression of `select` has no value for a record
│   ├── RouteFailedError         a route has no topic for a record
│   ├── RouteChangedError        a route was changed while its topics stand at different positions
│   ├── SchemaUnreadableError    a record names no schema that its readers at the destination could get
│   ├── RegistryError            what is wrong with a registry or a subject; it parks no partition
│   │   ├── NotRegistryError     something else than a schema registry answers at the address
│   │   ├── RegistryRefusedError  a schema registry refuses what it was told
│   │   ├── SubjectRefusedError  what a registry holds of a subject cannot become what it should be
│   │   └── SchemaAlteredError   a registry does not hold what was registered there
│   ├── ChainBrokenError         files of an archive that do not follow one another, or are not ours
│   └── StoreUnusableError       the archive's folder is missing, read-only, or cannot publish atomically
├── SupersededError              another process has taken the mirror over
├── CommandRefusedError          a running service does not do what it was told; nothing changed
├── QueryError                   a query over archives and topics is not understood, or could not be answered
├── ConfigurationError           the configuration cannot be used  (a list of places and remedies)
├── JavaUnusableError            Java or Spark cannot be started on this machine
├── StartStoppedError            a start was ended by a signal
└── ServerUnusableError          an embedded server cannot be fetched or does not start
"""

from collections.abc import Mapping

Fact = str | int | float | None


class MirrorlakeError(Exception):
    """Root of all errors of this package.

    Args:
        message: what happened to which cluster, topic, partition and offsets, expected and found.
        hint: what to do about it; empty where the message says it all.
        facts: the same facts as fields, for logs and JSON.
    """

    def __init__(self, message: str, *, hint: str = "", **facts: Fact) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts: Mapping[str, Fact] = facts

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, and errors cross process borders.
        return (_rebuild, (type(self), self.message, self.hint, dict(self.facts)))


def _rebuild(kind: type[MirrorlakeError], message: str, hint: str, facts: dict[str, Fact]) -> MirrorlakeError:
    return kind(message, hint=hint, **facts)


class TransientError(MirrorlakeError):
    """Trying again later may help; the supervisor does so with a bounded back-off."""


class BrokerUnreachableError(TransientError):
    """A broker could not be connected to, or the connection broke."""


class RequestTimeoutError(TransientError):
    """A broker did not answer before the request's deadline."""


class BrokerNotReadyError(TransientError):
    """A broker answered that it cannot serve the request at the moment."""


class RemoteTierError(TransientError):
    """A partition gives nothing at an offset that only its remote tier holds: slower than its broker waits for it."""


class PositionMovedError(TransientError):
    """Another writer moved the destination's position; nothing of ours was appended in its place."""


class StoreUnavailableError(TransientError):
    """The store of an archive does not answer, or has no room."""


class SourceAbsentError(TransientError):
    """The archive that is copied is not at its place: its file system is not mounted, or another archive lies there."""


class RangeUnknownError(TransientError):
    """No look has told yet which records of a source partition are to be read; until one has, none is."""


class TokenUnavailableError(TransientError):
    """The token endpoint does not answer, or has no token at the moment; no connection can be opened meanwhile."""


class ClaimAheadError(TransientError):
    """A claim reaches past the source's end. Its writer may have seen an end this process does not see yet."""


class NotOwnerError(TransientError):
    """What only the mirror's owner may do waits: this process could not take the mirror over yet."""


class LeaseLateError(TransientError):
    """A lease reached its worker so late that nobody reckons with its writes any more; it did nothing."""


class PartitionUnbegunError(TransientError):
    """A lease with many partitions was over before it came to this one; nothing of it was done."""


class ExecutorUncheckedError(TransientError):
    """A task came to an executor that has just joined a cluster and was not looked at yet; it did nothing."""


class RegistryUnavailableError(TransientError):
    """A schema registry does not answer, or not now. What it was told may or may not have been done."""


class SubjectMovedError(TransientError):
    """Somebody else changes a subject while it is read or mirrored; nothing is concluded from what was seen."""


class SchemaUnknownError(TransientError):
    """Records carry schema ids that are not in the map yet; nothing of their batch was sent. ``ids`` names them."""


class SizeRefusedError(TransientError):
    """A broker refused a batch for its size; nothing was appended. With ``bytes`` and ``records`` of it."""


class OutcomeUnknownError(TransientError):
    """The answer to a write was lost: it may or may not have happened. The destination must be read again."""


class PermanentError(MirrorlakeError):
    """Trying again cannot help; the partition is parked, visible, until somebody acts."""


class NotKafkaError(PermanentError):
    """Something that does not speak the Kafka protocol answers at the address."""


class UnsupportedError(PermanentError):
    """The peer, or this version of mirrorlake, cannot do what is asked."""


class UntrustedBrokerError(PermanentError):
    """The broker's certificate has another name, another issuer or another time; nothing was sent to it."""


class AuthenticationFailedError(PermanentError):
    """The cluster refuses the password, the token, the mechanism or the client's certificate."""


class TopicMissingError(PermanentError):
    """A topic or partition does not exist."""


class PermissionDeniedError(PermanentError):
    """The cluster or the store refuses the operation to this user."""


class CorruptBatchError(PermanentError):
    """Bytes of a record batch are not what they claim to be.

    Args:
        message: what is wrong.
        offset: base offset of the batch as far as it could be read, else the offset asked for.
    """


class BatchTooLargeError(PermanentError):
    """A record batch decompresses to more bytes than are allowed; nothing is wrong with it."""


class SourceGapError(PermanentError):
    """The source has no record at offsets which a destination with equal offsets needs filled."""


class SourceTruncatedError(PermanentError):
    """The source's log start is past the destination's position."""


class SourceDivergedError(PermanentError):
    """The source's log was cut below the position and written anew, as after an unclean leader election."""


class TopicRecreatedError(PermanentError):
    """The source topic was deleted and recreated: its offsets mean other records than those copied so far."""


class DestinationForeignError(PermanentError):
    """The destination holds records this mirror did not write."""


class MisalignedError(DestinationForeignError):
    """Records of this mirror stand at other offsets of the destination than they have at the source."""


class WrongTimestampsError(DestinationForeignError):
    """Records of this mirror have other times at the destination than ``timestamp-mode`` says."""


class OtherSourceError(DestinationForeignError):
    """The destination was filled from another source cluster than the one configured."""


class OtherMirrorError(DestinationForeignError):
    """Another mirror fills the destination topic."""


class DestinationAheadError(PermanentError):
    """The destination's position is past the source's end."""


class CollisionError(PermanentError):
    """Two mirrors, or two topics of one, would write one destination partition or one archive's folder."""


class LoopError(PermanentError):
    """A topic's records came from where the mirror would bring them."""


class LostTailError(PermanentError):
    """The destination's log was cut: records that are known to have been written there are gone."""


class LostProgressError(PermanentError):
    """The progress or the offset maps of a mirror are gone, or older than its copy: it would copy twice."""


class PartitionCountError(PermanentError):
    """The destination topic has another number of partitions than the source."""


class RecordTooLargeError(PermanentError):
    """A batch or record is larger than the destination accepts."""


class RecordRefusedError(PermanentError):
    """The destination refuses a record (timestamp limits, missing key on a compacted topic, …)."""


class SelectFailedError(PermanentError):
    """An expression of `select` has no value for a record of the source; nothing from that record on was copied."""


class RouteFailedError(PermanentError):
    """A route names no topic for a record of the source; nothing from that record on was copied."""


class RouteChangedError(PermanentError):
    """A route was changed while its topics are at different positions; records between would be twice, or nowhere."""


class SchemaUnreadableError(PermanentError):
    """A record names no schema that its readers could get: too short, not framed, or an unknown id. Nothing was sent.

    With ``offset``, ``side`` (key or value) and ``framing``.
    """


class RegistryError(PermanentError):
    """Something is wrong with a schema registry or a subject, for good. No partition is parked by it."""


class NotRegistryError(RegistryError):
    """Something that does not speak Confluent's REST API answers at a registry's address."""


class RegistryRefusedError(RegistryError):
    """A schema registry refuses a request: the schema, the level, the mode, or the operation as such."""


class SubjectRefusedError(RegistryError):
    """A subject cannot be mirrored: two histories that no change in order makes equal. Nothing was changed."""


class SchemaAlteredError(RegistryError):
    """A registry holds another schema than was registered there, or takes two schemas as one."""


class ChainBrokenError(PermanentError):
    """The files of an archived partition do not follow one another, or are not ours."""


class StoreUnusableError(PermanentError):
    """The store cannot hold an archive: missing, read-only, or without an atomic create."""


class SupersededError(MirrorlakeError):
    """Another process has taken this mirror over; this one must end."""


class CommandRefusedError(MirrorlakeError):
    """A running service does not do what it was told, such as for a name that nobody has; nothing changed."""


class QueryError(MirrorlakeError):
    """A query over archives and topics is not understood, or could not be answered."""


class ConfigurationError(MirrorlakeError):
    """The configuration cannot be used."""


class JavaUnusableError(MirrorlakeError):
    """Java, or Spark on it, cannot be started on this machine."""


class StartStoppedError(MirrorlakeError):
    """A start was ended before it was done, as its process was asked to stop."""


class ServerUnusableError(MirrorlakeError):
    """A server for the demo or the tests cannot be fetched, or does not start, on this machine."""
