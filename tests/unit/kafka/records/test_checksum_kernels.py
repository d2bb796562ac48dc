"""The shift against the checksums of the whole messages, which the library computes from every byte."""

import random

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.kafka.records.checksum_kernels import shifted


@pytest.mark.parametrize(
    "length",
    [0, 1, 2, 15, 16, 17, 255, 256, 4095, 4096, 65_535, 65_536, 131_011, 1_048_515, 1_048_576, 0x12_3456],
)
def test_a_changed_beginning_changes_the_checksum_by_the_shifted_difference(length: int) -> None:
    chance = random.Random(length)
    one, other, rest = chance.randbytes(40), chance.randbytes(40), chance.randbytes(length)
    assert crc32c(one + rest) ^ crc32c(other + rest) == shifted(crc32c(one) ^ crc32c(other), length)


@given(
    beginnings=st.integers(0, 60).flatmap(lambda n: st.tuples(*[st.binary(min_size=n, max_size=n)] * 2)),
    rest=st.binary(),
)
def test_it_holds_for_any_beginnings_of_one_length(beginnings: tuple[bytes, bytes], rest: bytes) -> None:
    one, other = beginnings
    assert crc32c(one + rest) ^ crc32c(other + rest) == shifted(crc32c(one) ^ crc32c(other), len(rest))


@given(difference=st.integers(0, 2**32 - 1), lengths=st.tuples(*[st.integers(0, 2**27)] * 2))
def test_two_shifts_are_one_by_both_lengths(difference: int, lengths: tuple[int, int]) -> None:
    one, other = lengths
    assert shifted(shifted(difference, one), other) == shifted(difference, one + other)


def test_equal_beginnings_give_equal_checksums() -> None:
    assert shifted(0, 123_456) == 0
