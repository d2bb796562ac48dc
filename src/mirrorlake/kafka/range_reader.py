"""Reads a range of a Kafka partition as records, as a ``read_committed`` consumer would see them."""

import asyncio
from collections.abc import AsyncIterator

from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, SourceTruncatedError
from mirrorlake.kafka.batches import AbortedTransactions, Path, classify, walk
from mirrorlake.kafka.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.codec import RecordColumns, decode_batches
from mirrorlake.kafka.descriptions import AppendState, LogEnd
from mirrorlake.kafka.fetch import READ_COMMITTED, FetchedPartition
from mirrorlake.kafka.frame import Frame
from mirrorlake.offsets import OffsetRange, TopicPartition

FETCH_BYTES = 8 << 20
EMPTY_ANSWERS_MAX = 20
"""Answers in a row that bring nothing although the range goes on."""
EMPTY_PAUSE_SECONDS = 0.1

NO_LIMIT = 1 << 62


async def read_range(
    client: ClusterClient, partition: TopicPartition, offsets: OffsetRange
) -> AsyncIterator[RecordColumns]:
    """Yields the records of ``offsets``, in order, a fetch answer at a time; gaps simply yield nothing.

    Raises:
        SourceTruncatedError: the log starts past the range's start, or ends before its end.
        CorruptBatchError: a batch is not what it claims to be.
        BrokerNotReadyError: the range is there, and still nothing came; names what holds it up where that is known.
        MirrorlakeError: the partition could not be read.
    """
    position = offsets.start_offset
    empty = 0
    stable_end = 0
    while position < offsets.end_offset:
        fetched = await _fetch(client, partition, position)
        if fetched is None:
            empty += 1
            await _pause(client, partition, position, offsets, empty=empty)
            continue
        frame, answer = fetched
        with frame:
            aborted = AbortedTransactions(answer.aborted)
            data = []
            start = position
            for batch in walk(answer.records):
                found = classify(batch, position=position, batch_bytes_max=NO_LIMIT, aborted=aborted)
                if found.path is not Path.SKIP:
                    data.append(batch)
                position = max(position, batch.header.next_offset)
            if position > start:
                empty = 0
                yield decode_batches(data, start_offset=start, end_offset=offsets.end_offset)
                continue
        if stable_end > position:
            # Twice nothing, and all below this end could be read the second time: the cleaner left no batch there.
            position = stable_end
            continue
        stable_end = answer.last_stable_offset
        empty += 1
        await _pause(client, partition, position, offsets, empty=empty)


async def _fetch(
    client: ClusterClient, partition: TopicPartition, position: int
) -> tuple[Frame, FetchedPartition] | None:
    """Returns one fetch; None where the leader refuses an offset that it holds, which it does for moments.

    Raises:
        SourceTruncatedError: the offset is not there; names the ends of the log.
        MirrorlakeError: the partition could not be read.
    """
    try:
        return await client.fetch_once(partition, position, max_bytes=FETCH_BYTES, isolation_level=READ_COMMITTED)
    except SourceTruncatedError as refused:
        start = (await client.list_offsets([partition], timestamp=EARLIEST))[partition]
        end = (await client.log_ends([partition]))[partition]
        if not isinstance(start, int) or not isinstance(end, LogEnd):
            raise
        if start <= position <= end.end_offset:
            return None
        raise SourceTruncatedError(
            f"offset {position} of {partition} in cluster {client.settings.name!r} is not there, "
            f"its log holds {start} up to {end.end_offset}",
            hint="records were deleted while they were read, or the topic was cut or made anew; run it again",
            position=position,
            log_start=start,
            log_end=end.end_offset,
        ) from refused


async def _pause(
    client: ClusterClient, partition: TopicPartition, position: int, offsets: OffsetRange, *, empty: int
) -> None:
    if empty <= EMPTY_ANSWERS_MAX:
        await asyncio.sleep(EMPTY_PAUSE_SECONDS)
        return
    holds, hint = await _what_holds(client, partition, position)
    raise BrokerNotReadyError(
        f"partition {partition} gives nothing at offset {position}, the range ends at {offsets.end_offset}{holds}",
        hint=hint,
    )


async def _what_holds(client: ClusterClient, partition: TopicPartition, position: int) -> tuple[str, str]:
    """Returns what stands before ``position`` by the leader's word, and what to do about it."""
    try:
        state = (await client.append_states([partition]))[partition]
    except MirrorlakeError:
        state = None
    if not isinstance(state, AppendState):  # before Kafka 2.8, for one: it does not tell
        return "", "an open transaction may hold the last stable offset back"
    for producer in state.producers:
        if producer.transaction_start_offset is not None and producer.transaction_start_offset <= position:
            return (
                f": producer id {producer.producer_id}, epoch {producer.producer_epoch}, has a transaction open since "
                f"offset {producer.transaction_start_offset}",
                "it ends at its transaction.timeout.ms at the latest; one that does not is ended by "
                f"kafka-transactions.sh abort --topic {partition.topic} --partition {partition.partition} "
                f"--start-offset {producer.transaction_start_offset}",
            )
    return (
        f": no transaction is open, and the leader's log ends at {state.log_end.end_offset}",
        "its replicas may be behind: see the partition's in-sync replicas",
    )
