"""Which source partitions a mirror has copied into which destination topics with mapped offsets.

Several source topics may go to one destination topic, so the one source topic that `destinations` of a state record
names for it does not say. What a record says may be of a destination topic that was deleted since; the mirror's own
progress names the topic it was copied to, so whoever refuses a second copy asks that.
"""

from collections.abc import Iterable, Mapping

from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_store import ProgressTopics, read_progress
from mirrorlake.destinations.map.shard_count import find_shards
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.topics.targets import Target, shard_of

MappedSources = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Source partitions by source topic, by destination topic."""


def mapped_sources_after(accepted: Iterable[Target], before: OwnerState | None) -> MappedSources:
    """Returns what to remember of mapped copies once ``accepted`` are taken: nothing is ever forgotten. Pure.

    A record of before knew one source topic of each destination topic. Others that it names nowhere may have gone to
    each of them.
    """
    found = _mapped_before(before) if before is not None else {}
    for target in accepted:
        if target.is_mapped:
            sources = found.setdefault(target.destination_topic, {})
            sources.setdefault(target.source.topic, set()).add(target.source.partition)
    return {
        topic: {source: tuple(sorted(numbers)) for source, numbers in sorted(sources.items())}
        for topic, sources in sorted(found.items())
    }


def _mapped_before(before: OwnerState) -> dict[str, dict[str, set[int]]]:
    found: dict[str, dict[str, set[int]]] = {}
    unnamed = before.topic_ids.keys() - {*before.destinations.values()}
    for topic in before.mapped_topics:
        if topic in before.mapped_sources:
            found[topic] = {source: set(numbers) for source, numbers in before.mapped_sources[topic].items()}
        elif topic in before.destinations:
            numbers = {*before.partitions.get(topic, ()), *before.let_go.get(topic, ())}
            found[topic] = {source: set(numbers) for source in (before.destinations[topic], *unnamed)}
    return found


class OtherProgress:
    """What other mirrors' progress says of where their copies went; each shard is read once. Changes nothing.

    Args:
        client: of the destination cluster.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._shards: dict[str, int | None] = {}
        self._known: dict[tuple[str, int], Mapping[ProgressKey, MapProgress]] = {}

    async def is_gone(self, mirror: str, target: Target) -> bool:
        """Tells whether what a mirror copied of a target's source partition went to a topic that is not there any more.

        False where that is not known: where the mirror has no progress of it, or it could not be read.
        """
        if not target.destination_topic_id:
            return False
        try:
            progress = await self._progress(mirror, target)
        except MirrorlakeError:
            return False
        there = progress.destination_topic_id if progress is not None else ""
        return there not in ("", target.destination_topic_id)

    async def _progress(self, mirror: str, target: Target) -> MapProgress | None:
        if mirror not in self._shards:
            self._shards[mirror] = await find_shards(self._client, mirror)
        shards = self._shards[mirror]
        if shards is None:
            return None
        shard = shard_of(target.source, shards)
        if (mirror, shard) not in self._known:
            topics = ProgressTopics(mirror=mirror, shards=shards)
            self._known[mirror, shard] = await read_progress(self._client, topics.progress_of(shard))
        key = ProgressKey(destination_topic=target.destination_topic, source=target.source)
        return self._known[mirror, shard].get(key)
