"""Reads both sides of one partition to tell how far a copy goes beyond what its program has stored. Reads only."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import numpy as np

from mirrorlake.destinations.source_log import SourceLog
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.range_reader import first_at, read_range
from mirrorlake.kafka.records.codec import RecordColumns, record_hashes
from mirrorlake.kafka.wire.fetch import READ_UNCOMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.service.taking_over.copied import Copied, Int64s, UInt64s, Window

OFFSETS_BEFORE = 200
"""Source offsets below the stored one whose records are looked for too: found, they show that the sides compare."""
OFFSETS_FIRST = 1 << 15
"""What is read of the source behind the stored offset at first: a minute of a quiet topic, or of none."""
OFFSETS_MAX = 1 << 22
"""What is read of it at most, at some 24 bytes a record: a minute of 70,000 records a second."""


async def decided_end(client: ClusterClient, partition: TopicPartition) -> int:
    """Returns the end of a partition of which no transaction is open.

    Raises:
        BrokerNotReadyError: one is: what it holds is not known yet.
        MirrorlakeError: the partition could not be asked.
    """
    # In this order: what is written between the two answers would look like an open transaction in the other one.
    written = await client.offset_at(partition, LATEST, isolation_level=READ_UNCOMMITTED)
    end = await client.offset_at(partition, LATEST)
    if end < written:
        raise BrokerNotReadyError(
            f"a transaction is open in {partition}, from offset {end} on: its records count only if it is committed",
            hint="wait for its transaction.timeout.ms, a minute where Connect's producers have none of their own",
        )
    return end


async def compare(
    source: SourceLog,
    client: ClusterClient,
    copy: TopicPartition,
    *,
    next_offset: int,
    may_have_lost: bool,
) -> Copied:
    """Returns how far a copy goes.

    Args:
        source: the source partition.
        client: of the destination cluster.
        copy: the destination partition.
        next_offset: what the program would read next; not below the source's start, nor beyond its end.
        may_have_lost: the destination deletes or compacts.

    Raises:
        MirrorlakeError: a side could not be read.
    """
    start, end = await source.start(), await source.end()
    length = OFFSETS_FIRST
    while True:
        read = OffsetRange(
            start_offset=max(start, min(next_offset, end) - OFFSETS_BEFORE),
            end_offset=max(start, min(end, next_offset + length)),
        )
        found = await _compare(source, client, copy, read, start, next_offset=next_offset, may_have_lost=may_have_lost)
        if found.is_whole or read.end_offset >= end or length >= OFFSETS_MAX:
            return found
        length *= 4


async def _compare(
    source: SourceLog,
    client: ClusterClient,
    copy: TopicPartition,
    read: OffsetRange,
    start: int,
    *,
    next_offset: int,
    may_have_lost: bool,
) -> Copied:
    read_parts = [_Hashed.of(columns) async for columns in source.read_range(read)]
    earliest = min((int(each.times.min()) for each in read_parts if len(each.times)), default=-1)
    wanted = np.unique(np.concatenate([np.empty(0, np.uint64), *(each.hashes for each in read_parts)]))
    equal_parts = [each async for each in _equal_before(source, start, read.start_offset, earliest, wanted)]
    parts = [*equal_parts, *read_parts]
    window = Window(
        np.concatenate([np.empty(0, np.int64), *(each.offsets for each in parts)]),
        np.concatenate([np.empty(0, np.uint64), *(each.hashes for each in parts)]),
        next_offset=next_offset,
    )
    async for columns in _copy_from(client, copy, earliest):
        window.meet(_hashes(columns))
    return window.copied(may_have_lost=may_have_lost)


@dataclass(frozen=True, slots=True)
class _Hashed:
    """Some records of the source, one row each."""

    offsets: Int64s
    hashes: UInt64s
    times: Int64s

    @classmethod
    def of(cls, columns: RecordColumns) -> "_Hashed":
        return cls(columns.offsets, _hashes(columns), columns.timestamps)


async def _equal_before(
    source: SourceLog, start: int, end: int, earliest: int, wanted: UInt64s
) -> AsyncIterator[_Hashed]:
    """Yields the source records below ``end`` that are equal to a wanted one: they have its time, so most are passed.

    Args:
        source: the source partition.
        start: of its log.
        end: source offset (exclusive).
        earliest: the lowest time of a wanted one, in milliseconds; without one all are read.
        wanted: hashes, ascending.
    """
    first = await source.offset_at(earliest - 1) if earliest > 0 else start
    begin = start if first is None else max(start, first)
    if begin < end:
        async for columns in source.read_range(OffsetRange(start_offset=begin, end_offset=end)):
            found = _Hashed.of(columns)
            rows = np.isin(found.hashes, wanted)
            yield _Hashed(found.offsets[rows], found.hashes[rows], found.times[rows])


async def _copy_from(client: ClusterClient, copy: TopicPartition, earliest: int) -> AsyncIterator[RecordColumns]:
    """Yields the records of the copy from the first one on that is as late as ``earliest``, in milliseconds."""
    end = await decided_end(client, copy)
    start: int | MirrorlakeError | None
    if earliest > 0:
        start = (await first_at(client, [copy], earliest - 1))[copy]
    else:
        start = await client.offset_at(copy, EARLIEST)
    if isinstance(start, MirrorlakeError):
        raise start
    if start is not None and start < end:
        async for columns in read_range(
            client, copy, OffsetRange(start_offset=start, end_offset=end), whose="destination"
        ):
            yield columns


def _hashes(columns: RecordColumns) -> UInt64s:
    """Returns a hash of key, value, headers and time of each record: the offsets of both sides differ."""
    return record_hashes(replace(columns, offsets=np.zeros(len(columns), np.int64)))
