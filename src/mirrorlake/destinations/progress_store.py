"""The topics that hold the progress and the offset maps of a mirror with ``offsets: map``, and reading them back.

Both have one partition per shard of the mirror, so that the open transaction of one shard never hides the progress of
another (a ``read_committed`` reader stops at the first open transaction). Progress never expires: both are compacted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mirrorlake.destinations.map_progress import (
    SHARDS_KEY,
    MapProgress,
    ProgressKey,
    decode_page,
    decode_page_key,
    decode_progress,
    decode_progress_key,
)
from mirrorlake.destinations.offset_map import MappedRun, OffsetMap, decode_runs
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, TopicMissingError, UnsupportedError
from mirrorlake.kafka.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.range_reader import read_range
from mirrorlake.offsets import OffsetRange, TopicPartition

TOPIC_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    # The cleaner leaves the active segment alone, and all of it is read at every take-over: the smallest one allowed.
    "segment.bytes": str(1 << 20),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressTopics:
    """The two topics of a mirror.

    ``shards`` is how many partitions they have.
    """

    mirror: str
    shards: int

    @property
    def progress(self) -> str:
        """The topic of the progress records."""
        return f"mirrorlake.progress.{self.mirror}"

    @property
    def pages(self) -> str:
        """The topic of the full pages of the offset maps."""
        return f"mirrorlake.offset-map.{self.mirror}"

    def progress_of(self, shard: int) -> TopicPartition:
        """Returns where the progress of a shard is."""
        return TopicPartition(self.progress, shard)

    def pages_of(self, shard: int) -> TopicPartition:
        """Returns where the full pages of a shard are."""
        return TopicPartition(self.pages, shard)


async def make_progress_topic(client: ClusterClient, topics: ProgressTopics) -> None:
    """Makes the topic of the progress records; one that is there is left as it is.

    Raises:
        MirrorlakeError: it cannot be made.
    """
    await _make(client, topics.progress, topics.shards)


async def _make(client: ClusterClient, name: str, partitions: int) -> None:
    await client.create_topic(name, partitions=partitions, replication_factor=-1, configs=dict(TOPIC_CONFIGS))


async def ensure_topics(client: ClusterClient, topics: ProgressTopics) -> None:
    """Makes the topics that are missing, and checks that those there keep what they are given.

    Raises:
        UnsupportedError: a topic has fewer partitions than the mirror has shards, or would delete records.
        MirrorlakeError: a topic can be neither described nor made.
    """
    names = (topics.progress, topics.pages)
    there = (await client.metadata(names)).topics
    for name in names:
        if name not in there:
            await _make(client, name, topics.shards)
    there = (await client.metadata(names)).topics
    configs = await client.describe_topic_configs(names)
    for name in names:
        found = configs[name]
        if isinstance(found, TopicMissingError):
            raise BrokerNotReadyError(f"topic {name} was made just now, and not every broker knows of it yet")
        if isinstance(found, MirrorlakeError):
            raise found
        policy = found["cleanup.policy"].value
        if policy != "compact":
            raise UnsupportedError(
                f"topic {name} has cleanup.policy={policy}, so what a mirror must know of itself would be deleted",
                hint=f"kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config "
                "cleanup.policy=compact",
                topic=name,
            )
        if name in there and len(there[name].partitions) < topics.shards:
            raise UnsupportedError(
                f"topic {name} has {len(there[name].partitions)} partition(s), mirror {topics.mirror} needs "
                f"{topics.shards}",
                hint=f"kafka-topics.sh --alter --topic {name} --partitions {topics.shards}",
                topic=name,
            )


async def read_progress(
    client: ClusterClient, partition: TopicPartition, *, end_offset: int | None = None
) -> dict[ProgressKey, MapProgress]:
    """Returns the newest committed progress record of every key in a partition.

    Args:
        client: of the destination cluster.
        partition: of a progress topic.
        end_offset: read up to there, waiting for open transactions before it to end; None reads what is committed
            now, which is not enough for a writer.

    Raises:
        DestinationForeignError: the topic holds what is not ours.
        BrokerNotReadyError: an open transaction does not end.
        MirrorlakeError: the topic could not be read.
    """
    newest: dict[bytes, bytes] = {}
    async for columns in read_range(client, partition, await _range_of(client, partition, end_offset)):
        newest.update(zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True))
    newest.pop(SHARDS_KEY, None)
    return {decode_progress_key(key): decode_progress(value) for key, value in newest.items() if value is not None}


async def read_offset_map(
    client: ClusterClient, topics: ProgressTopics, shard: int, key: ProgressKey
) -> OffsetMap | None:
    """Returns the whole committed offset map of a source partition; None where it has no progress.

    The progress is read first: a page that is full in it is committed, so it is found afterwards.

    Raises:
        MirrorlakeError: see ``read_progress``.
    """
    progress = (await read_progress(client, topics.progress_of(shard))).get(key)
    if progress is None:
        return None
    pages: dict[int, list[MappedRun]] = {}
    where = topics.pages_of(shard)
    async for columns in read_range(client, where, await _range_of(client, where, None)):
        for page_key_bytes, value in zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True):
            page_key = decode_page_key(page_key_bytes)
            is_ours = page_key.progress == key and page_key.source_topic_id == progress.source_topic_id
            if is_ours and value is not None and page_key.start_offset < progress.page.start_offset:
                page = decode_page(page_key, value).page
                pages[page_key.start_offset] = list(decode_runs(page_key.start_offset, page.encoded))
    runs = [run for start in sorted(pages) for run in pages[start]]
    runs += decode_runs(progress.page.start_offset, progress.page.encoded)
    start = min([*pages, progress.page.start_offset])
    return OffsetMap(OffsetRange(start_offset=start, end_offset=progress.position), runs)


async def _range_of(client: ClusterClient, partition: TopicPartition, end_offset: int | None) -> OffsetRange:
    start = await client.offset_at(partition, EARLIEST)
    end = await client.offset_at(partition, LATEST)
    return OffsetRange(start_offset=start, end_offset=max(start, end if end_offset is None else end_offset))
