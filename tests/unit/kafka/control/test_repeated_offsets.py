"""Looks at many logs again and again: each answer is what the broker has said now, however little of it is read."""

import struct
from collections.abc import Mapping
from dataclasses import replace

import pytest

from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.control.control_requests import ControlRequest, Refused, WrittenRequest
from mirrorlake.kafka.control.repeated_offsets import OTHERS_MAX, PARTITIONS_MIN, Offsets, RepeatedOffsets
from mirrorlake.offsets import TopicPartition

MANY = {TopicPartition("orders", number): 3 for number in range(PARTITIONS_MIN)}
END, START = -1, -2


def asked(
    looks: RepeatedOffsets, epochs: Mapping[TopicPartition, int] = MANY, *, broker_id: int = 1, timestamp: int = END
) -> ControlRequest[Offsets]:
    return looks.request(broker_id, epochs, timestamp=timestamp, isolation_level=1)


def written(request: ControlRequest[Offsets]) -> WrittenRequest[Offsets]:
    assert request.written is not None
    return request.written


def answer(offsets: Mapping[int, int], *, throttle_ms: int = 0, codes: Mapping[int, int] | None = None) -> memoryview:
    rows = [struct.pack(">ihqqi", at, (codes or {}).get(at, 0), -1, offset, 3) for at, offset in offsets.items()]
    head = struct.pack(">iih", throttle_ms, 1, len("orders")) + b"orders" + struct.pack(">i", len(rows))
    return memoryview(bytearray(head + b"".join(rows)))


def test_a_question_that_comes_again_is_the_one_that_was_written() -> None:
    looks = RepeatedOffsets()
    first, again = asked(looks), asked(looks, dict(MANY))
    assert first is again
    assert written(first).body() is written(again).body()


@pytest.mark.parametrize(
    "other",
    [
        {"timestamp": START},
        {"broker_id": 2},
        {"epochs": MANY | {TopicPartition("orders", 0): 4}},
        {"epochs": {**MANY, TopicPartition("orders", PARTITIONS_MIN): 3}},
        {"epochs": {TopicPartition("payments", each.partition): 3 for each in MANY}},
    ],
)
def test_another_question_is_written_anew(other: dict[str, object]) -> None:
    looks = RepeatedOffsets()
    first, second = asked(looks), asked(looks, **other)  # type: ignore[arg-type]
    assert first is not second
    if "broker_id" not in other:
        assert written(first).body() != written(second).body()


def test_an_answer_says_what_it_says_and_not_what_the_last_one_did() -> None:
    request, everything = written(asked(RepeatedOffsets())), range(PARTITIONS_MIN)
    first = request.read(answer(dict.fromkeys(everything, 5)))
    assert first == dict.fromkeys(MANY, 5)
    assert request.read(answer(dict.fromkeys(everything, 5), throttle_ms=90)) is first
    moved = request.read(answer(dict.fromkeys(everything, 5) | {7: 6}))
    assert moved == first | {TopicPartition("orders", 7): 6}
    assert first[TopicPartition("orders", 7)] == 5, "what was told before stays as it was"
    refused = request.read(answer(dict.fromkeys(everything, 5), codes={7: 6}))
    assert refused[TopicPartition("orders", 7)] == Refused(6)
    assert request.read(answer({})) == {}, "of a partition that is left out nothing is known"


def test_an_answer_that_is_none_is_refused_each_time_and_forgets_nothing() -> None:
    request = written(asked(RepeatedOffsets()))
    good = answer(dict.fromkeys(range(PARTITIONS_MIN), 5))
    first = request.read(good)
    for _ in range(2):
        with pytest.raises(CorruptBatchError):
            request.read(good[:-1])
    assert request.read(good) is first


def test_few_partitions_are_not_remembered_and_push_nothing_out() -> None:
    looks, few = RepeatedOffsets(), {TopicPartition("orders", 1): 3}
    first = asked(looks)
    assert asked(looks, few) is not asked(looks, few)
    assert asked(looks) is first


def test_a_question_that_does_not_come_again_is_given_up() -> None:
    looks, few = RepeatedOffsets(), {TopicPartition("orders", 1): 3}
    first = asked(looks)
    for _ in range(OTHERS_MAX):
        asked(looks, few)
    assert asked(looks) is not first


def test_what_older_brokers_are_asked_is_as_without_memory() -> None:
    looks = RepeatedOffsets()
    request = asked(looks)
    assert replace(request, written=None).message(1).topics[0].name == "orders"
    assert asked(looks, timestamp=-4).written is None, "a question of later versions"
