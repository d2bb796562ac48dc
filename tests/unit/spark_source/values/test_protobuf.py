"""Values of Protobuf as JSON: bytes by the published encoding, schemas as registries give them out."""

import base64
import io
import json
import pickle
from struct import pack
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.archive.schemas.content import ArchivedVersion
from mirrorlake.errors import QueryError
from mirrorlake.schemas.history import Reference, Schema, SchemaVersion
from mirrorlake.spark_source.values import decoding, protobuf
from mirrorlake.spark_source.values.decoding import ValueDecoder
from mirrorlake.spark_source.values.protobuf import CompiledFile, ProtobufFile, message_indexes
from support.registry_model import RegistryModel
from support.stub_registry import StubRegistry

ORDER = """
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
enum Kind { LOW = 0; HIGH = 1; }
message Order {
  message Line { int32 cents = 1; message Tax { bool is_net = 1; } }
  int32 id = 1;
  string note = 2;
  bytes raw = 3;
  repeated int32 numbers = 4;
  Line line = 5;
  google.protobuf.Timestamp made_at = 6;
  int64 large = 7;
  Kind kind = 8;
  optional int32 maybe = 9;
  map<string, int32> counts = 10;
  double share = 11;
}
message Refund { string why = 1; }
"""
EMPTY = {"id": 0, "note": "", "raw": "", "numbers": [], "large": "0", "kind": "LOW", "counts": {}, "share": 0.0}
"""Of a message of which nothing was set: what can tell that it was not set is not there."""

FIRST = b"\0"
"""Names the first message of a file."""


def version(id_: int, text: str, **references: Schema) -> ArchivedVersion:
    schema = Schema(
        text=text,
        type="PROTOBUF",
        references=tuple(
            Reference(name=name.replace("_", "/") + ".proto", subject="s", version=1, key=each.key)
            for name, each in references.items()
        ),
    )
    return ArchivedVersion(
        subject="s", version=SchemaVersion(version=1, id=id_, schema=schema), level="NONE", mode=None
    )


def decoder(*versions: ArchivedVersion) -> ValueDecoder:
    # As it comes to a worker.
    sent: ValueDecoder = pickle.loads(pickle.dumps(ValueDecoder.of("here", versions)))
    return sent


def framed(id_: int, body: bytes) -> bytes:
    return b"\0" + pack(">i", id_) + body


def decoded(text: str, body: bytes) -> object:
    found = decoder(version(1, text)).decode(framed(1, body))
    assert found is not None
    return json.loads(found)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", {}),
        (b"\x08\x96\x01", {"id": 150}),
        (b"\x12\x07testing", {"note": "testing"}),
        (b"\x1a\x02\xff\0", {"raw": "/wA="}),
        (b"\x22\x03\x01\x02\x03", {"numbers": [1, 2, 3]}),
        (b"\x2a\x02\x08\x05", {"line": {"cents": 5}}),
        (b"\x32\x02\x08\x01", {"made_at": "1970-01-01T00:00:01Z"}),
        (b"\x38" + b"\xff" * 9 + b"\x01", {"large": "-1"}),
        (b"\x40\x01", {"kind": "HIGH"}),
        (b"\x40\x07", {"kind": 7}),
        (b"\x48\0", {"maybe": 0}),
        (b"\x52\x05\x0a\x01a\x10\x02", {"counts": {"a": 2}}),
        (b"\x59" + pack("<d", 0.5), {"share": 0.5}),
        (b"\x59" + pack("<d", float("nan")), {"share": "NaN"}),
    ],
    ids=lambda each: str(each)[:30] if isinstance(each, dict) else "",
)
def test_a_field_is_read_as_protobufs_encoding_has_it(body: bytes, expected: dict[str, object]) -> None:
    assert decoded(ORDER, FIRST + body) == EMPTY | expected


@pytest.mark.parametrize(
    ("indexes", "body", "expected"),
    [
        (b"\x02\0", b"", EMPTY),
        (b"\x02\x02", b"\x0a\x02no", {"why": "no"}),
        (b"\x04\0\0", b"\x08\x05", {"cents": 5}),
        (b"\x06\0\0\0", b"\x08\x01", {"is_net": True}),
    ],
    ids=["the first by its number", "the second", "a nested one", "one nested in that"],
)
def test_the_message_is_the_one_that_stands_before_it(indexes: bytes, body: bytes, expected: object) -> None:
    assert decoded(ORDER, indexes + body) == expected


