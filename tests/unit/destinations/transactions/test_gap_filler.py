"""A filler of gaps whose coordinator says nothing: an open transaction is not called ended for that."""

import asyncio
from collections.abc import Collection, Sequence

import pytest

from mirrorlake.clock import SystemClock
from mirrorlake.destinations.interface import ProducerHandOff, Progress
from mirrorlake.destinations.transactions.gap_filler import GapFiller
from mirrorlake.errors import BrokerUnreachableError, MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.control.descriptions import (
    AppendState,
    LogEnd,
    ProducerIdentity,
    ProducerState,
    TransactionState,
)
from mirrorlake.offsets import TopicPartition

WHERE = TopicPartition("copy", 0)
IDENTITY = ProducerIdentity(producer_id=7, producer_epoch=4)


class ScriptedCluster:
    """A partition with an open transaction of producer 7, and a coordinator that can be asked or not."""

    def __init__(self, coordinator: TransactionState | MirrorlakeError) -> None:
        self.coordinator = coordinator
        self.steps: list[str] = []

    async def append_states(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, AppendState]:
        ours = ProducerState(
            producer_id=7,
            producer_epoch=3,
            last_sequence=4,
            last_timestamp_ms=0,
            coordinator_epoch=0,
            transaction_start_offset=5,
        )
        state = AppendState(producers=(ours,), log_end=LogEnd(leader_epoch=1, end_offset=9))
        return dict.fromkeys(partitions, state)

    async def describe_transactions(self, ids: Sequence[str]) -> dict[str, TransactionState | MirrorlakeError]:
        return dict.fromkeys(ids, self.coordinator)

    async def init_producer_id(self, *_: object, **__: object) -> ProducerIdentity:
        self.steps.append("own")
        return IDENTITY

    async def add_partitions_to_transaction(self, *_: object, **__: object) -> dict[TopicPartition, None]:
        self.steps.append("add")
        raise OutcomeUnknownError("the answer was lost")


def filler_at(cluster: ScriptedCluster, progress: Progress) -> GapFiller:
    filler = GapFiller(
        cluster,  # type: ignore[arg-type]
        "id",
        hand_off=IDENTITY,
        clock=SystemClock(),
        fill_until_seconds=float("inf"),
    )
    filler.join(progress, IDENTITY)
    assert progress.hand_off == ProducerHandOff(identity=IDENTITY)
    return filler


def test_an_open_transaction_is_not_called_ended_where_the_coordinator_cannot_be_asked() -> None:
    cluster, progress = ScriptedCluster(BrokerUnreachableError("away")), Progress()
    with pytest.raises(BrokerUnreachableError):
        asyncio.run(filler_at(cluster, progress).clean(WHERE))
    assert cluster.steps == []


def test_an_identity_under_which_a_closing_failed_is_not_handed_off() -> None:
    """It may stand for a transaction that is open: the next filling would end it with a marker of its own."""
    found = TransactionState(
        producer_id=7, producer_epoch=3, state="CompleteAbort", timeout_ms=1000, partitions=frozenset()
    )
    cluster, progress = ScriptedCluster(found), Progress()
    with pytest.raises(OutcomeUnknownError):
        asyncio.run(filler_at(cluster, progress).clean(WHERE))
    assert cluster.steps == ["own", "add"]
    assert progress.hand_off is None
