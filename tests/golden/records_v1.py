"""The records in the golden segments of format 1, written down apart from every other test."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns


class Record(NamedTuple):
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


RECORDS = (
    Record(10, 1_700_000_000_000, 0, b"key", b"value"),
    Record(11, 1_700_000_000_001, 0, None, None),
    Record(12, 1_700_000_000_002, 0, b"", b""),
    Record(13, 1_700_000_000_003, 0, b"k", None, ((b"a", b"1"), (b"b", None), (b"a", b""), (b"", b"x"))),
    Record(15, 1_700_000_000_001, 1, b"\x00\xff", b"\xff" * 300, ((b"\xff\xfe", b"1"), (b"ok", b"2"))),
    Record(16, -1, -1, b"k", b"v", (("ключ".encode(), b"\x00"),)),
    Record(20, 0, 0, b"k", b"v", ((b"\xed\xa0\x80", None),)),
)


def columns_of(records: list[Record]) -> RecordColumns:
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
