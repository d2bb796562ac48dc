"""Makes a transactional id ours, and leaves no transaction of it open.

InitProducerId fences whoever held the id and ends its transaction. That is not all: a coordinator that finds a
partition without a leader when a transaction ends leaves it out and calls the transaction complete, and an unclean
election may lose a marker. Our data then stands open there for ever, holds back every reader, and shares the fate of
*our next* transaction that touches the partition: an abort would discard what was committed. So it is looked for after
each transaction and at each take-over, and closed by a transaction of the same id that writes nothing but its marker.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mirrorlake.destinations.interface import HandedOn
from mirrorlake.destinations.map.progress import (
    KeyAndValue,
    MapProgress,
    ProgressKey,
    decode_progress,
    decode_progress_key,
)
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, SourceTruncatedError, UnsupportedError
from mirrorlake.kafka.control.cluster import LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import ProducerIdentity, TransactionState
from mirrorlake.kafka.control.holes import check_empty
from mirrorlake.kafka.control.known_offsets import fetch_known
from mirrorlake.kafka.records.aborted import AbortedTransactions
from mirrorlake.kafka.records.batches import next_sequence, walk
from mirrorlake.kafka.records.codec import decode_batches
from mirrorlake.kafka.wire.fetch import READ_COMMITTED, READ_UNCOMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition

TRANSACTION_TIMEOUT_MS = 30_000
"""What a writer that died may hold back readers of the destination, should nobody take over."""

IS_OVER = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
"""The coordinator's states in which no marker is on its way any more."""

_PAUSE_SECONDS_MIN = 0.001
_PAUSE_SECONDS_MAX = 0.1
_PATIENCE_SECONDS = 0.05
"""A marker is there within a few milliseconds; only then is the coordinator asked."""

