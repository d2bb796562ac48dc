"""How many shards a mirror with ``offsets: map`` has: decided once, at the destination, where its progress is.

A shard is a writer identity, and a Produce request carries one: what partitions of several shards append in one lease
goes out in as many requests and transactions. So a new mirror gets as many shards as there are lanes to serve them, no
more. It keeps them for life, because progress is found, and zombies are fenced, by the shard of a partition.

Order of effects, each step waited for: the progress topic is made with a partition per shard; the number is written as
the first record of its partition 0; only then does anything else happen. After a crash in between the partitions tell
it. Partitions that somebody adds to the topic later change nothing: what is written counts.
"""

from typing import NamedTuple

from mirrorlake.clock import Clock
from mirrorlake.destinations.map.progress import SHARDS_KEY, decode_shards, encode_shards
from mirrorlake.destinations.map.progress_store import (
    ProgressTopics,
    another_topic,
    check_nothing_deleted,
    make_progress_topic,
)
from mirrorlake.destinations.transactions.own_records import columns_of
from mirrorlake.errors import BrokerNotReadyError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.control.holes import check_empty
from mirrorlake.kafka.control.known_offsets import fetch_known
from mirrorlake.kafka.control.lone_append import append_alone
from mirrorlake.kafka.records.batches import Codec, walk
from mirrorlake.kafka.records.codec import decode_batches, encode_batch
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.offsets import TopicPartition

SHARDS_UNWRITTEN = 16
"""What mirrors have that began before the number was written; their topics have as many partitions at least."""

SHARDS_MAX = 16
"""Enough for as many lanes on as many machines; each costs an identity, and a partition of two topics."""

_FIRST_BYTES = 64 << 10
_OFFSET_MAX = (1 << 63) - 1


async def find_shards(client: ClusterClient, mirror: str) -> int | None:
    """Returns how many shards a mirror has at a destination cluster; None where it has not begun. Changes nothing.

    Raises:
        DestinationForeignError: the number is not one this version understands.
        LostProgressError: records of the progress topic were deleted.
        MirrorlakeError: the progress topic could not be read.
    """
    return None if (begun := await _look(client, mirror)) is None else begun.shards


async def settle_shards(
    client: ClusterClient, mirror: str, *, wanted: int, clock: Clock, known_id: str | None = None
) -> int:
    """Returns how many shards a mirror has; decides it, and makes the progress topic, where it has not begun.

    Idempotent: what was decided before counts, by whomever.

    Args:
        client: of the destination cluster.
        mirror: its name.
        wanted: for a mirror that begins now.
        clock: dates the record.
        known_id: of the progress topic where it was there before, empty where brokers give none; None where it was not.

    Raises:
        LostProgressError: it was there before and is not there any more; it is not made again.
        MirrorlakeError: the topic could be neither read nor made.
    """
    begun = await _look(client, mirror)
    topic = ProgressTopics(mirror=mirror, shards=SHARDS_MAX).progress
    if begun is None and known_id is not None and (lost := another_topic(topic, known_id, None, mirror=mirror)):
        raise lost
    if begun is None:
        await make_progress_topic(client, ProgressTopics(mirror=mirror, shards=min(wanted, SHARDS_MAX)))
        begun = await _look(client, mirror)
    if begun is None:
        raise BrokerNotReadyError(f"the progress topic of mirror {mirror} was made just now, and is not seen yet")
    if begun.is_written or begun.shards >= SHARDS_UNWRITTEN:
        return begun.shards
    await _write(client, begun.where, begun.shards, timestamp_ms=int(clock.now_seconds() * 1000))
    # Another process may have been faster, and somebody may have added partitions between the two.
    return await _written(client, begun.where) or begun.shards


class _Begun(NamedTuple):
    """A mirror's number of shards: as its record says, or, where none was written, as its partitions do."""

    where: TopicPartition
    shards: int
    is_written: bool


async def _look(client: ClusterClient, mirror: str) -> _Begun | None:
    """Returns what the progress topic says, None without one."""
    where = ProgressTopics(mirror=mirror, shards=SHARDS_MAX).progress_of(0)
    found = (await client.metadata([where.topic], refresh=True)).topics.get(where.topic)
    if found is None:
        return None
    written = await _written(client, where)
    shards = min(len(found.partitions), SHARDS_UNWRITTEN) if written is None else written
    return _Begun(where, shards, is_written=written is not None)


async def _written(client: ClusterClient, partition: TopicPartition) -> int | None:
    """Returns the number that the first record of a progress topic says; None where it says none.

    Raises:
        MirrorlakeError: the topic could not be read.
    """
    start = await client.offset_at(partition, EARLIEST)
    check_nothing_deleted(partition, start)
    frame, answer = await fetch_known(client, partition, start, max_bytes=_FIRST_BYTES)
    with frame:
        batches = list(walk(answer.records))
        if not batches:
            await check_empty(client, partition, start, readable_end=answer.last_stable_offset)
        first = next((batch for batch in batches if not batch.header.is_control), None)
        if first is None:
            return None
        columns = decode_batches([first], start_offset=start, end_offset=_OFFSET_MAX)
    keys, values = columns.keys.to_pylist(), columns.values.to_pylist()
    return decode_shards(values[0] or b"") if keys and keys[0] == SHARDS_KEY else None


async def _write(client: ClusterClient, partition: TopicPartition, shards: int, *, timestamp_ms: int) -> None:
    """Appends the number; a lost answer matters not, as whoever comes next reads first."""
    batch = encode_batch(columns_of([(SHARDS_KEY, encode_shards(shards))], timestamp_ms), codec=Codec.NONE)
    answer = await append_alone(client, partition, batch)
    if answer.error_code:
        raise error_for(answer.error_code, what=f"append to {partition}", topic=partition.topic)
