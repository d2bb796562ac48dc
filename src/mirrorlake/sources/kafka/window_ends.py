"""Where a window ends the partitions of a cluster: asked of their leaders, and read where those cannot tell.

A leader is asked for the first offset of a time or later. It goes by offset, not by time, as a window does; but what it
finds may be the marker of a transaction, or a record that was aborted, neither of which a consumer is shown. So what it
names is read, and what lies behind it, up to the first record that is one.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mirrorlake.errors import MirrorlakeError, RangeUnknownError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.range_reader import NO_OFFSET, read_range
from mirrorlake.kafka.wire.fetch import READ_COMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.client import Bounds
from mirrorlake.sources.kafka.read_limit import first_late
from mirrorlake.together import all_of
from mirrorlake.window import Window

READS_AT_ONCE = 4
"""Partitions read at one time: an answer of each is up to 8 MiB."""

READ_SECONDS_MAX = 10.0
"""What a look spends on reading, at most: the next one goes on where it stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What was read from the offset that a leader names: ``end`` is the first late record's, None where none is.

    None of the records in ``[named, reached)`` is late.
    """

    named: int
    reached: int
    end: int | None = None


@dataclass(slots=True)
class KnownEnds:
    """What looks have read, by partition and the id of its topic. A cache: without it the same is read again."""

    searched: dict[tuple[TopicPartition, str], Searched] = field(default_factory=dict)


class WindowEnds:
    """Finds where the partitions of a cluster end.

    Args:
        client: of the cluster.
        window: where they end.
        known: what earlier looks have read.
    """

    def __init__(self, client: ClusterClient, window: Window, known: KnownEnds) -> None:
        self._client = client
        self._window = window
        self._known = known

    async def added_to(
        self, bounds: Mapping[TopicPartition, Bounds | MirrorlakeError]
    ) -> dict[TopicPartition, Bounds | MirrorlakeError]:
        """Returns bounds with their limits; where one cannot be told, why.

        An end by time is known once a record that is later is there. Until then there is no limit by it, and no record
        below the end of the bounds is later.

        Raises:
            MirrorlakeError: the cluster could not be asked.
        """
        readable = {partition: each for partition, each in bounds.items() if isinstance(each, Bounds)}
        late = await self._first_late(readable)
        found: dict[TopicPartition, Bounds | MirrorlakeError] = {**bounds}
        for partition, each in readable.items():
            end = late.get(partition)
            if isinstance(end, MirrorlakeError):
                found[partition] = end
                continue
            ends = [e for e in (end, self._window.until_offset(partition.topic, partition.partition)) if e is not None]
            found[partition] = each._replace(limit=min(ends, default=None))
        return found

    async def _first_late(
        self, bounds: Mapping[TopicPartition, Bounds]
    ) -> Mapping[TopicPartition, int | MirrorlakeError | None]:
        if self._window.until_ms is None or not bounds:
            return {}
        named = await self._client.list_offsets(
            list(bounds), timestamp=self._window.until_ms + 1, isolation_level=READ_COMMITTED
        )
        ids = await self._topic_ids(bounds)
        turns = asyncio.Semaphore(READS_AT_ONCE)
        deadline = asyncio.get_running_loop().time() + READ_SECONDS_MAX

        async def confirm(partition: TopicPartition, offset: int | MirrorlakeError) -> int | MirrorlakeError | None:
            if isinstance(offset, MirrorlakeError):
                return offset
            # What is not decided yet is not looked at: it may be aborted.
            if offset == NO_OFFSET or offset >= bounds[partition].end:
                return None
            async with turns:
                return await self._confirmed(
                    partition, ids.get(partition.topic, ""), offset, bounds[partition], deadline
                )

        answers = await all_of(confirm(partition, offset) for partition, offset in named.items())
        return dict(zip(named, answers, strict=True))

    async def _topic_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[str, str]:
        topics = await self._client.metadata(sorted({each.topic for each in partitions}))
        return {name: topic.topic_id for name, topic in topics.topics.items()}

    async def _confirmed(
        self, partition: TopicPartition, topic_id: str, named: int, bounds: Bounds, deadline: float
    ) -> int | MirrorlakeError | None:
        """Returns the first record that is late, from the offset on that the leader names."""
        key = (partition, topic_id)
        known = self._known.searched.get(key)
        if known is None or known.named != named or known.reached > bounds.end:
            known = Searched(named=named, reached=named)
        if known.end is None and known.reached < bounds.end:
            rest = OffsetRange(start_offset=max(known.reached, bounds.start), end_offset=bounds.end)
            try:
                known = await self._read_on(partition, known, rest, deadline)
            except MirrorlakeError as error:
                return error
        self._known.searched[key] = known
        if known.end is None and known.reached < bounds.end:
            return RangeUnknownError(
                f"where `until` ends {partition} is not known yet: the leader names offset {named}, which holds no "
                f"record for consumers, and what lies behind it was read up to {known.reached} of {bounds.end}",
                hint="the next look reads on from there",
                topic=partition.topic,
                partition=partition.partition,
            )
        return known.end

    async def _read_on(
        self, partition: TopicPartition, known: Searched, rest: OffsetRange, deadline: float
    ) -> Searched:
        """Reads on until a record is late, all is read, or the time is over."""
        assert self._window.until_ms is not None
        async for columns in read_range(self._client, partition, rest):
            end = first_late([columns], self._window.until_ms)
            reached = int(columns.offsets[-1]) + 1 if len(columns) else known.reached
            known = replace(known, reached=reached, end=end)
            if end is not None or asyncio.get_running_loop().time() > deadline:
                return known
        return replace(known, reached=rest.end_offset)
