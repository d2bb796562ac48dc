"""The control plane of one cluster: one client for all that is not the stream of batches."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from mirrorlake.errors import (
    BrokerNotReadyError,
    MirrorlakeError,
    UnsupportedError,
)
from mirrorlake.kafka.control.acls import Acls
from mirrorlake.kafka.control.brokers import Brokers
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.control.control_requests import (
    EARLIEST,
    LATEST,
    ControlRequest,
    Refused,
    delete_records_request,
)
from mirrorlake.kafka.control.coordinators import BeforeSend, Coordinators, at_any_time
from mirrorlake.kafka.control.descriptions import (
    AppendState,
    ClusterMetadata,
    LogEnd,
    ProducerIdentity,
    ProducerState,
    TransactionState,
)
from mirrorlake.kafka.control.groups import Groups
from mirrorlake.kafka.control.leaders import (
    Epochs,
    ask_append_states,
    ask_epoch_ends,
    ask_local_starts,
    ask_log_ends,
    ask_newest_times,
    ask_offsets,
    ask_one_kind,
    ask_reads,
)
from mirrorlake.kafka.control.one_fetch import fetch_once
from mirrorlake.kafka.control.topics import Topics
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.error_codes import (
    CONCURRENT_TRANSACTIONS,
)
from mirrorlake.kafka.wire.fetch import (
    READ_COMMITTED,
    FetchedPartition,
)
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition

__all__ = ["EARLIEST", "LATEST", "ClusterClient"]

_BUFFER_BYTES = 1 << 20
_TOTAL_BYTES_MAX = 16 << 20


class ClusterClient:
    """Asks one cluster. Belongs to the event loop it is first used on; close it, or use it with ``async with``.

    Results about several partitions, topics or ids hold an error as value for each that failed, so that one
    never hides the others. Methods raise only what concerns the whole call: the cluster cannot be reached at
    all, does not speak Kafka, or lacks an API. Nothing is tried again here but as the methods say; who calls
    decides that.

    Args:
        settings: of the cluster.
        buffers: what its connections receive into; without them, up to 16 MiB of its own.

    Attributes:
        settings: of the cluster.
        groups: asks for consumer groups.
        acls: asks for access rules, creates and deletes them.
        topics: creates topics, grows and deletes them, and asks for their configurations.
    """

    def __init__(self, settings: ClusterSettings, *, buffers: BufferPool | None = None) -> None:
        self.settings = settings
        self._brokers = Brokers(settings, buffers or BufferPool(_TOTAL_BYTES_MAX, _BUFFER_BYTES))
        self._coordinators = Coordinators(self._brokers)
        self.groups = Groups(self._brokers)
        self.acls = Acls(self._brokers)
        self.topics = Topics(self._brokers, settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections; whoever waits for an answer gets BrokerUnreachableError. Idempotent."""
        self._brokers.close()

    def close_if_silent(self, seconds: float) -> None:
        """Closes all connections where a request on one has waited for an answer for so long; the next call dials anew.

        For who keeps a client and asks nothing for a while: a connection that a network has forgotten stays silent for
        ever, and its requests get no older while nothing runs.
        """
        self._brokers.close_if_silent(seconds)

    @property
    def control_connections_made(self) -> int:
        """How many connections for short requests this client has opened to brokers: it grows where one was lost."""
        return self._brokers.control_connections_made

    async def connection(self, broker_id: int, *, use: str = "data") -> Connection:
        """Returns an open connection to a broker, dialling it if need be.

        A closed one is replaced by the next call, after a pause that grows from 0.05 to 2 s with each
        failure.

        Args:
            broker_id: as metadata names it.
            use: calls with the same word share a connection. Requests of one connection are answered in
                order, so a fetch that waits for data needs its own.

        Raises:
            BrokerUnreachableError: no such broker, or no connection.
            RequestTimeoutError: connected, but silent.
            NotKafkaError: something else answers at the broker's address.
        """
        return await self._brokers.connection(broker_id, use)

    async def lacking(self, apis: Sequence[Api]) -> dict[Api, UnsupportedError]:
        """Returns those of ``apis`` that some broker does not know, each with an error that names such a broker.

        Brokers that cannot be reached at the moment are left out.

        Raises:
            MirrorlakeError: none can be reached.
        """
        return await self._brokers.lacking(apis)

    # -- topics ---------------------------------------------------------------------------------------------

    async def metadata(self, topics: Sequence[str] | None = None, *, refresh: bool = False) -> ClusterMetadata:
        """Returns brokers and topics, from memory where all of it is known.

        Args:
            topics: names; None for all topics. Those that do not exist are absent from the result.
            refresh: ask again. Calls at the same time share one request, and requests are 0.1 s apart.
        """
        return await self._brokers.metadata(topics, refresh=refresh)

    # -- partitions -----------------------------------------------------------------------------------------

    async def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogEnd | MirrorlakeError]:
        """Returns the end of each leader's log: what is appended, replicated or not.

        Asked by OffsetForLeaderEpoch with the current epoch, which a broker that does not lead in that epoch
        refuses; ListOffsets answers the high watermark, which lags behind. One more try with fresh metadata.
        """
        return await ask_log_ends(self._brokers, partitions)

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogEnd | MirrorlakeError]:
        """Returns where the records of a leader epoch end in each leader's log, or those of the latest one before it.

        Both are −1 where the leader does not know. An end below what was once read of that epoch says that the log
        was cut and written anew (KIP-320).
        """
        return await ask_epoch_ends(self._brokers, epochs)

    async def list_offsets(
        self, partitions: Iterable[TopicPartition], *, timestamp: int, isolation_level: int = READ_COMMITTED
    ) -> dict[TopicPartition, int | MirrorlakeError]:
        """Returns for each partition the offset of the first record at or after a time.

        Args:
            partitions: about which.
            timestamp: milliseconds since the epoch, `LATEST` or `EARLIEST`.
            isolation_level: `READ_COMMITTED` bounds `LATEST` by the last stable offset, `READ_UNCOMMITTED` by
                the high watermark.

        Returns:
            Offsets; -1 where the leader finds no record that late, which is no proof that there is none: see
            `range_reader.first_at`. `LATEST` is exclusive of the last record.
        """
        return await ask_offsets(self._brokers, partitions, timestamp=timestamp, isolation_level=isolation_level)

    async def offset_at(
        self, partition: TopicPartition, timestamp: int, *, isolation_level: int = READ_COMMITTED
    ) -> int:
        """Returns what `list_offsets` does, of one partition.

        Raises:
            MirrorlakeError: it could not be asked.
        """
        asked = await self.list_offsets([partition], timestamp=timestamp, isolation_level=isolation_level)
        found = asked[partition]
        if isinstance(found, MirrorlakeError):
            raise found
        return found

    async def local_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | MirrorlakeError]:
        """Returns the first offset each leader has on its own disk; what lies below is in its remote tier (KIP-405).

        The log's start where nothing is remote, and where the broker is older than the question (ListOffsets 8): it
        has no such tier.
        """
        return await ask_local_starts(self._brokers, partitions)

    async def newest_times(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | MirrorlakeError | None]:
        """Returns the largest time in each leader's log in Unix milliseconds, -1 without records, None: not told.

        Of all that its segments have held: a record that was deleted from the head of one counts too. Brokers older
        than Kafka 3.0 do not tell.
        """
        return await ask_newest_times(self._brokers, partitions)

    async def append_states(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, AppendState | MirrorlakeError]:
        """Returns the producers each leader remembers, and its log end read after them, in one round trip.

        A follower answers about producers as if it led; the log end, asked with the epoch on the same
        connection, proves that it was the leader who answered.
        """
        return await ask_append_states(self._brokers, partitions)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerState, ...] | MirrorlakeError]:
        """Returns the producers each leader remembers; see `append_states` for how a follower is told."""
        states = await self.append_states(partitions)
        return {
            partition: state.producers if isinstance(state, AppendState) else state
            for partition, state in states.items()
        }

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | MirrorlakeError]:
        """Deletes what lies before an offset of each partition and returns the new log starts.

        Args:
            before: exclusive; -1 deletes up to the high watermark. Deleting again changes nothing.
        """

        def request(epochs: Epochs) -> ControlRequest[dict[TopicPartition, int | Refused]]:
            wanted = {partition: before[partition] for partition in epochs}
            return delete_records_request(wanted, timeout_ms=self._timeout_ms)

        return await ask_one_kind(self._brokers, before, request, what="DeleteRecords")

    async def fetch_once(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        max_bytes: int,
        isolation_level: int = READ_COMMITTED,
    ) -> tuple[Frame, FetchedPartition]:
        """Fetches what is there at an offset, without waiting for more.

        Args:
            partition: from which.
            offset: the answer begins with the batch that holds it, which may begin earlier.
            max_bytes: limit; the first batch comes whole however large.
            isolation_level: `READ_COMMITTED` or `READ_UNCOMMITTED`.

        Returns:
            The frame, to be released by the caller, and what it says; its records are part of the frame.

        Raises:
            MirrorlakeError: whatever went wrong, as this is about one partition.
            SourceTruncatedError: no such offset; names the ends of the log.
            BrokerNotReadyError: the leader refuses an offset that it holds, as it does for moments; ``code`` is 1.
        """
        return await fetch_once(
            self._brokers, self.settings, partition, offset, max_bytes=max_bytes, isolation_level=isolation_level
        )

    async def fetch_many(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FetchedPartition | MirrorlakeError]:
        """Fetches what is there at one offset of each partition, as a consumer of committed records, many to a request.

        For a look at many: of each it reads up to 16 KiB, and larger batches are cut or left out.
        Nothing follows from an empty answer. The records are the result's own.
        """
        return await ask_reads(self._brokers, offsets)

    # -- transactions ---------------------------------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str | None, *, transaction_timeout_ms: int, before_send: BeforeSend = at_any_time
    ) -> ProducerIdentity:
        """Returns a producer id to write with: with None a new one, else the transactional id's, fencing who had it.

        Waits while the coordinator loads, moves, or ends the transaction before (at most the request
        timeout). A lost answer may have raised the epoch; asking again is always safe. ``before_send`` is called right
        before the request goes out, each time; what it raises ends the waiting.

        Raises:
            BrokerNotReadyError: still not after that time.
            UnsupportedError: the timeout is above the broker's ``transaction.max.timeout.ms``.
            PermissionDeniedError: no ACL for the transactional id.
        """
        return await self._coordinators.init_producer_id(
            transactional_id, transaction_timeout_ms=transaction_timeout_ms, before_send=before_send
        )

    async def describe_transactions(
        self, transactional_ids: Sequence[str]
    ) -> dict[str, TransactionState | MirrorlakeError | None]:
        """Returns what the coordinators know of each id, changing nothing; None where an id was never used."""
        return await self._coordinators.describe(transactional_ids)

    async def add_partitions_to_transaction(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        partitions: Iterable[TopicPartition],
        *,
        before_send: BeforeSend = at_any_time,
    ) -> dict[TopicPartition, MirrorlakeError | None]:
        """Opens a transaction if none is open and makes partitions part of it; None for each that is.

        Waits while the transaction before is being ended (at most the request timeout). ``before_send`` as for
        `init_producer_id`.

        Raises:
            OutcomeUnknownError: the answer was lost.
        """
        return await self._coordinators.add_partitions(transactional_id, identity, partitions, before_send=before_send)

    async def end_transaction(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        *,
        committed: bool,
        before_send: BeforeSend = at_any_time,
    ) -> None:
        """Commits or aborts the open transaction; its markers may become visible a little later.

        ``before_send`` as for `init_producer_id`.

        Raises:
            PositionMovedError: fenced, or no such transaction.
            OutcomeUnknownError: the answer was lost.
            BrokerNotReadyError: not done now; nothing has changed.
        """
        await self._coordinators.end_transaction(
            transactional_id, identity, committed=committed, before_send=before_send
        )

    async def has_ended(self, transactional_id: str, identity: ProducerIdentity, *, committed: bool) -> bool:
        """Tells whether the end that `end_transaction` asked for last is complete, markers and all.

        For brokers without DescribeTransactions (before Kafka 3.0). The same end is asked for again: a coordinator
        compares the epoch first, and answers an end that has happened as done, changing nothing (``endTransaction``
        in Kafka's ``TransactionCoordinator``). So each answer also says that the identity is the newest.

        Raises:
            PositionMovedError: fenced, or the coordinator knows another end, or nothing of the id any more.
            OutcomeUnknownError: the answer was lost.
            BrokerNotReadyError: it could not be asked.
        """
        try:
            await self.end_transaction(transactional_id, identity, committed=committed)
        except BrokerNotReadyError as busy:
            if busy.facts.get("code") != CONCURRENT_TRANSACTIONS:
                raise
            return False
        return True

    # -- within ---------------------------------------------------------------------------------------------

    @property
    def _timeout_ms(self) -> int:
        return int(self.settings.request_timeout_seconds * 1000)
