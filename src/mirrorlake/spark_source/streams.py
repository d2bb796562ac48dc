"""Streams of an archive that grows, and of live topics: offsets for Spark's checkpoint, and batches between two.

A batch is told by its offsets alone, and reads exactly those whenever it is run: that is what makes a query of Spark's
exactly once over restarts.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from mirrorlake.archive.topic_record import check_reached
from mirrorlake.errors import ConfigurationError, TopicMissingError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.spark_source.archive_plan import (
    ArchivedTopicPartition,
    find_partitions,
    held_segments,
    plan_between,
    position_of,
)
from mirrorlake.spark_source.bounds import check_named, wanted_range
from mirrorlake.spark_source.kafka_plan import asked_at_times, find_live, held_offsets, patiently
from mirrorlake.spark_source.request import ReadOptions
from mirrorlake.spark_source.stream_offsets import (
    Positions,
    StreamOffsets,
    batch_after,
    check_same_topics,
    decoded,
    encoded,
    first_position,
    gone_partitions,
    next_end,
    partitions_gone,
    ranges_between,
)
from mirrorlake.spark_source.task_reading import Task, read_needs, read_task
from mirrorlake.spark_source.tasks import FILE_COST_BYTES, NO_LIMIT, TASK_BYTES_MAX, Piece, grouped, split
from mirrorlake.stores.opening import open_store

LOOK_SECONDS = 0.3
"""How old may be what a stream knows of its source's ends."""

GONE_PAUSES_SECONDS = (0.3, 0.6, 1.2)
"""Before a partition that is not there is looked for once more: a broker that has just started may not know all yet."""

T = TypeVar("T")
_Seen = tuple[dict[TopicPartition, OffsetRange], Mapping[str, str]]


class Looks(Protocol):
    """What a stream asks of its source."""

    def begin(self) -> tuple[Positions, Mapping[str, str]]:
        """Returns where the options say that a new query begins, and the topics' ids."""
        ...

    def held(self, known: Mapping[TopicPartition, int]) -> tuple[dict[TopicPartition, OffsetRange], Mapping[str, str]]:
        """Returns what each partition holds now, and the topics' ids.

        Args:
            known: partitions whose beginning does not matter any more.
        """
        ...

    def pieces(self, ranges: Mapping[TopicPartition, OffsetRange], topic_ids: Mapping[str, str]) -> list[Piece]:
        """Returns the pieces of exactly these ranges, none of which is empty."""
        ...

    def close(self) -> None:
        """Lets go of connections."""
        ...


class ArchiveLooks:
    """Looks at an archive."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._store = open_store(options.store)
        self._known: dict[TopicPartition, ArchivedTopicPartition] = {}

    def _partitions(self) -> dict[TopicPartition, ArchivedTopicPartition]:
        options = self._options
        found = find_partitions(self._store, options.names, options.patterns, are_snapshots=options.are_snapshots)
        for each in found:
            if each.is_snapshot:
                raise ConfigurationError(
                    f"{each.prefix} holds snapshots, each of which replaces the one before",
                    hint="read them as a batch; a stream follows an archive of every record, or the live topic",
                )
        self._known = {each.key: each for each in found}
        return self._known

    def begin(self) -> tuple[Positions, Mapping[str, str]]:
        """See `Looks`."""
        options, found = self._options, self._partitions()
        check_named((options.starting,), found)
        held = {key: held_segments(self._store, each)[0] for key, each in found.items()}
        return {
            key: wanted_range(key, held[key], starting=options.starting, ending=options.ending).start_offset
            for key in found
        }, {}

    def held(self, known: Mapping[TopicPartition, int]) -> tuple[dict[TopicPartition, OffsetRange], Mapping[str, str]]:
        """See `Looks`."""
        held: dict[TopicPartition, OffsetRange] = {}
        for key, each in self._partitions().items():
            if key in known:
                end = position_of(self._store, each)
                check_reached(self._store, each.folder, each.partition, reached=known[key], position=end)
                held[key] = OffsetRange(start_offset=0, end_offset=end)
            else:
                held[key] = held_segments(self._store, each)[0]
        return held, {}

    def pieces(self, ranges: Mapping[TopicPartition, OffsetRange], topic_ids: Mapping[str, str]) -> list[Piece]:
        """See `Looks`."""
        del topic_ids  # An archive of another topic of the same name lies in another folder.
        found = self._partitions()
        for key in ranges:
            if key not in found:
                raise TopicMissingError(f"{key} was in the archive, and is gone", hint="put it back")
        return [piece for key in sorted(ranges) for piece in plan_between(self._store, found[key], ranges[key])]

    def close(self) -> None:
        """See `Looks`."""


class LiveLooks:
    """Looks at a cluster, over connections that are kept."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._client: ClusterClient | None = None

    def _ask(self, question: Callable[[ClusterClient], Coroutine[Any, Any, T]]) -> T:
        async def ask() -> T:
            if self._client is None:
                self._client = ClusterClient(self._options.cluster)
            return await question(self._client)

        return self._loop.run_until_complete(patiently(ask))

    def begin(self) -> tuple[Positions, Mapping[str, str]]:
        """See `Looks`."""
        options = self._options

        async def ask(client: ClusterClient) -> tuple[Positions, Mapping[str, str]]:
            ids, found = await find_live(client, options.names, options.patterns)
            check_named((options.starting,), found)
            held = await held_offsets(client, found)
            times = await asked_at_times(client, found, options.starting)
            return {
                each: wanted_range(
                    each,
                    held[each],
                    starting=options.starting,
                    ending=options.ending,
                    times={"starting": times.get(each)},
                ).start_offset
                for each in found
            }, ids

        return self._ask(ask)

    def held(self, known: Mapping[TopicPartition, int]) -> tuple[dict[TopicPartition, OffsetRange], Mapping[str, str]]:
        """See `Looks`."""
        del known  # All are asked with one request.
        options = self._options

        async def ask(client: ClusterClient) -> tuple[dict[TopicPartition, OffsetRange], Mapping[str, str]]:
            ids, found = await find_live(client, options.names, options.patterns)
            return await held_offsets(client, found), ids

        return self._ask(ask)

    def pieces(self, ranges: Mapping[TopicPartition, OffsetRange], topic_ids: Mapping[str, str]) -> list[Piece]:
        """See `Looks`."""
        return [
            Piece(
                topic=key.topic,
                partition=key.partition,
                offsets=ranges[key],
                topic_id=topic_ids.get(key.topic, ""),
                cost=len(ranges[key]),
            )
            for key in sorted(ranges)
        ]

    def close(self) -> None:
        """See `Looks`."""
        client, self._client = self._client, None
        if client is not None:
            self._loop.run_until_complete(client.close())
        self._loop.close()


class MirrorlakeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # of PySpark
    """Plans and reads the micro-batches of a query.

    Spark pickles it before it is used, and calls the methods of the copies in several processes.

    Args:
        options: what to read.
        names: of the columns, in order.
    """

    def __init__(self, options: ReadOptions, names: Sequence[str]) -> None:
        if options.ending.word is None or options.ending.word != "latest":
            raise ConfigurationError("endingOffsets and endingTimestamp are of batches, a stream does not end")
        self._options = options
        self._names = tuple(names)
        self._kept: Looks | None = None
        self._bound: Positions | None = None
        self._seen: _Seen | None = None
        self._seen_at = 0.0

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None, "_seen": None}

    @property
    def _looks(self) -> Looks:
        if self._kept is None:
            self._kept = LiveLooks(self._options) if self._options.is_live else ArchiveLooks(self._options)
        return self._kept

    def initialOffset(self) -> StreamOffsets:  # noqa: N802  Spark's name
        """Returns where a query without a checkpoint begins.

        Raises:
            MirrorlakeError: the source could not be asked, or has no such topic.
        """
        return encoded(first_position(*self._looks.begin()))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Returns how much one micro-batch may bring: offsets, as the option ``maxOffsetsPerTrigger`` says."""
        most = self._options.offsets_per_trigger_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Notes where everything ends now: what comes later is for the next run.

        Raises:
            MirrorlakeError: the source could not be asked.
        """
        held, _ = self._looks.held({})
        self._bound = {each: offsets.end_offset for each, offsets in held.items()}

    def latestOffset(self, start: StreamOffsets, limit: ReadLimit) -> StreamOffsets:  # noqa: N802  Spark's name
        """Returns where the next micro-batch ends, which begins at ``start``.

        Raises:
            TopicRecreatedError: the offsets of ``start`` are of a topic that is gone.
            TopicMissingError: a topic or partition of ``start`` is gone, and `topics` still selects it.
            MirrorlakeError: the source could not be asked.
        """
        before = decoded(start)
        held, ids = self._held_lately(before.positions)
        check_same_topics(before.topic_ids, ids)
        ends = {each: offsets.end_offset for each, offsets in held.items()}
        if self._bound is not None:
            ends = {each: min(end, self._bound.get(each, 0)) for each, end in ends.items()}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begins = {each: offsets.start_offset for each, offsets in held.items()}
        end = next_end(before.positions, ends, begins, offsets_max=most)
        return encoded(batch_after(before, end, begins, ids))

    def _held_lately(self, known: Mapping[TopicPartition, int]) -> "_Seen":
        """Returns what the source held a moment ago: an idle query asks ninety times a second.

        Raises:
            TopicMissingError: a partition that is known is gone, of a topic that is still to be read.
            MirrorlakeError: the source could not be asked.
        """
        if self._seen is None or time.monotonic() - self._seen_at > LOOK_SECONDS:
            self._seen = self._looks.held(known)
            for pause in GONE_PAUSES_SECONDS:
                if not gone_partitions(known, self._seen[0], self._options.selects):
                    break
                time.sleep(pause)
                self._seen = self._looks.held(known)
            self._seen_at = time.monotonic()
        if gone := gone_partitions(known, self._seen[0], self._options.selects):
            raise partitions_gone(gone, known)
        return self._seen

    def partitions(self, start: StreamOffsets, end: StreamOffsets) -> list[InputPartition]:
        """Returns the tasks of one micro-batch: all offsets from ``start`` up to ``end``, and no other.

        Raises:
            SourceTruncatedError: the source does not hold them any more.
            MirrorlakeError: the source could not be asked.
        """
        after = decoded(end)
        ranges = ranges_between(decoded(start), after, begins=self._begins)
        pieces = self._looks.pieces(ranges, after.topic_ids)
        options = self._options
        if options.is_live:
            tasks = grouped(split(pieces, tasks=options.tasks), tasks=options.tasks, cost_max=NO_LIMIT)
        else:
            tasks = grouped(pieces, tasks=options.tasks, cost_max=TASK_BYTES_MAX, piece_cost=FILE_COST_BYTES)
        needs = read_needs(options)
        return [Task(each, needs) for each in tasks]

    def _begins(self) -> Positions:
        return {each: offsets.start_offset for each, offsets in self._looks.held({})[0].items()}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task.

        Raises:
            MirrorlakeError: something could not be read.
        """
        return read_task(self._options, self._names, partition)

    def stop(self) -> None:
        """Lets go of connections."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()
