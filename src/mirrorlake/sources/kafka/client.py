"""A cluster as a source that the driver asks: what topics it has, and about many partitions at a time."""

from collections.abc import Iterable, Mapping, Sequence

from mirrorlake.destinations.transactions.owner_states import OwnerState, find_states
from mirrorlake.errors import MirrorlakeError, SourceTruncatedError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import ConfigValue, LogEnd
from mirrorlake.kafka.control.holes import check_empty
from mirrorlake.kafka.control.known_offsets import fetch_known
from mirrorlake.kafka.control.range_reader import first_at
from mirrorlake.kafka.control.topic_configs import read_topic_configs
from mirrorlake.kafka.records.batches import BatchHeader, walk
from mirrorlake.kafka.wire.fetch import READ_COMMITTED, READ_UNCOMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.client import BatchFacts, Bounds, SourceTopic, SourceTopics
from mirrorlake.sources.kafka.window_ends import WindowEnds
from mirrorlake.together import both


class KafkaSourceClient:
    """Asks one cluster.

    Args:
        client: of the cluster.
        ends: where partitions end for whoever asks; None where they do not.
    """

    def __init__(self, client: ClusterClient, ends: WindowEnds | None = None) -> None:
        self._client = client
        self._ends = ends

    @property
    def connections_made(self) -> int:
        """How many connections to brokers were opened to ask about partitions."""
        return self._client.control_connections_made

    async def topics(self, names: Sequence[str] | None) -> SourceTopics:
        """Returns the topics of these names, all topics for None.

        Asked anew: a topic that has grown, or was recreated, looks as before in what is remembered.
        """
        found = await self._client.metadata(names, refresh=True)
        return SourceTopics(
            source_id=found.cluster_id or "",
            topics={
                name: SourceTopic(
                    name=name,
                    topic_id=topic.topic_id,
                    is_internal=topic.is_internal,
                    partitions=frozenset(topic.partitions),
                    replicas=max((len(each.replicas) for each in topic.partitions.values()), default=None),
                )
                for name, topic in found.topics.items()
            },
            errors=found.errors,
        )

    async def topic_configs(self, names: Sequence[str]) -> Mapping[str, Mapping[str, ConfigValue]]:
        """Returns the topics' configurations, defaults included."""
        return await read_topic_configs(self._client, names)

    async def owner_states(self) -> Mapping[str, OwnerState]:
        """Returns the state records of mirrors that copy to this cluster."""
        return await find_states(self._client)

    async def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds | MirrorlakeError]:
        """Returns log start and last stable offset of each partition, and where it ends by a window."""
        starts, ends = await both(
            self._client.list_offsets(partitions, timestamp=EARLIEST, isolation_level=READ_COMMITTED),
            self._client.list_offsets(partitions, timestamp=LATEST, isolation_level=READ_COMMITTED),
        )
        found: dict[TopicPartition, Bounds | MirrorlakeError] = {}
        for partition in partitions:
            start, end = starts[partition], ends[partition]
            if isinstance(start, MirrorlakeError):
                found[partition] = start
            elif isinstance(end, MirrorlakeError):
                found[partition] = end
            else:
                found[partition] = Bounds(start=start, end=end)
        # Only then: what no record was later than is not later below the ends that were read before.
        return found if self._ends is None else await self._ends.added_to(found)

    async def written_ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Returns the leaders' own ends."""
        found = await self._client.log_ends(partitions)
        return {where: end.end_offset for where, end in found.items() if isinstance(end, LogEnd)}

    async def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> Mapping[TopicPartition, int | MirrorlakeError | None]:
        """Returns the offset of the first record of that time or later, None where there is none."""
        return await first_at(self._client, partitions, timestamp_ms)

    async def batch_at(self, partition: TopicPartition, offset: int) -> BatchFacts | None:
        """Returns what the header of a batch says."""
        frame, answer = await fetch_known(
            self._client, partition, offset, max_bytes=1, isolation_level=READ_UNCOMMITTED
        )
        with frame:
            first = next((batch.header for batch in walk(answer.records)), None)
        if first is None:
            await check_empty(self._client, partition, offset, readable_end=answer.high_watermark, whose="source")
            return None
        return BatchFacts(oldest_ms=_oldest(first), is_transactional=first.is_transactional or first.is_control)

    async def stored_bytes(self, partition: TopicPartition, offsets: OffsetRange) -> int | None:
        """Returns None: its files are the brokers' own."""
        del partition, offsets
        return None

    async def missing(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, MirrorlakeError]:
        """Returns nothing: what a log has lost is not in it any more."""
        del partitions
        return {}

    async def try_reading(self, partition: TopicPartition, end: int) -> MirrorlakeError | None:
        """Tries to read by a fetch of one byte, as nothing else proves it."""
        try:
            frame, _ = await self._client.fetch_once(partition, end, max_bytes=1, isolation_level=READ_UNCOMMITTED)
            frame.release()
        except SourceTruncatedError:
            return None  # its log moved meanwhile: it was read
        except MirrorlakeError as error:
            return error
        return None


def _oldest(header: BatchHeader) -> int | None:
    """Returns the first timestamp of a batch, or where it does not say that, the highest."""
    first = header.first_timestamp
    found = header.max_timestamp if first is None else first
    return found if found >= 0 else None
