"""Keeps destination topics in step while a service runs, as `mirrorlake topics apply` does on request.

In a thread of its own with connections of its own. What fails is a warning, counted, and looked at again at the next
look; a partition is never parked for it. Topics are not made here: a topic that somebody deleted under a running mirror
is for people to think about.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import structlog

from mirrorlake.clock import Clock
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.groups.syncing import Owns
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.topic_series import TopicSeries
from mirrorlake.topics.acls.plan import AclRow
from mirrorlake.topics.sync.applying import apply_topics
from mirrorlake.topics.sync.differences import PARTITIONS, Act
from mirrorlake.topics.sync.plan import DONE, TopicPlan, TopicRow, plan_topics
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")

RETRY_SECONDS = 5.0
"""After a look that failed, or could not tell something, where its interval is not over by then."""

Way = tuple[str, str]
"""A mirror, and the label of one of its Kafka destinations."""


@dataclass(slots=True)
class _Followed:
    interval_seconds: float
    cluster: str
    seen: set[TopicPartition] = field(default_factory=set)
    next_look: float = -inf
    said: frozenset[str] = frozenset()


class TopicLooks:
    """Looks at the topics of what a run mirrors, each destination's as often as it says. Several threads may call it.

    Args:
        series: told what differs, what was done, and what failed.
        config: as it is now: what other mirrors want of the same topics counts too.
        owns: tells whose a mirror is: its owner alone changes topics.
        clock: tells when a look is due.
    """

    def __init__(self, series: TopicSeries, *, config: Callable[[], Configuration], owns: Owns, clock: Clock) -> None:
        self.name = "topic-sync"
        self._series = series
        self._config = config
        self._owns = owns
        self._clock = clock
        self._lock = threading.Lock()
        self._ways: dict[Way, _Followed] = {}

    def follow(self, pairs: Sequence[tuple[Target, PartitionState]]) -> None:
        """Takes partitions of all mirrors; where some are new, a look is due, as their topics may have been made."""
        with self._lock:
            for target, _ in pairs:
                if not target.is_topic or (seconds := target.kafka.sync.interval_seconds) is None:
                    continue
                way = target.mirror.name, target.destination.label
                followed = self._ways.setdefault(way, _Followed(seconds, target.kafka.cluster.name))
                if target.source not in followed.seen:
                    followed.seen.add(target.source)
                    followed.next_look = -inf

    def look(self) -> None:
        """Looks at what is due, and does what there is to be done."""
        now = self._clock.elapsed_seconds()
        with self._lock:
            due = {way: each for way, each in self._ways.items() if now >= each.next_look}
        due = {way: each for way, each in due.items() if self._owns(way[0], [each.cluster])}
        if not due:
            return
        try:
            found = asyncio.run(self._plan_and_apply({*due}))
        except MirrorlakeError as error:
            for way, followed in due.items():
                self._say(way, followed, frozenset({str(error)}))
                self._series.failed(*way)
                followed.next_look = now + min(RETRY_SECONDS, followed.interval_seconds)
            return
        for way, followed in due.items():
            rows = [row for row in found.all_rows if _way_of(row) == way]
            is_unknown = any(row.difference.act is Act.UNKNOWN for row in rows)
            seconds = min(RETRY_SECONDS, followed.interval_seconds) if is_unknown else followed.interval_seconds
            followed.next_look = now + seconds
            self._tell(way, followed, rows)

    async def _plan_and_apply(self, asked: set[Way]) -> TopicPlan:
        clients = WorkerCache()
        mirrors = sorted({mirror for mirror, _ in asked})
        try:
            planned = only_of(await plan_topics(self._config(), clients, mirrors), asked)
            if not planned.all_acts:
                return planned
            return only_of(await apply_topics(self._config(), clients, planned, mirrors), asked)
        finally:
            await clients.close()

    def _tell(self, way: Way, followed: _Followed, rows: Sequence[TopicRow | AclRow]) -> None:
        left = Counter(row.difference.act.value for row in rows if row.result != DONE)
        done = Counter(row.difference.act.value for row in rows if row.result == DONE)
        self._series.looked(*way, left=left, done=done, missing_partitions=missing_partitions(rows))
        if any(row.is_open for row in rows):
            self._series.failed(*way)
        said = {_said(row) for row in rows if row.result != DONE and (row.is_open or row.difference.wanted is not None)}
        self._say(way, followed, frozenset(said))

    def _say(self, way: Way, followed: _Followed, said: frozenset[str]) -> None:
        """Says what differs and stays so, once until it changes."""
        for each in sorted(said - followed.said):
            _log.warning("destination topic differs and is left so", name=way[0], destination=way[1], what=each)
        if followed.said and not said:
            _log.info("destination topics are in step again", name=way[0], destination=way[1])
        followed.said = said


def only_of(plan: TopicPlan, ways: set[Way]) -> TopicPlan:
    """Returns the rows of these destinations, and of what is to be done no new topic. Pure."""
    return replace(
        plan,
        rows=[row for row in plan.rows if _way_of(row) in ways and row.difference.act is not Act.CREATE],
        acls=[row for row in plan.acls if _way_of(row) in ways],
    )


def missing_partitions(rows: Sequence[TopicRow | AclRow]) -> int:
    """Returns how many partitions of sources have no partition at the destination, of topics that are there. Pure."""
    counted = [
        row.difference
        for row in rows
        if isinstance(row, TopicRow) and row.difference.what == PARTITIONS and row.result != DONE
    ]
    return sum(max(0, int(each.source or 0) - int(each.found or 0)) for each in counted)


def _way_of(row: TopicRow | AclRow) -> Way:
    if isinstance(row, TopicRow):
        return row.facts.mirror.name, row.facts.destination.label
    return row.mirror, row.destination.label


def _said(row: TopicRow | AclRow) -> str:
    name = row.facts.name if isinstance(row, TopicRow) else row.to
    difference = row.difference
    if difference.error is not None:
        return f"{name}: {difference.what}: {difference.error}"
    return f"{name}: {difference.what} is {difference.found}, and {difference.wanted} by its source"
