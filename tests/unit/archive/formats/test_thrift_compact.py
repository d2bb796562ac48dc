"""The compact protocol: bytes by hand, everything there and back, and nothing taken that is not whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.formats.thrift_compact import (
    DEPTH_MAX,
    Field,
    Kind,
    Struct,
    ThriftError,
    ThriftList,
    Value,
    decode_struct,
    encode_struct,
)

_BITS = {Kind.I16: 16, Kind.I32: 32, Kind.I64: 64}


def values_of(kind: Kind, structs: st.SearchStrategy[Struct], *, in_list: bool) -> st.SearchStrategy[Value]:
    if kind in (Kind.TRUE, Kind.FALSE):
        return st.sampled_from([1, 2]) if in_list else st.none()
    if kind in _BITS:
        half = 1 << _BITS[kind] - 1
        return st.integers(-half, half - 1)
    plain: dict[Kind, st.SearchStrategy[Value]] = {
        Kind.BYTE: st.integers(0, 255),
        Kind.DOUBLE: st.binary(min_size=8, max_size=8),
        Kind.BINARY: st.binary(max_size=200),
        Kind.STRUCT: structs,
    }
    return plain[kind] if kind in plain else lists(structs)


def lists(structs: st.SearchStrategy[Struct]) -> st.SearchStrategy[ThriftList]:
    kinds = st.sampled_from([kind for kind in Kind if kind not in (Kind.LIST, Kind.SET)])
    return kinds.flatmap(
        lambda kind: st.lists(values_of(kind, structs, in_list=True), max_size=20).map(
            lambda items: ThriftList(kind, items)
        )
    )


def structs_of(inner: st.SearchStrategy[Struct]) -> st.SearchStrategy[Struct]:
    fields = st.sampled_from(list(Kind)).flatmap(
        lambda kind: values_of(kind, inner, in_list=False).map(lambda value: Field(kind, value))
    )
    return st.dictionaries(st.integers(1, 300), fields, max_size=6)


STRUCTS: st.SearchStrategy[Struct] = st.recursive(st.just({}), structs_of, max_leaves=10)


@given(STRUCTS, st.binary(max_size=5))
def test_a_struct_is_read_back_as_it_was_written_and_what_follows_is_left(struct: Struct, after: bytes) -> None:
    data = encode_struct(struct)
    assert decode_struct(data + after) == (struct, len(data))
    assert decode_struct(b"xy" + data, 2) == (struct, len(data) + 2)


@given(STRUCTS, st.data())
def test_a_struct_that_ends_too_early_is_none(struct: Struct, data: st.DataObject) -> None:
    encoded = encode_struct(struct)
    with pytest.raises(ThriftError):
        decode_struct(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_struct_or_an_error_of_ours(data: bytes) -> None:
    try:
        struct, end = decode_struct(data)
    except ThriftError:
        return
    assert end <= len(data)
    if all(-(1 << 15) <= number < 1 << 15 for number in struct):
        assert decode_struct(encode_struct(struct))[0] == struct


@pytest.mark.parametrize(
    ("encoded", "struct"),
    [
        ("00", {}),
        ("1502 00", {1: Field(Kind.I32, 1)}),
        ("1501 00", {1: Field(Kind.I32, -1)}),
        ("16ffffffffffffffffff01 00", {1: Field(Kind.I64, -(1 << 63))}),
        ("11 12 00", {1: Field(Kind.TRUE, None), 2: Field(Kind.FALSE, None)}),
        ("18036f6e65 00", {1: Field(Kind.BINARY, b"one")}),
        # Sixteen and more fields further on, or back: the number stands there itself.
        ("0520 02 00", {16: Field(Kind.I32, 1)}),
        ("3502 0502 02 00", {3: Field(Kind.I32, 1), 1: Field(Kind.I32, 1)}),
        ("19250204 00", {1: Field(Kind.LIST, ThriftList(Kind.I32, [1, 2]))}),
        ("19f1 0f 010101010101010101010101010101 00", {1: Field(Kind.LIST, ThriftList(Kind.TRUE, [1] * 15))}),
        ("1c 1502 00 00", {1: Field(Kind.STRUCT, {1: Field(Kind.I32, 1)})}),
    ],
)
def test_bytes_by_hand(encoded: str, struct: Struct) -> None:
    data = bytes.fromhex(encoded)
    assert decode_struct(data) == (struct, len(data))
    assert encode_struct(struct) == data


@pytest.mark.parametrize(
    "encoded",
    [
        "1b 00 00",  # a map
        "1d 00",  # no kind at all
        "1502 0502 02 00",  # a field twice
        "16 ffffffffffffffffffffff 00",  # more than ten bytes
        "19f5 ffffffff07 00",  # more elements than bytes
        "18ffffffff07 00",
        "1c" * (DEPTH_MAX + 2) + "00" * (DEPTH_MAX + 3),
        "19" * 500,
    ],
)
def test_what_parquet_does_not_write_is_refused(encoded: str) -> None:
    with pytest.raises(ThriftError):
        decode_struct(bytes.fromhex(encoded))


@pytest.mark.parametrize("field", [Field(Kind.I32, b"1"), Field(Kind.BINARY, 1), Field(Kind.I64, 1 << 63)])
def test_a_value_of_another_kind_is_not_written(field: Field) -> None:
    with pytest.raises(ThriftError):
        encode_struct({1: field})
