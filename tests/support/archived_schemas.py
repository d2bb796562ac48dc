"""What an archive holds of schemas and of the ids of its records, read without mirrorlake; and one to query."""

import json
from collections.abc import Sequence
from pathlib import Path
from struct import pack, unpack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.archive.schemas.content import ArchivedVersion
from mirrorlake.archive.schemas.objects import ArchivedSchemas
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.schemas.history import Schema, SchemaVersion
from mirrorlake.stores.filesystem import FilesystemStore
from support.archives import FIRST_TIME_MS, publish_segment

DECODED_QUERY = (
    "select offset, schema_id(value) as id, get_json_object(try_decoded(value), '$.total') as total, "
    "try_decoded(value) as whole from lake.bills where get_json_object(try_decoded(value), '$.total') > 5 order by 1"
)
DECODED_ROWS = [
    {"offset": 1, "id": 7, "total": "9", "whole": '{"total": 9}'},
    {"offset": 4, "id": 8, "total": "11", "whole": '{"total": 11, "note": "é"}'},
    {"offset": 6, "id": 10, "total": "12", "whole": '{"total": 12}'},
]
"""Of `write_bills`, what that query finds."""


def write_bills(lake: Path) -> None:
    """A topic of Avro, JSON and Protobuf, with a null, something else, and an id of nobody's; with the schemas."""
    schemas = ArchivedSchemas(FilesystemStore(lake), "here")
    avro = '{"type": "record", "name": "Bill", "fields": [{"name": "total", "type": "int"}]}'
    protobuf = 'syntax = "proto3"; message Bill { int32 total = 1; }'
    schemas_by_id = {
        7: Schema(text=avro),
        8: Schema(text="{}", type="JSON"),
        10: Schema(text=protobuf, type="PROTOBUF"),
    }
    for number, schema in schemas_by_id.items():
        version = SchemaVersion(version=number, id=number, schema=schema)
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
    ]
    records = _records(values)
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


def _records(values: Sequence[bytes | None]) -> RecordColumns:
    count = len(values)
    return RecordColumns.of(
        offsets=np.arange(count, dtype=np.int64),
        timestamps=np.full(count, FIRST_TIME_MS, np.int64),
        timestamp_types=np.zeros(count, np.int8),
        keys=pa.array([None] * count, pa.large_binary()),
        values=pa.array(values, pa.large_binary()),
        headers=pa.array([[] for _ in values], HEADERS_TYPE),
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
