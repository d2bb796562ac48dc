"""Produce 8: requests as Kafka documents them, answers as kafka-python writes them, and bytes that are neither."""

import random
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest, ProduceResponse

import mirrorlake.kafka.wire.protocol_classes  # noqa: F401  (imports kafka without its warnings)
from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.wire.produce import ProducedPartition, answer_bytes_min, decode_produce, encode_produce

TOPIC = ProduceResponse.TopicProduceResponse
PARTITION = TOPIC.PartitionProduceResponse
RECORD_ERROR = PARTITION.BatchIndexAndErrorMessage


def partition(
    number: int, *, code: int = 0, refused: list[tuple[int, str | None]] | None = None, message: str | None = None
) -> object:
    return PARTITION(
        index=number,
        error_code=code,
        base_offset=-1 if code else 1000 + number,
        log_append_time_ms=-1,
        log_start_offset=-1 if code else 7,
        record_errors=[
            RECORD_ERROR(batch_index=index, batch_index_error_message=text, version=8) for index, text in refused or []
        ],
        error_message=message,
        version=8,
    )


def answer(*topics: tuple[str, list[object]]) -> bytes:
    responses = [TOPIC(name=name, partition_responses=partitions, version=8) for name, partitions in topics]
    return bytes(ProduceResponse(responses=responses, throttle_time_ms=3, version=8).encode(version=8))


SAMPLE = answer(
    ("orders", [partition(0), partition(7)]),
    (
        "größe",
        [
            partition(1, code=32, refused=[(0, "too old"), (5, None)], message="bad timestamps"),
            partition(2, code=87, refused=[(n, "no key") for n in range(5)]),
            partition(3, code=10, message="too large"),
        ],
    ),
)


def test_a_request_is_what_the_protocol_describes() -> None:
    parts = encode_produce([("t", 2, memoryview(b"BATCH"))], timeout_ms=1500)

    assert b"".join(parts) == (
        struct.pack(">hhi", -1, -1, 1500)  # no transactional id, acks=all
        + struct.pack(">ih1s", 1, 1, b"t")
        + struct.pack(">iii5s", 1, 2, 5, b"BATCH")
    )


def test_a_request_holds_each_batch_at_its_topic_and_partition() -> None:
    batches = [("b", 1, b"b1"), ("ä", 0, b"a0"), ("b", 0, b"b0")]

    parts = encode_produce([(t, n, memoryview(data)) for t, n, data in batches], timeout_ms=5, transactional_id="id-1")

    read = ProduceRequest.decode(b"".join(parts), version=8)
    held = {(t.name, p.index): bytes(p.records) for t in read.topic_data for p in t.partition_data}
    assert held == {("b", 1): b"b1", ("ä", 0): b"a0", ("b", 0): b"b0"}
    assert [t.name for t in read.topic_data] == ["b", "ä"]
    assert (read.transactional_id, read.acks, read.timeout_ms) == ("id-1", -1, 5)


def test_batches_are_not_copied() -> None:
    batches = [memoryview(bytearray(b"one")), memoryview(bytearray(b"two"))]

    parts = encode_produce([("t", 0, batches[0]), ("t", 1, batches[1])], timeout_ms=1)

    assert [part for part in parts if isinstance(part, memoryview)] == batches
    assert all(any(part is batch for part in parts) for batch in batches)


def test_a_request_without_batches_is_valid() -> None:
    assert ProduceRequest.decode(b"".join(encode_produce([], timeout_ms=1)), version=8).topic_data == []


def test_a_partition_never_comes_twice() -> None:
    with pytest.raises(AssertionError, match="t-1 twice"):
        encode_produce([("t", 1, b"a"), ("u", 1, b"b"), ("t", 1, b"c")], timeout_ms=1)


def test_a_partition_never_comes_twice_even_without_assertions() -> None:
    script = "from mirrorlake.kafka.wire.produce import *; encode_produce([('t', 1, b''), ('t', 1, b'')], timeout_ms=1)"

    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=False)

    assert "AssertionError: partition t-1 twice" in done.stderr


def test_an_answer_is_read_whole() -> None:
    assert decode_produce(memoryview(SAMPLE)) == [
        ProducedPartition("orders", 0, 0, 1000, -1, 7, None),
        ProducedPartition("orders", 7, 0, 1007, -1, 7, None),
        ProducedPartition("größe", 1, 32, -1, -1, -1, "bad timestamps; record 0: too old; record 5: refused"),
        ProducedPartition(
            "größe", 2, 87, -1, -1, -1, "record 0: no key; record 1: no key; record 2: no key; and 2 more records"
        ),
        ProducedPartition("größe", 3, 10, -1, -1, -1, "too large"),
    ]


