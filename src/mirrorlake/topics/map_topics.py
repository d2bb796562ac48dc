"""What is known of a mirror with mapped offsets at a destination cluster, and whether its own topics are still there.

The state record remembers the ids of the topics that hold progress and offset maps. Where one of them is missing, or
another one, everything would be copied a second time: the mirror is refused as a whole, unless nothing is left of what
it copied. Reads only.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mirrorlake.destinations.map.progress_store import ProgressTopics, another_topic
from mirrorlake.destinations.map.shard_count import SHARDS_UNWRITTEN, find_shards
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import LostProgressError, MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """Shards, and ids of the mirror's own topics (empty where there are none, or brokers give none).

    ``shards`` is None where the mirror has not begun: there is no progress topic that says it. ``error`` says why
    nothing may be copied.
    """

    shards: int | None = None
    progress_topic_id: str = ""
    pages_topic_id: str = ""
    error: MirrorlakeError | None = None

    def added_to(self, target: Target) -> Target:
        """Returns the target with what is known here; an error it has already says more."""
        if self is NOT_MAPPED:
            return target
        return replace(
            target,
            map_shards=self.shards or SHARDS_UNWRITTEN,
            has_progress_topic=self.shards is not None,
            progress_topic_id=self.progress_topic_id,
            pages_topic_id=self.pages_topic_id,
            error=target.error or self.error,
        )


NOT_MAPPED = Mapped()
"""Of a mirror whose offsets are not mapped."""


async def find_mapped(
    client: ClusterClient, mirror: str, own: OwnerState | None, destinations: Iterable[str]
) -> Mapped:
    """Returns what is known of a mirror with mapped offsets.

    Args:
        client: of the destination cluster.
        mirror: its name.
        own: its state record, None where there is none.
        destinations: the destination topics it is to fill.

    Raises:
        MirrorlakeError: the cluster could not be asked.
    """
    topics = ProgressTopics(mirror=mirror, shards=SHARDS_UNWRITTEN)
    there = (await client.metadata((topics.progress, topics.pages), refresh=True)).topics
    ids = {name: there[name].topic_id if name in there else None for name in (topics.progress, topics.pages)}
    known = Mapped(
        progress_topic_id=ids[topics.progress] or "",
        pages_topic_id=ids[topics.pages] or "",
    )
    error = _lost(topics, ids, own) if own is not None else None
    if own is not None and error is not None and await _holds_something(client, {*own.mapped_topics, *destinations}):
        return replace(known, error=error)
    try:
        shards = await find_shards(client, mirror)
    except LostProgressError as lost:
        return replace(known, error=lost)
    if shards is None and (before := ids[topics.progress]) is not None:
        # It was there a moment ago, so this is no mirror that has not begun.
        return replace(known, error=another_topic(topics.progress, before, None, mirror=mirror))
    return replace(known, shards=shards)


def _lost(topics: ProgressTopics, ids: dict[str, str | None], own: OwnerState) -> LostProgressError | None:
    remembered = ((topics.progress, own.progress_topic_id), (topics.pages, own.pages_topic_id))
    errors = (another_topic(name, known, ids[name], mirror=topics.mirror) for name, known in remembered if known)
    return next((error for error in errors if error is not None), None)


async def _holds_something(client: ClusterClient, names: set[str]) -> bool:
    """Tells whether a destination topic has records, or may have: one that cannot be asked is not called empty."""
    found = await client.metadata(sorted(names), refresh=True)
    if found.errors:
        return True
    partitions = [TopicPartition(name, n) for name, topic in found.topics.items() for n in topic.partitions]
    ends = (await client.log_ends(partitions)).values() if partitions else ()
    return not all(isinstance(end, LogEnd) and end.end_offset == 0 for end in ends)
