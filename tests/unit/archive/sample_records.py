"""Records for tests of segments, written down one by one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.origin import Origin
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns

Header = tuple[bytes, bytes | None]


@dataclass(frozen=True)
class Record:
    offset: int
    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple[Header, ...] = ()
    timestamp_ms: int = 1_700_000_000_000
    timestamp_type: int = 0


# Every case in which something could be lost: null and empty, repeated and reordered, odd bytes, odd times.
AWKWARD = (
    Record(10, b"key", b"value"),
    Record(11, None, None),
    Record(12, b"", b""),
    Record(13, b"k", None, headers=((b"a", b"1"), (b"b", None), (b"a", b""), (b"", b"x"))),
    Record(15, b"\x00\xff", b"\xff" * 300, headers=((b"\xff\xfe", b"1"), (b"ok", b"2"))),
    Record(16, b"k", b"v", headers=(("ключ".encode(), b"\x00"),), timestamp_ms=-1, timestamp_type=-1),
    Record(17, b"k", b"v", timestamp_ms=5, timestamp_type=1),
    Record(20, b"k", b"v", headers=((b"\xed\xa0\x80", None),), timestamp_ms=0),
)


def columns_of(records: Sequence[Record]) -> RecordColumns:
    return RecordColumns.of(
        offsets=np.array([record.offset for record in records], np.int64),
        timestamps=np.array([record.timestamp_ms for record in records], np.int64),
        timestamp_types=np.array([record.timestamp_type for record in records], np.int8),
        keys=pa.array([record.key for record in records], pa.large_binary()),
        values=pa.array([record.value for record in records], pa.large_binary()),
        headers=pa.array(
            [[{"key": key, "value": value} for key, value in record.headers] for record in records],
            HEADERS_TYPE,
        ),
    )


def records_in(columns: RecordColumns) -> Iterator[Record]:
    for row in range(len(columns)):
        yield Record(
            int(columns.offsets[row]),
            columns.keys[row].as_py(),
            columns.values[row].as_py(),
            tuple((header["key"], header["value"]) for header in columns.headers[row].as_py()),
            int(columns.timestamps[row]),
            int(columns.timestamp_types[row]),
        )


ORIGIN = Origin(cluster_id="cluster", topic="orders", topic_id="topic-id", partition=3)
"""Of the segments whose `envelope` is the one below."""


def envelope(*, start_offset: int = 0, topic_id: str | None = "topic-id", topic: str = "orders") -> SegmentEnvelope:
    return SegmentEnvelope(
        cluster_id="cluster",
        topic_id=topic_id,
        topic=topic,
        partition=3,
        start_offset=start_offset,
        writer="test",
        created_at="2026-01-02T03:04:05Z",
    )
