"""ListOffsets 5: requests as kafka-python reads them, answers as it writes them, and bytes that are neither."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

import mirrorlake.kafka.wire.protocol_classes  # noqa: F401  (imports kafka without its warnings)
from mirrorlake.errors import CorruptBatchError
from mirrorlake.kafka.wire.list_offsets import (
    LIST_OFFSETS_VERSION,
    ListedOffset,
    decode_list_offsets,
    encode_list_offsets,
)

TOPIC = ListOffsetsResponse.ListOffsetsTopicResponse
PARTITION = TOPIC.ListOffsetsPartitionResponse


def answer(topics: dict[str, list[tuple[int, int, int]]]) -> bytes:
    """Topics with partitions: number, error code, offset."""
    rows = [
        TOPIC(
            name=name,
            partitions=[
                PARTITION(
                    partition_index=number,
                    error_code=code,
                    timestamp=-1,
                    offset=offset,
                    leader_epoch=3,
                    version=LIST_OFFSETS_VERSION,
                )
                for number, code, offset in partitions
            ],
            version=LIST_OFFSETS_VERSION,
        )
        for name, partitions in topics.items()
    ]
    message = ListOffsetsResponse(throttle_time_ms=0, topics=rows, version=LIST_OFFSETS_VERSION)
    return bytes(message.encode(version=LIST_OFFSETS_VERSION))


SAMPLE = answer({"orders": [(3, 0, 1 << 40), (0, 6, -1)], "zahlungen-ü": [(1, 0, 0)], "empty": []})


@pytest.mark.parametrize("timestamp", [-1, -2, 1_700_000_000_000])
def test_a_request_names_each_partition_with_the_epoch_of_its_leader(timestamp: int) -> None:
    topics = {"orders": [(3, 7), (0, -1)], "zahlungen-ü": [(1, 2)]}
    body = encode_list_offsets(topics, timestamp=timestamp, isolation_level=1)
    read = ListOffsetsRequest.decode(body, version=LIST_OFFSETS_VERSION)
    assert (read.replica_id, read.isolation_level) == (-1, 1)
    found = {
        topic.name: [(each.partition_index, each.current_leader_epoch) for each in topic.partitions]
        for topic in read.topics
    }
    assert found == topics
    assert {each.timestamp for topic in read.topics for each in topic.partitions} == {timestamp}


def test_an_answer_is_read_whole() -> None:
    assert decode_list_offsets(memoryview(SAMPLE)) == [
        ListedOffset("orders", 3, 0, 1 << 40),
        ListedOffset("orders", 0, 6, -1),
        ListedOffset("zahlungen-ü", 1, 0, 0),
    ]


@pytest.mark.parametrize("length", range(len(SAMPLE)))
def test_a_cut_answer_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptBatchError, match="could not be understood"):
        decode_list_offsets(memoryview(SAMPLE)[:length])


def test_bytes_behind_an_answer_are_corrupt() -> None:
    with pytest.raises(CorruptBatchError, match="1 bytes follow its end"):
        decode_list_offsets(memoryview(SAMPLE + b"x"))


@given(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255), st.integers(0, 1 << 16))
def test_a_damaged_answer_is_read_or_corrupt_and_nothing_else(at: int, byte: int, seed: int) -> None:
    damaged = bytearray(SAMPLE)
    damaged[at] = byte
    damaged[random.Random(seed).randrange(len(SAMPLE))] ^= 0xFF
    try:
        decode_list_offsets(memoryview(damaged))
    except CorruptBatchError:
        return
