"""What a producer id wrote, committed or not: how a transaction is read that readers of committed data do not see."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing

from mirrorlake.errors import BrokerNotReadyError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.holes import check_empty
from mirrorlake.kafka.control.known_offsets import fetch_known
from mirrorlake.kafka.records.aborted import ControlType, control_type
from mirrorlake.kafka.records.batches import Batch, walk
from mirrorlake.kafka.records.codec import RecordColumns, decode_batches
from mirrorlake.kafka.wire.fetch import READ_UNCOMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition

_READ_BYTES = 1 << 20

_REPLICATION_WAITS_MAX = 20
_REPLICATION_PAUSE_SECONDS = 0.05
"""The end of a log that others write to is replicated some milliseconds later; a second is no such moment."""


async def read_written_by(
    client: ClusterClient, partition: TopicPartition, producer_id: int, offsets: OffsetRange
) -> list[tuple[bytes, bytes | None]]:
    """Returns key and value of every record that a producer id wrote in a range, committed or not.

    Raises:
        BrokerNotReadyError: not all of the range is replicated yet.
        MirrorlakeError: the partition could not be read.
    """
    records: list[tuple[bytes, bytes | None]] = []
    async for columns in read_columns_of(client, partition, producer_id, offsets):
        records += zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True)
    return records


async def read_columns_of(
    client: ClusterClient, partition: TopicPartition, producer_id: int, offsets: OffsetRange
) -> AsyncIterator[RecordColumns]:
    """Yields every record that a producer id wrote in a range, committed or not, in order, in parts.

    Raises:
        BrokerNotReadyError: not all of the range is replicated yet.
        MirrorlakeError: the partition could not be read.
    """
    async for batches in _answers(client, partition, offsets):
        found = [each for each in batches if each.header.producer_id == producer_id and not each.header.is_control]
        yield decode_batches(found, start_offset=offsets.start_offset, end_offset=offsets.end_offset)


async def read_marker_behind(
    client: ClusterClient, partition: TopicPartition, producer_id: int, offsets: OffsetRange
) -> int | None:
    """Returns what the first marker of a producer id in a range says, a ``ControlType``; None where there is none.

    Raises:
        BrokerNotReadyError: not all of the range is replicated yet.
        MirrorlakeError: the partition could not be read.
    """
    async with aclosing(_answers(client, partition, offsets)) as answers:
        async for batches in answers:
            for batch in batches:
                header = batch.header
                if header.producer_id == producer_id and header.is_control and header.record_count:
                    return control_type(batch)
    return None


async def find_committed_by(
    client: ClusterClient,
    partition: TopicPartition,
    producer_ids: Collection[int],
    offsets: OffsetRange,
    *,
    bytes_max: int,
) -> int | None:
    """Returns the first offset of a committed transaction of some producer ids in a range, None where none is found.

    It is found also behind the open transaction of somebody else, where readers of committed data do not get yet.

    Args:
        client: of the cluster.
        partition: to look at.
        producer_ids: whose transactions.
        offsets: where their records begin; a marker behind it decides nothing.
        bytes_max: of the log, in which the first record is looked for; its marker is looked for up to the end.

    Raises:
        BrokerNotReadyError: not all of the range is replicated yet.
        MirrorlakeError: the partition could not be read.
    """
    undecided: dict[int, int] = {}
    async with aclosing(_answers(client, partition, offsets)) as answers:
        async for batches in answers:
            for batch in batches:
                header = batch.header
                if header.producer_id not in producer_ids or not header.record_count:
                    continue
                if header.is_control:
                    first = undecided.pop(header.producer_id, None)
                    if first is not None and control_type(batch) == ControlType.COMMIT:
                        return first
                elif header.is_transactional and header.base_offset >= offsets.start_offset:
                    undecided.setdefault(header.producer_id, header.base_offset)
            bytes_max -= sum(len(batch.view) for batch in batches)
            if bytes_max <= 0 and not undecided:
                return None
    return None


async def _answers(
    client: ClusterClient, partition: TopicPartition, offsets: OffsetRange
) -> AsyncGenerator[list[Batch]]:
    """Yields the batches of a range, answer by answer; they are gone with the next one."""
    start, waits = offsets.start_offset, 0
    while start < offsets.end_offset:
        frame, answer = await fetch_known(
            client, partition, start, max_bytes=_READ_BYTES, isolation_level=READ_UNCOMMITTED
        )
        with frame:
            batches = [batch for batch in walk(answer.records) if batch.header.last_offset >= start]
            if not batches:
                await check_empty(client, partition, start, readable_end=answer.high_watermark)
                if answer.high_watermark < offsets.end_offset:
                    if (waits := waits + 1) <= _REPLICATION_WAITS_MAX:
                        await asyncio.sleep(_REPLICATION_PAUSE_SECONDS)
                        continue
                    raise BrokerNotReadyError(
                        f"{partition} is replicated up to offset {answer.high_watermark}, its log ends at "
                        f"{offsets.end_offset}",
                        hint="it is read again; bring brokers back where it stays so",
                    )
                return  # the cleaner has left nothing of it
            start = batches[-1].header.next_offset
            yield batches
