"""A filler of gaps whose coordinator says nothing: an open transaction is not called ended for that."""

import asyncio
from collections.abc import Collection, Sequence
from types import SimpleNamespace

import pytest

from mirrorlake.clock import SystemClock
from mirrorlake.destinations.interface import ProducerHandOff, Progress
from mirrorlake.destinations.transactions.gap_filler import GapFiller
from mirrorlake.destinations.transactions.waiting_gap import GapToFill
from mirrorlake.errors import BrokerUnreachableError, MirrorlakeError, OutcomeUnknownError, PermissionDeniedError
from mirrorlake.kafka.control.descriptions import (
    AppendState,
    LogEnd,
    ProducerIdentity,
    ProducerState,
    TransactionState,
)
from mirrorlake.kafka.wire.error_codes import OPERATION_NOT_ATTEMPTED, error_for
from mirrorlake.offsets import GapFill, OffsetRange, TopicPartition

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


class RefusingCluster:
    """Partitions that end at 5 and get a marker by each transaction they are part of; one of them is refused."""

    def __init__(self, refused: TopicPartition) -> None:
        self.refused = refused
        self.ends: dict[TopicPartition, int] = {}
        self.steps: list[object] = []
        self._added: list[TopicPartition] = []

    async def append_states(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, AppendState]:
        ends = [(each, LogEnd(leader_epoch=1, end_offset=self.ends.setdefault(each, 5))) for each in partitions]
        return {each: AppendState(producers=(), log_end=end) for each, end in ends}

    async def describe_transactions(self, ids: Sequence[str]) -> dict[str, TransactionState]:
        over = TransactionState(
            producer_id=7, producer_epoch=4, state="CompleteAbort", timeout_ms=1000, partitions=frozenset()
        )
        return dict.fromkeys(ids, over)

    async def add_partitions_to_transaction(
        self, _: str, __: ProducerIdentity, partitions: Collection[TopicPartition], **___: object
    ) -> dict[TopicPartition, MirrorlakeError | None]:
        self.steps.append(tuple(partitions))
        if self.refused not in partitions:
            self._added = [*partitions]
            return dict.fromkeys(partitions)
        codes = {each: 29 if each == self.refused else OPERATION_NOT_ATTEMPTED for each in partitions}
        return {
            each: error_for(code, what=f"AddPartitionsToTxn of {each}", topic=each.topic)
            for each, code in codes.items()
        }

    async def end_transaction(self, *_: object, **__: object) -> None:
        self.steps.append("end")
        for each in self._added:
            self.ends[each] += 1

    async def metadata(self, _: Sequence[str]) -> SimpleNamespace:
        return SimpleNamespace(partition=lambda _: SimpleNamespace(leader=1))


@pytest.mark.parametrize("refused", [0, 1, 2])
def test_a_partition_that_may_not_be_written_ends_no_gap_but_its_own(refused: int) -> None:
    """Its topic is gone, or a right to it: those of other topics, filled in the same transaction, were not tried."""
    parts = [TopicPartition(name, 0) for name in ("a", "b", "c")]
    cluster = RefusingCluster(parts[refused])

    def gap(partition: TopicPartition) -> GapToFill:
        return GapToFill(
            partition=partition,
            offsets=OffsetRange(start_offset=5, end_offset=6),
            gap_fill=GapFill.MARKERS,
            batch_bytes_max=1000,
            timestamp_ms=0,
            has_key=False,
            moved=lambda _: None,
        )

    async def fill() -> list[object]:
        filler = GapFiller(
            cluster,  # type: ignore[arg-type]
            "id",
            hand_off=IDENTITY,
            clock=SystemClock(),
            fill_until_seconds=float("inf"),
        )
        return await asyncio.gather(*(filler.fill(gap(each)) for each in parts), return_exceptions=True)

    found = asyncio.run(fill())
    assert isinstance(found[refused], PermissionDeniedError)
    assert f"of {parts[refused]} " in str(found[refused])
    others = [each for each in parts if each != parts[refused]]
    assert cluster.steps == [tuple(parts), tuple(others), "end"]
    assert [cluster.ends[each] for each in others] == [6, 6]
    assert not any(isinstance(each, BaseException) for at, each in enumerate(found) if at != refused)
