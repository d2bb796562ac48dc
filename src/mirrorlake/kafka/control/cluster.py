"""The control plane of one cluster: one client for all that is not the stream of batches."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from mirrorlake.errors import (
    BrokerNotReadyError,
    MirrorlakeError,
    SourceTruncatedError,
    TopicMissingError,
    TransientError,
    UnsupportedError,
)
from mirrorlake.kafka.control.acls import Acls
from mirrorlake.kafka.control.admin_requests import (
    Configs,
    configs_reader,
    create_partitions_request,
    create_topic_request,
    delete_topic_request,
    describe_configs_request,
    new_topic_configs_request,
    set_topic_configs_request,
)
from mirrorlake.kafka.control.brokers import CONTROL, Brokers
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.control.control_requests import (
    ControlRequest,
    Refused,
    delete_records_request,
    list_offsets_request,
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
    ask_leaders,
    ask_local_starts,
    ask_log_ends,
    ask_newest_times,
    ask_one_kind,
    ask_reads,
)
from mirrorlake.kafka.control.rights import Rights, topic_rights_request
from mirrorlake.kafka.wire.apis import FETCH_VERSION, Api
from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.error_codes import (
    BROKER_NOT_AVAILABLE,
    CONCURRENT_TRANSACTIONS,
    NONE,
    OFFSET_OUT_OF_RANGE,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_for,
)
from mirrorlake.kafka.wire.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchPartition,
    decode_fetch,
    encode_fetch,
)
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition

LATEST = -1
"""Timestamp that stands for the end: the high watermark, or the last stable offset for `READ_COMMITTED`."""
EARLIEST = -2
"""Timestamp that stands for the log's start."""

CONFIGS_PER_REQUEST = 500
"""Topics: their configurations are some 0.7 MB then, which one buffer holds."""

