"""Values as JSON, by archived schemas: what Avro's own library wrote is read as it was meant."""

import io
import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from struct import pack
from typing import Any
from uuid import UUID

import avro.io
import avro.schema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.schemas.content import ArchivedVersion
from mirrorlake.errors import QueryError
from mirrorlake.schemas.history import Reference, Schema, SchemaVersion
from mirrorlake.spark_source.values.decoding import ValueDecoder, schema_guid, schema_id

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}


GUID = "00112233-4455-6677-8899-aabbccddeeff"
OTHER_GUID = "ffeeddcc-bbaa-9988-7766-554433221100"
VALUE_HEADER, KEY_HEADER = "__value_schema_id", "__key_schema_id"


def version(id_: int, text: Any, *references: Schema, type_: str = "AVRO", guid: str | None = None) -> ArchivedVersion:
    schema = Schema(
        text=text if isinstance(text, str) else json.dumps(text),
        type=type_,
        references=tuple(Reference(name="n", subject="s", version=1, key=each.key) for each in references),
    )
    found = SchemaVersion(version=1, id=id_, schema=schema, guid=guid)
    return ArchivedVersion(subject="s", version=found, level="NONE", mode=None)


def framed(id_: int, body: bytes) -> bytes:
    return b"\0" + pack(">i", id_) + body


def written(schema: object, value: object) -> bytes:
    """As Apache's library writes it, which shares no code with the one that reads."""
    file = io.BytesIO()
    avro.io.DatumWriter(avro.schema.parse(json.dumps(schema))).write(value, avro.io.BinaryEncoder(file))
    return file.getvalue()


def decoder(*versions: ArchivedVersion) -> ValueDecoder:
    # As it comes to a worker.
    sent: ValueDecoder = pickle.loads(pickle.dumps(ValueDecoder.of("here", versions)))
    return sent


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(),
    st.dictionaries(st.text(max_size=5), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3), max_size=3),
)
def test_what_another_library_wrote_is_read_as_it_was_meant(
    number: int, note: str | None, tags: dict[str, list[int]]
) -> None:
    value = {
        "id": number,
        "note": note,
        "raw": b"\xff\0",
        "tags": tags,
        "day": date(2026, 11, 25),
        "at": datetime(2026, 11, 25, 12, 30, tzinfo=UTC),
        "total": Decimal("12.50"),
    }
    found = decoder(version(7, ORDER)).decode(framed(7, written(ORDER, value)))
    assert found is not None
    assert json.loads(found) == {
        "id": number,
        "note": note,
        "raw": "/wA=",
        "tags": tags,
        "day": "2026-11-25",
        "at": "2026-11-25T12:30:00+00:00",
        "total": "12.50",
    }


def test_what_a_schema_refers_to_is_taken_from_the_archive_too() -> None:
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "int"}]}
    price = {"type": "record", "name": "Price", "namespace": "shop", "fields": [{"name": "net", "type": "Money"}]}
    pair = {
        "type": "record",
        "name": "Pair",
        "namespace": "shop",
        "fields": [{"name": "price", "type": "Price"}, {"name": "tip", "type": "Money"}],
    }
    first = version(1, money)
    second = version(2, price, first.version.schema)
    third = version(3, pair, second.version.schema, first.version.schema)
    read = decoder(first, second, third)
    # Longs and ints of a record lie one after another: 5 and -1, as zigzag numbers.
    assert read.decode(framed(3, b"\x0a\x01")) == '{"price": {"net": {"cents": 5}}, "tip": {"cents": -1}}'
    with pytest.raises(QueryError, match="which is not archived"):
        decoder(second).decode(framed(2, b"\x0a"))


def test_json_is_what_stands_behind_the_id() -> None:
    read = decoder(version(9, "{}", type_="JSON"))
    assert read.decode(framed(9, b' {"a": [1, null, "\xc3\xa9"]} ')) == '{"a": [1, null, "é"]}'
    assert read.decode(None) is None


