"""kafka-replicator's files, written with pyarrow as its Go code writes them; shares nothing with mirrorlake."""

import io
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support.records import Record

REGION = "us-west-1"
TOPIC = "orders"

GO_ZERO_TIME_NS = -6_795_364_578_871_345_152
"""What `time.Time{}.UnixNano()` is: a record without a timestamp."""

_BYTES = pa.binary()
_HEADER = pa.struct([pa.field("key", _BYTES, nullable=False), pa.field("value", _BYTES, nullable=False)])
COLUMNS = [
    pa.field("key", _BYTES, nullable=False),
    pa.field("value", _BYTES, nullable=False),
    pa.field("offset", pa.uint64(), nullable=False),
    pa.field("timestamp", pa.int64(), nullable=False),
    pa.field("headers", pa.list_(pa.field("element", _HEADER, nullable=False)), nullable=False),
]


def go_nanoseconds(timestamp_ms: int) -> int:
    """A time as Go's `UnixNano` counts it, in 64 bits that wrap around; none is Go's zero time."""
    if timestamp_ms < 0:
        return GO_ZERO_TIME_NS
    return (timestamp_ms * 1_000_000 + (1 << 63)) % (1 << 64) - (1 << 63)


def file_name(first: int, last: int) -> str:
    """The name of a file: both offsets inclusive."""
    return f"{first:020d}-{last:020d}"


def encode_file(
    records: Mapping[int, Record],
    *,
    first: int | None = None,
    last: int | None = None,
    partition: int = 0,
    level: int = 0,
    topic: str = TOPIC,
    region: str = REGION,
    row_group_rows: int = 1 << 20,
    said: Mapping[str, str | None] | None = None,
) -> bytes:
    """One file of these records by offset.

    Args:
        records: by offset.
        first: the name's first offset; the first record's unless told.
        last: the name's last offset; the last record's unless told.
        partition: of the records.
        level: of the file.
        topic: of the records.
        region: of the records.
        row_group_rows: rows of a row group.
        said: what the file says of itself instead, by key; None leaves a key out.
    """
    offsets = list(records)
    table = pa.table(
        [
            pa.array([each.key or b"" for each in records.values()], _BYTES),
            pa.array([each.value or b"" for each in records.values()], _BYTES),
            pa.array(offsets, pa.uint64()),
            pa.array([go_nanoseconds(each.timestamp) for each in records.values()], pa.int64()),
            pa.array(
                [[{"key": k.encode(), "value": v or b""} for k, v in each.headers] for each in records.values()],
                COLUMNS[-1].type,
            ),
        ],
        schema=pa.schema(COLUMNS),
    )
    metadata: dict[str, str | None] = {
        "region": region,
        "topic": topic,
        "partition": str(partition),
        "level": str(level),
        "startOffset": str(offsets[0] if first is None else first),
        "endOffset": str(offsets[-1] if last is None else last),
        "messageCount": str(len(offsets)),
        "createdTimestamp": "2021-07-21T10:11:12.123456789Z",
        **(said or {}),
    }
    file = io.BytesIO()
    with pq.ParquetWriter(
        file,
        table.schema,
        version="1.0",
        compression="snappy",
        use_dictionary=False,
        data_page_version="1.0",
        data_page_size=8 << 10,
        # Its writer's statistics are of no use to anybody.
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=row_group_rows)
        writer.add_key_value_metadata({key: value for key, value in metadata.items() if value is not None})
    return file.getvalue()


def key_of(
    first: int, last: int, *, level: int = 0, partition: int = 0, topic: str = TOPIC, region: str = REGION
) -> str:
    """Where a file lies below the store's key prefix."""
    return f"{region}/{topic}/{partition}/{level}/{file_name(first, last)}"


def write_file(
    root: Path,
    records: Mapping[int, Record],
    first: int,
    last: int,
    *,
    level: int = 0,
    partition: int = 0,
    topic: str = TOPIC,
    region: str = REGION,
    row_group_rows: int = 1 << 20,
) -> Path:
    """Writes the file of those records that lie from ``first`` to ``last``; it appears whole, as in a bucket."""
    held = {offset: record for offset, record in records.items() if first <= offset <= last}
    content = encode_file(
        held,
        first=first,
        last=last,
        partition=partition,
        level=level,
        topic=topic,
        region=region,
        row_group_rows=row_group_rows,
    )
    path = root / key_of(first, last, level=level, partition=partition, topic=topic, region=region)
    path.parent.mkdir(parents=True, exist_ok=True)
    (staged := root.parent / f"staged-{path.name}").write_bytes(content)
    return staged.rename(path)
