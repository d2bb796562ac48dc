"""Fetch 13: requests as kafka-python reads them, answers as it writes them, and bytes that are neither."""

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse

import mirrorlake.kafka.wire.protocol_classes  # noqa: F401  (imports kafka without its warnings)
from mirrorlake.errors import BrokerNotReadyError, CorruptBatchError, MirrorlakeError
from mirrorlake.kafka.control.descriptions import format_topic_id, parse_topic_id
from mirrorlake.kafka.wire.fetch import AbortedTransaction, FetchedPartition, FetchPartition
from mirrorlake.kafka.wire.fetch_by_id import (
    AnswerHead,
    SessionStep,
    decode_fetch_by_id,
    decode_head,
    encode_fetch_by_id,
)

TOPIC = FetchResponse.FetchableTopicResponse
PARTITION = TOPIC.PartitionData
ORDERS, PAYMENTS = uuid.UUID(int=7), uuid.UUID("ffffffff-0000-4000-8000-0123456789ab")
NAMES = {ORDERS.bytes: "orders", PAYMENTS.bytes: "payments"}
IDS = {name: topic_id for topic_id, name in NAMES.items()}


def partition(number: int, records: bytes | None, *, aborted: object = None, error_code: int = 0) -> object:
    return PARTITION(
        partition_index=number,
        error_code=error_code,
        high_watermark=100 + number,
        last_stable_offset=90 + number,
        log_start_offset=5,
        aborted_transactions=aborted,
        preferred_read_replica=-1,
        records=records,
        version=13,
    )


def aborted(producer_id: int, first_offset: int) -> object:
    return PARTITION.AbortedTransaction(producer_id=producer_id, first_offset=first_offset, version=13)


def answer(*topics: tuple[uuid.UUID, list[object]], error_code: int = 0) -> bytes:
    responses = [TOPIC(topic_id=topic_id, partitions=partitions, version=13) for topic_id, partitions in topics]
    message = FetchResponse(throttle_time_ms=0, error_code=error_code, session_id=0, responses=responses, version=13)
    return bytes(message.encode(version=13))


SAMPLE = answer(
    (ORDERS, [partition(3, b"0123456789" * 30), partition(0, b"abc", aborted=[aborted(7, 11), aborted(8, 12)])]),
    (PAYMENTS, [partition(1, None), partition(2, b"", aborted=[]), partition(4, None, error_code=100)]),
)


def test_a_request_keeps_the_order_of_its_partitions_and_joins_neighbours_of_one_topic() -> None:
    asked = [("payments", 1), ("payments", 0), ("orders", 5), ("payments", 2), *[("orders", n) for n in range(200)]]
    body = encode_fetch_by_id(
        [FetchPartition(topic, number, 10 + number, 77, leader_epoch=4) for topic, number in asked],
        IDS,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=2000,
    )
    read = FetchRequest.decode(body, version=13)
    assert [(t.topic_id, [p.partition for p in t.partitions]) for t in read.topics] == [
        (PAYMENTS, [1, 0]),
        (ORDERS, [5]),
        (PAYMENTS, [2]),
        (ORDERS, list(range(200))),
    ]
    found = [p for t in read.topics for p in t.partitions]
    assert [p.fetch_offset for p in found] == [10 + number for _, number in asked]
    assert {(p.partition_max_bytes, p.current_leader_epoch, p.last_fetched_epoch) for p in found} == {(77, 4, -1)}
    assert (read.replica_id, read.max_wait_ms, read.min_bytes, read.max_bytes) == (-1, 500, 1, 2000)
    assert (read.isolation_level, read.session_id, read.session_epoch, read.rack_id) == (1, 0, -1, "")


def test_a_request_in_a_session_says_what_comes_and_what_goes() -> None:
    body = encode_fetch_by_id(
        [FetchPartition("orders", 5, 15, 77)],
        IDS,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=2000,
        session=SessionStep(0x7FFF0001, 12),
        forgotten=[("orders", 1), ("orders", 200), ("payments", 0), ("orders", 2)],
    )
    read = FetchRequest.decode(body, version=13)
    assert (read.session_id, read.session_epoch) == (0x7FFF0001, 12)
    assert [(t.topic_id, [p.partition for p in t.partitions]) for t in read.topics] == [(ORDERS, [5])]
    assert [(t.topic_id, t.partitions) for t in read.forgotten_topics_data] == [
        (ORDERS, [1, 200]),
        (PAYMENTS, [0]),
        (ORDERS, [2]),
    ]
    assert read.rack_id == ""


