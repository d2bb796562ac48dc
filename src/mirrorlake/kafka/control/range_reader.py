"""Reads a range of a Kafka partition as records, as a ``read_committed`` consumer would see them; and finds times."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import numpy as np

from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import AppendState
from mirrorlake.kafka.control.holes import TailHole, why_no_hole
from mirrorlake.kafka.records.batches import AbortedTransactions, Path, classify, cleaned_ranges, walk
from mirrorlake.kafka.records.codec import RecordColumns, decode_parts
from mirrorlake.kafka.wire.error_codes import BROKER_NOT_AVAILABLE, OFFSET_OUT_OF_RANGE
from mirrorlake.kafka.wire.fetch import READ_COMMITTED, READ_UNCOMMITTED, FetchedPartition
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.together import both

NO_OFFSET = -1
"""What a leader says where it finds no record at or after the time asked for."""

FETCH_BYTES = 8 << 20
PART_BYTES_MAX = 16 << 20
"""What is decoded of an answer at a time: it may come to many times its size."""
EMPTY_ANSWERS_MAX = 20
"""Answers in a row that bring nothing although the range goes on."""
EMPTY_PAUSE_SECONDS = 0.1
THROTTLED_ANSWERS_MAX = 1000
"""The same in answers without the partition, as who has used up a quota of bytes gets them: the broker keeps the next
request waiting until there is room again, so this is no busy loop, but hours of patience."""


async def read_range(
    client: ClusterClient,
    partition: TopicPartition,
    offsets: OffsetRange,
    *,
    whose: str = "source",
    cleaned: list[OffsetRange] | None = None,
) -> AsyncIterator[RecordColumns]:
    """Yields the records of ``offsets``, in order, in parts of bounded memory; gaps simply yield nothing.

    Every offset of them was read when it ends: a gap is what a batch follows, or what `why_no_hole` proves to be one.

    Args:
        client: of the cluster.
        partition: to be read.
        offsets: which.
        whose: the cluster's part, for messages.
        cleaned: where the log shows that it was cleaned is added to it, ascending; it may reach beyond the range.

    Raises:
        SourceTruncatedError: the log starts past the range's start, or ends before its end.
        CorruptBatchError: a batch is not what it claims to be.
        RemoteTierError: the remote tier of the log does not give out what it holds.
        BrokerNotReadyError: the range is there, and still nothing came; names what holds it up where that is known.
        MirrorlakeError: the partition could not be read.
    """
    position = offsets.start_offset
    empty = 0
    hole = TailHole()
    while position < offsets.end_offset:
        fetched = await _fetch(client, partition, position)
        if fetched is None:
            empty += 1
            await _pause(client, partition, position, offsets, empty=empty, refusal=hole.refusal)
            continue
        frame, answer = fetched
        with frame:
            aborted = AbortedTransactions(answer.aborted)
            data = []
            start = position
            batches = list(walk(answer.records))
            if cleaned is not None:
                cleaned += cleaned_ranges(batches, start_offset=start)
            for batch in batches:
                found = classify(batch, position=position, aborted=aborted)
                if found.path is not Path.SKIP:
                    data.append(batch)
                position = max(position, batch.header.next_offset)
            if position > start:
                empty = 0
                hole.saw_batches()
                for columns in decode_parts(
                    data, start_offset=start, end_offset=offsets.end_offset, part_bytes_max=PART_BYTES_MAX
                ):
                    yield columns
                continue
        if (hole_end := hole.saw_nothing(position, answer.last_stable_offset)) > position:
            if cleaned is not None:
                cleaned.append(OffsetRange(start_offset=position, end_offset=hole_end))
            position = hole_end
            continue
        if (question := hole.question) is not None:
            hole.answered(question, await why_no_hole(client, partition, question, whose=whose))
        empty += 1
        await _pause(client, partition, position, offsets, empty=empty, refusal=hole.refusal)


async def _fetch(
    client: ClusterClient, partition: TopicPartition, position: int
) -> tuple[Frame, FetchedPartition] | None:
    """Returns one fetch; None where the leader refuses an offset that it holds, which it does for moments.

    Who has used up a quota of bytes is answered without the partition, and asks again.

    Raises:
        SourceTruncatedError: the offset is not there; names the ends of the log.
        MirrorlakeError: the partition could not be read.
    """
    for answers_left in reversed(range(THROTTLED_ANSWERS_MAX)):
        try:
            return await client.fetch_once(partition, position, max_bytes=FETCH_BYTES, isolation_level=READ_COMMITTED)
        except BrokerNotReadyError as error:
            code = error.facts.get("code")
            if code == OFFSET_OUT_OF_RANGE:
                break
            if code != BROKER_NOT_AVAILABLE or not answers_left:
                raise
        await asyncio.sleep(EMPTY_PAUSE_SECONDS)
    return None


async def _pause(
    client: ClusterClient,
    partition: TopicPartition,
    position: int,
    offsets: OffsetRange,
    *,
    empty: int,
    refusal: MirrorlakeError | None,
) -> None:
    if empty <= EMPTY_ANSWERS_MAX:
        await asyncio.sleep(EMPTY_PAUSE_SECONDS)
        return
    if refusal is not None:
        raise refusal
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


async def first_at(
    client: ClusterClient, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int | MirrorlakeError | None]:
    """Returns for each partition the first offset of a time or later below its last stable offset; None without one.

    A leader looks into the first segment that has ever held a record that late, and answers -1 where that record was
    deleted from the segment's head, whatever later segments hold (``UnifiedLog.fetchOffsetByTimestamp`` of Kafka
    4.3.0). So its -1 is believed where the whole log has no such time, or has it past the last stable offset alone;
    else the log is read. Brokers older than Kafka 3.0 do not tell the largest time: theirs is believed.

    Args:
        client: of the cluster.
        partitions: about which.
        timestamp_ms: Unix milliseconds; none of ListOffsets' other words.
    """
    found: dict[TopicPartition, int | MirrorlakeError | None] = {
        **await client.list_offsets(partitions, timestamp=timestamp_ms)
    }
    unfound = [partition for partition, offset in found.items() if offset == NO_OFFSET]
    found |= dict.fromkeys(unfound)
    if not unfound:
        return found
    undecided, newest = await both(
        client.list_offsets(unfound, timestamp=timestamp_ms, isolation_level=READ_UNCOMMITTED),
        client.newest_times(unfound),
    )
    for partition in unfound:
        time = newest[partition]
        if isinstance(time, MirrorlakeError):
            found[partition] = time
        elif time is not None and time >= timestamp_ms and undecided[partition] == NO_OFFSET:
            found[partition] = await _first_read(client, partition, timestamp_ms)
    return found


async def _first_read(
    client: ClusterClient, partition: TopicPartition, timestamp_ms: int
) -> int | MirrorlakeError | None:
    """Returns the first offset whose record is of a time or later, by reading the log; or why that cannot be told."""
    try:
        offsets = OffsetRange(
            start_offset=await client.offset_at(partition, EARLIEST),
            end_offset=await client.offset_at(partition, LATEST),
        )
        async for columns in read_range(client, partition, offsets):
            rows = np.flatnonzero(columns.timestamps >= timestamp_ms)
            if len(rows):
                return int(columns.offsets[rows[0]])
    except MirrorlakeError as error:
        return error
    return None
