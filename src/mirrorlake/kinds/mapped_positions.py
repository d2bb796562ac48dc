"""Where partitions with mapped offsets stand: read from their progress, without fencing anybody; changes nothing."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mirrorlake.clock import SystemClock
from mirrorlake.config.resolved import LostTailPolicy
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.map.lost_tail import cut_short, progress_at
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_origin import check_progress
from mirrorlake.destinations.map.progress_store import check_same_topics, read_progress
from mirrorlake.destinations.map.route_change import check_route
from mirrorlake.destinations.map.start import find_start
from mirrorlake.errors import MirrorlakeError, RouteChangedError
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.kinds.standing import MappedPosition, Position
from mirrorlake.offsets import TopicPartition
from mirrorlake.together import all_of
from mirrorlake.topics.targets import Target

Numbered = Sequence[tuple[int, Target]]
Found = Mapping[int, Position | MirrorlakeError]


async def mapped_positions(targets: Mapping[int, Target], clients: WorkerCache) -> Found:
    """Returns where each mapped target stands, by its number; errors by target."""
    groups: dict[tuple[str, str], list[tuple[int, Target]]] = defaultdict(list)
    for number, target in targets.items():
        if target.error is None:
            groups[target.kafka.cluster.name, target.mirror.name].append((number, target))
    found: dict[int, Position | MirrorlakeError] = {}
    for part in await all_of(_of_mirror(group, clients) for group in groups.values()):
        found |= part
    return found


async def _of_mirror(group: Numbered, clients: WorkerCache) -> Found:
    """Reads one mirror's progress at one cluster."""
    try:
        known = await _read(group, clients)
        ends = await _ends(group, known, clients)
    except MirrorlakeError as error:
        return {index: error for index, _ in group}
    positions = await all_of(_position(target, known, ends, clients) for _, target in group)
    return {index: position for (index, _), position in zip(group, positions, strict=True)}


async def _read(group: Numbered, clients: WorkerCache) -> Mapping[ProgressKey, MapProgress]:
    """Returns the progress of a mirror that had begun when its targets were found; none of any other.

    What another process has begun since is not looked for: how many shards it chose is not known here, and progress
    read from the wrong one would be missing.

    Raises:
        LostProgressError: a topic that was there then is not there any more, or another one.
        MirrorlakeError: the progress could not be read.
    """
    target = group[0][1]
    if not target.has_progress_topic:
        return {}
    client = clients.client(target.destination_cluster)
    topics = target.progress_topics
    await check_same_topics(client, topics)
    shards = sorted({each.map_shard for _, each in group})
    parts = await all_of(read_progress(client, topics.progress_of(shard)) for shard in shards)
    return {key: progress for part in parts for key, progress in part.items()}


async def _ends(
    group: Numbered, known: Mapping[ProgressKey, MapProgress], clients: WorkerCache
) -> Mapping[TopicPartition, LogEnd | MirrorlakeError]:
    """Returns where the destination partitions end that progress speaks of, of topics that are there."""
    target = group[0][1]
    there = {each.destination_topic for _, each in group if each.destination_topic_id}
    places = {TopicPartition(key.destination_topic, each.destination_partition) for key, each in known.items()}
    wanted = [place for place in sorted(places) if place.topic in there]
    return await clients.client(target.destination_cluster).log_ends(wanted) if wanted else {}


async def _position(
    target: Target,
    known: Mapping[ProgressKey, MapProgress],
    ends: Mapping[TopicPartition, LogEnd | MirrorlakeError],
    clients: WorkerCache,
) -> Position | MirrorlakeError:
    progress = known.get(ProgressKey(destination_topic=target.destination_topic, source=target.source))
    try:
        if progress is None:
            start = await find_start(
                target.source_work.log(target.source, clients),
                target.map_start,
                now_seconds=SystemClock().now_seconds(),
            )
            partition = target.destination_partition.partition
            return Position(offset=start, mapped=MappedPosition(start_offset=start, destination_partition=partition))
        check_progress(
            progress,
            source=target.source,
            destination_topic=target.destination_topic,
            source_cluster_id=target.source_cluster_id,
            source_topic_id=target.topic_id,
            destination_topic_id=target.destination_topic_id,
            start=target.map_start,
            is_routed=target.takes is not None,
        )
        _check_whole(target, progress, known, ends)
    except MirrorlakeError as error:
        return error
    mapped = MappedPosition(
        start_offset=progress.start_offset,
        destination_partition=progress.destination_partition,
        progress=progress,
        route_error=_route_error(target, progress, known),
    )
    return Position(offset=progress.position, mapped=mapped)


def _route_error(
    target: Target, progress: MapProgress, known: Mapping[ProgressKey, MapProgress]
) -> RouteChangedError | None:
    """Returns why a topic would not go on by the route of now: its position is known all the same."""
    key = ProgressKey(destination_topic=target.destination_topic, source=target.source)
    try:
        check_route(target.takes, key, progress, known, mirror=target.mirror.name)
    except RouteChangedError as error:
        return error
    return None


def _check_whole(
    target: Target,
    progress: MapProgress,
    known: Mapping[ProgressKey, MapProgress],
    ends: Mapping[TopicPartition, LogEnd | MirrorlakeError],
) -> None:
    """Checks that the destination partition reaches as far as all progress says, as a lease does before it appends.

    Raises:
        LostTailError: it does not, and what is lost is not to be copied again.
    """
    where = TopicPartition(target.destination_topic, progress.destination_partition)
    end = ends.get(where)
    if not isinstance(end, LogEnd) or target.mirror.on_lost_tail is LostTailPolicy.COPY_AGAIN:
        return
    for key, each in progress_at(known, where, target.destination_topic_id).items():
        if (lost := cut_short(key, each, end.end_offset)) is not None:
            raise lost