_LEFT_OUT = Refused(-1, "the broker left it out of its answer")
_BUFFER_BYTES = 1 << 20
_TOTAL_BYTES_MAX = 16 << 20
_VISIBLE_PAUSE_SECONDS = 0.05


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
    """

    def __init__(self, settings: ClusterSettings, *, buffers: BufferPool | None = None) -> None:
        self.settings = settings
        self._brokers = Brokers(settings, buffers or BufferPool(_TOTAL_BYTES_MAX, _BUFFER_BYTES))
        self._coordinators = Coordinators(self._brokers)
        self._configs_reader = configs_reader()
        self.groups = Groups(self._brokers)
        self.acls = Acls(self._brokers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections; whoever waits for an answer gets BrokerUnreachableError. Idempotent."""
        self._brokers.close()

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

    async def create_topic(
        self, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str] | None = None
    ) -> bool:
        """Creates a topic and waits until all its partitions have leaders; returns False where it was there already.

        Args:
            name: of the topic. One that exists is left as it is, whatever its partitions and configuration.
            partitions: at least 1.
            replication_factor: -1 for the cluster's default.
            configs: topic configuration by name.

        Raises:
            UnsupportedError: replication factor, name or configuration are not possible there.
            PermissionDeniedError: an ACL or a policy says no.
            BrokerNotReadyError: created, but without leaders after the request timeout.
        """
        request = create_topic_request(
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs or {},
            timeout_ms=self._timeout_ms,
        )
        refused = await self._brokers.ask_controller(request)
        if refused is not None and refused.code == TOPIC_ALREADY_EXISTS:
            return False
        self._raise_for(refused, "CreateTopics", name)
        await self._until_led(name, partitions)
        return True

    async def new_topic_configs(
        self, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> dict[str, str | None]:
        """Returns the configuration a topic would have if it were created so, the cluster's defaults included.

        Creates nothing. Empty where the broker does not say, and where the topic is there already: then it has its own.

        Raises:
            MirrorlakeError: it could not be created so.
        """
        answer = await self._brokers.ask_controller(
            new_topic_configs_request(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                timeout_ms=self._timeout_ms,
            )
        )
        if not isinstance(answer, Refused):
            return answer
        if answer.code == TOPIC_ALREADY_EXISTS:
            return {}
        raise self._error(answer, "CreateTopics", name)

    async def create_partitions(self, name: str, *, partitions: int) -> None:
        """Raises the number of a topic's partitions to ``partitions`` and waits until all have leaders.

        Raises:
            TopicMissingError: no such topic.
            UnsupportedError: it has as many or more.
        """
        request = create_partitions_request(name, partitions=partitions, timeout_ms=self._timeout_ms)
        self._raise_for(await self._brokers.ask_controller(request), "CreatePartitions", name)
        await self._until_led(name, partitions)

    async def delete_topic(self, name: str) -> bool:
        """Deletes a topic; returns False where there was none."""
        refused = await self._brokers.ask_controller(delete_topic_request(name, timeout_ms=self._timeout_ms))
        self._brokers.forget_topic(name)
        if refused is not None and refused.code == UNKNOWN_TOPIC_OR_PARTITION:
            return False
        self._raise_for(refused, "DeleteTopics", name)
        return True

    async def describe_topic_configs(self, names: Sequence[str]) -> dict[str, Configs | MirrorlakeError]:
        """Returns all configurations of each topic by name, those from defaults included.

        Topics that have the same ones may share a mapping: nobody changes it.
        """
        found: dict[str, Configs | MirrorlakeError] = {}
        for start in range(0, len(names), CONFIGS_PER_REQUEST):
            asked = names[start : start + CONFIGS_PER_REQUEST]
            answers = await self._brokers.ask_any(describe_configs_request(asked, self._configs_reader))
            for name in asked:
                answer = answers.get(name, _LEFT_OUT)
                found[name] = self._error(answer, "DescribeConfigs", name) if isinstance(answer, Refused) else answer
        return found

    async def set_topic_configs(self, name: str, configs: Mapping[str, str], *, is_trial: bool = False) -> None:
        """Sets configurations of a topic, all or none; its others stay as they are. A trial only asks if they could be.

        Raises:
            TopicMissingError: no such topic.
            PermissionDeniedError: an ACL or a policy says no.
            UnsupportedError: the brokers do not take one of them.
        """
        refused = await self._brokers.ask_controller(set_topic_configs_request(name, configs, is_trial=is_trial))
        self._raise_for(refused, "IncrementalAlterConfigs", name)

    async def topic_rights(self, names: Sequence[str]) -> Rights:
        """Returns what this user may do with each topic, by Kafka's names such as ``WRITE``.

        Topics that do not exist or may not be described, and all of them where the brokers are older than 2.3, are
        absent: what may be done with them is not known.
        """
        return await self._brokers.ask_any(topic_rights_request(names)) if names else {}

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

        def request(epochs: Epochs) -> ControlRequest[dict[TopicPartition, int | Refused]]:
            return list_offsets_request(epochs, timestamp=timestamp, isolation_level=isolation_level)

        return await ask_one_kind(self._brokers, partitions, request, what="ListOffsets")

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

        async def ask(broker_id: int, epochs: Epochs) -> dict[TopicPartition, Refused | tuple[Frame, FetchedPartition]]:
            connection = await self._brokers.connection(broker_id, CONTROL)
            asked = FetchPartition(
                topic=partition.topic,
                partition=partition.partition,
                fetch_offset=offset,
                partition_bytes_max=max_bytes,
                leader_epoch=epochs[partition],
            )
            body = encode_fetch(
                [asked], max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, isolation_level=isolation_level
            )
            frame = await connection.request(
                Api.FETCH, FETCH_VERSION, (body,), timeout_seconds=self.settings.request_timeout_seconds
            )
            return {partition: _only_partition(frame)}

        result = (await ask_leaders(self._brokers, (partition,), ask, what="Fetch"))[partition]
        if isinstance(result, SourceTruncatedError):
            raise await self._why_refused(partition, offset, result) from result
        if isinstance(result, MirrorlakeError):
            raise result
        return result

    async def fetch_many(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FetchedPartition | MirrorlakeError]:
        """Fetches what is there at one offset of each partition, as a consumer of committed records, many to a request.

        For a look at many: of each it reads up to 16 KiB, and larger batches are cut or left out.
        Nothing follows from an empty answer. The records are the result's own.
        """
        return await ask_reads(self._brokers, offsets)

    async def _why_refused(
        self, partition: TopicPartition, offset: int, refusal: SourceTruncatedError
    ) -> MirrorlakeError:
        """Returns what it means that a leader called an offset out of range."""
        start = (await self.list_offsets([partition], timestamp=EARLIEST))[partition]
        end = (await self.log_ends([partition]))[partition]
        if not isinstance(start, int) or not isinstance(end, LogEnd):
            return refusal
        if start <= offset <= end.end_offset:
            return BrokerNotReadyError(
                f"the leader of {partition} in cluster {self.settings.name!r} refuses offset {offset}, and its log "
                f"holds {start} up to {end.end_offset}",
                hint="it is read again",
                code=OFFSET_OUT_OF_RANGE,
                position=offset,
            )
        return SourceTruncatedError(
            f"offset {offset} of {partition} in cluster {self.settings.name!r} is not there, "
            f"its log holds {start} up to {end.end_offset}",
            hint="records were deleted while they were read, or the topic was cut or recreated; run it again",
            position=offset,
            log_start=start,
            log_end=end.end_offset,
        )

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

    async def _until_led(self, name: str, partitions: int) -> None:
        """Waits until every partition's leader answers as such; metadata names it a moment before it knows."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.settings.request_timeout_seconds
        wanted = [TopicPartition(name, number) for number in range(partitions)]
        while True:
            # Not their log ends: a topic in a format before Kafka 0.11 has no leader epochs to find them by.
            ends = await self.list_offsets(wanted, timestamp=LATEST, isolation_level=READ_UNCOMMITTED)
            if not any(isinstance(end, TransientError | TopicMissingError) for end in ends.values()):
                return
            if loop.time() > deadline:
                break
            await asyncio.sleep(_VISIBLE_PAUSE_SECONDS)
            await self.metadata((name,), refresh=True)
        raise BrokerNotReadyError(
            f"topic {name} is there in cluster {self.settings.name!r}, but not all its partitions have leaders yet",
            topic=name,
        )

    def _raise_for(self, refused: Refused | None, what: str, topic: str) -> None:
        if refused is not None:
            raise self._error(refused, what, topic)

    def _error(self, refused: Refused, what: str, topic: str) -> MirrorlakeError:
        what = f"{what} of {topic} in cluster {self.settings.name!r}"
        return error_for(refused.code, what=what, message=refused.message, topic=topic)


def _only_partition(frame: Frame) -> Refused | tuple[Frame, FetchedPartition]:
    """Returns the frame with its only partition, or releases it."""
    try:
        fetched = decode_fetch(frame.view)
    except MirrorlakeError:
        frame.release()
        raise
    if len(fetched) != 1:
        frame.release()
        # Not that it is unknown: who has used up a quota of bytes is answered with nothing at all.
        return Refused(BROKER_NOT_AVAILABLE, "the broker left it out of its answer, as where a quota is used up")
    if fetched[0].error_code != NONE:
        frame.release()
        return Refused(fetched[0].error_code)
    return frame, fetched[0]
