"""An archive as a source that the driver asks: what topics it has, and about many partitions at a time."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from mirrorlake.archive.inspection import archived_folders
from mirrorlake.archive.topic_record import recorded_topics
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import (
    ChainBrokenError,
    ConfigurationError,
    CorruptBatchError,
    MirrorlakeError,
    TopicMissingError,
)
from mirrorlake.kafka.control.descriptions import ConfigValue
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.archive.archive import Found, OpenArchive
from mirrorlake.sources.archive.folder import Hole
from mirrorlake.sources.archive.identity import base_of, is_generation
from mirrorlake.sources.archive.log import ArchiveSourceLog, first_records, segments_within
from mirrorlake.sources.client import BatchFacts, Bounds, SourceTopic, SourceTopics
from mirrorlake.together import all_of

T = TypeVar("T")

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics in which brokers keep their own state."""


class ArchiveSourceClient:
    """Asks one archive.

    Args:
        archive: open for questions about partitions.
        fresh: the same, open for questions about topics, which reads anew where they lie.
        threads: to look at the store in.
    """

    def __init__(self, archive: OpenArchive, fresh: OpenArchive, threads: StoreThreads) -> None:
        self._archive = archive
        self._fresh = fresh
        self._threads = threads

    @property
    def connections_made(self) -> int:
        """Returns 0: files say themselves whether they are those that were there before."""
        return 0

    async def topics(self, names: Sequence[str] | None) -> SourceTopics:
        """Returns the topics of these names, all topics for None: each is the folder of its newest generation.

        ``source_id`` is the archive's id, empty for one that has no marker.
        """
        archive_id = await self._threads.look(self._fresh.archive_id)
        unread: Mapping[str, MirrorlakeError] = {}
        if names is None:
            wanted, unread = await self._threads.look(self._names)
        else:
            wanted = list(dict.fromkeys(names))
        found = await all_of(self._answer(self._topic(name)) for name in wanted)
        answers = dict(zip(wanted, found, strict=True))
        return SourceTopics(
            source_id=archive_id,
            topics={name: each for name, each in answers.items() if isinstance(each, SourceTopic)},
            errors=dict(unread)
            | {
                name: each
                for name, each in answers.items()
                if isinstance(each, MirrorlakeError) and not isinstance(each, TopicMissingError)
            },
        )

    async def topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, ConfigValue]]:
        """Returns the configurations the topics had when they were archived; empty where that was not recorded.

        They were set on the topic, as far as can be told: what its cluster set was recorded with them.
        """
        configs: dict[str, Mapping[str, ConfigValue]] = {}
        for name in names:
            record = (await self._threads.look(partial(self._fresh.topic, name))).record
            recorded = record.configs if record is not None else {}
            configs[name] = {
                key: ConfigValue(value=value, source="DYNAMIC_TOPIC_CONFIG", is_read_only=False, is_sensitive=False)
                for key, value in recorded.items()
            }
        return configs

    async def owner_states(self) -> Mapping[str, OwnerState]:
        """Returns nothing: archives hold no state records."""
        return {}

    async def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds | MirrorlakeError]:
        """Returns where the chain of each begins, and where it ends or has its first hole that is not crossed."""

        async def of(partition: TopicPartition) -> Bounds:
            found = await self._archive.find(partition)
            chosen = self._archive.work.range_of(partition)
            holes = tuple(hole.offsets for hole in found.view.holes if not chosen.passes(hole.offsets))
            return Bounds(start=found.start, end=found.end, holes=holes)

        return await self._each(partitions, of)

    async def holes(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Hole | None]:
        """Returns the first hole of each chain that is within what is read of it; those that fail are left out."""

        async def of(partition: TopicPartition) -> Hole | None:
            found = await self._archive.find(partition)
            return found.view.hole if found.end == found.view.end else None

        answers = await self._each(partitions, of)
        return {each: hole for each, hole in answers.items() if not isinstance(hole, MirrorlakeError)}

    async def passable(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Sequence[Hole]]:
        """Returns the holes behind which each chain goes on, for a mirror that passes over them after some time.

        Partitions that could not be looked at are left out: of those nothing is known now.
        """

        async def of(partition: TopicPartition) -> Sequence[Hole]:
            # What follows the last segment does not tell of one that was lost since before it.
            return (await self._archive.find(partition, is_whole=True)).view.holes

        answers = await self._each(partitions, of)
        return {each: holes for each, holes in answers.items() if not isinstance(holes, MirrorlakeError)}

    async def stored_bytes(self, partition: TopicPartition, offsets: OffsetRange) -> int | None:
        """Returns the sizes of the segments that hold some of a range, as they were listed."""
        found = await self._archive.find(partition)
        return sum(segment.size_bytes for segment, _ in segments_within(found, offsets))

    async def missing(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, MirrorlakeError]:
        """Returns the hole, or the overlap, at which each chain ends that would be read further."""

        async def of(partition: TopicPartition) -> MirrorlakeError | None:
            found, end = await self._archive.find(partition), self._archive.work.range_of(partition).end_offset
            if end is not None and end <= found.view.end:
                return None
            # One behind which there is more matters to whoever stands before it.
            hole = found.view.hole or next(reversed(found.view.holes), None)
            return hole.error(SystemClock().now_seconds()) if hole is not None else found.view.overlap

        return {each: answer for each, answer in (await self._each(partitions, of)).items() if answer is not None}

    async def snapshots(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, str]:
        """Returns the file's name of the newest snapshot of each partition that has some.

        Those that could not be looked at are left out.
        """

        async def of(partition: TopicPartition) -> str | None:
            topic = await self._threads.look(lambda: self._archive.topic(partition.topic))
            if topic.holds_snapshots is False:
                return None
            snapshot = (await self._archive.find(partition)).view.snapshot
            return str(snapshot.name) if snapshot is not None else None

        answers = await self._each(partitions, of)
        return {each: name for each, name in answers.items() if isinstance(name, str)}

    async def written_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Returns the same ends: everything in an archive is decided."""
        found = await self.bounds([*partitions])
        return {each: bounds.end for each, bounds in found.items() if isinstance(bounds, Bounds)}

    async def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> Mapping[TopicPartition, int | MirrorlakeError | None]:
        """Returns the offset of the first record of that time or later, None where there is none."""

        async def of(partition: TopicPartition) -> int | None:
            return await ArchiveSourceLog(partition, self._archive, self._threads).offset_at(timestamp_ms)

        return await self._each(partitions, of)

    async def batch_at(self, partition: TopicPartition, offset: int) -> BatchFacts | None:
        """Returns the time of the first record at an offset or behind it; nothing in an archive is transactional."""
        records = await self._threads.look(
            lambda: self._archive.ask(partition, lambda found: first_records(found, offset))
        )
        if records is None:
            return None
        oldest_ms = int(records.timestamps[0])
        return BatchFacts(oldest_ms=oldest_ms if oldest_ms >= 0 else None, is_transactional=False)

    async def try_reading(self, partition: TopicPartition, end: int) -> MirrorlakeError | None:
        """Tries to read the last segment below ``end``, as nothing else proves it.

        A damaged segment was read: it ends its own partition where it lies, all before it is copied, and it says
        nothing of other partitions.
        """

        def last_records(found: Found) -> RecordColumns | None:
            return first_records(found, max(found.start, min(end, found.end) - 1))

        async def read() -> None:
            await self._threads.look(lambda: self._archive.ask(partition, last_records))

        answer = await self._answer(read())
        is_damaged = isinstance(answer, ChainBrokenError | CorruptBatchError)
        return answer if isinstance(answer, MirrorlakeError) and not is_damaged else None

    async def _topic(self, name: str) -> SourceTopic:
        found = await self._threads.look(lambda: self._fresh.topic(name))
        return SourceTopic(
            name=name,
            topic_id=(found.record.topic_id if found.record is not None else None) or "",
            is_internal=name in INTERNAL,
            partitions=found.partitions,
        )

    def _names(self) -> tuple[list[str], Mapping[str, MirrorlakeError]]:
        """Returns the names of all topics, and why some folders that may be topics' could not be looked into.

        Topics are folders that have a record, or partitions, and those that are configured. A folder is left out only
        where its record says that it is a generation of another's topic; where that cannot be read, asking for the
        topic says why.
        """
        store, work = self._fresh.store, self._fresh.work
        unread: dict[str, MirrorlakeError] = {}

        def pass_over(name: str, error: MirrorlakeError) -> None:
            if not isinstance(error, ConfigurationError):  # a name that mirrorlake does not write
                unread[name] = error

        folders = recorded_topics(store) | {name for name, _ in archived_folders(store, pass_over=pass_over)}
        start = f"{work.folder}/" if work.folder else ""
        renamed = {folder: topic for topic, folder in work.folders.items()}
        names = {renamed.get(name) or self._topic_of(name, start) for name in folders if name.startswith(start)}
        errors = {name.removeprefix(start): error for name, error in unread.items() if name.startswith(start)}
        return sorted({*names, *work.folders}), errors

    def _topic_of(self, folder: str, start: str) -> str:
        """Returns the name of the topic to which a folder belongs."""
        base = base_of(folder)
        with contextlib.suppress(MirrorlakeError):  # asking for the topic says so
            if base is not None and is_generation(self._fresh.store, base, folder):
                return base.removeprefix(start)
        return folder.removeprefix(start)

    async def _each(
        self, partitions: Iterable[TopicPartition], ask: Callable[[TopicPartition], Awaitable[T]]
    ) -> dict[TopicPartition, T | MirrorlakeError]:
        asked = list(dict.fromkeys(partitions))
        await self._threads.look(self._archive.archive_id)
        answers = await all_of(self._answer(ask(each)) for each in asked)
        return dict(zip(asked, answers, strict=True))

    async def _answer(self, asking: Awaitable[T]) -> T | MirrorlakeError:
        try:
            return await asking
        except MirrorlakeError as error:
            return error
