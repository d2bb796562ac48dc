"""Structs in Thrift's compact protocol, as Parquet's footers and page indexes are made of: read whole, and written.

Source: ``doc/specs/thrift-compact-protocol.md`` of Apache Thrift. Nothing is known here of what fields mean, so what is
read and written again keeps every field. Maps are left out, as Parquet has none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

DEPTH_MAX = 16
"""Structs and lists inside of one another, at most. Parquet's own go to seven."""

_VARINT_BYTES_MAX = 10
_LONG_LIST = 15
_DOUBLE_BYTES = 8


class ThriftError(ValueError):
    """The bytes are no struct in the compact protocol, or one with what this does not read."""


class Kind(IntEnum):
    """Types of fields and of elements of lists, by the protocol's numbers."""

    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    STRUCT = 12


@dataclass(frozen=True, slots=True)
class ThriftList:
    """A list or set: all elements are of one kind. Booleans among them are the protocol's own bytes."""

    kind: Kind
    items: Sequence["Value"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct. A boolean has its value in its kind; a double is its eight bytes."""

    kind: Kind
    value: "Value"


Struct: TypeAlias = "dict[int, Field]"
"""Fields by their numbers, in the order in which they stand."""

Value: TypeAlias = "int | bytes | ThriftList | Struct | None"
"""None of a boolean. Bytes where a struct is wanted are one that is encoded already."""


def decode_struct(data: bytes, start: int = 0) -> tuple[Struct, int]:
    """Returns the struct that begins at ``start``, and where it ends.

    Raises:
        ThriftError: there is none, or not a whole one.
    """
    reader = _Reader(data, start)
    try:
        return reader.struct(0), reader.position
    except IndexError as error:
        raise ThriftError("ends inside of a struct") from error


def encode_struct(struct: Struct) -> bytes:
    """Returns a struct as bytes; of each number and field header the shortest form.

    Raises:
        ThriftError: a field or an element is not of its kind.
    """
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


class _Reader:
    """Reads from ``position`` on; IndexError where the bytes end."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position
        self._readers: dict[Kind, Callable[[int], Value]] = {
            Kind.TRUE: lambda _: None,
            Kind.FALSE: lambda _: None,
            Kind.BYTE: lambda _: self._byte(),
            Kind.I16: lambda _: self._number(),
            Kind.I32: lambda _: self._number(),
            Kind.I64: lambda _: self._number(),
            Kind.DOUBLE: lambda _: self._bytes(_DOUBLE_BYTES),
            Kind.BINARY: lambda _: self._bytes(self._varint()),
            Kind.LIST: self._list,
            Kind.SET: self._list,
            Kind.STRUCT: self.struct,
        }

    def struct(self, depth: int) -> Struct:
        if depth > DEPTH_MAX:
            raise ThriftError(f"more than {DEPTH_MAX} structs and lists inside of one another")
        fields: Struct = {}
        number = 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self._number()
            if number in fields:
                raise ThriftError(f"field {number} stands there twice")
            kind = _kind(header & 15)
            fields[number] = Field(kind, self._readers[kind](depth + 1))
        return fields

    def _list(self, depth: int) -> ThriftList:
        if depth > DEPTH_MAX:
            raise ThriftError(f"more than {DEPTH_MAX} structs and lists inside of one another")
        header = self._byte()
        kind = _kind(header & 15)
        count = header >> 4 if header >> 4 != _LONG_LIST else self._varint()
        if count > len(self._data) - self.position:
            raise ThriftError(f"a list of {count} elements in fewer bytes")
        read = self._readers[Kind.BYTE if kind in (Kind.TRUE, Kind.FALSE) else kind]
        return ThriftList(kind, [read(depth + 1) for _ in range(count)])

    def _byte(self) -> int:
        byte = self._data[self.position]
        self.position += 1
        return byte

    def _bytes(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self._data):
            raise ThriftError(f"{count} bytes, and fewer are left")
        data = self._data[self.position : end]
        self.position = end
        return data

    def _varint(self) -> int:
        found = 0
        for place in range(_VARINT_BYTES_MAX):
            byte = self._byte()
            found |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return found
        raise ThriftError("a number of more than ten bytes")

    def _number(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise ThriftError(f"a field or element of kind {number}") from None


def _put_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, field in struct.items():
        if 0 < number - before <= 15:
            out.append((number - before) << 4 | field.kind)
        else:
            out.append(field.kind)
            _put_number(out, number)
        before = number
        if field.kind not in (Kind.TRUE, Kind.FALSE):
            _put_value(out, field.kind, field.value)
    out.append(0)


def _put_value(out: bytearray, kind: Kind, value: Value) -> None:
    if isinstance(value, int) and kind in (Kind.I16, Kind.I32, Kind.I64):
        _put_number(out, value)
    elif isinstance(value, int) and kind in (Kind.BYTE, Kind.TRUE, Kind.FALSE):
        out.append(value)
    elif isinstance(value, bytes) and kind == Kind.BINARY:
        _put_varint(out, len(value))
        out += value
    elif isinstance(value, bytes) and kind in (Kind.DOUBLE, Kind.STRUCT):
        out += value
    elif isinstance(value, ThriftList) and kind in (Kind.LIST, Kind.SET):
        _put_list(out, value)
    elif isinstance(value, dict) and kind == Kind.STRUCT:
        _put_struct(out, value)
    else:
        raise ThriftError(f"{type(value).__name__} as {kind.name}")


def _put_list(out: bytearray, value: ThriftList) -> None:
    count = len(value.items)
    out.append(min(count, _LONG_LIST) << 4 | value.kind)
    if count >= _LONG_LIST:
        _put_varint(out, count)
    for item in value.items:
        _put_value(out, value.kind, item)


def _put_number(out: bytearray, number: int) -> None:
    if not -(1 << 63) <= number < 1 << 63:
        raise ThriftError(f"{number} has more than 64 bits")
    _put_varint(out, number << 1 if number >= 0 else (-number << 1) - 1)


def _put_varint(out: bytearray, number: int) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
