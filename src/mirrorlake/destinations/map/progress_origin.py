"""Whether a progress record speaks of the topics that are there now."""

from mirrorlake.destinations.map.progress import MapProgress
from mirrorlake.destinations.map.settings import MapStart
from mirrorlake.errors import DestinationForeignError, TopicRecreatedError
from mirrorlake.offsets import StartKind, TopicPartition

RECREATED = (
    "`on-recreate: restart` copies the new topic behind the records that are there, `on-recreate: new-topic` to a "
    "topic of its own; what other source topics have there stays"
)
"""What to do where the source topic is another one: of that topic alone, as others may have gone to the same."""

_MOVING = (StartKind.LATEST, StartKind.MAX_AGE)
"""Where a copy that begins anew would begin later than the lost one did."""


def check_progress(
    progress: MapProgress,
    *,
    source: TopicPartition,
    destination_topic: str,
    source_cluster_id: str,
    source_topic_id: str,
    destination_topic_id: str,
    start: MapStart,
    is_routed: bool = False,
) -> None:
    """Checks that a progress record speaks of the very topics that are there now. Pure; an empty id is not compared.

    ``start`` is where a copy without progress begins, by the configuration. ``is_routed`` says that the destination
    topic is one of a route: the others have their records already.

    Raises:
        DestinationForeignError: the source is another cluster, or the destination topic was made anew.
        TopicRecreatedError: the source topic was made anew.
    """
    elsewhere = "give the mirror another name and other destination topics: the records there may be the same ones"
    for found, expected, kind, what, hint in (
        (progress.source_cluster_id, source_cluster_id, DestinationForeignError, "cluster id", elsewhere),
        (progress.source_topic_id, source_topic_id, TopicRecreatedError, "topic id", RECREATED),
    ):
        if found and expected and found != expected:
            raise kind(
                f"{destination_topic} was filled up to offset {progress.position} from source {source} of {what} "
                f"{found}, the source now has {what} {expected}",
                hint=hint,
                expected=found,
                found=expected,
            )
    if progress.destination_topic_id and progress.destination_topic_id != destination_topic_id:
        now = f"now {destination_topic_id}" if destination_topic_id else "now none"
        what = "was deleted and recreated" if destination_topic_id else "was deleted"
        raise DestinationForeignError(
            f"destination topic {destination_topic} {what} (topic id {progress.destination_topic_id}, {now}) after "
            f"source {source} was copied up to offset {progress.position}",
            hint=_remedy(source, progress.start_offset, start, is_routed=is_routed),
            expected=progress.destination_topic_id,
            found=destination_topic_id,
        )


def _remedy(source: TopicPartition, start_offset: int, start: MapStart, *, is_routed: bool) -> str:
    """Returns what copies the records of a lost topic again, and no others: those of its other topics are there."""
    began = f"`start: {{offsets: {{{source.topic}: {{{source.partition}: {start_offset}}}}}}}`, where this copy began"
    is_moving = start.kind in _MOVING
    if is_routed:
        return (
            "put a topic of another name in its place in the route, in `topics` and in what `to` gives, once the other "
            f"topics are at one position{f', with {began}' if is_moving else ''}: records of the lost topic are then "
            "copied to that one again; another name of the mirror would copy to all topics of the route again"
        )
    return (
        f"copy source topic {source.topic}, and every other one of which this is said, by a mirror of another name "
        f"with the same destination and {began if is_moving else '`start`'}, and leave it out of this one: nothing "
        "else is copied again"
    )
