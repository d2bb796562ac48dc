"""The tail check: at every take-over, the last records below the position must be the source's own.

One mechanism notices a resumed copy of another topic, a foreign write, a duplicate that displaced the rest, and a
destination topic that was not empty. It costs one read on each side.
"""

import asyncio

import numpy as np

from mirrorlake.errors import DestinationForeignError, MirrorlakeError
from mirrorlake.kafka.batches import walk
from mirrorlake.kafka.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.codec import RecordColumns, decode_batches, record_hashes
from mirrorlake.kafka.fetch import READ_UNCOMMITTED
from mirrorlake.offsets import TopicPartition

TAIL_OFFSETS = 64
"""How far below the position the comparison begins: more than the five batches in flight of a small producer, so that
a write that displaced ours shows, and still one read."""

TAIL_BYTES = 1 << 20
"""What one read asks for; the first batch comes whole, however large."""

REMEDY = (
    "delete and re-create the destination topic to copy it afresh, or mirror to another topic; nothing was appended"
)


def first_difference(source: RecordColumns, destination: RecordColumns) -> int | None:
    """Returns the first offset at which the two differ, or None where both hold the same records.

    Offset, timestamp, key, value and headers count. Both must be decoded from the same range of offsets.
    """
    common = min(len(source), len(destination))
    source_hashes, destination_hashes = record_hashes(source), record_hashes(destination)
    differing = np.nonzero(source_hashes[:common] != destination_hashes[:common])[0]
    if len(differing):
        row = int(differing[0])
        return int(min(source.offsets[row], destination.offsets[row]))
    if len(source) != len(destination):
        longer = source if len(source) > len(destination) else destination
        return int(longer.offsets[common])
    return None


async def check_tail(
    source_client: ClusterClient,
    source: TopicPartition,
    destination_client: ClusterClient,
    destination: TopicPartition,
    *,
    position: int,
) -> None:
    """Compares the last records below ``position`` on both sides; returns where they are equal. Reads only.

    Where either side has deleted all of them there is nothing to compare, and that is no refusal: retention at
    the destination is its owner's business.

    Raises:
        DestinationForeignError: they differ; the text names the first differing offset.
        MirrorlakeError: a side could not be read.
    """
    if position == 0:
        return
    starts = await asyncio.gather(_log_start(source_client, source), _log_start(destination_client, destination))
    start = max(position - TAIL_OFFSETS, *starts)
    if start >= position:
        return
    expected, held = await asyncio.gather(
        _records_at(source_client, source, start, position),
        _records_at(destination_client, destination, start, position),
    )
    difference = first_difference(expected, held)
    if difference is not None:
        raise DestinationForeignError(
            f"destination {destination} is at position {position}, but what it holds at offset {difference} is not "
            f"what source {source} has there",
            hint=REMEDY,
            position=position,
            differing_offset=difference,
        )


async def _log_start(client: ClusterClient, partition: TopicPartition) -> int:
    found = (await client.list_offsets([partition], timestamp=EARLIEST))[partition]
    if isinstance(found, MirrorlakeError):
        raise found
    return found


async def _records_at(client: ClusterClient, partition: TopicPartition, start: int, end: int) -> RecordColumns:
    """Reads the records of ``[start, end)``, as far as the log holds them."""
    parts: list[RecordColumns] = []
    position = start
    while position < end:
        frame, answer = await client.fetch_once(
            partition, position, max_bytes=TAIL_BYTES, isolation_level=READ_UNCOMMITTED
        )
        with frame:
            found = [batch for batch in walk(answer.records) if batch.header.last_offset >= position]
            if not found:
                break
            data = [b for b in found if not b.header.is_control and b.header.record_count > 0]
            parts.append(decode_batches(data, start_offset=position, end_offset=end))
            position = found[-1].header.next_offset
    return RecordColumns.concat(parts)
