"""Reads a range of a Kafka partition as records, as a ``read_committed`` consumer would see them."""

import asyncio
from collections.abc import AsyncIterator

from mirrorlake.errors import BrokerNotReadyError
from mirrorlake.kafka.batches import AbortedTransactions, Path, classify, walk
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.kafka.codec import RecordColumns, decode_batches
from mirrorlake.kafka.fetch import READ_COMMITTED
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
        MirrorlakeError: the partition could not be read.
    """
    position = offsets.start_offset
    empty = 0
    stable_end = 0
    while position < offsets.end_offset:
        frame, answer = await client.fetch_once(
            partition, position, max_bytes=FETCH_BYTES, isolation_level=READ_COMMITTED
        )
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
        await asyncio.sleep(EMPTY_PAUSE_SECONDS)
        if empty > EMPTY_ANSWERS_MAX:
            raise BrokerNotReadyError(
                f"partition {partition} gives nothing at offset {position}, the range ends at {offsets.end_offset}",
                hint="an open transaction may hold the last stable offset back",
            )
