"""Segments of an archive in a folder, written as a mirror writes them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.formats.registry import record_writer
from mirrorlake.archive.names import SegmentName, partition_prefix
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.stores.filesystem import FilesystemStore

TOPIC = "orders"
_FIRST_TIME_MS = 1_700_000_000_000


def write_segment(store: FilesystemStore, partition: int, start_offset: int, values: Sequence[bytes]) -> None:
    """Publishes a Parquet segment of `TOPIC`, of records with these values from an offset on."""
    prefix = partition_prefix(TOPIC, partition)
    count = len(values)
    records = RecordColumns.of(
        offsets=np.arange(start_offset, start_offset + count),
        timestamps=np.arange(start_offset, start_offset + count) + _FIRST_TIME_MS,
        timestamp_types=np.zeros(count, np.int8),
        keys=pa.array([b"key %d" % number for number in range(count)], pa.large_binary()),
        values=pa.array(values, pa.large_binary()),
        headers=pa.array([[]] * count, HEADERS_TYPE),
    )
    envelope = SegmentEnvelope(
        cluster_id="bench",
        topic_id=None,
        topic=TOPIC,
        partition=partition,
        start_offset=start_offset,
        writer="bench",
        created_at="2026-01-02T03:04:05Z",
    )
    staged = store.stage(prefix, "bench")
    segment = record_writer("parquet", staged.file, envelope, compression="zstd-1")
    segment.write(records)
    segment.close(end_offset=start_offset + count)
    name = SegmentName(from_offset=start_offset, to_offset=start_offset + count - 1, extension="parquet")
    staged.publish(f"{prefix}/{name}")
