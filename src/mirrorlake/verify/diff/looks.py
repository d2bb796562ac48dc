"""What there is on a side: its topics and partitions, and where each begins and ends. Reads no record."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mirrorlake.archive.topic_record import recorded_settings
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.connections import Clients, WorkerCache
from mirrorlake.errors import MirrorlakeError, TopicMissingError
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.archive.archive import Found, OpenArchive
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.sources.source import SourceWork
from mirrorlake.together import all_of
from mirrorlake.topics.targets import is_compacted
from mirrorlake.verify.diff.ranges import Look
from mirrorlake.verify.diff.values import LAST_END, Unread

LookedAt = Look | MirrorlakeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """What a side has of some topics: the partitions of each, or why they are not known."""

    partitions: Mapping[str, frozenset[int] | MirrorlakeError]


def archive_work(work: ArchiveSourceWork, folders: Iterable[str]) -> ArchiveSourceWork:
    """Returns an archive whose topics are these folders, by their own names; what lies behind a hole is read too."""
    return replace(work, folders={name: name for name in folders}, skip_after_seconds=0.0)


async def find_topics(work: SourceWork, names: Sequence[str]) -> Topics:
    """Returns the partitions of these topics.

    Raises:
        MirrorlakeError: the archive or the cluster could not be asked at all.
    """
    clients = WorkerCache()
    try:
        found = await work.client(clients).topics(names)
    finally:
        await clients.close()
    return Topics(
        partitions={
            name: found.topics[name].partitions
            if name in found.topics
            else found.errors.get(name, missing_topic(work, name))
            for name in names
        }
    )


def missing_topic(work: SourceWork, name: str) -> MirrorlakeError:
    """Returns the error of a topic that is not there."""
    return TopicMissingError(
        f"{work.label} ({work.place}) has no topic {name}",
        hint="check its name, and that all of the archive or the cluster is there",
        topic=name,
    )


async def look_at(work: SourceWork, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, LookedAt]:
    """Looks at partitions of one side; what keeps one from being looked at is its error."""
    clients = WorkerCache()
    try:
        if isinstance(work, ArchiveSourceWork):
            archive = OpenArchive(work, clients)
            asked = (_look_at_archive(archive, each, clients) for each in partitions)
            return dict(zip(partitions, await all_of(asked), strict=True))
        return await _look_at_cluster(work, partitions, clients)
    except MirrorlakeError as error:
        return dict.fromkeys(partitions, error)
    finally:
        await clients.close()


async def _look_at_cluster(
    work: SourceWork, partitions: Sequence[TopicPartition], clients: Clients
) -> Mapping[TopicPartition, LookedAt]:
    client = work.client(clients)
    names = list(dict.fromkeys(each.topic for each in partitions))
    topics = await client.topics(names)
    there = [name for name in names if name in topics.topics]
    configs = await client.topic_configs(there) if there else {}
    bounds = await client.bounds(
        [each for each in partitions if each.topic in there and each.partition in topics.topics[each.topic].partitions]
    )

    def look(each: TopicPartition) -> LookedAt:
        if each.topic not in topics.topics:
            return topics.errors.get(each.topic, missing_topic(work, each.topic))
        found = bounds.get(each)
        if found is None:
            return TopicMissingError(f"{work.label} has no partition {each}", topic=each.topic)
        if isinstance(found, MirrorlakeError):
            return found
        return Look(
            begin=found.start,
            start=found.start,
            end=found.end,
            identity=f"{topics.source_id} {topics.topics[each.topic].topic_id}",
            is_compacted=is_compacted({key: known.value for key, known in configs.get(each.topic, {}).items()}),
        )

    return {each: look(each) for each in partitions}


async def _look_at_archive(archive: OpenArchive, partition: TopicPartition, clients: Clients) -> LookedAt:
    def look() -> LookedAt:
        return _archive_look(archive, archive.look(partition, is_whole=True))

    try:
        return await clients.store_threads.look(look)
    except MirrorlakeError as error:
        return error


def _archive_look(archive: OpenArchive, found: Found) -> Look:
    topic, view = found.topic, found.view
    record, now_seconds = topic.record, SystemClock().now_seconds()
    identity = f"{archive.archive_id()} {record.topic_id if record is not None else None} {topic.folder}"
    if view.snapshot is not None or topic.holds_snapshots:
        name = str(view.snapshot.name) if view.snapshot is not None else ""
        return Look(begin=0, start=0, end=view.end, identity=f"{identity} {name}", snapshot=name)
    holes = [*view.holes, *([] if view.hole is None else [view.hole])]
    unread = [Unread(offsets=hole.offsets, error=hole.error(now_seconds)) for hole in holes]
    end = max([view.end, *(hole.offsets.end_offset for hole in holes)])
    if view.overlap is not None:
        behind = OffsetRange(start_offset=view.end, end_offset=LAST_END)
        unread.append(Unread(offsets=behind, error=view.overlap))
    return Look(
        begin=view.chain.start,
        start=view.start,
        end=end,
        identity=identity,
        # What its cleaner took before is missing in what was archived since, whatever the policy is now.
        is_compacted=record is not None
        and any(is_compacted(each) for each in recorded_settings(archive.store, topic.folder)),
        unread=tuple(unread),
    )
