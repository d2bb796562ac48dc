"""Where partitions with mapped offsets stand: read from their progress, without fencing anybody; changes nothing."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.config.resolved import KafkaDestination
from mirrorlake.destinations.kafka_map import check_progress
from mirrorlake.destinations.map_progress import MapProgress, ProgressKey
from mirrorlake.destinations.map_start import find_start
from mirrorlake.destinations.progress_store import read_progress
from mirrorlake.errors import MirrorlakeError
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.service.targets import Target, cluster_settings

Numbered = Sequence[tuple[int, Target]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedPosition:
    """How far a partition is copied, and from where on.

    Without progress both are where it would begin now. ``destination_partition`` is the one its records go to.
    """

    start_offset: int
    position: int
    destination_partition: int


Found = dict[int, MappedPosition | MirrorlakeError]


async def mapped_positions(targets: Sequence[Target], clients: WorkerCache) -> Found:
    """Returns where each mapped target stands, by its index; errors by target."""
    groups: dict[tuple[str, str], list[tuple[int, Target]]] = defaultdict(list)
    for index, target in enumerate(targets):
        if target.is_mapped and target.error is None and isinstance(target.destination, KafkaDestination):
            groups[target.destination.cluster.name, target.mirror.name].append((index, target))
    found: Found = {}
    for part in await asyncio.gather(*(_of_mirror(group, clients) for group in groups.values())):
        found |= part
    return found


async def _of_mirror(group: Numbered, clients: WorkerCache) -> Found:
    """Reads one mirror's progress at one cluster."""
    try:
        known = await _read(group, clients)
    except MirrorlakeError as error:
        return {index: error for index, _ in group}
    positions = await asyncio.gather(*(_position(target, known, clients) for _, target in group))
    return {index: position for (index, _), position in zip(group, positions, strict=True)}


async def _read(group: Numbered, clients: WorkerCache) -> Mapping[ProgressKey, MapProgress]:
    target = group[0][1]
    assert isinstance(target.destination, KafkaDestination)
    client = clients.client(cluster_settings(target.destination.cluster))
    topics = target.progress_topics
    if topics.progress not in (await client.metadata([topics.progress], refresh=True)).topics:
        return {}
    shards = sorted({each.map_shard for _, each in group})
    parts = await asyncio.gather(*(read_progress(client, topics.progress_of(shard)) for shard in shards))
    return {key: progress for part in parts for key, progress in part.items()}


async def _position(
    target: Target, known: Mapping[ProgressKey, MapProgress], clients: WorkerCache
) -> MappedPosition | MirrorlakeError:
    progress = known.get(ProgressKey(destination_topic=target.destination_topic, source=target.source))
    try:
        if progress is None:
            start = await find_start(clients.client(target.source_cluster), target.source, target.map_start)
            return MappedPosition(
                start_offset=start, position=start, destination_partition=target.destination_partition.partition
            )
        check_progress(
            progress,
            source=target.source,
            destination_topic=target.destination_topic,
            source_cluster_id=target.source_cluster_id,
            source_topic_id=target.topic_id,
            destination_topic_id=target.destination_topic_id,
        )
    except MirrorlakeError as error:
        return error
    return MappedPosition(
        start_offset=progress.start_offset,
        position=progress.position,
        destination_partition=progress.destination_partition,
    )
