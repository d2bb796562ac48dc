"""One partition of a source cluster, open for one lease."""

from collections.abc import Iterable

from mirrorlake.destinations.source_bounds import explain_out_of_range
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.kafka.control.holes import why_no_hole
from mirrorlake.kafka.wire.fetch import READ_UNCOMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.kafka.leader_epoch_check import divergence
from mirrorlake.sources.kafka.partition_reader import KafkaPartitionReader
from mirrorlake.sources.kafka.read_limit import ReadLimit
from mirrorlake.sources.kafka.readers import ClusterReads
from mirrorlake.sources.mark import SourceMark


class KafkaPartition:
    """One partition of a source cluster.

    Args:
        source: the partition.
        topic_id: the id its topic must have; empty where the cluster gives none.
        client: of the cluster.
        reads: the lease's from this cluster.
        limit: where reading ends, None where it goes on for ever.
    """

    def __init__(
        self,
        source: TopicPartition,
        topic_id: str,
        *,
        client: ClusterClient,
        reads: ClusterReads,
        limit: ReadLimit | None = None,
    ) -> None:
        self._source = source
        self._topic_id = topic_id
        self._client = client
        self._reads = reads
        self._limit = limit
        self._epoch_ends: dict[int, LogEnd] = {}
        reads.will_read(source.topic)

    async def find(self) -> None:
        """Finds the partition's leader; see `SourcePartition.find`."""
        await self._reads.leader_of(self._source, self._topic_id)

    async def look_at_marks(self, marks: Iterable[SourceMark]) -> None:
        """Asks where the epochs of marks end at the source, if another leader leads it than when they were made."""
        leader_epoch = (await self._reads.leader_of(self._source, self._topic_id)).leader_epoch
        for epoch in sorted({mark.epoch for mark in marks if mark.leader_epoch != leader_epoch}):
            end = (await self._client.epoch_ends({self._source: epoch}))[self._source]
            if isinstance(end, MirrorlakeError):
                raise end
            self._epoch_ends[epoch] = end

    def divergence(self, mark: SourceMark, position: int, *, destination: str) -> MirrorlakeError | None:
        """Returns that the log was cut below what a destination has copied of it; None where it was not."""
        end = self._epoch_ends.get(mark.epoch)
        return None if end is None else divergence(self._source, mark, end, position, destination=destination)

    async def reader(self, *, is_live: bool) -> KafkaPartitionReader:
        """Returns a reader of the partition's leader, which must lead in the epoch it leads in now."""
        led = await self._reads.leader_of(self._source, self._topic_id)
        return KafkaPartitionReader(
            self._source,
            self._reads.reader_of(self._source, led.leader, is_live=is_live),
            explain_out_of_range=self._explain_out_of_range,
            why_no_hole=self._why_no_hole,
            topic_id=self._topic_id,
            leader_epoch=led.leader_epoch,
            limit=self._limit,
        )

    async def _explain_out_of_range(self, position: int) -> MirrorlakeError:
        source = self._source
        try:
            log_starts = await self._client.list_offsets([source], timestamp=EARLIEST)
            # Not the last stable offset, which lags behind for a moment after an election.
            log_ends = await self._client.list_offsets([source], timestamp=LATEST, isolation_level=READ_UNCOMMITTED)
        except MirrorlakeError as error:
            return error
        return explain_out_of_range(source, position, log_starts[source], log_ends[source])

    async def _why_no_hole(self, offsets: OffsetRange) -> MirrorlakeError | None:
        return await why_no_hole(self._client, self._source, offsets)
