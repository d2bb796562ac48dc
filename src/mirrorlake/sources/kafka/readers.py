"""The reads of a lease from one cluster: who leads its partitions, and one connection that reads from each leader."""

import asyncio
import contextlib
from collections import Counter

from mirrorlake.clock import Clock
from mirrorlake.destinations.connections import LeaseConnections
from mirrorlake.errors import BrokerNotReadyError, TopicMissingError, TopicRecreatedError
from mirrorlake.kafka.control.descriptions import ClusterMetadata, PartitionMetadata
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.kafka.broker_reader import BrokerReader
from mirrorlake.sources.source import ReadTime

DRAIN_SECONDS = 0.4
"""Between the end of reading and the hard end: the answers still outstanding get this long."""


class ClusterReads:
    """Asks a source cluster who leads, once a lease, and reads from each leader.

    Args:
        cluster: the source cluster.
        connections: the worker's cluster clients, and this lease's fetch connections.
        clock: for the readers.
        time: until when they read.
    """

    def __init__(
        self, cluster: ClusterSettings, *, connections: LeaseConnections, clock: Clock, time: ReadTime
    ) -> None:
        self._cluster = cluster
        self._connections = connections
        self._clock = clock
        self._time = time
        self._topics: set[str] = set()
        self._metadata: asyncio.Future[ClusterMetadata] | None = None
        self._readers: dict[tuple[int, bool, int], BrokerReader] = {}
        self._uses: Counter[tuple[TopicPartition, bool]] = Counter()
        self._tasks: list[asyncio.Task[None]] = []

    def will_read(self, topic: str) -> None:
        """Says that a topic will be read, so that all of them can be asked about at once."""
        self._topics.add(topic)

    async def leader_of(self, source: TopicPartition, topic_id: str) -> PartitionMetadata:
        """Returns who leads a source partition.

        Raises:
            TopicMissingError: the source has no such partition.
            TopicRecreatedError: it is another topic of the same name than that of ``topic_id``.
            BrokerNotReadyError: the partition has no leader at the moment.
        """
        topic = (await self._ask_metadata()).topics.get(source.topic)
        if topic is None or source.partition not in topic.partitions:
            raise TopicMissingError(
                f"source partition {source} does not exist on cluster {self._cluster.name}",
                hint="check the name, or that the topic was not deleted",
                topic=source.topic,
            )
        check_topic_id(source.topic, expected=topic_id, found=topic.topic_id)
        led = topic.partitions[source.partition]
        if led.leader < 0:
            raise BrokerNotReadyError(f"source partition {source} has no leader at the moment")
        return led

    def reader_of(self, source: TopicPartition, leader: int, *, is_live: bool) -> BrokerReader:
        """Returns what reads from a partition's leader, begun; live and archive reads have connections of their own."""
        # A request names a partition once: another copy of it, for another mirror or destination, has its own reader.
        key = (leader, is_live, self._uses[source, is_live])
        self._uses[source, is_live] += 1
        reader = self._readers.get(key)
        if reader is None or reader.is_over:
            until = self._time.live_until if is_live else self._time.hard_until - DRAIN_SECONDS
            reader = BrokerReader(
                lambda: self._connections.fetch_connection(self._cluster, leader),
                clock=self._clock,
                read_until_seconds=until,
                settings=self._cluster,
                sessions_left=self._connections.kept(("fetch sessions", self._cluster.name, leader), list[int]),
            )
            self._readers[key] = reader
            self._tasks.append(asyncio.create_task(reader.run()))
        return reader

    @property
    def show_changes(self) -> bool:
        """True where topics are read by their ids: one that was made anew would be read as the one before, by name.

        The epoch in which a leader leads is named in every request, so that another leader, and another log, are told.
        """
        return all(reader.reads_by_id and not reader.is_over for reader in self._readers.values())

    def prolong(self, seconds: float) -> None:
        """Lets the live reads end so many seconds later."""
        for (_, is_live, _), reader in self._readers.items():
            if is_live:
                reader.prolong(seconds)

    def end_live(self) -> None:
        """Ends the live reads now."""
        for (_, is_live, _), reader in self._readers.items():
            if is_live:
                reader.end_reading()

    async def stop(self) -> None:
        """Ends every read and question at once; returns when nothing goes on any more."""
        asking = self._metadata
        if asking is not None and (asking.cancel() or asking.cancelled() or asking.exception()):
            await asyncio.gather(asking, return_exceptions=True)
        # Nobody is left who would take an answer, and a source that is silent would hold the lease past its end.
        for reading in self._tasks:
            reading.cancel()
        for reading in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    async def _ask_metadata(self) -> ClusterMetadata:
        """Returns what the cluster says of all topics of this lease, asked once.

        Leaders move, and a topic that was recreated under the same name has another id.
        """
        if self._metadata is None:
            client = self._connections.client(self._cluster)
            self._metadata = asyncio.ensure_future(client.metadata(sorted(self._topics), refresh=True))
        return self._metadata.result() if self._metadata.done() else await asyncio.shield(self._metadata)


def check_topic_id(topic: str, *, expected: str, found: str) -> None:
    """Checks that a source topic is the one the plan was made for.

    Raises:
        TopicRecreatedError: it is not.
    """
    # While a source is upgraded to Kafka 2.8 some of its brokers give ids and others do not.
    if expected and found and found != expected:
        raise TopicRecreatedError(
            f"source topic {topic} was deleted and recreated (topic id {expected}, now {found}); "
            "the copy holds records of the one before",
            hint="`on-recreate: new-topic` copies the new one beside the copy, `on-recreate: restart` (of no "
            "archive) in its place; or re-create the destination topic, or mirror elsewhere, and start again",
            expected=expected,
            found=found,
        )