@pytest.mark.parametrize(
    "text",
    [
        "0.12345678901234567890123",
        "1.10",
        "-0",
        "1e400",
        '{"a": 1, "a": 2}',
        '"\\ud83d"',
        '{"total": 11,\t"note": "\u00e9"}',
        "1" * 5000,
    ],
)
def test_json_is_not_written_anew(text: str) -> None:
    assert decoder(version(9, "{}", type_="JSON")).decode(framed(9, text.encode())) == text


@pytest.mark.parametrize("body", [b"NaN", b"[-Infinity]", b'{"a": Infinity}', b"\xff", b"", b"{"])
def test_what_is_no_json_is_not_shown_as_some(body: bytes) -> None:
    read = decoder(version(9, "{}", type_="JSON"))
    with pytest.raises(QueryError, match="schema id 9 is not what its schema says"):
        read.decode(framed(9, body))
    assert read.try_decode(framed(9, body)) is None


def test_an_id_whose_schema_cannot_be_read_is_an_error_and_others_are_decoded() -> None:
    read = ValueDecoder.of("here", [version(4, '"long"')], unknown={5: "lake/0000000001-0000000005.json is damaged"})
    assert read.decode(framed(4, b"\x0a")) == "5"
    with pytest.raises(QueryError, match=r"what schema id 5 of registry here means is not known: lake/0.*5.json is"):
        read.decode(framed(5, b"\x0a"))
    assert read.try_decode(framed(5, b"\x0a")) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not begin with a schema id"),
        (b'{"a": 1}', "does not begin with a schema id"),
        (b"\0\0\0\0", "does not begin with a schema id"),
        (framed(8, b"x"), "no schema with id 8 of registry here"),
        (framed(5, b"\x02x"), "schema id 5 is THRIFT"),
        (framed(9, b"{"), "not what its schema says"),
        (framed(4, b""), "not what its schema says"),
        (framed(4, b"\x02\x02"), "1 bytes are left behind it"),
        (framed(4, b"\xff" * 11), "not what its schema says"),
    ],
)
def test_what_cannot_be_decoded_ends_the_query_or_is_null_for_who_asks_so(data: bytes, said: str) -> None:
    read = decoder(version(4, '"long"'), version(5, "struct M {}", type_="THRIFT"), version(9, "{}", type_="JSON"))
    with pytest.raises(QueryError, match=said):
        read.decode(data)
    assert read.try_decode(data) is None


def test_an_id_is_four_bytes_behind_a_zero() -> None:
    assert [schema_id(each) for each in (None, b"", b"\1\0\0\0\1", b"\0\0\0\1", b"\0\0\0\1\2")] == [
        *(None, None, None, None),
        258,
    ]


def by_guid(guid: str, body: bytes = b"") -> bytes:
    return b"\1" + UUID(guid).bytes + body


def test_a_guid_before_the_value_names_its_schema() -> None:
    read = decoder(version(4, '"long"', guid=GUID), version(9, "{}", type_="JSON", guid=OTHER_GUID))
    assert read.decode(by_guid(GUID, b"\x0a")) == "5"
    assert read.decode(by_guid(OTHER_GUID, b'{"a": 1}')) == '{"a": 1}'
    assert schema_guid(by_guid(GUID, b"\x0a")) == GUID
    assert [schema_guid(each) for each in (None, b"", by_guid(GUID)[:-1], framed(4, b""))] == [None] * 4


@pytest.mark.parametrize("named", [framed(4, b""), by_guid(GUID), by_guid(GUID, b"what Confluent's reader ignores")])
def test_a_value_whose_header_names_its_schema_has_nothing_before_it(named: bytes) -> None:
    read = decoder(version(4, '"long"', guid=GUID))
    assert read.decode(b"\x0a", [("other", b"x"), (VALUE_HEADER, named)], "value") == "5"
    assert read.decode(b"\x0a", [(KEY_HEADER, named)], "key") == "5"
    assert read.decode(None, [(VALUE_HEADER, named)], "value") is None


