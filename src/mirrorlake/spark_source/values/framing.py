"""Where a serializer put the id or GUID of a schema: before the payload, or in a header. Pure; imports no Spark.

As `SchemaId.java`, `DualSchemaIdDeserializer.java` and `HeaderSchemaIdSerializer.java` of Confluent's serializers have
it: the last header of the side's name counts, unless it is null, and the payload has no prefix then. What stands behind
an id or GUID, in a header too, is Protobuf's place of the message, which every other format ignores in a header.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import unpack_from
from typing import Any
from uuid import UUID

from mirrorlake.errors import QueryError

HEADER_NAMES = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""By side; as `kafka/schema_ids/framing.py` has them, without what that imports."""

_ID_MAGIC, _GUID_MAGIC = 0, 1
_ID_BYTES = 5
_GUID_BYTES = 17

Headers = Sequence[Any]
"""Of a record as Spark gives them to a function: rows of a name and bytes, which may be null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Framed:
    """A payload whose schema is named.

    Attributes:
        id: None where it is named by its GUID.
        guid: None where it is named by its id.
        prefix: what stands behind the name in a header; nothing where the name is before the payload.
        body: what stands behind the name in the payload; the whole payload where the name is in a header.
    """

    id: int | None = None
    guid: str | None = None
    prefix: bytes = b""
    body: bytes

    def __str__(self) -> str:
        return f"schema id {self.id}" if self.guid is None else f"schema GUID {self.guid}"


def framed(data: bytes, headers: Headers | None = None, side: str | None = None) -> Framed | None:
    """Returns a key or value with what names its schema; None where nothing does.

    Args:
        data: the key or value.
        headers: of its record; None where they are not looked at.
        side: ``key`` or ``value``: which header is its own. Has a meaning with headers only.

    Raises:
        QueryError: there are headers, and the side is neither.
    """
    held = None if headers is None else _header(headers, side)
    found = _named(bytes(data if held is None else held))
    if held is None or found is None:
        return found
    return Framed(id=found.id, guid=found.guid, prefix=found.body, body=bytes(data))


def _header(headers: Headers, side: str | None) -> bytes | None:
    if side not in HEADER_NAMES:
        raise QueryError(
            f"headers hold the schema of a key and of a value, and {side!r} is neither",
            hint="say which is decoded: decoded(value, headers, 'value') or decoded(key, headers, 'key')",
        )
    name = HEADER_NAMES[side]
    return next((each[1] for each in reversed(headers) if each[0] == name), None)


def _named(data: bytes) -> Framed | None:
    if len(data) >= _ID_BYTES and data[0] == _ID_MAGIC:
        return Framed(id=int(unpack_from(">i", data, 1)[0]), body=data[_ID_BYTES:])
    if len(data) >= _GUID_BYTES and data[0] == _GUID_MAGIC:
        return Framed(guid=str(UUID(bytes=data[1:_GUID_BYTES])), body=data[_GUID_BYTES:])
    return None
