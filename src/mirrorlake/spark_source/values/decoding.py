"""Keys and values as JSON, by the schemas of an archive that their ids or GUIDs name. Pure; imports no Spark."""

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from mirrorlake.archive.schemas.content import ArchivedVersion
from mirrorlake.errors import QueryError
from mirrorlake.spark_source.values.avro_check import AvroCheck
from mirrorlake.spark_source.values.depth import TooDeepError, check_depth
from mirrorlake.spark_source.values.framing import Framed, Headers, framed
from mirrorlake.spark_source.values.plain import plain
from mirrorlake.spark_source.values.protobuf import CompiledFile, ProtobufFile

_DIGEST_SHOWN = 12
_JSON_SPACE = " \t\r\n"
_NULL_HINT = "`try_decoded` gives null for such values"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """A schema by which values are decoded: its registry's name of the format, its text, and what it refers to.

    ``references`` are keys of other schemas, in their order, each with how the text names it.
    """

    type: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


_compiled_files: dict[str, CompiledFile | QueryError] = {}
"""By the keys of their schemas, or why one cannot be compiled: a worker of Spark's serves many tasks, and the compiler
takes a fraction of a second each time."""


@dataclass(slots=True, kw_only=True)
class ValueDecoder:
    """Decodes what Confluent's serializers wrote, with the id or GUID of its schema before it or in a header.

    Travels to Spark's workers with all schemas it may need; what they are parsed to stays there.

    Attributes:
        registry: what the configuration calls it, for messages.
        keys: the schema that each id means, by its key.
        schemas: by key; those that are referred to among them.
        guids: the schemas that each GUID means, by their keys: two may share one, as it says nothing of the format.
        unknown: ids that are archived, and why it is not known what they mean.
    """

    registry: str
    keys: Mapping[int, str]
    schemas: Mapping[str, StoredSchema]
    guids: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unknown: Mapping[int, str] = field(default_factory=dict)
    _parsed: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, registry: str, versions: Iterable[ArchivedVersion], *, unknown: Mapping[int, str] = MappingProxyType({})
    ) -> "ValueDecoder":
        """Returns the decoder of all versions that are archived of a registry, and can be read."""
        keys: dict[int, str] = {}
        schemas: dict[str, StoredSchema] = {}
        guids: dict[str, frozenset[str]] = {}
        for each in versions:
            schema = each.version.schema
            keys[each.version.id] = schema.key
            if each.version.guid is not None:
                guids[each.version.guid] = guids.get(each.version.guid, frozenset()) | {schema.key}
            schemas[schema.key] = StoredSchema(
                type=schema.type, text=schema.text, references=tuple((r.name, r.key) for r in schema.references)
            )
        return cls(registry=registry, keys=keys, schemas=schemas, guids=guids, unknown=dict(unknown))

    def decode(self, data: bytes | None, headers: Headers | None = None, side: str | None = None) -> str | None:
        """Returns a value as JSON: bytes as base64, times as ISO 8601, decimals and NaN as text. None for null.

        A value of JSON Schema is its own text.

        Args:
            data: the key or value.
            headers: of its record; left out, they are not looked at.
            side: with headers, which it is: ``key`` or ``value``.

        Raises:
            QueryError: it has no id, or one that is not archived; its format is none of Avro, JSON and Protobuf; it
                is not what its schema says; it is nested deeper than `DEPTH_MAX`; or there are headers and no side.
        """
        if data is None:
            return None
        found = framed(data, headers, side)
        if found is None:
            where = ", and no header holds one" if headers is not None else ""
            raise QueryError(
                f"a value of {len(data)} bytes does not begin with a schema id or GUID{where}", hint=_NULL_HINT
            )
        key = self._key(found)
        type_ = self.schemas[key].type
        try:
            if type_ == "AVRO":
                return json.dumps(plain(self._avro(key, found.body)), ensure_ascii=False)
            if type_ == "PROTOBUF":
                return json.dumps(self._protobuf(key, found.prefix + found.body), ensure_ascii=False)
            if type_ == "JSON":
                return _json(found.body)
        except QueryError:
            raise
        except (TooDeepError, RecursionError) as error:
            raise QueryError(
                f"a value with {found}, of {len(data)} bytes, cannot be decoded: {TooDeepError()}",
                hint="`select topic, partition, offset … where value is not null and try_decoded(value) is null` "
                "finds such records",
            ) from error
        except Exception as error:  # whatever a library makes of bytes that are not what they should be
            raise QueryError(
                f"a value with {found} is not what its schema says ({type(error).__name__}: {error})", hint=_NULL_HINT
            ) from error
        raise QueryError(f"{found} is {type_}, and only AVRO, JSON and PROTOBUF are decoded", hint=_NULL_HINT)

    def try_decode(self, data: bytes | None, headers: Headers | None = None, side: str | None = None) -> str | None:
        """Returns the same, and None where it cannot be had.

        Raises:
            QueryError: there are headers and no side, which is the query's fault and not the value's.
        """
        if data is not None and headers is not None:
            framed(data, headers, side)
        try:
            return self.decode(data, headers, side)
        except QueryError:
            return None

    def _key(self, found: Framed) -> str:
        """Returns the key of the schema that is named.

        Raises:
            QueryError: it is not archived or cannot be read, or a GUID means schemas of several formats.
        """
        if found.guid is None:
            assert found.id is not None
            if found.id in self.unknown:
                raise QueryError(
                    f"what schema id {found.id} of registry {self.registry} means is not known: "
                    f"{self.unknown[found.id]}",
                    hint=_NULL_HINT,
                )
            if found.id in self.keys:
                return self.keys[found.id]
            raise QueryError(
                f"the archive holds no schema with id {found.id} of registry {self.registry}", hint=_NULL_HINT
            )
        meant = self.guids.get(found.guid, frozenset())
        if not meant:
            raise QueryError(
                f"the archive holds no schema with GUID {found.guid} of registry {self.registry}", hint=_NULL_HINT
            )
        if len(meant) > 1:
            raise QueryError(
                f"GUID {found.guid} of registry {self.registry} is that of {len(meant)} schemas, which differ in their "
                "format alone",
                hint=_NULL_HINT,
            )
        return next(iter(meant))

    def _avro(self, key: str, data: bytes) -> Any:
        # Only who decodes loads the library.
        import fastavro

        if key not in self._parsed:
            named: dict[str, Any] = {}
            parsed = self._parse(key, named, set())
            self._parsed[key] = parsed, AvroCheck(parsed, named)
        parsed, check = self._parsed[key]
        check.check(data)
        file = io.BytesIO(data)
        value = fastavro.schemaless_reader(file, parsed, None)
        if (rest := len(data) - file.tell()) > 0:
            raise ValueError(f"{rest} bytes are left behind it")
        return value

    def _parse(self, key: str, named: dict[str, Any], entered: set[str]) -> Any:
        """Returns a schema as the library has it; ``named`` is given what it and all it refers to define."""
        import fastavro

        entered.add(key)
        for _, other in self._references(key):
            if other not in entered:
                self._parse(other, named, entered)
        return fastavro.parse_schema(json.loads(self.schemas[key].text), named_schemas=named)

    def _protobuf(self, key: str, data: bytes) -> Any:
        if key not in _compiled_files:
            file = self._file(key)
            try:
                _compiled_files[key] = CompiledFile(file)
            except QueryError as error:
                _compiled_files[key] = error
        compiled = _compiled_files[key]
        if isinstance(compiled, QueryError):
            raise compiled
        return compiled.decode(data)

    def _file(self, key: str) -> ProtobufFile:
        imports = {name: self._file(other) for name, other in self._references(key)}
        return ProtobufFile(text=self.schemas[key].text, imports=imports)

    def _references(self, key: str) -> tuple[tuple[str, str], ...]:
        """Returns what a schema refers to, by name and key.

        Raises:
            QueryError: some of it is not archived.
        """
        references = self.schemas[key].references
        for _, other in references:
            if other not in self.schemas:
                raise QueryError(
                    f"schema {key[:_DIGEST_SHOWN]} refers to {other[:_DIGEST_SHOWN]}, which is not archived"
                )
        return references


def _json(data: bytes) -> str:
    """Returns JSON as it stands, digits, names and all, once it is seen to be some.

    Raises:
        ValueError: it is none.
        TooDeepError: it is nested deeper than `DEPTH_MAX`.
    """
    text = data.decode(json.detect_encoding(data)).strip(_JSON_SPACE)
    check_depth(json.loads(text, parse_constant=_no_json, parse_int=str, parse_float=str))
    return text


def _no_json(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def schema_id(data: bytes | None, headers: Headers | None = None, side: str | None = None) -> int | None:
    """Returns the id that a value has; None for null, and where it has none. Raises as `framed`."""
    found = None if data is None else framed(data, headers, side)
    return None if found is None else found.id


def schema_guid(data: bytes | None, headers: Headers | None = None, side: str | None = None) -> str | None:
    """Returns the GUID that a value has; None for null, and where it has none. Raises as `framed`."""
    found = None if data is None else framed(data, headers, side)
    return None if found is None else found.guid
