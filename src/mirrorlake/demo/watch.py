"""Looks from outside how far copies have come: at the other cluster's log ends and at the archive's file names.

Times are taken by what stands at a destination, not by what the program under demonstration says of itself.
"""

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from mirrorlake.archive.names import parse_segment_name
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition

LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What stands at one destination of a topic: positions by partition, and the partitions that have changed."""

    positions: Mapping[int, int]
    begun: frozenset[int]


@dataclass(slots=True, kw_only=True)
class Interval:
    """Readings of the clock: when a partition was last seen as before, and when first seen complete."""

    idle_until: float
    ended_at: float | None = None


class Leg:
    """One topic on its way to one destination, and the times seen so far.

    Args:
        topic: its name.
        destination: the cluster's or the store's name.
        starts: where the copy stands before, by partition.
        targets: where it is to stand in the end, by partition (exclusive).
        now: reading of the clock.
    """

    def __init__(
        self, topic: str, destination: str, *, starts: Mapping[int, int], targets: Mapping[int, int], now: float
    ) -> None:
        self.topic = topic
        self.destination = destination
        self.starts = starts
        self.targets = targets
        self.intervals = {number: Interval(idle_until=now) for number in targets}
        self._begun: frozenset[int] = frozenset()
        self._positions: Mapping[int, int] = {}

    @property
    def offsets(self) -> int:
        """How many offsets there are to go."""
        return sum(self.targets.values()) - sum(self.starts.values())

    @property
    def offsets_done(self) -> int:
        """How many of them were seen done."""
        return sum(max(0, self._positions.get(n, start) - start) for n, start in self.starts.items())

    @property
    def seconds(self) -> float:
        """Time in which one or more of its partitions were under way; 0 until all were seen complete."""
        return seconds_under_way(self.intervals.values())

    def saw(self, sight: Sight, now: float) -> None:
        """Takes what one look showed."""
        self._begun |= sight.begun
        self._positions = sight.positions
        for number, interval in self.intervals.items():
            if number not in self._begun:
                interval.idle_until = now
            if interval.ended_at is None and sight.positions.get(number, -1) >= self.targets[number]:
                interval.ended_at = now


def seconds_under_way(intervals: Iterable[Interval]) -> float:
    """Returns how long one or more of the intervals lasted; 0 where one of them has not ended."""
    total, counted_until = 0.0, float("-inf")
    for interval in sorted(intervals, key=lambda each: each.idle_until):
        if interval.ended_at is None:
            return 0.0
        total += max(0.0, interval.ended_at - max(interval.idle_until, counted_until))
        counted_until = max(counted_until, interval.ended_at)
    return total


class Watch:
    """Looks every tenth of a second, in a thread, until left. Use as a context manager.

    Args:
        settings: of the destination cluster.
        lake: root of the archive.
        to_kafka: legs that end at the cluster.
        to_archive: legs that end in the archive.
    """

    def __init__(
        self, settings: ClusterSettings, lake: Path, *, to_kafka: Sequence[Leg], to_archive: Sequence[Leg]
    ) -> None:
        self._settings = settings
        self._lake = lake
        self._to_kafka = to_kafka
        self._to_archive = to_archive
        self._known_files = {leg.topic: _files(lake, leg) for leg in to_archive}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()), name="demo-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Looks once more, so that what came last is seen, and ends."""
        self._is_over.set()
        self._thread.join()

    async def _watch(self) -> None:
        async with ClusterClient(self._settings) as client:
            while True:
                is_last = self._is_over.is_set()
                for leg in self._to_archive:
                    leg.saw(archive_sight(leg, _files(self._lake, leg), self._known_files[leg.topic]), time.monotonic())
                await self._look_at_kafka(client)
                if is_last:
                    return
                await asyncio.sleep(LOOK_SECONDS)

    async def _look_at_kafka(self, client: ClusterClient) -> None:
        topics = [leg.topic for leg in self._to_kafka]
        try:
            there = (await client.metadata(topics)).topics
            if len(there) < len(topics):
                there = (await client.metadata(topics, refresh=True)).topics
            legs = [leg for leg in self._to_kafka if leg.topic in there]
            ends = await client.log_ends([TopicPartition(leg.topic, n) for leg in legs for n in leg.targets])
        except MirrorlakeError:
            return  # A look that shows nothing; there will be others.
        for leg in legs:
            found = {n: ends[TopicPartition(leg.topic, n)] for n in leg.targets}
            positions = {n: end.end_offset for n, end in found.items() if isinstance(end, LogEnd)}
            begun = frozenset(n for n, position in positions.items() if position > leg.starts[n])
            leg.saw(Sight(positions=positions, begun=begun), time.monotonic())


def archive_sight(leg: Leg, files: frozenset[str], known: frozenset[str]) -> Sight:
    """Returns what the names of an archived topic's files say.

    Args:
        leg: the topic and its partitions.
        files: ``partition/name`` each, staged ones included: with the first one a segment is begun.
        known: those that were there before.
    """
    positions = dict(leg.starts)
    for file in files:
        partition, _, name = file.partition("/")
        segment = parse_segment_name(name)
        if segment is not None and int(partition) in positions:
            positions[int(partition)] = max(positions[int(partition)], segment.end_offset)
    return Sight(positions=positions, begun=frozenset(int(file.partition("/")[0]) for file in files - known))


def _files(lake: Path, leg: Leg) -> frozenset[str]:
    topic = lake / leg.topic
    found: set[str] = set()
    for number in leg.targets:
        # What is being written lies in a folder of the topic's, under names that begin with the partition.
        for folder, lead in ((topic / str(number), ""), (topic / "_staged", f"_{number}.")):
            if folder.is_dir():
                names = (path.name for path in folder.iterdir())
                found.update(f"{number}/{name}" for name in names if name.startswith(lead))
    return frozenset(found)