def test_a_request_in_a_session_may_say_nothing() -> None:
    body = encode_fetch_by_id([], {}, max_wait_ms=0, min_bytes=1, max_bytes=2000, session=SessionStep(3, 1))
    read = FetchRequest.decode(body, version=13)
    assert (read.session_id, read.session_epoch, read.topics, read.forgotten_topics_data) == (3, 1, [], [])


def test_the_head_of_an_answer_tells_its_session_and_what_was_wrong() -> None:
    message = FetchResponse(throttle_time_ms=9, error_code=71, session_id=-5, responses=[], version=13)
    assert decode_head(memoryview(bytes(message.encode(version=13)))) == AnswerHead(error_code=71, session_id=-5)
    with pytest.raises(CorruptBatchError, match="could not be understood"):
        decode_head(memoryview(b"\0" * 9))


def test_an_answer_is_read_whole() -> None:
    fetched = decode_fetch_by_id(memoryview(SAMPLE), NAMES)
    assert [part._replace(records=memoryview(bytes(part.records))) for part in fetched] == [
        FetchedPartition("orders", 3, 0, 103, 93, 5, (), memoryview(b"0123456789" * 30)),
        FetchedPartition(
            "orders", 0, 0, 100, 90, 5, (AbortedTransaction(7, 11), AbortedTransaction(8, 12)), memoryview(b"abc")
        ),
        FetchedPartition("payments", 1, 0, 101, 91, 5, (), memoryview(b"")),
        FetchedPartition("payments", 2, 0, 102, 92, 5, (), memoryview(b"")),
        FetchedPartition("payments", 4, 100, 104, 94, 5, (), memoryview(b"")),
    ]


def test_records_are_parts_of_the_answer_and_can_be_changed_in_place() -> None:
    frame = bytearray(SAMPLE)
    decode_fetch_by_id(memoryview(frame), NAMES)[0].records[0:1] = b"X"
    assert frame == SAMPLE.replace(b"0123456789", b"X123456789", 1)


def test_an_answer_that_refuses_the_whole_request_is_raised() -> None:
    with pytest.raises(BrokerNotReadyError, match=r"FETCH_SESSION_ID_NOT_FOUND \(70\)"):
        decode_fetch_by_id(memoryview(answer(error_code=70)), NAMES)


def test_a_topic_that_was_not_asked_for_is_corrupt() -> None:
    with pytest.raises(CorruptBatchError, match="which was not asked for"):
        decode_fetch_by_id(memoryview(SAMPLE), {ORDERS.bytes: "orders"})


@pytest.mark.parametrize("length", range(len(SAMPLE)))
def test_a_cut_answer_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError, match="could not be understood"):
        decode_fetch_by_id(memoryview(SAMPLE)[:length], NAMES)


def test_bytes_after_the_end_are_corrupt() -> None:
    with pytest.raises(CorruptBatchError, match="1 bytes follow"):
        decode_fetch_by_id(memoryview(SAMPLE + b"\0"), NAMES)


def test_flipped_bits_are_refused_or_stay_within_the_answer() -> None:
    rng = random.Random(13)
    for _ in range(20_000):
        broken = bytearray(SAMPLE)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        read_or_refused(bytes(broken))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_stay_within_the_answer(noise: bytes) -> None:
    read_or_refused(noise)


def read_or_refused(body: bytes) -> None:
    # Bytes around the answer: had they been read, they would show up in the records.
    around = b"\xee" * 64 + body + b"\xee" * 64
    try:
        fetched = decode_fetch_by_id(memoryview(around)[64 : 64 + len(body)], NAMES)
    except MirrorlakeError:
        return
    assert sum(len(part.records) for part in fetched) <= len(body)
    for part in fetched:
        assert bytes(part.records) in body


@given(st.uuids())
def test_an_id_is_read_as_it_was_written(topic_id: uuid.UUID) -> None:
    assert parse_topic_id(format_topic_id(topic_id)) == topic_id.bytes
