"""The readers of a lease: who leads its source partitions, and one connection that reads from each leader."""

import asyncio
from collections import Counter
from collections.abc import Iterable

from mirrorlake.clock import Clock
from mirrorlake.destinations.connections import LeaseConnections
from mirrorlake.errors import BrokerNotReadyError, TopicMissingError, TopicRecreatedError
from mirrorlake.kafka.control.descriptions import ClusterMetadata, PartitionMetadata
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.mirror.lease_time import LeaseTime
from mirrorlake.mirror.reader import BrokerReader
from mirrorlake.mirror.work import PartitionWork
from mirrorlake.offsets import TopicPartition

DRAIN_SECONDS = 0.4
"""Between the end of reading and the hard end: the answers still outstanding get this long."""


class SourceReaders:
    """Asks the sources of a lease who leads, once, and reads from each leader; made in a running loop.

    Args:
        works: the partitions of the lease.
        connections: the worker's cluster clients, and this lease's fetch connections.
        clock: for the readers.
        time: until when they read.
    """

    def __init__(
        self, works: Iterable[PartitionWork], connections: LeaseConnections, clock: Clock, time: LeaseTime
    ) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self._works = tuple(works)
        self._connections = connections
        self._clock = clock
        self._time = time
        self._readers: dict[tuple[str, int, bool, int], BrokerReader] = {}
        self._uses: Counter[tuple[str, TopicPartition, bool]] = Counter()
        self._metadata: dict[str, asyncio.Future[ClusterMetadata]] = {}

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
            until = self._time.live_until if is_live else self._time.hard_until - DRAIN_SECONDS
            reader = BrokerReader(
                lambda: self._connections.fetch_connection(work.cluster, leader),
                clock=self._clock,
                read_until_seconds=until,
                settings=work.cluster,
            )
            self._readers[key] = reader
            self.tasks.append(asyncio.create_task(reader.run()))
        return reader, led.leader_epoch

    def end_live(self) -> None:
        """Ends the live reads now; call when the live time was ended early."""
        for (_, _, is_live, _), reader in self._readers.items():
            if is_live:
                reader.end_reading()

    async def stop(self) -> None:
        """Ends every read and question at once; what becomes of ``tasks`` is to be waited for."""
        asking = [task for task in self._metadata.values() if task.cancel() or task.cancelled() or task.exception()]
        await asyncio.gather(*asking, return_exceptions=True)
        # Nobody is left who would take an answer, and a source that is silent would hold the lease past its end.
        for reading in self.tasks:
            reading.cancel()

    async def _source_metadata(self, cluster: ClusterSettings) -> ClusterMetadata:
        """Returns what a source says of all topics of this lease, asked once.

        Leaders move, and a topic that was recreated under the same name has another id.
        """
        if cluster.name not in self._metadata:
            topics = sorted({w.source.topic for w in self._works if w.cluster.name == cluster.name})
            client = self._connections.client(cluster)
            self._metadata[cluster.name] = asyncio.ensure_future(client.metadata(topics, refresh=True))
        return await asyncio.shield(self._metadata[cluster.name])


def check_topic_id(work: PartitionWork, found: str) -> None:
    """Checks that the source topic is the one the plan was made for.

    Raises:
        TopicRecreatedError: it is not.
    """
    # While a source is upgraded to Kafka 2.8 some of its brokers give ids and others do not.
    if work.topic_id and found and found != work.topic_id:
        raise TopicRecreatedError(
            f"source topic {work.source.topic} was deleted and recreated (topic id {work.topic_id}, now {found}); "
            "what was copied so far belongs to the one before",
            hint="`on-recreate: new-topic` copies the new one beside what was copied, `on-recreate: restart` (of no "
            "archive) in its place; or re-create the destination topic, or mirror elsewhere, and start again",
            expected=work.topic_id,
            found=found,
        )