WELL = answer(("größe", [partition(3), partition(0)]))


def test_an_answer_without_a_word_about_one_topic_is_read_whole() -> None:
    assert decode_produce(memoryview(WELL)) == [
        ProducedPartition("größe", 3, 0, 1003, -1, 7, None),
        ProducedPartition("größe", 0, 0, 1000, -1, 7, None),
    ]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (partition(0, code=45), ProducedPartition("größe", 0, 45, -1, -1, -1, None)),
        (partition(0, message="why"), ProducedPartition("größe", 0, 0, 1000, -1, 7, "why")),
        (partition(0, message=""), ProducedPartition("größe", 0, 0, 1000, -1, 7, None)),
        (partition(0, refused=[(4, "old")]), ProducedPartition("größe", 0, 0, 1000, -1, 7, "record 4: old")),
        (partition(0, code=9, message="x" * 36), ProducedPartition("größe", 0, 9, -1, -1, -1, "x" * 36)),
    ],
)
def test_a_word_about_one_batch_is_read_beside_one_that_was_taken(last: object, expected: ProducedPartition) -> None:
    body = answer(("größe", [partition(3), last]))

    assert decode_produce(memoryview(body)) == [ProducedPartition("größe", 3, 0, 1003, -1, 7, None), expected]


@pytest.mark.parametrize("length", range(len(WELL)))
def test_a_cut_answer_without_a_word_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError, match="could not be understood"):
        decode_produce(memoryview(WELL)[:length])


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 0x7FFF_FFFF])
def test_a_count_that_is_not_what_follows_is_corrupt(count: int) -> None:
    broken = bytearray(WELL)
    struct.pack_into(">i", broken, 6 + len("größe".encode()), count)

    with pytest.raises(CorruptBatchError):
        decode_produce(memoryview(broken))


def test_a_name_that_is_not_text_is_corrupt() -> None:
    broken = bytearray(WELL)
    broken[6] = 0xFF

    with pytest.raises(CorruptBatchError):
        decode_produce(memoryview(broken))


@pytest.mark.parametrize("length", range(len(SAMPLE)))
def test_a_cut_answer_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError, match="could not be understood"):
        decode_produce(memoryview(SAMPLE)[:length])


def test_bytes_after_the_end_are_corrupt() -> None:
    with pytest.raises(CorruptBatchError, match="1 bytes follow"):
        decode_produce(memoryview(SAMPLE + b"\0"))


@pytest.mark.parametrize("at", [0, 12, 46])
def test_an_impossible_count_is_corrupt(at: int) -> None:
    broken = bytearray(SAMPLE)
    struct.pack_into(">i", broken, at, 0x7FFF_FFFF)

    with pytest.raises(CorruptBatchError):
        decode_produce(memoryview(broken))


def test_flipped_bits_are_refused_or_read_as_something_else() -> None:
    rng = random.Random(8)
    for number in range(20_000):
        broken = bytearray(SAMPLE if number % 2 else WELL)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        read_or_refused(bytes(broken))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_read(noise: bytes) -> None:
    read_or_refused(noise)


def read_or_refused(body: bytes) -> None:
    # What lies around the answer spells a name that must never be read.
    around = b"~" * 64 + body + b"~" * 64
    try:
        produced = decode_produce(memoryview(around)[64 : 64 + len(body)])
    except CorruptBatchError:
        return
    assert len(produced) * 38 <= len(body)


@pytest.mark.parametrize("topics", [["orders"], ["orders", "orders"], ["orders", "payments", "orders", "x"]], ids=len)
def test_the_fewest_bytes_of_an_answer_are_those_of_one_without_an_error(topics: list[str]) -> None:
    numbers = {topic: topics.count(topic) for topic in topics}
    good = answer(*((topic, [partition(n) for n in range(count)]) for topic, count in numbers.items()))
    frame_head_bytes = 8  # size and correlation id
    assert answer_bytes_min(topics) == frame_head_bytes + len(good)
    refused = answer(*((topic, [partition(n, code=87) for n in range(count)]) for topic, count in numbers.items()))
    assert answer_bytes_min(topics) <= frame_head_bytes + len(refused)