_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a partition's leader knows of our producer id.

    ``open_from`` is the first offset of a transaction of ours that is open there, None where none is. ``sequence`` is
    the next one it expects of our epoch. ``end_offset`` is its log end, ``leader_epoch`` the epoch it leads in.
    ``has_written`` where it remembers that our producer id has written there, in whatever epoch.
    """

    open_from: int | None
    sequence: int
    end_offset: int
    leader_epoch: int
    has_written: bool


class TransactionFence:
    """One transactional id at one cluster.

    Args:
        client: of the destination cluster.
        transactional_id: whose transactions.
    """

    def __init__(self, client: ClusterClient, transactional_id: str) -> None:
        self._client = client
        self._transactional_id = transactional_id

    async def fence(self) -> ProducerIdentity:
        """Takes the id over: whoever held it can write nothing more, and its open transaction is aborted.

        Raises:
            MirrorlakeError: the coordinator could not do it.
        """
        return await self._client.init_producer_id(
            self._transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )

    async def still_holds(self, handed_on: HandedOn, progress: TopicPartition) -> bool:
        """Tells whether nothing has happened under the id since it was handed on.

        The coordinator must name the same producer and no open transaction, and the progress partition, which every
        transaction writes to, must expect the very sequence that was handed on.
        """
        found = (await self._client.describe_transactions([self._transactional_id])).get(self._transactional_id)
        if not isinstance(found, TransactionState) or found.state not in IS_OVER:
            return False
        if (found.producer_id, found.producer_epoch) != (
            handed_on.identity.producer_id,
            handed_on.identity.producer_epoch,
        ):
            return False
        standing = (await self.look(handed_on.identity, [progress]))[progress]
        expected = handed_on.sequences.get((progress.topic, progress.partition), 0)
        return standing.open_from is None and standing.sequence == expected

    async def look(
        self, identity: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Standing]:
        """Returns how each partition stands to our producer id.

        Raises:
            MirrorlakeError: one of them could not be asked.
        """
        result: dict[TopicPartition, Standing] = {}
        for partition, state in (await self._client.append_states(partitions)).items():
            if isinstance(state, MirrorlakeError):
                raise state
            ours = [each for each in state.producers if each.producer_id == identity.producer_id]
            current = next((each for each in ours if each.producer_epoch == identity.producer_epoch), None)
            starts = [each.transaction_start_offset for each in ours if each.transaction_start_offset is not None]
            result[partition] = Standing(
                open_from=min(starts, default=None),
                sequence=next_sequence(current.last_sequence, 1) if current else 0,
                end_offset=state.log_end.end_offset,
                leader_epoch=state.log_end.leader_epoch,
                has_written=bool(ours),
            )
        return result

    async def close(
        self, identity: ProducerIdentity, partitions: Collection[TopicPartition], *, committed: bool
    ) -> None:
        """Ends what stands open on some partitions by a transaction that writes nothing, and waits for its markers.

        Raises:
            PositionMovedError: fenced by another writer.
            OutcomeUnknownError: an answer was lost.
            BrokerNotReadyError: it is still open afterwards.
        """
        added = await self._client.add_partitions_to_transaction(self._transactional_id, identity, partitions)
        for error in added.values():
            if error is not None:
                raise error
        await self._client.end_transaction(self._transactional_id, identity, committed=committed)
        still_open = await self.until_closed(identity, partitions, committed=committed)
        if still_open:
            raise BrokerNotReadyError(
                f"a transaction of {self._transactional_id} stands open on {', '.join(map(str, still_open))}, although "
                "its coordinator calls it complete",
                hint="it is tried again; kafka-transactions.sh find-hanging shows it",
            )

    async def until_closed(
        self, identity: ProducerIdentity, partitions: Collection[TopicPartition], *, committed: bool = True
    ) -> Mapping[TopicPartition, int]:
        """Waits for the markers of a transaction that has ended; returns where they will never come.

        Args:
            identity: whose.
            partitions: that were part of it.
            committed: how it ended.

        Returns:
            First offsets of ours that stand open although the coordinator had called the transaction complete before
            the leaders were asked.

        Raises:
            BrokerNotReadyError: the coordinator is not done after the request timeout.
            MirrorlakeError: a leader or the coordinator could not be asked.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        pause, is_over = _PAUSE_SECONDS_MIN, False
        while True:
            standings = await self.look(identity, partitions)
            still_open = {at: each.open_from for at, each in standings.items() if each.open_from is not None}
            if not still_open or is_over:
                return still_open
            waited = loop.time() - began
            if waited > self._client.settings.request_timeout_seconds:
                raise BrokerNotReadyError(f"the markers of {self._transactional_id} are not written yet")
            if waited > _PATIENCE_SECONDS:
                is_over = await self._is_over(identity, committed=committed)
            await asyncio.sleep(pause)
            pause = min(_PAUSE_SECONDS_MAX, pause * 2)

    async def _is_over(self, identity: ProducerIdentity, *, committed: bool) -> bool:
        found = (await self._client.describe_transactions([self._transactional_id])).get(self._transactional_id)
        if isinstance(found, UnsupportedError):  # before Kafka 3.0
            return await self._client.has_ended(self._transactional_id, identity, committed=committed)
        return isinstance(found, TransactionState) and found.state in IS_OVER

    async def progress_was_committed(self, identity: ProducerIdentity, progress: TopicPartition, start: int) -> bool:
        """Tells how a transaction ended whose marker never came to its progress, by its data, where markers came.

        Where nothing of it can be found decided, nobody has seen it committed, and False is right.

        Raises:
            MirrorlakeError: a partition could not be read.
        """
        for key, value in await self.written_from(identity, progress, start):
            written = decode_progress(value or b"")
            if written.destination_offset is not None:
                where = TopicPartition(decode_progress_key(key).destination_topic, written.destination_partition)
                if await self._is_committed(where, written.destination_offset):
                    return True
        return False

    async def written_from(
        self, identity: ProducerIdentity, partition: TopicPartition, start: int
    ) -> list[KeyAndValue]:
        """Returns key and value of every record our producer id wrote from an offset on, committed or not.

        Raises:
            MirrorlakeError: the partition could not be read.
        """
        end = (await self.look(identity, [partition]))[partition].end_offset
        offsets = OffsetRange(start_offset=start, end_offset=max(start, end))
        return await read_written_by(self._client, partition, identity.producer_id, offsets)

    async def _is_committed(self, partition: TopicPartition, offset: int) -> bool:
        """Tells whether a reader of committed data sees the record at an offset.

        Raises:
            MirrorlakeError: the partition could not be read; an answer that hides what it holds is none.
        """
        if offset >= await self._client.offset_at(partition, LATEST):
            return False
        try:
            frame, answer = await self._client.fetch_once(
                partition, offset, max_bytes=_READ_BYTES, isolation_level=READ_COMMITTED
            )
        except SourceTruncatedError:
            return False
        with frame:
            aborted = AbortedTransactions(answer.aborted)
            for batch in walk(answer.records):
                is_aborted = aborted.is_aborted(batch)
                if batch.header.last_offset >= offset:
                    return batch.header.base_offset <= offset and not is_aborted
        await check_empty(self._client, partition, offset, readable_end=answer.last_stable_offset)
        return False


def was_data_committed(known: Mapping[ProgressKey, MapProgress], destination: TopicPartition, open_from: int) -> bool:
    """Tells whether committed progress reaches past the first open offset of a destination partition. Pure.

    An open transaction of ours is always the last one that wrote there: none is begun before the one before is seen to
    be closed everywhere. So if it was committed, the progress of one of its sources ends behind it.
    """
    return any(
        TopicPartition(key.destination_topic, each.destination_partition) == destination
        and each.destination_end > open_from
        for key, each in known.items()
    )


async def read_written_by(
    client: ClusterClient, partition: TopicPartition, producer_id: int, offsets: OffsetRange
) -> list[KeyAndValue]:
    """Returns key and value of every record that a producer id wrote in a range, committed or not.

    What is not replicated yet is not among it.

    Raises:
        MirrorlakeError: the partition could not be read.
    """
    start, end = offsets.start_offset, offsets.end_offset
    records: list[KeyAndValue] = []
    while start < end:
        frame, answer = await fetch_known(
            client, partition, start, max_bytes=_READ_BYTES, isolation_level=READ_UNCOMMITTED
        )
        with frame:
            batches = [batch for batch in walk(answer.records) if batch.header.last_offset >= start]
            if not batches:
                await check_empty(client, partition, start, readable_end=answer.high_watermark)
                break  # the broker gives no more of it out
            found = [each for each in batches if each.header.producer_id == producer_id and not each.header.is_control]
            columns = decode_batches(found, start_offset=start, end_offset=end)
            start = batches[-1].header.next_offset
        records += zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True)
    return records
