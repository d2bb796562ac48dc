"""Archive files as mirror-v3 writes them, made with pyarrow alone: no footer of ours, unsigned offsets."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support.records import Record

MIRROR_V3_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.utf8(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.uint64(), nullable=False),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("timestamp_type", pa.utf8(), nullable=False),
        pa.field("key", pa.large_binary()),
        pa.field("value", pa.large_binary()),
        pa.field(
            "headers",
            pa.list_(
                pa.struct([pa.field("key", pa.utf8(), nullable=False), pa.field("value", pa.large_binary())]),
            ),
            nullable=False,
        ),
    ]
)
"""``crates/mirror-envelope`` of mirror-v3."""


def segment_name(first: int, last: int) -> str:
    """Both inclusive, 20 digits."""
    return f"{first:020}-{last:020}.parquet"


def write_mirror_v3_segment(folder: Path, topic: str, partition: int, first: int, records: Sequence[Record]) -> Path:
    """Writes the records at offsets ``first`` and on as one file, and returns it."""
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "offset": first + n,
            "timestamp_ms": record.timestamp,
            "timestamp_type": "create_time",
            "key": record.key,
            "value": record.value,
            "headers": [{"key": key, "value": value} for key, value in record.headers],
        }
        for n, record in enumerate(records)
    ]
    path = folder / segment_name(first, first + len(records) - 1)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=MIRROR_V3_SCHEMA), path, compression="zstd", compression_level=1)
    return path
