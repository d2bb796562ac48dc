"""The bytes of letter progress: golden, read back, and refused where they are not ours."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.destinations.letters.progress import (
    NO_OFFSETS,
    Lettered,
    LetterKey,
    decode_key,
    decode_lettered,
    encode_key,
    encode_lettered,
    joined,
    ranges_of,
)
from mirrorlake.errors import DestinationForeignError
from mirrorlake.offsets import OffsetRange, TopicPartition

KEY = LetterKey(
    destination_topic="copy",
    destination_topic_id="idD",
    source_cluster_id="east",
    source_topic="orders",
    source_topic_id="idS",
    partition=3,
)
KEY_BYTES = bytes.fromhex("44010004636f7079000369644400046561737400066f7264657273000369645300000003")
LETTERED = Lettered(
    offsets=np.array([5, 6, 7, 300], np.int64), first_letter=TopicPartition("dead", 1), letter_offset=258
)
LETTERED_BYTES = bytes.fromhex("01000464656164000000010000000000000102020503a40201")

ascending = st.sets(st.integers(0, 2**62), max_size=50).map(lambda found: np.array(sorted(found), np.int64))
near = st.sets(st.integers(0, 300), max_size=200).map(lambda found: np.array(sorted(found), np.int64))
texts = st.text(max_size=249)


def test_a_record_has_these_bytes() -> None:
    assert encode_key(KEY) == KEY_BYTES
    assert encode_lettered(LETTERED) == LETTERED_BYTES


@given(texts, texts, texts, texts, texts, st.integers(0, 2**31 - 1))
def test_a_key_is_read_back_as_it_was(a: str, b: str, c: str, d: str, e: str, partition: int) -> None:
    key = LetterKey(
        destination_topic=a,
        destination_topic_id=b,
        source_cluster_id=c,
        source_topic=d,
        source_topic_id=e,
        partition=partition,
    )
    assert decode_key(encode_key(key)) == key


@given(st.one_of(ascending, near), texts, st.integers(0, 2**31 - 1), st.integers(0, 2**62))
def test_offsets_are_read_back_as_they_were(
    offsets: "np.ndarray[tuple[int], np.dtype[np.int64]]", topic: str, partition: int, letter_offset: int
) -> None:
    written = Lettered(offsets=offsets, first_letter=TopicPartition(topic, partition), letter_offset=letter_offset)
    found = decode_lettered(encode_lettered(written))
    assert found.offsets.tolist() == offsets.tolist()
    assert found.first_at == (TopicPartition(topic, partition), letter_offset)


@pytest.mark.parametrize("cut", range(len(KEY_BYTES)))
def test_a_key_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(DestinationForeignError):
        decode_key(KEY_BYTES[:cut])


@pytest.mark.parametrize("cut", range(len(LETTERED_BYTES)))
def test_a_value_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(DestinationForeignError):
        decode_lettered(LETTERED_BYTES[:cut])


@pytest.mark.parametrize("data", [KEY_BYTES + b"x", b"P" + KEY_BYTES[1:], b"D\2" + KEY_BYTES[2:]])
def test_what_is_no_key_of_this_version_is_refused(data: bytes) -> None:
    with pytest.raises(DestinationForeignError, match="letter progress"):
        decode_key(data)


@pytest.mark.parametrize("data", [LETTERED_BYTES + b"\1", b"\2" + LETTERED_BYTES[1:]])
def test_what_is_no_value_of_this_version_is_refused(data: bytes) -> None:
    with pytest.raises(DestinationForeignError, match="letter progress"):
        decode_lettered(data)


def test_a_topic_made_anew_has_another_key() -> None:
    keys = {KEY, replace(KEY, destination_topic_id="new"), replace(KEY, source_topic_id="new")}
    assert len({encode_key(each) for each in keys}) == 3


def test_offsets_become_as_few_ranges_as_there_can_be() -> None:
    assert ranges_of(NO_OFFSETS) == []
    assert ranges_of(np.array([0, 1, 2, 7, 9, 10], np.int64)) == [
        OffsetRange(start_offset=0, end_offset=3),
        OffsetRange(start_offset=7, end_offset=8),
        OffsetRange(start_offset=9, end_offset=11),
    ]


def test_offsets_are_joined_each_once_from_an_offset_on() -> None:
    parts = [np.array([1, 5, 9], np.int64), np.array([5, 6], np.int64), NO_OFFSETS]
    assert joined(parts).tolist() == [1, 5, 6, 9]
    assert joined(parts, start=5).tolist() == [5, 6, 9]
    assert joined([]).tolist() == []