def test_the_last_header_of_the_own_side_counts_and_a_null_one_leaves_it_to_the_value() -> None:
    read = decoder(version(4, '"long"', guid=GUID), version(5, '"boolean"'))
    both = [(VALUE_HEADER, framed(5, b"")), (KEY_HEADER, framed(5, b"")), (VALUE_HEADER, by_guid(GUID))]
    assert read.decode(b"\x01", both, "value") == "-1"
    assert read.decode(b"\x01", both, "key") == "true"
    unsaid = [(VALUE_HEADER, framed(5, b"")), (VALUE_HEADER, None), (KEY_HEADER, framed(5, b""))]
    assert read.decode(framed(4, b"\x0a"), unsaid, "value") == "5"
    assert read.decode(framed(4, b"\x0a"), [], "value") == "5"


@pytest.mark.parametrize(
    ("data", "headers", "said"),
    [
        (by_guid(OTHER_GUID, b"\x0a"), None, f"no schema with GUID {OTHER_GUID} of registry here"),
        (b"\x0a", [(VALUE_HEADER, by_guid(OTHER_GUID))], f"no schema with GUID {OTHER_GUID}"),
        (b"\x0a", [(VALUE_HEADER, framed(8, b""))], "no schema with id 8"),
        (framed(4, b"\x0a"), [(VALUE_HEADER, b"x")], "no header holds one"),
        (b"\x0a", [], "no header holds one"),
        (by_guid(GUID, b"\x0a\x0a"), None, f"schema GUID {GUID} is not what its schema says"),
    ],
)
def test_a_guid_that_is_not_archived_ends_the_query_or_is_null(
    data: bytes, headers: list[tuple[str, bytes]] | None, said: str
) -> None:
    read = decoder(version(4, '"long"', guid=GUID))
    with pytest.raises(QueryError, match=said.replace("is not what", ".*not what")):
        read.decode(data, headers, "value")
    assert read.try_decode(data, headers, "value") is None


def test_a_guid_of_schemas_of_two_formats_is_no_guess() -> None:
    same = '{"type": "string"}'
    read = decoder(version(4, same, guid=GUID), version(5, same, type_="JSON", guid=GUID), version(4, same, guid=GUID))
    with pytest.raises(QueryError, match="that of 2 schemas, which differ in their format alone"):
        read.decode(by_guid(GUID, b"\x02a"))
    assert read.decode(framed(5, b'"a"')) == '"a"'


def test_headers_without_a_side_are_an_error_of_the_query() -> None:
    read = decoder(version(4, '"long"'))
    with pytest.raises(QueryError, match="None is neither"):
        read.decode(framed(4, b"\x0a"), [])
    with pytest.raises(QueryError, match="'headers' is neither"):
        read.try_decode(framed(4, b"\x0a"), [], "headers")


TREE = {"type": "record", "name": "Tree", "fields": [{"name": "n", "type": ["null", "Tree"]}]}
NESTED = {  # a record, an array and a map each time: three levels
    "type": "record",
    "name": "Nested",
    "fields": [{"name": "n", "type": {"type": "array", "items": {"type": "map", "values": "Nested"}}}],
}


def tree(levels: int) -> bytes:
    return b"\x02" * (levels - 1) + b"\0"