MONEY = Schema(text='syntax = "proto3"; package shop; message Money { int32 cents = 1; }', type="PROTOBUF")
PRICE_TEXT = 'syntax = "proto3"; import "shop/money.proto"; message Price { shop.Money net = 1; }'
BILL_TEXT = (
    'syntax = "proto3"; import "price.proto"; import "shop/money.proto"; message Bill { Price price = 1; '
    "shop.Money tip = 2; }"
)


def test_what_a_schema_imports_is_taken_from_the_archive_too() -> None:
    money = version(1, MONEY.text)
    price = version(2, PRICE_TEXT, shop_money=money.version.schema)
    bill = version(3, BILL_TEXT, price=price.version.schema, shop_money=money.version.schema)
    body = FIRST + b"\x0a\x04\x0a\x02\x08\x05\x12\x02\x08\x07"
    with pytest.raises(QueryError, match="which is not archived"):
        decoder(bill).decode(framed(3, body))

    assert decoder(money, price, bill).decode(framed(3, body)) == (
        '{"price": {"net": {"cents": 5}}, "tip": {"cents": 7}}'
    )


def test_a_schema_may_be_the_base64_of_its_descriptor() -> None:
    """As Confluent's client for Python registers them, and some registries give them out again."""
    money = descriptor_pb2.FileDescriptorProto(name="x/money.proto", package="shop", syntax="proto3")
    cents = money.message_type.add(name="Money").field.add(name="cents", number=1)
    cents.type, cents.label = cents.TYPE_INT32, cents.LABEL_OPTIONAL
    paid = descriptor_pb2.FileDescriptorProto(name="x/paid.proto", syntax="proto3")
    paid.dependency.extend(["google/protobuf/timestamp.proto", "shop/money.proto"])
    message = paid.message_type.add(name="Paid")
    for number, (name, type_name) in enumerate({"at": ".google.protobuf.Timestamp", "net": ".shop.Money"}.items(), 1):
        field = message.field.add(name=name, number=number, type_name=type_name)
        field.type, field.label = field.TYPE_MESSAGE, field.LABEL_OPTIONAL
    assert timestamp_pb2.DESCRIPTOR.name == paid.dependency[0]

    first = version(1, base64.b64encode(money.SerializeToString()).decode())
    for text in (MONEY.text, first.version.schema.text):
        imported = version(1, text)
        whole = version(2, base64.b64encode(paid.SerializeToString()).decode(), shop_money=imported.version.schema)
        assert decoder(imported, whole).decode(framed(2, FIRST + b"\x0a\x02\x08\x01\x12\x02\x08\x05")) == (
            '{"at": "1970-01-01T00:00:01Z", "net": {"cents": 5}}'
        )


REQUIRED = 'syntax = "proto2"; message Old { required int32 id = 1; optional int32 more = 2 [default = 3]; }'


def test_an_older_syntax_is_read_too() -> None:
    assert decoded(REQUIRED, FIRST + b"\x08\x01") == {"id": 1}


@pytest.mark.parametrize(
    ("text", "body", "said"),
    [
        (ORDER, b"", "ends before its message indexes"),
        (ORDER, b"\x02", "ends before its message indexes"),
        (ORDER, b"\xff" * 6, "does not begin with message indexes"),
        (ORDER, b"\x01", "-1 is no number of message indexes"),
        (ORDER, b"\x02\x01", "-1 is no message index"),
        (ORDER, b"\x02\x04", "has no message 2"),
        (ORDER, b"\x04\x02\0", "has no message 1.0"),
        (ORDER, FIRST + b"\x08", "not what its schema says"),
        (ORDER, FIRST + b"\x0a\x01", "not what its schema says"),
        (ORDER, FIRST + b"\xa0\x06\x01", "3 bytes of it are fields that the schema does not have"),
        (ORDER, FIRST + b"\x2a\x02\x10\x01", "bytes of it are fields that the schema does not have"),
        (REQUIRED, FIRST + b"\x10\x01", "required fields are missing: id"),
        ("message M {", FIRST, "cannot be compiled: schema.proto:1"),
        ('syntax = "proto3"; import "other.proto"; message M {}', FIRST, "cannot be compiled: .*other.proto"),
    ],
)
def test_what_cannot_be_decoded_ends_the_query_or_is_null_for_who_asks_so(text: str, body: bytes, said: str) -> None:
    read = decoder(version(1, text))
    with pytest.raises(QueryError, match=said):
        read.decode(framed(1, body))
    assert read.try_decode(framed(1, body)) is None


