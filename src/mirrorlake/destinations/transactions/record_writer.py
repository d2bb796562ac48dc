"""Appends batches of records to partitions within the open transaction of a session, one after the other."""

from collections.abc import Mapping

from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.kafka.records.batches import Codec, next_sequence
from mirrorlake.kafka.records.codec import RecordColumns, encode_batch
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.crash_points import CrashPoint


class RecordWriter:
    """Appends under one identity.

    Args:
        session: whose open transaction the records are part of; the partitions are added by who writes.
        sequences: the next one that each of the partitions expects.
        crash_point: called before every append.
    """

    def __init__(
        self, session: TransactionSession, sequences: Mapping[TopicPartition, int], *, crash_point: CrashPoint
    ) -> None:
        self._session = session
        self._sequences = dict(sequences)
        self._crash_point = crash_point

    def opens(self, sequences: Mapping[TopicPartition, int]) -> None:
        """Takes further partitions, with the next sequence that each expects."""
        self._sequences |= sequences

    def sequence_of(self, partition: TopicPartition) -> int:
        """Returns the sequence that the next record of a partition gets."""
        return self._sequences[partition]

    async def append(self, partition: TopicPartition, columns: RecordColumns, *, codec: Codec, step: str) -> int:
        """Appends one batch; returns the offset of its first record.

        Args:
            partition: that was opened and added to the transaction.
            columns: its records, dense.
            codec: how it is compressed.
            step: what the crash point is told.

        Raises:
            MirrorlakeError: as ``TransactionSession.produce``; the transaction must not be committed.
        """
        identity, sequence = self._session.identity, self._sequences[partition]
        batch = encode_batch(
            columns,
            codec=codec,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        self._crash_point(step)
        self._sequences[partition] = next_sequence(sequence, len(columns))
        return await self._session.produce(partition, batch, what=f"append to {partition}")
