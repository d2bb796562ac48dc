"""Whether destination partitions hold what a shard's progress says, asked once for each leader epoch."""

from collections.abc import Mapping

from mirrorlake.destinations.map.lost_tail import Trim, progress_at
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_store import read_progress
from mirrorlake.destinations.map.progress_writer import ProgressWriter
from mirrorlake.destinations.map.tail_look import TailLook
from mirrorlake.destinations.transactions.session import Standing, TransactionSession
from mirrorlake.errors import LostProgressError, MirrorlakeError, PositionMovedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import TransactionState


class SeenWhole:
    """Compares destination partitions with the progress of every source that has records there.

    Args:
        client: of the destination cluster.
        session: owned; its identity is the shard's.
        writer: of the shard's own records.
        leader_epochs: in which partitions were found whole by a lease before, by topic and partition.

    Attributes:
        leader_epochs: likewise, with those that were found whole since.
    """

    def __init__(
        self,
        client: ClusterClient,
        session: TransactionSession,
        writer: ProgressWriter,
        *,
        leader_epochs: Mapping[tuple[str, int], int],
    ) -> None:
        self.leader_epochs = dict(leader_epochs)
        self._client = client
        self._session = session
        self._writer = writer
        self._identity = session.identity

    async def find_lost(
        self,
        look: TailLook,
        standing: Standing,
        known: Mapping[ProgressKey, MapProgress],
        topic_id: str,
        *,
        copies_lost_again: bool,
    ) -> list[Trim]:
        """Returns what becomes of the progress of sources whose newest records are lost; nothing where none are.

        Args:
            look: at the destination partition.
            standing: of the shard's producer there.
            known: the committed progress, by whose.
            topic_id: of the destination topic.
            copies_lost_again: whether lost records are copied again, and do not stop their partition.

        Raises:
            LostTailError: records are lost, and are not to be copied again.
            LostProgressError: records of ours are there that the progress does not know.
            PositionMovedError: another process has written there meanwhile.
            MirrorlakeError: the destination could not be read.
        """
        where = look.partition
        there = progress_at(known, where, topic_id)
        is_new_leader = self.leader_epochs.get((where.topic, where.partition)) != standing.leader_epoch
        lost = await look.find_lost(there, looks_at_records=is_new_leader)
        if lost and not copies_lost_again:
            raise next(iter(lost.values()))
        if lost:
            return [await look.trim(key, there[key], self._writer.pages_partition, lost[key]) for key in lost]
        # The leader was asked about the producer id of now alone: after an expiry nothing was written under it yet.
        if is_new_leader and (standing.has_written or look.has_former_ids):
            try:
                await look.check_behind(there, self._writer.progress_partition)
            except LostProgressError as error:
                raise await self._why_behind(error, known) from error
        return []

    def found(self, look: TailLook, standing: Standing) -> None:
        """Notes that a partition holds what the progress says by now."""
        self.leader_epochs[look.partition.topic, look.partition.partition] = standing.leader_epoch

    async def _why_behind(self, lost: LostProgressError, known: Mapping[ProgressKey, MapProgress]) -> MirrorlakeError:
        """Returns what records of ours behind the progress mean: it is lost, or somebody owns the shard by now.

        The progress was read when the shard was taken over. Whoever has taken it over since, such as a lease on a host
        that is cut off from its driver alone, may have committed data and progress that are not known here.
        """
        found = await self._session.found()
        if isinstance(found, TransactionState):
            holder = found.producer_id, found.producer_epoch
            if holder == (self._identity.producer_id, self._identity.producer_epoch):
                return lost
            is_other = True
        else:
            # Brokers before Kafka 3.0 cannot say who holds an id, but the progress can be read again.
            at = self._writer.progress_partition
            end_offset = (await self._session.look([at]))[at].end_offset
            is_other = await read_progress(self._client, at, end_offset=end_offset) != known
        if not is_other:
            return lost
        return PositionMovedError(
            f"another process has taken {self._session.transactional_id} over and committed meanwhile",
            hint="it is read again",
        )
