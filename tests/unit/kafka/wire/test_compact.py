"""Compact encodings, as kafka-python writes and reads them, and bytes that are none."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.codecs import UnsignedVarInt32

import mirrorlake.kafka.wire.protocol_classes  # noqa: F401  (imports kafka without its warnings)
from mirrorlake.kafka.wire.answers import MalformedError
from mirrorlake.kafka.wire.compact import (
    after_tags,
    compact_text,
    count_at,
    number_at,
    text_at,
    varint,
)


@given(st.integers(0, 2**32 - 1))
def test_numbers_are_written_as_kafka_python_writes_them(number: int) -> None:
    assert varint(number) == bytes(UnsignedVarInt32.encode(number))
    assert number_at(memoryview(b"x" + varint(number) + b"y"), 1) == (number, 1 + len(varint(number)))


@given(st.text(max_size=400))
def test_a_text_comes_back(text: str) -> None:
    written = compact_text(text)
    assert text_at(memoryview(written + b"more"), 0) == (text, len(written))


def test_null_is_no_empty_text() -> None:
    assert text_at(memoryview(b"\0"), 0) == (None, 1)
    assert text_at(memoryview(b"\1"), 0) == ("", 1)


def test_a_number_without_an_end_is_refused() -> None:
    with pytest.raises(MalformedError, match="has no end"):
        number_at(memoryview(b"\xff" * 9), 0)


def test_more_rows_or_bytes_than_there_are_is_refused_before_they_are_looked_for() -> None:
    with pytest.raises(MalformedError, match="entries cannot be in"):
        count_at(memoryview(varint(2**31) + b"abc"), 0, 3)
    with pytest.raises(MalformedError, match="announced"):
        text_at(memoryview(varint(100) + b"abc"), 0)
    with pytest.raises(MalformedError, match="announced"):
        after_tags(memoryview(b"\1\0" + varint(100) + b"abc"), 0)


def test_tags_are_passed_over() -> None:
    assert after_tags(memoryview(b"\2\0\1a\1\2bc!"), 0) == 8


def test_what_is_malformed_is_what_struct_raises() -> None:
    assert issubclass(MalformedError, struct.error)
