"""The work of one lease: opens the sinks of its partitions, reads, copies, and returns rows.

Everything is read anew from the destinations (law 1); only connections stay in the worker as a cache. No error
leaves: it becomes part of its row (law 6). At the hard end everything is dropped and reported as unknown (law 7).
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from mirrorlake.clock import Clock
from mirrorlake.destinations.connections import LeaseConnections
from mirrorlake.destinations.interface import PartitionSink
from mirrorlake.destinations.work import DestinationWork, SinkContext
from mirrorlake.errors import (
    BrokerNotReadyError,
    TopicMissingError,
    TopicRecreatedError,
)
from mirrorlake.kafka.control.descriptions import ClusterMetadata, PartitionMetadata
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.mirror.partition_job import PartitionJob, gone
from mirrorlake.mirror.reader import BrokerReader
from mirrorlake.mirror.work import LeasePlan, LeaseRow, PartitionWork
from mirrorlake.offsets import TopicPartition

DRAIN_SECONDS = 0.4
"""Between the end of reading and the hard end: the answers still outstanding get this long."""

LIVE_END_SECONDS = 0.5
"""After the live time: answers that are outstanding then are unknown, whatever archives the lease goes on with."""

SEND_ON_SECONDS = 0.2
"""After the live time: what was read and is not sent by then is left to the next lease."""

STALL_SECONDS = 3.0
"""An archive that got nothing from its source for so long, after the live time, does not hold the lease any more."""

LOOK_AGAIN_SECONDS = 0.05

RECALL_LOOK_SECONDS = 0.25
"""How often a lease looks whether it should end before its time."""

RECALLED_SECONDS_MIN = 1.0
"""A lease that is recalled runs so long all the same: one cut short while it reads its positions has only errors."""


class LeaseWork:
    """Runs one plan.

    Args:
        plan: what to copy.
        connections: the worker's cluster clients and this lease's produce channels.
        clock: tells when the lease is over.
    """

    def __init__(self, plan: LeasePlan, connections: LeaseConnections, clock: Clock) -> None:
        self.connections = connections
        self._plan = plan
        self._clock = clock
        self._started = clock.elapsed_seconds()
        self._live_until = self._started + plan.live_seconds
        self.recalled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.encoder = asyncio.Semaphore(1)
        self._waiting: set[asyncio.Timeout] = set()  # for the encoder
        self._readers: dict[tuple[str, int, bool, int], BrokerReader] = {}
        self._uses: Counter[tuple[str, TopicPartition, bool]] = Counter()
        self._metadata: dict[str, asyncio.Future[ClusterMetadata]] = {}
        self._reader_tasks: list[asyncio.Task[None]] = []
        self._jobs = {id(work): PartitionJob(work, self) for work in plan.partitions}

    @property
    def live_until(self) -> float:
        """Reading of the clock at which live reading ends; it comes nearer when the lease is recalled."""
        return self._live_until

    @property
    def hard_until(self) -> float:
        """Reading of the clock at which everything is dropped."""
        return self._started + self._plan.hard_seconds

    async def run(self) -> list[LeaseRow]:
        """Returns one row per partition and destination of the plan; never raises an error of ours."""
        tasks = {asyncio.create_task(job.run()): job for job in self._jobs.values()}
        if tasks:
            late = await self._until_live_end(tasks)
            await self._await_archives({task: job for task, job in tasks.items() if task in late})
        asking = [task for task in self._metadata.values() if task.cancel() or task.cancelled() or task.exception()]
        await asyncio.gather(*asking, return_exceptions=True)
        # Nobody is left who would take an answer, and a source that is silent would hold the lease past its end.
        for reading in self._reader_tasks:
            reading.cancel()
        await gone([*tasks, *self._reader_tasks])
        rows = [row for job in self._jobs.values() for row in job.rows()]
        await self.connections.end_lease()
        return rows

    async def _until_live_end(self, tasks: "Iterable[asyncio.Task[None]]") -> "set[asyncio.Task[None]]":
        """Waits until everything has ended, or the live time has, and returns what goes on."""
        pending = set(tasks)
        all_of_them = len(pending)
        while pending:
            now = self._clock.elapsed_seconds()
            if now < self._live_until and self._is_recalled(now, is_whole=len(pending) == all_of_them):
                self._end_live(now)
            if now >= (sends_until := self._live_until + SEND_ON_SECONDS):
                self._drop_unsent()
            end = min(self.hard_until, self._live_until + LIVE_END_SECONDS)
            if now >= end:
                break
            next_look = min(now + RECALL_LOOK_SECONDS, sends_until if now < sends_until else end, end)
            _, pending = await asyncio.wait(pending, timeout=next_look - now)
        return pending

    def _drop_unsent(self) -> None:
        for job in self._jobs.values():
            job.drop_unsent()

    def _is_recalled(self, now: float, *, is_whole: bool) -> bool:
        if not is_whole and now >= self._started + self._plan.unbroken_seconds:
            return True
        file = self._plan.recall_file
        return bool(file) and now >= self._started + RECALLED_SECONDS_MIN and Path(file).exists()

    def _end_live(self, now: float) -> None:
        self._live_until = now
        self.recalled.set_result(None)
        for patience in self._waiting:
            if not patience.expired():
                patience.reschedule(asyncio.get_running_loop().time())
        for (_, _, is_live, _), reader in self._readers.items():
            if is_live:
                reader.end_reading()

    async def _await_archives(self, late: "Mapping[asyncio.Task[None], PartitionJob]") -> None:
        """Waits for archives that get on, at most until the hard end; everything else is cancelled now.

        What waits for a broker that is silent must not hold the lease: the partitions of others are part of it.
        """
        pace = {task: (job.archive_steps, self._clock.elapsed_seconds()) for task, job in late.items()}
        while pace:
            now = self._clock.elapsed_seconds()
            for task, (steps, since) in list(pace.items()):
                job = late[task]
                if job.archive_steps != steps or job.is_encoding:
                    pace[task] = (job.archive_steps, since := now)
                if task.done() or now >= self.hard_until or not job.archive_steps or now - since >= STALL_SECONDS:
                    task.cancel()
                    del pace[task]
            if pace:
                await asyncio.wait(pace, timeout=LOOK_AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    def may_begin(self) -> bool:
        """True while a further segment may be begun: within the live time, so that live partitions soon get theirs."""
        return self._clock.elapsed_seconds() < self.live_until

    async def take_encoder(self) -> bool:
        """Waits for the encoder as long as a segment may be begun; returns whether it was taken."""
        try:
            async with asyncio.timeout(max(0.0, self.live_until - self._clock.elapsed_seconds())) as patience:
                self._waiting.add(patience)
                try:
                    await self.encoder.acquire()
                finally:
                    self._waiting.discard(patience)
        except TimeoutError:
            return False
        if not self.may_begin():
            self.encoder.release()
            return False
        return True

    @property
    def live_is_over(self) -> bool:
        """True once live reading has ended."""
        return self._clock.elapsed_seconds() >= self.live_until

    def live_seconds_left(self) -> float:
        """Seconds until live reading ends; afterwards a short while, to look again."""
        return max(LOOK_AGAIN_SECONDS, self.live_until - self._clock.elapsed_seconds())

    async def leader_of(self, work: PartitionWork) -> PartitionMetadata:
        """Returns who leads the source partition.

        Raises:
            TopicMissingError: the source has no such partition.
            TopicRecreatedError: it is another topic of the same name.
            BrokerNotReadyError: the partition has no leader at the moment.
        """
        topic = (await self._source_metadata(work.cluster)).topics.get(work.source.topic)
        if topic is None or work.source.partition not in topic.partitions:
            raise TopicMissingError(
                f"source partition {work.source} does not exist on cluster {work.cluster.name}",
                hint="check the name, or that the topic was not deleted",
                topic=work.source.topic,
            )
        check_topic_id(work, topic.topic_id)
        led = topic.partitions[work.source.partition]
        if led.leader < 0:
            raise BrokerNotReadyError(f"source partition {work.source} has no leader at the moment")
        return led

    async def reader_for(self, work: PartitionWork, *, is_live: bool) -> tuple[BrokerReader, int]:
        """Returns the reader of the partition's leader, and the epoch it leads in; −1 where the broker does not say.

        Live and archive reads have connections of their own.

        Raises:
            MirrorlakeError: see ``leader_of``.
        """
        led = await self.leader_of(work)
        leader = led.leader
        # A request names a partition once: another copy of it, for another mirror or destination, has its own reader.
        use = (work.cluster.name, work.source, is_live)
        key = (work.cluster.name, leader, is_live, self._uses[use])
        self._uses[use] += 1
        reader = self._readers.get(key)
        if reader is None or reader.is_over:
            until = self.live_until if is_live else self.hard_until - DRAIN_SECONDS
            reader = BrokerReader(
                lambda: self.connections.fetch_connection(work.cluster, leader),
                clock=self._clock,
                read_until_seconds=until,
                settings=work.cluster,
            )
            self._readers[key] = reader
            self._reader_tasks.append(asyncio.create_task(reader.run()))
        return reader, led.leader_epoch

    async def _source_metadata(self, cluster: ClusterSettings) -> ClusterMetadata:
        """Returns what a source says of all topics of this lease, asked once.

        Leaders move, and a topic that was made again under the same name has another id.
        """
        if cluster.name not in self._metadata:
            topics = sorted({w.source.topic for w in self._plan.partitions if w.cluster.name == cluster.name})
            client = self.connections.client(cluster)
            self._metadata[cluster.name] = asyncio.ensure_future(client.metadata(topics, refresh=True))
        return await asyncio.shield(self._metadata[cluster.name])

    def make_sink(self, work: PartitionWork, destination: DestinationWork) -> PartitionSink:
        """Builds the sink of one destination, not opened."""
        context = SinkContext(
            source_cluster=work.cluster,
            source=work.source,
            connections=self.connections,
            clock=self._clock,
            may_begin=self.may_begin,
            changed=self._jobs[id(work)].sink_changed,
        )
        return destination.make_sink(context)


def check_topic_id(work: PartitionWork, found: str) -> None:
    """Checks that the source topic is the one the plan was made for.

    Raises:
        TopicRecreatedError: it is not.
    """
    # While a source is upgraded to Kafka 2.8 some of its brokers give ids and others do not.
    if work.topic_id and found and found != work.topic_id:
        raise TopicRecreatedError(
            f"source topic {work.source.topic} was deleted and made again (topic id {work.topic_id}, now {found}); "
            "what was copied so far belongs to the one before",
            hint="`on-recreate: new-topic` copies the new one beside what was copied, `on-recreate: restart` (of no "
            "archive) in its place; or re-create the destination topic, or mirror elsewhere, and start again",
            expected=work.topic_id,
            found=found,
        )
