"""Takes consumer groups along to the clusters that are mirrored to, while the service runs; as `groups sync` does."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from mirrorlake.clock import Clock
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.groups.placing import GroupAction, GroupRow
from mirrorlake.groups.reading import NO_GROUPS
from mirrorlake.groups.restoring import GroupPlan, RestoredPartition, place_groups
from mirrorlake.groups.syncing import Writers, not_to_be_trusted, plan_sync, read_source
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.groups.looks import Failures, GroupLooks, Way
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target

_log = structlog.get_logger("mirrorlake")

Owns = Callable[[str, Iterable[str]], bool]
"""Mirror, destination clusters → whether this process is the one that copies there."""

RESULTS = {
    GroupAction.DONE: "placed",
    GroupAction.NOTHING: "placed",
    GroupAction.LEFT: "left-alone",
    GroupAction.UNKNOWN: "unknown",
}
"""What became of an offset, as the metric has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A partition that is mirrored, and how it stands."""

    target: Target
    state: PartitionState


class GroupSync(GroupLooks[Copy]):
    """The groups of everything a run mirrors from cluster to cluster. Several threads may call it.

    A partition gives groups a place once a lease of this process has compared its copy with the source, for as long as
    nothing is wrong with it and the mirror is this process's own.

    Args:
        metrics: told what was done, and what failed.
        owns: tells whose a mirror is.
        clock: tells when a look is due, and the time of what is seen.
    """

    def __init__(self, metrics: Metrics, *, owns: Owns, clock: Clock) -> None:
        super().__init__("group-sync", done="taken along", clock=clock)
        self._metrics = metrics
        self._owns = owns
        self._targets: dict[tuple[str, str, TopicPartition], Target] = {}
        self._waiting: Sequence[Target] = ()
        self._left: dict[Way, frozenset[str]] = {}

    def follow(self, pairs: Sequence[tuple[Target, PartitionState]], *, waiting: Sequence[Target]) -> None:
        """Takes partitions of all mirrors; groups are taken along where they are asked for.

        Args:
            pairs: what was found, in any kind of destination.
            waiting: what could not be looked at yet: its records may lie among those of the others.
        """
        with self._lock:
            self._waiting = [*waiting]
            for target, _ in pairs:
                self._targets[target.mirror.name, target.destination.label, target.source] = target
        for target, state in pairs:
            source = target.mirror.source
            if not target.is_topic or target.kafka.groups is None or not isinstance(source, KafkaSource):
                continue
            if target.source.partition == UNKNOWN_PARTITION:
                continue
            way = Way(
                mirror=target.mirror.name,
                destination=target.destination.label,
                cluster=source.cluster.settings,
                settings=target.kafka.groups,
            )
            self._follow(way, target.source, Copy(target=target, state=state))

    def _is_ready(self, followed: Mapping[TopicPartition, Copy]) -> bool:
        states = [each.state for each in followed.values()]
        return all(_is_compared(state) or state.error is not None or state.is_paused for state in states)

    def _look(self, way: Way, followed: Mapping[TopicPartition, Copy]) -> Failures | None:
        copies = [*followed.values()]
        if not self._owns(way.mirror, [copies[0].target.kafka.cluster.name]):
            return None  # its owner takes them along
        with self._lock:
            writers = Writers([*self._targets.values(), *self._waiting])
        partitions = [
            RestoredPartition(target=each.target, missing=_missing(each.target, each.state, writers)) for each in copies
        ]
        try:
            done, failures = asyncio.run(_sync(way, partitions, now_ms=int(self._clock.now_seconds() * 1000)))
        except MirrorlakeError as error:
            cluster = error.facts.get("cluster")
            done, failures = GroupPlan(), {f"cluster {cluster}" if cluster else "a cluster": error}
        self._tell(way, done.rows, failures)
        return failures

    def _tell(self, way: Way, rows: Sequence[GroupRow], failures: Failures) -> None:
        if failed := len(failures.keys() - {NO_GROUPS}):
            self._metrics.groups_not_synced(way.mirror, way.destination, failed)
        else:
            found = Counter(RESULTS[row.action] for row in rows)
            results = {result: found[result] for result in RESULTS.values()}
            now_seconds = self._clock.now_seconds()
            self._metrics.groups_synced(way.mirror, way.destination, results, now_seconds=now_seconds)
        facts = {"name": way.mirror, "destination": way.destination}
        if committed := [row for row in rows if row.action is GroupAction.DONE]:
            _log.debug("offsets of consumer groups committed", **facts, offsets=len(committed))
        left = {row.group: row for row in rows if not row.is_placed}
        if new := sorted(left.keys() - self._left.get(way, frozenset())):
            why = left[new[0]].reason
            _log.info("consumer groups left alone at the destination", **facts, groups=len(new), first=new[0], why=why)
        self._left[way] = frozenset(left)


def _missing(target: Target, state: PartitionState, writers: Writers) -> str:
    if state.error is None and state.is_paused:
        return "its mirror is paused"
    if state.error is None and not _is_compared(state):
        return "its copy was not compared with the source yet"
    return not_to_be_trusted(target, writers, state.error)


def _is_compared(state: PartitionState) -> bool:
    return state.position is not None and not state.needs_tail_check


async def _sync(way: Way, partitions: Sequence[RestoredPartition], *, now_ms: int) -> tuple[GroupPlan, Failures]:
    """Commits what groups have committed at the source; returns what became of them, and what could not be read."""
    clients = WorkerCache()
    try:
        source = await read_source(partitions, way.settings.selection, clients, now_ms=now_ms)
        found = await plan_sync(partitions, source, clients, is_forced=False)
        done = await place_groups(found, clients.client(partitions[0].target.destination_cluster))
        return done, source.errors
    finally:
        await clients.close()
