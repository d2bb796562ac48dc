"""The topics that hold the progress and the offset maps of a mirror with ``offsets: map``, and reading them back.

Both have one partition per shard of the mirror, so that the open transaction of one shard never hides the progress of
another (a ``read_committed`` reader stops at the first open transaction). Progress never expires: both are compacted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.destinations.map.marks.empty_mark import decode_empty_mark
from mirrorlake.destinations.map.marks.route_mark import decode_route_mark
from mirrorlake.destinations.map.marks.select_mark import decode_mark
from mirrorlake.destinations.map.offset_map import OffsetMap, decode_runs, first_copies
from mirrorlake.destinations.map.progress import (
    SHARDS_KEY,
    MapPage,
    MapProgress,
    PageKey,
    ProgressKey,
    decode_page,
    decode_page_key,
    decode_progress,
    decode_progress_key,
)
from mirrorlake.destinations.transactions.compacted_topics import check_compacted_topics, make_compacted_topic
from mirrorlake.errors import LostProgressError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import TopicMetadata
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.own_topics import OFFSET_MAP_PREFIX, PROGRESS_PREFIX

_WHOSE = "destination"

Headers = Sequence[Mapping[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressTopics:
    """The two topics of a mirror.

    ``shards`` is how many partitions they have. ``progress_id`` and ``pages_id`` are the topic ids they must have,
    empty where that is not known.
    """

    mirror: str
    shards: int
    progress_id: str = ""
    pages_id: str = ""

    @property
    def progress(self) -> str:
        """The topic of the progress records."""
        return f"{PROGRESS_PREFIX}{self.mirror}"

    @property
    def pages(self) -> str:
        """The topic of the full pages of the offset maps."""
        return f"{OFFSET_MAP_PREFIX}{self.mirror}"

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
    await make_compacted_topic(client, topics.progress, topics.shards)


async def make_pages_topic(client: ClusterClient, topics: ProgressTopics) -> None:
    """Makes the topic of the full pages; one that is there is left as it is.

    Raises:
        MirrorlakeError: it cannot be made.
    """
    await make_compacted_topic(client, topics.pages, topics.shards)


async def ensure_topics(client: ClusterClient, topics: ProgressTopics) -> None:
    """Makes the topics that are missing, and checks that those there keep what they are given.

    A topic whose id is known is never made: it was there, and what it held is gone.

    Raises:
        LostProgressError: a topic of which the id is known is missing, or another one.
        UnsupportedError: a topic has fewer partitions than the mirror has shards, or would delete records.
        MirrorlakeError: a topic can be neither described nor made.
    """
    names = (topics.progress, topics.pages)
    there = await check_same_topics(client, topics)
    for name in names:
        if name not in there:
            await make_compacted_topic(client, name, topics.shards)
    await check_compacted_topics(client, names, partitions=topics.shards, mirror=topics.mirror)


async def check_same_topics(client: ClusterClient, topics: ProgressTopics) -> Mapping[str, TopicMetadata]:
    """Checks that the topics are those that are known, and returns which are there.

    Raises:
        LostProgressError: one of which the id is known is missing, or another one.
        MirrorlakeError: the cluster could not be asked.
    """
    there = (await client.metadata((topics.progress, topics.pages), refresh=True)).topics
    for name, known in ((topics.progress, topics.progress_id), (topics.pages, topics.pages_id)):
        found = there[name].topic_id if name in there else None
        if known and (error := another_topic(name, known, found, mirror=topics.mirror)) is not None:
            raise error
    return there


def another_topic(name: str, known: str, found: str | None, *, mirror: str) -> LostProgressError | None:
    """Returns what it means that a topic of a mirror's own is not the one that is known; None where it is. Pure.

    Args:
        name: of the topic.
        known: its id, as remembered.
        found: the id of the topic of that name now; None where there is none, empty where brokers give no ids.
        mirror: whose.
    """
    if found in ("", known):
        return None
    state = "is not there any more" if found is None else f"was deleted and recreated (topic id {known}, now {found})"
    return LostProgressError(
        f"topic {name} {state}: the progress of mirror {mirror} is lost, and to continue would copy everything a "
        "second time",
        hint="give the mirror another name, and as `start` the `offsets` to copy from, or `latest`; or delete its "
        f"destination topics, {PROGRESS_PREFIX}{mirror} and {OFFSET_MAP_PREFIX}{mirror}: then it begins anew",
        expected=known,
        found=found,
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
    newest: dict[bytes, tuple[bytes | None, Headers]] = {}
    async for columns in read_range(client, partition, await _range_of(client, partition, end_offset), whose=_WHOSE):
        written = zip(columns.values.to_pylist(), columns.headers.to_pylist(), strict=True)
        newest.update(zip(columns.keys.to_pylist(), written, strict=True))
    newest.pop(SHARDS_KEY, None)
    return {
        decode_progress_key(key): decode_progress(
            value, decode_mark(headers), decode_route_mark(headers), decode_empty_mark(headers)
        )
        for key, (value, headers) in newest.items()
        if value is not None
    }


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
    found = await read_pages(client, topics.pages_of(shard), key, progress)
    runs = [run for _, page in found.full for run in page.runs]
    runs += decode_runs(progress.page.start_offset, progress.page.encoded)
    return OffsetMap(progress.mapped, first_copies(runs, (page.runs for _, page in found.later)))


Pages = list[tuple[PageKey, MapPage]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPages:
    """The pages of one offset map: the full ones, ascending, and the later ones in the order they were written."""

    full: Pages
    later: Pages


async def read_pages(
    client: ClusterClient, partition: TopicPartition, key: ProgressKey, progress: MapProgress
) -> MapPages:
    """Returns the pages of a source partition's offset map; the full ones end where the open page begins.

    Args:
        client: of the destination cluster.
        partition: of the topic of the pages.
        key: whose map.
        progress: read before the pages: those it has left behind are committed, and there.

    Raises:
        LostProgressError: pages are missing.
        MirrorlakeError: see ``read_progress``.
    """
    pages: dict[int, tuple[PageKey, MapPage]] = {}
    later: dict[int, tuple[PageKey, MapPage]] = {}
    async for columns in read_range(client, partition, await _range_of(client, partition, None), whose=_WHOSE):
        for page_key_bytes, value in zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True):
            page_key = decode_page_key(page_key_bytes)
            # A source that is being upgraded to Kafka 2.8 names its topics' ids only now and then.
            is_same_topic = page_key.source_topic_id in ("", progress.source_topic_id) or not progress.source_topic_id
            if page_key.progress != key or not is_same_topic:
                continue
            if page_key.later_at is not None:
                # One written after the progress was read names what a later look will say.
                if value is not None and page_key.later_at < progress.destination_end:
                    later[page_key.later_at] = page_key, decode_page(page_key, value)
            elif page_key.start_offset >= progress.page.start_offset:
                continue
            elif value is None:
                pages.pop(page_key.start_offset, None)
            else:
                pages[page_key.start_offset] = page_key, decode_page(page_key, value)
    full = _without_hole([pages[start] for start in sorted(pages)], key, progress)
    return MapPages(full=full, later=[later[at] for at in sorted(later)])


def _without_hole(pages: Pages, key: ProgressKey, progress: MapProgress) -> Pages:
    at = progress.start_offset
    for page_key, page in pages:
        if page_key.start_offset != at:
            break
        at = page.page.offsets.end_offset
    if at != progress.page.start_offset:
        raise LostProgressError(
            f"the offset map of source {key.source} to {key.destination_topic} lacks what begins at offset {at} of the "
            f"source, and was written up to offset {progress.page.start_offset}",
            hint="the records themselves may all be there: a copy of another mirror name, to another topic, has a map "
            "that is whole",
            position=at,
            expected=progress.page.start_offset,
        )
    return pages


def check_nothing_deleted(partition: TopicPartition, log_start: int) -> None:
    """Checks that a partition of our topics begins at 0: compaction leaves the log's start where it is. Pure.

    Raises:
        LostProgressError: records were deleted, by somebody or by a retention it had for a while.
    """
    if log_start > 0:
        raise LostProgressError(
            f"the log of {partition} starts at offset {log_start}: records of it were deleted, so the progress is not "
            "known",
            hint="give the mirror another name, and as `start` the `offsets` to copy from, or `latest`; or delete the "
            f"destination topics and {partition.topic} too, then it begins anew",
            log_start=log_start,
        )


async def _range_of(client: ClusterClient, partition: TopicPartition, end_offset: int | None) -> OffsetRange:
    start = await client.offset_at(partition, EARLIEST)
    end = await client.offset_at(partition, LATEST)
    check_nothing_deleted(partition, start)
    return OffsetRange(start_offset=start, end_offset=max(start, end if end_offset is None else end_offset))
