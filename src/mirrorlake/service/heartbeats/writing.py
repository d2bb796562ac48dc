"""Writes heartbeats to the sources of mirrors that ask for them, while a service runs.

They are the only thing that is ever written to a source. Each is a record by itself, of no transaction: one may be
missing, or be there twice, and nothing else depends on it. What fails is a warning, counted, and tried again; no
partition is parked for it, and no lease waits for it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import structlog

from mirrorlake.clock import Clock
from mirrorlake.config.resolved import Heartbeats, Mirror
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.config.topics.heartbeats import HEARTBEATS_PARTITION
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.lone_append import append_alone
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.heartbeats.record import heartbeat_batch, heartbeat_key, heartbeat_value
from mirrorlake.service.heartbeats.topic import has_topic
from mirrorlake.service.sight.heartbeat_series import HeartbeatSeries
from mirrorlake.topics.heartbeat_topics import MADE_LIKE

_log = structlog.get_logger("mirrorlake")

LOOK_SECONDS = 0.2
"""How often it is asked whether one is due: how late one may be, beside what its broker takes."""

UNASKED_LOOK_SECONDS = 2.0
"""The same where no mirror has any: a reload may bring some."""

RETRY_SECONDS = 10.0
"""After one that failed, where the interval is shorter."""

END_SECONDS_MAX = 1.0
"""What a stop waits for a heartbeat that is on its way: archives are flushed up to the last look at the source, and
that is to see it."""

IsWanted = Callable[[Mirror], bool]
"""Whether this process is the one that copies a mirror, and does so now."""


@dataclass(slots=True)
class _Beating:
    """One mirror's heartbeats. ``settings`` are those that its topic was looked at for, None until it was."""

    next_at: float = -inf
    settings: Heartbeats | None = None
    said: str = ""
    writing: asyncio.Task[None] | None = None

    @property
    def is_free(self) -> bool:
        """True where no heartbeat is on its way."""
        return self.writing is None or self.writing.done()


class HeartbeatWriter:
    """Writes what is due, each mirror's by itself: a source that does not answer holds up no other.

    Args:
        series: told what was written, and what failed.
        mirrors: those that run, as the configuration is now.
        clients: of the clusters.
        clock: tells when one is due, and dates it.
    """

    def __init__(
        self,
        series: HeartbeatSeries,
        *,
        mirrors: Callable[[], Sequence[Mirror]],
        clients: WorkerCache,
        clock: Clock,
    ) -> None:
        self._series = series
        self._mirrors = mirrors
        self._clients = clients
        self._clock = clock
        self._beating: dict[str, _Beating] = {}
        self._is_over = False

    async def write(self, *, is_wanted: IsWanted, made: Callable[[], None]) -> None:
        """Writes heartbeats until `end`, or until cancelled.

        Args:
            is_wanted: tells of which mirrors some are to be written now.
            made: called when a topic was made, which is to be copied from now on.
        """
        try:
            while not self._is_over:
                self.turn(is_wanted=is_wanted, made=made)
                is_asked = any(mirror.heartbeats is not None for mirror in self._mirrors())
                await asyncio.sleep(LOOK_SECONDS if is_asked else UNASKED_LOOK_SECONDS)
        finally:
            for beating in self._beating.values():
                if beating.writing is not None:
                    beating.writing.cancel()

    def turn(self, *, is_wanted: IsWanted, made: Callable[[], None]) -> None:
        """Begins to write what is due now; to be called in the event loop of the clients."""
        now = self._clock.elapsed_seconds()
        for mirror in self._mirrors():
            heartbeats = mirror.heartbeats
            if heartbeats is None:
                continue
            beating = self._beating.setdefault(mirror.name, _Beating())
            if now >= beating.next_at and beating.is_free and is_wanted(mirror):
                beating.next_at = now + heartbeats.interval_seconds
                beating.writing = asyncio.create_task(self._beat(mirror, heartbeats, beating, made))

    async def end(self) -> None:
        """Begins no further heartbeat, and waits for those on their way, `END_SECONDS_MAX` at most."""
        self._is_over = True
        writing = [each.writing for each in self._beating.values() if each.writing is not None and not each.is_free]
        if writing:
            await asyncio.wait(writing, timeout=END_SECONDS_MAX)

    async def _beat(self, mirror: Mirror, heartbeats: Heartbeats, beating: _Beating, made: Callable[[], None]) -> None:
        source = mirror.source
        assert isinstance(source, KafkaSource), "an archive takes no heartbeats"
        client = self._clients.client(source.cluster.settings)
        try:
            if beating.settings != heartbeats:
                if await _settle_topic(mirror.name, heartbeats, client):
                    made()
                beating.settings = heartbeats
            await self._append(mirror, TopicPartition(heartbeats.topic, HEARTBEATS_PARTITION), client)
        except MirrorlakeError as error:
            self._failed(mirror, heartbeats, beating, error)
            return
        self._series.written(mirror.name)
        if beating.said:
            _log.info("heartbeats are written again", name=mirror.name, topic=heartbeats.topic)
            beating.said = ""

    async def _append(self, mirror: Mirror, partition: TopicPartition, client: ClusterClient) -> None:
        cluster_id = (await client.metadata([partition.topic])).cluster_id
        time_ms = int(self._clock.now_seconds() * 1000)
        value = heartbeat_value(mirror, cluster_id=cluster_id, time_ms=time_ms)
        answer = await append_alone(client, partition, heartbeat_batch(heartbeat_key(mirror), value, time_ms=time_ms))
        if answer.error_code:
            what = f"Produce to {partition}"
            raise error_for(answer.error_code, what=what, message=answer.error_message, topic=partition.topic)

    def _failed(self, mirror: Mirror, heartbeats: Heartbeats, beating: _Beating, error: MirrorlakeError) -> None:
        """Counts it, looks at the topic anew next time, and says why, once until that changes."""
        beating.settings = None
        beating.next_at = self._clock.elapsed_seconds() + max(RETRY_SECONDS, heartbeats.interval_seconds)
        self._series.failed(mirror.name)
        if beating.said != type(error).__name__:
            _log.warning(
                "heartbeat could not be written, and is tried again",
                name=mirror.name,
                cluster=mirror.source.name,
                topic=heartbeats.topic,
                error=error.message,
                hint=error.hint,
            )
        beating.said = type(error).__name__


async def _settle_topic(mirror: str, heartbeats: Heartbeats, client: ClusterClient) -> bool:
    """Makes the topic of heartbeats where it is not there; returns whether it did.

    Raises:
        CollisionError: it is a copy, where a record more would be one that its source does not have.
        MirrorlakeError: it could be neither seen nor made.
    """
    if await has_topic(mirror, heartbeats, client):
        return False
    is_new = await client.topics.create(
        heartbeats.topic,
        partitions=1,
        replication_factor=heartbeats.replication_factor or -1,
        configs=MADE_LIKE,
    )
    if is_new:
        _log.info("topic for heartbeats created at the source", name=mirror, topic=heartbeats.topic)
    return is_new
