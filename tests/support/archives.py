"""Archives made by the real writer, without a source: what they hold is written down here."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.formats.log import LogSegmentWriter
from mirrorlake.archive.formats.log_batches import log_batch
from mirrorlake.archive.formats.registry import record_writer
from mirrorlake.archive.names import SegmentName, partition_prefix
from mirrorlake.archive.root_marker import ensure_root_marker
from mirrorlake.archive.sidecar import create_sidecar
from mirrorlake.archive.topic_record import TopicRecord, record_topic
from mirrorlake.kafka.records.batch_header import Codec
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectStore

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
    cluster_id: str = "cluster-1",
    extension: str = "parquet",
) -> Path:
    """Publishes one segment of `records_between`, and returns its file."""
    key = publish_segment(
        FilesystemStore(root),
        name,
        partition,
        start_offset,
        end_offset,
        topic=topic,
        topic_id=topic_id,
        cluster_id=cluster_id,
        extension=extension,
    )
    return root / key


def publish_segment(
    store: ObjectStore,
    name: str,
    partition: int,
    start_offset: int,
    end_offset: int,
    *,
    topic: str | None = None,
    topic_id: str | None = "id-1",
    cluster_id: str = "cluster-1",
    extension: str = "parquet",
    records: RecordColumns | None = None,
    compression: str = "zstd-1",
) -> str:
    """The same in any store, with other records where they are given; returns the segment's key."""
    prefix = partition_prefix(name, partition)
    staged = store.stage(prefix, "test")
    envelope = SegmentEnvelope(
        cluster_id=cluster_id,
        topic_id=topic_id,
        topic=topic or name,
        partition=partition,
        start_offset=start_offset,
        writer="test",
        created_at="2026-01-02T03:04:05Z",
    )
    records = records_between(start_offset, end_offset) if records is None else records
    if extension == "log":
        batches = LogSegmentWriter(staged.file, envelope)
        data = encode_batch(records, codec=Codec.ZSTD, base_offset=start_offset)
        batches.write([log_batch(batch) for batch in walk(memoryview(bytes(data)))])
        footer = batches.close(end_offset=end_offset)
    else:
        segment = record_writer(extension, staged.file, envelope, compression=compression)
        segment.write(records)
        footer = segment.close(end_offset=end_offset)
    file = SegmentName(from_offset=start_offset, to_offset=end_offset - 1, extension=extension)
    if footer.file is not None:
        create_sidecar(store, f"{prefix}/{file}", footer)
    staged.publish(f"{prefix}/{file}")
    return f"{prefix}/{file}"


def write_archive(root: Path, name: str, partition: int, *ends: int, topic: str | None = None) -> list[Path]:
    """Publishes a chain of segments with these ends (exclusive)."""
    starts = (0, *ends[:-1])
    return [
        write_segment(root, name, partition, start, end, topic=topic) for start, end in zip(starts, ends, strict=True)
    ]


def mark_archive(
    root: Path, reached: Mapping[str, Mapping[int, int]], *, topic: str | None = None, topic_id: str = "id-1"
) -> None:
    """Writes the markers a run leaves: of the root, and of each topic with its partitions' positions."""
    store = FilesystemStore(root)
    ensure_root_marker(store, writer="test", now_seconds=1_700_000_000.0)
    for name, positions in reached.items():
        seen = TopicRecord(
            cluster_id="cluster-1",
            topic=topic or name,
            topic_id=topic_id,
            partitions=max(positions) + 1,
            format="parquet",
            holds_snapshots=False,
            reached=positions,
            writer="test",
        )
        record_topic(store, name, seen, now_seconds=1_700_000_000.0)
