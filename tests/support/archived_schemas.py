"""What an archive holds of schemas and of the ids of its records, read without mirrorlake; and one to query."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import pack, unpack
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.archive.schemas.content import ArchivedVersion
from mirrorlake.archive.schemas.objects import ArchivedSchemas
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.schemas.history import Schema, SchemaVersion
from mirrorlake.stores.filesystem import FilesystemStore
from support.archives import FIRST_TIME_MS, publish_segment

_DECODED = "try_decoded(value, headers, 'value')"
DECODED_QUERY = (
    f"select offset, schema_id(value) as id, get_json_object({_DECODED}, '$.total') as total, {_DECODED} as whole, "
    "schema_guid(value, headers, 'value') as guid from lake.bills "
    f"where get_json_object({_DECODED}, '$.total') > 5 order by 1"
)
GUID = "00112233-4455-6677-8899-aabbccddeeff"
DECODED_ROWS = [
    {"offset": 1, "id": 7, "total": "9", "whole": '{"total": 9}', "guid": None},
    {"offset": 4, "id": 8, "total": "11", "whole": '{"total": 11, "note": "é"}', "guid": None},
    {"offset": 6, "id": 10, "total": "12", "whole": '{"total": 12}', "guid": None},
    {"offset": 7, "id": None, "total": "13", "whole": '{"total": 13}', "guid": GUID},
    {"offset": 8, "id": None, "total": "14", "whole": '{"total": 14}', "guid": GUID},
]
"""Of `write_bills`, what that query finds."""


def write_bills(lake: Path) -> None:
    """Avro, JSON and Protobuf, with a null, something else, an id of nobody's, and a GUID; with the schemas."""
    schemas = ArchivedSchemas(FilesystemStore(lake), "here")
    avro = '{"type": "record", "name": "Bill", "fields": [{"name": "total", "type": "int"}]}'
    protobuf = 'syntax = "proto3"; message Bill { int32 total = 1; }'
    schemas_by_id = {
        7: Schema(text=avro),
        8: Schema(text="{}", type="JSON"),
        10: Schema(text=protobuf, type="PROTOBUF"),
    }
    for number, schema in schemas_by_id.items():
        version = SchemaVersion(version=number, id=number, schema=schema, guid=GUID if number == 7 else None)
        archived = ArchivedVersion(subject="bills-value", version=version, level="NONE", mode=None)
        schemas.add(archived, writer="test", now_seconds=0.0)
    values = [
        _framed(7, b"\x06"),
        _framed(7, b"\x12"),
        None,
        b"else",
        _framed(8, '{"total": 11, "note": "é"}'.encode()),
        _framed(9, b"\x12"),
        _framed(10, b"\0\x08\x0c"),
        b"\x1a",
        b"\1" + UUID(GUID).bytes + b"\x1c",
    ]
    records = _records(values, {7: [(b"__value_schema_id", b"\1" + UUID(GUID).bytes)]})
    publish_segment(FilesystemStore(lake), "bills", 0, 0, len(values), records=records)


def write_trees(lake: Path, *, levels: Sequence[int]) -> None:
    """A topic `trees`, each record a tree in Avro of so many levels; with its schema."""
    tree = '{"type": "record", "name": "Tree", "fields": [{"name": "n", "type": ["null", "Tree"]}]}'
    version = SchemaVersion(version=1, id=7, schema=Schema(text=tree))
    archived = ArchivedVersion(subject="trees-value", version=version, level="NONE", mode=None)
    lake.mkdir()
    ArchivedSchemas(FilesystemStore(lake), "here").add(archived, writer="test", now_seconds=0.0)
    values = [_framed(7, b"\x02" * (each - 1) + b"\0") for each in levels]
    publish_segment(FilesystemStore(lake), "trees", 0, 0, len(values), records=_records(values))


def _framed(schema_id: int, body: bytes) -> bytes:
    return b"\0" + pack(">i", schema_id) + body


def _records(
    values: Sequence[bytes | None], headers: Mapping[int, list[tuple[bytes, bytes]]] = MappingProxyType({})
) -> RecordColumns:
    count = len(values)
    return RecordColumns.of(
        offsets=np.arange(count, dtype=np.int64),
        timestamps=np.full(count, FIRST_TIME_MS, np.int64),
        timestamp_types=np.zeros(count, np.int8),
        keys=pa.array([None] * count, pa.large_binary()),
        values=pa.array(values, pa.large_binary()),
        headers=pa.array([headers.get(place, []) for place in range(count)], HEADERS_TYPE),
    )


def archived_versions(lake: Path, registry: str = "here") -> dict[int, dict[str, Any]]:
    """By id, what the objects of versions say."""
    root = lake / "_mirrorlake" / "schemas" / registry
    found = [json.loads(path.read_text()) for path in root.glob("*/*.json") if not path.name.startswith("_")]
    return {each["id"]: each for each in found}


def archived_values(lake: Path, topic: str) -> list[bytes | None]:
    """The values of all records in a topic's segments, by partition and offset."""
    folders = sorted((lake / topic).glob("[0-9]*"))
    tables = [pq.read_table(path) for folder in folders for path in sorted(folder.glob("*.parquet"))]
    return [value for table in tables for value in table["value"].to_pylist()]


def archived_ids(lake: Path, topic: str) -> set[int]:
    """The schema ids of those values."""
    values = archived_values(lake, topic)
    return {unpack(">i", each[1:5])[0] for each in values if each is not None and len(each) >= 5 and each[0] == 0}


def said_schema_ids(lake: Path, topic: str) -> list[Any]:
    """What each segment of a topic says of the schema ids of its records, as JSON; None where it says nothing."""
    footers = [pq.read_metadata(file).metadata[b"mirrorlake"] for file in sorted(lake.glob(f"{topic}/*/*.parquet"))]
    footers += [file.read_bytes() for file in sorted(lake.glob(f"{topic}/_meta/*/*.json"))]
    return [json.loads(each).get("schema_ids") for each in footers]
