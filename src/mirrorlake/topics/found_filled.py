"""Destination partitions that held something before their mirror began: whether what is gone of them was its copy.

A log that is empty and ends above 0 looks the same whoever filled it: a copy whose records retention took, or another
program's topic that was emptied. The tail check has nothing to compare there. So a state record that names a partition
says also whether the log was empty when the mirror began, which is what tells the two apart afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mirrorlake.destinations.tail_check import REMEDY
from mirrorlake.errors import DestinationForeignError, MirrorlakeError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.client import Bounds, SourceClient
from mirrorlake.topics.handover import States, is_known_copy
from mirrorlake.topics.targets import Target


async def with_what_is_there(
    targets: Sequence[Target], states: States, client: ClusterClient, source: SourceClient
) -> list[Target]:
    """Returns targets with whether their destination partitions held something; refused where nothing says what it was.

    Asks of partitions with equal offsets that no state record calls the copy of the source, and of no others: once
    they are taken they are known. What ends above the source's beginning and holds nothing is refused, as what lies
    below would never be copied. Where the source begins no lower, nothing is left out.

    Args:
        targets: of one destination cluster.
        states: its state records.
        client: of it.
        source: of the targets' mirror.
    """
    asked = [target for target in targets if _is_unknown(target, states)]
    places = [target.destination_partition for target in asked]
    if not asked:
        return list(targets)
    # The start is asked for first: what is deleted between the two looks full, and the next look finds it empty.
    starts = await client.list_offsets(places, timestamp=EARLIEST)
    ends = await client.log_ends(places)
    emptied = [t for t in asked if _is_emptied(starts[t.destination_partition], ends[t.destination_partition])]
    bounds = await _bounds(source, [target.source for target in emptied])
    found = {id(target): _seen(target, starts, ends, bounds) for target in asked}
    return [found.get(id(target), target) for target in targets]


async def _bounds(
    source: SourceClient, partitions: Sequence[TopicPartition]
) -> Mapping[TopicPartition, Bounds | MirrorlakeError]:
    try:
        return await source.bounds(partitions) if partitions else {}
    except MirrorlakeError as error:
        return dict.fromkeys(partitions, error)


def _is_unknown(target: Target, states: States) -> bool:
    is_there = bool(target.destination_topic_id) and target.source.partition < target.destination_partitions
    is_replaced = target.creation is not None or bool(target.replaces)
    if target.is_mapped or target.error is not None or is_replaced or not is_there:
        return False
    return not is_known_copy(target, states)


def _is_emptied(start: int | MirrorlakeError, end: LogEnd | MirrorlakeError) -> bool:
    return isinstance(end, LogEnd) and start == end.end_offset > 0


def _seen(
    target: Target,
    starts: Mapping[TopicPartition, int | MirrorlakeError],
    ends: Mapping[TopicPartition, LogEnd | MirrorlakeError],
    bounds: Mapping[TopicPartition, Bounds | MirrorlakeError],
) -> Target:
    """Returns the target as it was seen; what could not be asked counts as filled, as it may be."""
    start, end = starts[target.destination_partition], ends[target.destination_partition]
    source = bounds.get(target.source)
    for answer in (start, end, source):
        if isinstance(answer, MirrorlakeError):
            return replace(target, error=answer, is_found_filled=True)
    if isinstance(end, LogEnd) and isinstance(source, Bounds) and source.start < end.end_offset:
        error = _emptied(target, position=end.end_offset, source_start=source.start)
        return replace(target, error=error, is_found_filled=True)
    return replace(target, is_found_filled=isinstance(end, LogEnd) and end.end_offset > 0)


def _emptied(target: Target, *, position: int, source_start: int) -> MirrorlakeError:
    return DestinationForeignError(
        f"destination {target.destination_partition} holds nothing and ends at offset {position}, and no state record "
        f"says that what was there was copied from {target.source}, which begins at offset {source_start}: offsets "
        f"{source_start} to {position - 1} would never be copied",
        hint=REMEDY,
        position=position,
        source_start=source_start,
    )
