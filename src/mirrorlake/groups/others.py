"""Whether moving a group forward in a copy with mapped offsets would take it past records that are none of the copy's.

The offset map names where the mirror's records lie. What lies between them is a marker of one of our transactions, or
another writer's; the broker tells which.
"""

from collections.abc import Iterable, Iterator

from mirrorlake.destinations.map.offset_map import MappedRun
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.known_offsets import fetch_known
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.wire.fetch import READ_UNCOMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition

LOOKS_MAX = 500
"""How many places between runs are looked at, one request each: about as many transactions as in eight minutes."""
_LOOK_BYTES = 4096


def uncovered(offsets: OffsetRange, runs: Iterable[MappedRun]) -> Iterator[OffsetRange]:
    """Yields what of a destination's offsets lies in no run, ascending. Pure.

    Args:
        offsets: of the destination partition.
        runs: of all source partitions that are copied there, in any order.
    """
    at = offsets.start_offset
    for run in sorted(runs, key=lambda each: each.destination_offset):
        if run.destination_offset >= offsets.end_offset:
            break
        if run.destination_offset > at:
            yield OffsetRange(start_offset=at, end_offset=run.destination_offset)
        at = max(at, run.destination_end)
    if at < offsets.end_offset:
        yield OffsetRange(start_offset=at, end_offset=offsets.end_offset)


async def may_hold_others(
    client: ClusterClient, partition: TopicPartition, offsets: OffsetRange, runs: Iterable[MappedRun]
) -> bool:
    """Tells whether a destination partition may hold records between two offsets that no run names.

    False only where everything there is the mirror's own, or a transaction's marker: aborted records count as others',
    and so does what cannot be read, or is in too many pieces.
    """
    between = list(uncovered(offsets, runs))
    if len(between) > LOOKS_MAX:
        return True
    for each in between:
        try:
            if not await _holds_markers_only(client, partition, each):
                return True
        except MirrorlakeError:
            return True
    return False


async def _holds_markers_only(client: ClusterClient, partition: TopicPartition, offsets: OffsetRange) -> bool:
    at = offsets.start_offset
    while at < offsets.end_offset:
        frame, answer = await fetch_known(
            client, partition, at, max_bytes=_LOOK_BYTES, isolation_level=READ_UNCOMMITTED
        )
        before = at
        with frame:
            for batch in walk(answer.records):
                if batch.header.base_offset >= offsets.end_offset:
                    return True
                if not batch.header.is_control:
                    return False
                at = max(at, batch.header.next_offset)
        if at == before:
            return False  # nothing was shown, which is no proof that there is nothing
    return True
