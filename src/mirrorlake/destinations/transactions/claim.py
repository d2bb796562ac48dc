"""How a shard claims a destination partition whose offsets equal the source's.

The claim is what makes Produce a compare-and-append: every batch carries the shard's own producer id, at the
epoch and the next sequence the *partition* knows, so of two writers one appends and the other is refused. The
order of the reads is the whole point: first the producer's sequence, then the log end. The other way round a
batch appended in between would be counted in the sequence but not in the end, and ours would land displaced.
"""

import asyncio
from copy import copy
from dataclasses import dataclass

from mirrorlake.errors import MirrorlakeError, TopicMissingError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import AppendState, ProducerIdentity
from mirrorlake.kafka.records.batches import next_sequence
from mirrorlake.offsets import TopicPartition

FIRST_EPOCH = 0
"""The epoch of data on a partition that remembers nothing of the producer."""

FILL_TRANSACTION_TIMEOUT_MS = 10_000
"""Short: an open transaction of ours holds back the destination's last stable offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionClaim:
    """What a sink needs to append to one partition.

    ``end_offset`` is the leader's log end, the next offset the partition will give. ``state_is_known`` is False
    where the partition remembers nothing of the producer; any first sequence would then be accepted.
    ``other_producer_ids`` are those of other producers the partition remembers, ``open_producer_ids`` those of
    transactions that are open there.
    """

    leader: int
    producer_id: int
    producer_epoch: int
    next_sequence: int
    state_is_known: bool
    end_offset: int
    other_producer_ids: tuple[int, ...]
    open_producer_ids: tuple[int, ...] = ()

    @property
    def has_open_transaction(self) -> bool:
        """True where a transaction of the shard's own is open: its owner died while it filled a gap."""
        return self.producer_id in self.open_producer_ids


def claim_from(identity: ProducerIdentity, state: AppendState, *, leader: int) -> PartitionClaim:
    """Returns the claim that follows from what the partition and the coordinator say. Pure.

    Where the partition knows the producer, its epoch and sequence count. Where it does not, everybody must begin
    with the very same epoch and sequence, or Produce compares nothing: a batch of a higher epoch at sequence 0 is
    appended whatever came before it. So that is epoch 0, not the coordinator's current one, which differs between
    two writers when an InitProducerId falls between their claims (``docs/decisions/0001-first-epoch.md``).
    """
    ours = [each for each in state.producers if each.producer_id == identity.producer_id]
    others = tuple(each.producer_id for each in state.producers if each.producer_id != identity.producer_id)
    known = max(ours, key=lambda each: each.producer_epoch, default=None)
    return PartitionClaim(
        leader=leader,
        producer_id=identity.producer_id,
        producer_epoch=known.producer_epoch if known else FIRST_EPOCH,
        next_sequence=next_sequence(known.last_sequence, 1) if known else 0,
        state_is_known=known is not None,
        end_offset=state.log_end.end_offset,
        other_producer_ids=others,
        open_producer_ids=tuple(p.producer_id for p in state.producers if p.transaction_start_offset is not None),
    )


class ClaimReader:
    """Reads claims, many partitions in one go.

    Sinks of a lease ask one by one; what is asked in one turn of the event loop is read together, three round
    trips for all of them.

    Args:
        client: of the destination cluster.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._waiting: dict[TopicPartition, tuple[str, asyncio.Future[PartitionClaim]]] = {}
        self._round: asyncio.Task[None] | None = None

    async def read(self, partition: TopicPartition, transactional_id: str) -> PartitionClaim:
        """Returns the claim of ``transactional_id`` on ``partition``.

        Raises:
            MirrorlakeError: whatever kept this one partition from being read; others are not affected.
        """
        future: asyncio.Future[PartitionClaim] = asyncio.get_running_loop().create_future()
        self._waiting[partition] = (transactional_id, future)
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._read_waiting())
        return await future

    async def cancel(self) -> None:
        """Gives up what is being read; who waits for it is cancelled. Returns when nothing goes on any more."""
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)

    async def _read_waiting(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)
            batch, self._waiting = self._waiting, {}
            try:
                claims = await self._read_many({tp: tid for tp, (tid, _) in batch.items()})
            except MirrorlakeError as error:
                claims = {partition: copy(error) for partition in batch}
            except asyncio.CancelledError:
                for _, future in batch.values():
                    future.cancel()
                raise
            for partition, (_, future) in batch.items():
                result = claims[partition]
                if future.done():
                    continue
                if isinstance(result, PartitionClaim):
                    future.set_result(result)
                else:
                    future.set_exception(result)

    async def _read_many(
        self, wanted: dict[TopicPartition, str]
    ) -> dict[TopicPartition, PartitionClaim | MirrorlakeError]:
        identities = await self._identities(set(wanted.values()))
        # One call, because its order is what the claim rests on: producers first, then the end, from one leader.
        states = await self._client.append_states(wanted)
        # Looked up after the answers: asking may have found a new leader.
        metadata = await self._client.metadata(list(dict.fromkeys(partition.topic for partition in wanted)))
        claims: dict[TopicPartition, PartitionClaim | MirrorlakeError] = {}
        for partition, transactional_id in wanted.items():
            state = states[partition]
            led = metadata.partition(partition)
            if isinstance(state, MirrorlakeError):
                claims[partition] = state
            elif led is None:
                claims[partition] = TopicMissingError(
                    f"destination partition {partition} does not exist", topic=partition.topic
                )
            else:
                claims[partition] = claim_from(identities[transactional_id], state, leader=led.leader)
        return claims

    async def _identities(self, transactional_ids: set[str]) -> dict[str, ProducerIdentity]:
        """Reads the producer id behind each transactional id, without a new epoch; makes those not yet there."""
        known = await self._client.describe_transactions(sorted(transactional_ids))
        identities: dict[str, ProducerIdentity] = {}
        for transactional_id in sorted(transactional_ids):
            state = known.get(transactional_id)
            if isinstance(state, MirrorlakeError):
                raise state
            if state is None:
                identities[transactional_id] = await self._client.init_producer_id(
                    transactional_id, transaction_timeout_ms=FILL_TRANSACTION_TIMEOUT_MS
                )
            else:
                identities[transactional_id] = ProducerIdentity(
                    producer_id=state.producer_id, producer_epoch=state.producer_epoch
                )
        return identities
