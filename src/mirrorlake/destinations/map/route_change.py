"""Whether a topic of a route may go on by another route than the one it was copied by. Pure.

Topics of a route stand at positions of their own. Where another route takes over at two different ones, a record
between them is decided by both: it gets into two topics, or into none. So a topic goes on by another route only where
every other topic does so at its very position.
"""

from collections.abc import Mapping

from mirrorlake.destinations.filtering import PartitionBranch
from mirrorlake.destinations.map.marks.route_mark import RouteMark
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.errors import RouteChangedError
from mirrorlake.filters.branch import decides_alike


def check_route(
    takes: PartitionBranch | None,
    key: ProgressKey,
    progress: MapProgress,
    known: Mapping[ProgressKey, MapProgress],
    *,
    mirror: str,
) -> None:
    """Checks that the route of now may take over where a topic stands. Nothing is said of what has no mark.

    Args:
        takes: what the route of now gives to the topic; None without a route.
        key: whose progress.
        progress: the topic's.
        known: of the mirror, at least that of the source partition at all topics.
        mirror: its name, for the remedy.

    Raises:
        RouteChangedError: another topic of the route takes it over, or would, at another offset.
    """
    mark = progress.route
    if takes is None or not mark.fingerprint or decides_alike(mark.fingerprint, takes.branch.fingerprint):
        return
    for topic in takes.branch.topics:
        other = known.get(ProgressKey(destination_topic=topic, source=key.source))
        if other is None or topic == key.destination_topic or other.source_topic_id != progress.source_topic_id:
            continue
        offset = _changes_at(mark, other, takes.branch.fingerprint)
        if offset is not None and offset != progress.position:
            raise _refused(key, progress.position, topic, offset, mirror)


def _changes_at(mine: RouteMark, other: MapProgress, fingerprint: str) -> int | None:
    """Returns at which source offset another topic takes over the route of now; None where that concerns nobody."""
    theirs = other.route
    if not theirs.fingerprint:
        return None
    if not decides_alike(theirs.fingerprint, fingerprint):
        return other.position
    if decides_alike(theirs.former, mine.fingerprint):
        return theirs.start_offset
    if decides_alike(mine.former, fingerprint):
        return mine.start_offset  # back to a route that the other topic has never left
    return theirs.start_offset if theirs.former else None


def _refused(key: ProgressKey, position: int, topic: str, offset: int, mirror: str) -> RouteChangedError:
    first, end = sorted((position, offset))
    return RouteChangedError(
        f"the route was changed while its topics stand at different positions: {key.destination_topic} has source "
        f"{key.source} up to offset {position}, {topic} took it by the route before up to {offset}; records at offsets "
        f"{first}…{end - 1} would get into two topics, or into none, so nothing was copied",
        hint="put the route before back and bring all topics to one position (`run --once`), then change it; "
        f"or say by `mirrorlake offsets reset --mirror {mirror} --to-offset …` where all of them continue",
        topic=key.destination_topic,
        partition=key.source.partition,
        position=position,
        offset=offset,
    )
