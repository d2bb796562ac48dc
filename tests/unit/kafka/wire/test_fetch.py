"""Fetch 11: requests as Kafka documents them, answers as kafka-python writes them, and bytes that are neither."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse

import mirrorlake.kafka.wire.protocol_classes  # noqa: F401  (imports kafka without its warnings)
from mirrorlake.errors import BrokerNotReadyError, CorruptBatchError, MirrorlakeError
from mirrorlake.kafka.wire.fetch import (
    READ_UNCOMMITTED,
    AbortedTransaction,
    FetchedPartition,
    FetchPartition,
    decode_fetch,
    encode_fetch,
)

TOPIC = FetchResponse.FetchableTopicResponse
PARTITION = TOPIC.PartitionData


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
        version=11,
    )


def answer(*topics: tuple[str, list[object]], error_code: int = 0) -> bytes:
    responses = [TOPIC(topic=name, partitions=partitions, version=11) for name, partitions in topics]
    message = FetchResponse(throttle_time_ms=0, error_code=error_code, session_id=0, responses=responses, version=11)
    return bytes(message.encode(version=11))


SAMPLE = answer(
    (
        "orders",
        [
            partition(3, b"0123456789"),
            partition(0, b"abc", aborted=[PARTITION.AbortedTransaction(producer_id=7, first_offset=11, version=11)]),
        ],
    ),
    ("größe", [partition(1, None), partition(2, b"", aborted=[]), partition(4, None, error_code=6)]),
)


def test_a_request_is_what_the_protocol_describes() -> None:
    body = encode_fetch(
        [FetchPartition(topic="t", partition=2, fetch_offset=9, partition_bytes_max=1000, leader_epoch=4)],
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=2000,
    )

    assert body == (
        struct.pack(">iiiibii", -1, 500, 1, 2000, 1, 0, -1)  # no replica, read_committed, no session
        + struct.pack(">ih1s", 1, 1, b"t")
        + struct.pack(">iiiqqi", 1, 2, 4, 9, -1, 1000)
        + struct.pack(">ih", 0, 0)  # no forgotten topics, no rack
    )


def test_a_request_keeps_the_order_of_its_partitions_and_joins_neighbours_of_one_topic() -> None:
    asked = [("b", 1), ("b", 0), ("ä", 5), ("b", 2)]

    body = encode_fetch(
        [FetchPartition(topic, number, 10 + number, 77) for topic, number in asked],
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=READ_UNCOMMITTED,
    )

    read = FetchRequest.decode(body, version=11)
    assert [(t.topic, [p.partition for p in t.partitions]) for t in read.topics] == [
        ("b", [1, 0]),
        ("ä", [5]),
        ("b", [2]),
    ]
    assert [p.fetch_offset for t in read.topics for p in t.partitions] == [11, 10, 15, 12]
    assert {p.partition_max_bytes for t in read.topics for p in t.partitions} == {77}
    assert {p.current_leader_epoch for t in read.topics for p in t.partitions} == {-1}
    assert (read.isolation_level, read.session_id, read.session_epoch) == (0, 0, -1)


def test_a_request_for_nothing_is_valid() -> None:
    assert FetchRequest.decode(encode_fetch([], max_wait_ms=0, min_bytes=0, max_bytes=1), version=11).topics == []


def test_an_answer_is_read_whole() -> None:
    fetched = decode_fetch(memoryview(SAMPLE))

    assert [part._replace(records=memoryview(bytes(part.records))) for part in fetched] == [
        FetchedPartition("orders", 3, 0, 103, 93, 5, (), memoryview(b"0123456789")),
        FetchedPartition("orders", 0, 0, 100, 90, 5, (AbortedTransaction(7, 11),), memoryview(b"abc")),
        FetchedPartition("größe", 1, 0, 101, 91, 5, (), memoryview(b"")),
        FetchedPartition("größe", 2, 0, 102, 92, 5, (), memoryview(b"")),
        FetchedPartition("größe", 4, 6, 104, 94, 5, (), memoryview(b"")),
    ]


def test_records_are_parts_of_the_answer_and_can_be_changed_in_place() -> None:
    frame = bytearray(SAMPLE)

    decode_fetch(memoryview(frame))[0].records[0:1] = b"X"

    assert frame == SAMPLE.replace(b"0123456789", b"X123456789")


def test_an_answer_that_refuses_the_whole_request_is_raised() -> None:
    with pytest.raises(BrokerNotReadyError, match=r"FETCH_SESSION_ID_NOT_FOUND \(70\)"):
        decode_fetch(memoryview(answer(error_code=70)))


@pytest.mark.parametrize("length", range(len(SAMPLE)))
def test_a_cut_answer_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError, match="could not be understood"):
        decode_fetch(memoryview(SAMPLE)[:length])


def test_bytes_after_the_end_are_corrupt() -> None:
    with pytest.raises(CorruptBatchError, match="1 bytes follow"):
        decode_fetch(memoryview(SAMPLE + b"\0"))


@pytest.mark.parametrize("at", [10, 22, 64])
def test_an_impossible_count_costs_no_time(at: int) -> None:
    broken = bytearray(SAMPLE)
    struct.pack_into(">i", broken, at, 0x7FFF_FFFF)

    with pytest.raises(CorruptBatchError):
        decode_fetch(memoryview(broken))


def test_flipped_bits_are_refused_or_stay_within_the_answer() -> None:
    rng = random.Random(11)
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
        fetched = decode_fetch(memoryview(around)[64 : 64 + len(body)])
    except MirrorlakeError:
        return
    assert sum(len(part.records) for part in fetched) <= len(body)
    for part in fetched:
        assert bytes(part.records) in body
