"""Whether a progress record speaks of the topics that are there now."""

from mirrorlake.destinations.map.progress import MapProgress
from mirrorlake.errors import DestinationForeignError, TopicRecreatedError
from mirrorlake.offsets import TopicPartition

_IN_ITS_PLACE = (
    "put a topic of another name in its place in the route, in `topics` and in what `to` gives, once the other topics "
    "are at one position: records of the lost topic are then copied to that one from the start again; another name "
    "of the mirror would copy to all topics of the route again"
)


def check_progress(
    progress: MapProgress,
    *,
    source: TopicPartition,
    destination_topic: str,
    source_cluster_id: str,
    source_topic_id: str,
    destination_topic_id: str,
    is_routed: bool = False,
) -> None:
    """Checks that a progress record speaks of the very topics that are there now. Pure; an empty id is not compared.

    ``is_routed`` says that the destination topic is one of a route: the others have their records already.

    Raises:
        DestinationForeignError: the source is another cluster, or the destination topic was made anew.
        TopicRecreatedError: the source topic was made anew.
    """
    afresh = "give the mirror another name, or mirror to another topic, to copy from the start again"
    for found, expected, kind, what in (
        (progress.source_cluster_id, source_cluster_id, DestinationForeignError, "cluster id"),
        (progress.source_topic_id, source_topic_id, TopicRecreatedError, "topic id"),
    ):
        if found and expected and found != expected:
            raise kind(
                f"{destination_topic} was filled up to offset {progress.position} from source {source} of {what} "
                f"{found}, the source now has {what} {expected}",
                hint=afresh,
                expected=found,
                found=expected,
            )
    if progress.destination_topic_id and progress.destination_topic_id != destination_topic_id:
        now = f"now {destination_topic_id}" if destination_topic_id else "now none"
        what = "was deleted and recreated" if destination_topic_id else "was deleted"
        raise DestinationForeignError(
            f"destination topic {destination_topic} {what} (topic id {progress.destination_topic_id}, {now}) after "
            f"source {source} was copied up to offset {progress.position}",
            hint=_IN_ITS_PLACE if is_routed else afresh,
            expected=progress.destination_topic_id,
            found=destination_topic_id,
        )
