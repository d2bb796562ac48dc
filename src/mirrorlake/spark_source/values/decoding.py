"""Keys and values as JSON, by the schemas of an archive that their ids name. Pure; imports no Spark."""

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import unpack_from
from typing import Any

from mirrorlake.archive.schemas.content import ArchivedVersion
from mirrorlake.errors import QueryError
from mirrorlake.spark_source.values.avro_check import AvroCheck
from mirrorlake.spark_source.values.depth import TooDeepError, check_depth
from mirrorlake.spark_source.values.plain import plain
from mirrorlake.spark_source.values.protobuf import CompiledFile, ProtobufFile

_FRAMED_BYTES = 5
_MAGIC = 0
_DIGEST_SHOWN = 12


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
    """Decodes what Confluent's serializers wrote: a zero byte, the four bytes of an id, and the value.

    Travels to Spark's workers with all schemas it may need; what they are parsed to stays there.

    Attributes:
        registry: what the configuration calls it, for messages.
        keys: the schema that each id means, by its key.
        schemas: by key; those that are referred to among them.
    """

    registry: str
    keys: Mapping[int, str]
    schemas: Mapping[str, StoredSchema]
    _parsed: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, registry: str, versions: Iterable[ArchivedVersion]) -> "ValueDecoder":
        """Returns the decoder of all versions that are archived of a registry."""
        keys: dict[int, str] = {}
        schemas: dict[str, StoredSchema] = {}
        for each in versions:
            schema = each.version.schema
            keys[each.version.id] = schema.key
            schemas[schema.key] = StoredSchema(
                type=schema.type, text=schema.text, references=tuple((r.name, r.key) for r in schema.references)
            )
        return cls(registry=registry, keys=keys, schemas=schemas)

    def decode(self, data: bytes | None) -> str | None:
        """Returns a value as JSON: bytes as base64, times as ISO 8601, decimals and NaN as text. None for null.

        Raises:
            QueryError: it has no id, or one that is not archived; its format is none of Avro, JSON and Protobuf; it is
                not what its schema says; or it is nested deeper than `DEPTH_MAX`.
        """
        if data is None:
            return None
        id_ = schema_id(data)
        if id_ is None:
            raise QueryError(
                f"a value of {len(data)} bytes does not begin with a schema id",
                hint="`try_decoded` gives null for such values",
            )
        key = self.keys.get(id_)
        if key is None:
            raise QueryError(
                f"the archive holds no schema with id {id_} of registry {self.registry}",
                hint="`try_decoded` gives null for such values",
            )
        schema = self.schemas[key]
        try:
            if schema.type == "AVRO":
                return json.dumps(plain(self._avro(key, bytes(data[_FRAMED_BYTES:]))), ensure_ascii=False)
            if schema.type == "PROTOBUF":
                return json.dumps(self._protobuf(key, bytes(data[_FRAMED_BYTES:])), ensure_ascii=False)
            if schema.type == "JSON":
                return json.dumps(_json(data[_FRAMED_BYTES:]), ensure_ascii=False)
        except QueryError:
            raise
        except (TooDeepError, RecursionError) as error:
            raise QueryError(
                f"a value with schema id {id_}, of {len(data)} bytes, cannot be decoded: {TooDeepError()}",
                hint="`select topic, partition, offset … where value is not null and try_decoded(value) is null` "
                "finds such records",
            ) from error
        except Exception as error:  # whatever a library makes of bytes that are not what they should be
            raise QueryError(
                f"a value with schema id {id_} is not what its schema says ({type(error).__name__}: {error})",
                hint="`try_decoded` gives null for such values",
            ) from error
        raise QueryError(
            f"schema id {id_} is {schema.type}, and only AVRO, JSON and PROTOBUF are decoded",
            hint="`try_decoded` gives null for such values",
        )

    def try_decode(self, data: bytes | None) -> str | None:
        """Returns the same, and None where it cannot be had."""
        try:
            return self.decode(data)
        except QueryError:
            return None

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


def _json(data: bytes) -> Any:
    value = json.loads(data)
    check_depth(value)
    return value


def schema_id(data: bytes | None) -> int | None:
    """Returns the id that a value begins with; None for null, and where it has none."""
    if data is None or len(data) < _FRAMED_BYTES or data[0] != _MAGIC:
        return None
    return int(unpack_from(">i", data, 1)[0])
