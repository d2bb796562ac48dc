"""Archives made by the real writer, without a source: what they hold is written down here."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.formats.parquet import ParquetSegmentWriter
from mirrorlake.archive.names import SegmentName, partition_prefix
from mirrorlake.kafka.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.stores.filesystem import FilesystemStore

FIRST_TIME_MS = 1_700_000_000_000
"""2023-11-14T22:13:20Z."""


def records_between(start_offset: int, end_offset: int) -> RecordColumns:
    """One record a second, none at offsets that end in 7."""
    offsets = [offset for offset in range(start_offset, end_offset) if offset % 10 != 7]
    return RecordColumns.of(
        offsets=np.array(offsets, np.int64),
        timestamps=np.array([FIRST_TIME_MS + 1000 * offset for offset in offsets], np.int64),
        timestamp_types=np.zeros(len(offsets), np.int8),
        keys=pa.array([b"key %d" % (offset % 5) for offset in offsets], pa.large_binary()),
        values=pa.array([b"value %d" % offset for offset in offsets], pa.large_binary()),
        headers=pa.array([[] for _ in offsets], HEADERS_TYPE),
    )


def write_segment(
    root: Path,
    name: str,
    partition: int,
    start_offset: int,
    end_offset: int,
    *,
    topic: str | None = None,
    topic_id: str | None = "id-1",
    folder: str = "",
) -> Path:
    """Publishes one segment of `records_between`, and returns its file."""
    store = FilesystemStore(root)
    prefix = "/".join(part for part in (partition_prefix(name, partition), folder) if part)
    staged = store.stage(prefix, "test")
    envelope = SegmentEnvelope(
        cluster_id="cluster-1",
        topic_id=topic_id,
        topic=topic or name,
        partition=partition,
        start_offset=start_offset,
        writer="test",
        created_at="2026-01-02T03:04:05Z",
    )
    segment = ParquetSegmentWriter(staged.file, envelope)
    segment.write(records_between(start_offset, end_offset))
    segment.close(end_offset=end_offset)
    file = SegmentName(from_offset=start_offset, to_offset=end_offset - 1, extension="parquet")
    staged.publish(f"{prefix}/{file}")
    return root / prefix / str(file)


def write_archive(root: Path, name: str, partition: int, *ends: int, topic: str | None = None) -> list[Path]:
    """Publishes a chain of segments with these ends (exclusive)."""
    starts = (0, *ends[:-1])
    return [
        write_segment(root, name, partition, start, end, topic=topic) for start, end in zip(starts, ends, strict=True)
    ]
