"""Transaction coordinators that answer what no real one does, or too late: nothing is concluded from it."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.control.control_requests import Refused
from mirrorlake.kafka.control.coordinators import Coordinators
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.error_codes import CONCURRENT_TRANSACTIONS
from mirrorlake.kafka.wire.protocol_classes import AddPartitionsToTxnResponse
from mirrorlake.offsets import TopicPartition

IDENTITY = ProducerIdentity(producer_id=7, producer_epoch=3)
A, B = TopicPartition("copy", 0), TopicPartition("copy", 1)


class ScriptedBrokers:
    """One broker, which coordinates everything; its answers are bytes, one after the other."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.settings = SimpleNamespace(request_timeout_seconds=1.0, name="scripted")
        self.address = "scripted:9092"
        self._answers = iter(answers)
        self.sent: list[Api] = []

    async def ask_any(self, _: object) -> dict[str, int | Refused]:
        return {"id": 1}

    async def connection(self, *_: object) -> "ScriptedBrokers":
        return self

    def version(self, api: Api) -> int:
        return {Api.ADD_PARTITIONS_TO_TXN: 3, Api.END_TXN: 3, Api.INIT_PRODUCER_ID: 4}[api]

    async def request(self, api: Api, *_: object, **__: object) -> "ScriptedBrokers":
        self.sent.append(api)
        self.view = memoryview(next(self._answers))
        return self

    def __enter__(self) -> "ScriptedBrokers":
        return self

    def __exit__(self, *_: object) -> None:
        return None


def added(*codes: tuple[int, int]) -> bytes:
    """An answer to AddPartitionsToTxn: numbers of partitions of ``copy`` with their error codes."""
    response: Any = AddPartitionsToTxnResponse
    topic = response.AddPartitionsToTxnTopicResult
    partition = topic.AddPartitionsToTxnPartitionResult
    results = [partition(partition_index=number, partition_error_code=code) for number, code in codes]
    answer = response(
        throttle_time_ms=0,
        results_by_topic_v3_and_below=[topic(name="copy", results_by_partition=results)],
        version=3,
    )
    return bytes(answer.encode(version=3))


BUSY = added((0, CONCURRENT_TRANSACTIONS), (1, CONCURRENT_TRANSACTIONS))


def add(
    brokers: ScriptedBrokers, before_send: Callable[[], None] = lambda: None
) -> dict[TopicPartition, MirrorlakeError | None]:
    coordinators = Coordinators(brokers)  # type: ignore[arg-type]
    return asyncio.run(coordinators.add_partitions("id", IDENTITY, [A, B], before_send=before_send))


def test_a_partition_that_the_answer_leaves_out_is_not_part_of_the_transaction() -> None:
    found = add(ScriptedBrokers([added((0, 0))]))
    assert found[A] is None
    assert isinstance(found[B], BrokerNotReadyError)


def test_partitions_are_added_again_while_the_coordinator_is_busy_and_each_time_somebody_is_asked_first() -> None:
    brokers = ScriptedBrokers(
        [added((0, CONCURRENT_TRANSACTIONS), (1, CONCURRENT_TRANSACTIONS)), added((0, 0), (1, 0))]
    )
    asked: list[int] = []
    assert add(brokers, lambda: asked.append(len(brokers.sent))) == {A: None, B: None}
    assert asked == [0, 1]


def test_a_busy_coordinator_is_not_asked_again_when_the_time_is_over() -> None:
    brokers = ScriptedBrokers([BUSY, BUSY])

    def check() -> None:
        if brokers.sent:
            raise OutcomeUnknownError("the time is over")

    with pytest.raises(OutcomeUnknownError, match="the time is over"):
        add(brokers, check)
    assert brokers.sent == [Api.ADD_PARTITIONS_TO_TXN]


def test_an_answer_that_cannot_be_read_leaves_a_step_unknown() -> None:
    with pytest.raises(OutcomeUnknownError):
        add(ScriptedBrokers([b"\x00"]))
    ending = Coordinators(ScriptedBrokers([b"\x00"])).end_transaction("id", IDENTITY, committed=True)  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknownError):
        asyncio.run(ending)


def test_an_epoch_is_not_raised_when_the_time_is_over() -> None:
    brokers = ScriptedBrokers([])

    def over() -> None:
        raise OutcomeUnknownError("the time is over")

    with pytest.raises(OutcomeUnknownError, match="the time is over"):
        asyncio.run(
            Coordinators(brokers).init_producer_id(  # type: ignore[arg-type]
                "id", transaction_timeout_ms=1000, before_send=over
            )
        )
    assert brokers.sent == []