@pytest.mark.parametrize("name", ["../up.proto", "/etc/up.proto", "a/../../up.proto", "schema.proto"])
def test_an_import_that_would_leave_its_folder_is_refused(name: str) -> None:
    money = version(1, MONEY.text)
    schema = Schema(
        text=f'syntax = "proto3"; import "{name}"; message M {{}}',
        type="PROTOBUF",
        references=(Reference(name=name, subject="s", version=1, key=money.version.schema.key),),
    )
    found = SchemaVersion(version=1, id=2, schema=schema)
    whole = ArchivedVersion(subject="s", version=found, level="NONE", mode=None)
    with pytest.raises(QueryError, match="no name of a file below a folder"):
        decoder(money, whole).decode(framed(2, FIRST))


def test_a_schema_is_compiled_once_whatever_comes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_compiled_files", {})
    compiled: list[ProtobufFile] = []

    def counted(file: ProtobufFile) -> CompiledFile:
        compiled.append(file)
        return CompiledFile(file)

    monkeypatch.setattr(decoding, "CompiledFile", counted)
    for _ in range(3):
        read = decoder(version(1, MONEY.text), version(2, "message M {"))
        assert read.try_decode(framed(1, FIRST + b"\x08\x05")) == '{"cents": 5}'
        assert read.try_decode(framed(2, FIRST)) is None
    assert len(compiled) == 2


def test_without_the_compiler_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "find_spec", lambda _name: None)
    text = 'syntax = "proto3"; message NobodyCompiledThis {}'
    with pytest.raises(QueryError, match=r"pip install 'mirrorlake\[protobuf\]'"):
        decoder(version(1, text)).decode(framed(1, FIRST))


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5))
def test_message_indexes_are_read_as_confluents_serializer_writes_them(indexes: list[int]) -> None:
    buffer = io.BytesIO()
    ProtobufSerializer._encode_varints(buffer, indexes)
    assert message_indexes(buffer.getvalue() + b"rest") == (tuple(indexes), len(buffer.getvalue()))


def test_what_confluents_serializer_registers_and_writes_is_decoded() -> None:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="bills.proto", package="bills", syntax="proto3")
    for name in ("Other", "Bill"):
        field = file.message_type.add(name=name).field.add(name="total", number=1)
        field.type, field.label = field.TYPE_INT32, field.LABEL_OPTIONAL
    pool.AddSerializedFile(file.SerializeToString())
    bill = message_factory.GetMessageClass(pool.FindMessageTypeByName("bills.Bill"))
    with StubRegistry(RegistryModel(level="NONE")) as stub, SchemaRegistryClient({"url": stub.url}) as client:
        write = ProtobufSerializer(bill, client, {"use.deprecated.format": False})
        serialized = write(bill(total=12), SerializationContext("bills", MessageField.VALUE))
        (registered,) = stub.model.subjects["bills-value"]
    assert serialized is not None
    read = decoder(version(registered.id, registered.body["schema"]))
    assert read.decode(serialized) == '{"total": 12}'


def test_with_its_schema_in_a_header_a_message_has_its_place_there_too() -> None:
    guid = "00112233-4455-6677-8899-aabbccddeeff"
    schema = Schema(text=ORDER, type="PROTOBUF")
    found = SchemaVersion(version=1, id=2, schema=schema, guid=guid)
    read = decoder(ArchivedVersion(subject="s", version=found, level="NONE", mode=None))
    # One index, zigzag: the second message of the file.
    header = [("__value_schema_id", b"\1" + UUID(guid).bytes + b"\x02\x02")]
    assert read.decode(b"\x0a\x03why", header, "value") == '{"why": "why"}'
    assert read.decode(b"\1" + UUID(guid).bytes + b"\x02\x02" + b"\x0a\x03why") == '{"why": "why"}'