@pytest.mark.parametrize("levels", [501, 900, 5_000, 1_000_000])
@pytest.mark.parametrize(
    ("schema", "type_", "value"),
    [
        (TREE, "AVRO", tree),
        (NESTED, "AVRO", lambda levels: b"\x02\x02\x02k" * (levels // 3 + 1)),
        ("{}", "JSON", lambda levels: b"[" * levels + b"]" * levels),
        ("{}", "JSON", lambda levels: b'{"a":' * levels + b"1" + b"}" * levels),
    ],
)
def test_a_value_that_is_nested_too_deep_is_not_decoded(levels: int, schema: Any, type_: str, value: Any) -> None:
    read = decoder(version(4, schema, type_=type_))
    data = framed(4, value(levels))
    with pytest.raises(QueryError, match=r"schema id 4, of \d+ bytes, cannot be .*nested deeper than 500 levels"):
        read.decode(data)
    assert read.try_decode(data) is None


def test_a_value_of_five_hundred_levels_is_decoded() -> None:
    read = decoder(version(4, TREE), version(5, "{}", type_="JSON"))
    assert read.decode(framed(4, tree(500))) == '{"n": ' * 500 + "null" + "}" * 500
    assert read.decode(framed(5, b"[" * 500 + b"]" * 500)) == "[" * 500 + "]" * 500


def test_a_value_that_claims_more_items_than_it_can_have_is_not_decoded() -> None:
    read = decoder(version(4, {"type": "array", "items": "null"}), version(5, {"type": "array", "items": "int"}))
    assert read.decode(framed(4, b"\x06\0")) == "[null, null, null]"
    for data in (framed(4, b"\x80\xa8\xd6\xb9\x07\0"), framed(5, b"\x80\xa8\xd6\xb9\x07\0")):  # a billion
        with pytest.raises(QueryError, match="a block of 1000000000 items is longer than the value"):
            read.decode(data)


def lettered(type_: str, name: str, **more: object) -> dict[str, object]:
    return {"type": type_, "logicalType": name, **more}


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
MONEY = lettered("bytes", "decimal", precision=3, scale=2)


@pytest.mark.parametrize(
    ("schema", "body", "said"),
    [
        (ENUM, b"\x01", "-1 is no index of an enum's symbol"),
        (ENUM, b"\x04", "2 is no index of an enum's symbol"),
        (["null", "int"], b"\x01\x02", "-1 is no index of a union's branch"),
        (["null", "int"], b"\x04\x02", "2 is no index of a union's branch"),
        ("boolean", b"\x07", "7 is no boolean"),
        ("int", b"\x80\x80\x80\x80\x20", "4294967296 is no number of 32 bits"),
        ("long", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03", "is no number of 64 bits"),
        ("long", b"\x80" * 12 + b"\x01", "more than ten bytes"),
        ("string", b"\x09", "it ends within a part of -5 bytes"),
        ("bytes", b"\x0a12", "it ends within a part of 5 bytes"),
        ({"type": "fixed", "name": "F", "size": 3}, b"12", "it ends within a part of 3 bytes"),
        (lettered("int", "time-millis"), b"\x01", "-1 is no time of a day"),
        (lettered("int", "time-millis"), b"\x80\xf0\xb2\x52", "86400000 is no time of a day"),
        (lettered("long", "time-micros"), b"\x01", "-1 is no time of a day"),
        (lettered("int", "date"), b"\xfe\xff\xff\xff\x0f", "not what its schema says"),
        (lettered("long", "timestamp-millis"), b"\xfe" + b"\xff" * 8 + b"\x01", "not what its schema says"),
        (lettered("string", "uuid"), b"\x04no", "not what its schema says"),
        (MONEY, b"\x04\x03\xe8", "a decimal has more than 3 digits"),
        ({"type": "array", "items": ENUM}, b"\x04\x00\x01\x00", "-1 is no index"),
        ({"type": "map", "values": ENUM}, b"\x02\x02k\x01\x00", "-1 is no index"),
    ],
)
def test_bytes_that_are_no_value_of_their_schema_in_avro_are_not_decoded(schema: Any, body: bytes, said: str) -> None:
    read = decoder(version(4, json.dumps(schema)))
    with pytest.raises(QueryError, match=said):
        read.decode(framed(4, body))
    assert read.try_decode(framed(4, body)) is None


def test_what_is_just_inside_of_its_range_in_avro_is_decoded() -> None:
    for schema, body, told in (
        (ENUM, b"\x02", '"B"'),
        (["null", "int"], b"\x02\xff\xff\xff\xff\x0f", "-2147483648"),
        ("long", b"\xff" * 9 + b"\x01", str(-(2**63))),
        ("boolean", b"\x01", "true"),
        (lettered("int", "time-millis"), b"\xfe\xef\xb2\x52", '"23:59:59.999000"'),
        (MONEY, b"\x04\x03\xe7", '"9.99"'),
        ({"type": "map", "values": ENUM}, b"\x01\x06\x02k\x02\x00", '{"k": "B"}'),
        ({"type": "array", "items": "null"}, b"\x02\x02\x00", "[null, null]"),
    ):
        assert decoder(version(4, json.dumps(schema))).decode(framed(4, body)) == told
