"""Archives to be read as sources, of every form: written by the real writers, without a source of their own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.archive import sidecar
from mirrorlake.archive.blocks.sums import BLOCK_BYTES
from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter, SnapshotState, decode_footer
from mirrorlake.archive.formats import parquet_reader
from mirrorlake.archive.formats.log import LogSegmentWriter
from mirrorlake.archive.formats.log_batches import clipped, log_batch
from mirrorlake.archive.formats.parquet_rows import ParquetRows
from mirrorlake.archive.formats.registry import record_writer
from mirrorlake.archive.gaps import GapFinder
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.root_marker import ensure_root_marker
from mirrorlake.archive.sidecar import create_sidecar
from mirrorlake.archive.snapshots.latest import latest_per_key
from mirrorlake.archive.topic_record import TopicRecord, record_topic
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition, gaps_within
from mirrorlake.page_compression import Compression
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.stores.object_store import ObjectStore
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings, StoreSettings
from support.held_source import HeldPartition

FORMS = ("log", "parquet", "ndjson", "mirror-v3", "snapshot")
BARE_NDJSON = "mirror-v3-ndjson"
"""NDJSON as mirror-v3 writes it: nothing lies beside it that says what it holds."""

BLOCKLESS_LOG = "log without blocks"
"""As earlier versions wrote it: one checksum of the whole file."""

SMALL_BLOCKS_LOG = "log of small blocks"

_BLOCKS = {BLOCKLESS_LOG: None, SMALL_BLOCKS_LOG: 100, "log": BLOCK_BYTES}

TOPIC_ID = "Zm9sZGVyLW9mLXRvcGljcw"
CLUSTER_ID = "cluster-of-the-archive"


def without_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has Parquet and NDJSON segments read as those of earlier versions: they say nothing of their blocks."""

    def blockless(data: bytes, *, where: str) -> SegmentFooter:
        footer = decode_footer(data, where=where)
        file = replace(footer.file, blocks=None) if footer.file is not None else None
        return replace(footer, pages=None, file=file)

    monkeypatch.setattr(parquet_reader, "decode_footer", blockless)
    monkeypatch.setattr(sidecar, "decode_footer", blockless)


def settings_at(root: Path) -> FilesystemSettings:
    return FilesystemSettings(root=root)


def source_at(place: StoreSettings, **more: object) -> ArchiveSourceWork:
    """The archive as a source."""
    return replace(ArchiveSourceWork(store_name="lake", store=place), **more)  # type: ignore[arg-type]


def extension_of(form: str) -> str:
    if form in _BLOCKS:
        return "log"
    return {"mirror-v3": "parquet", "snapshot": "parquet", BARE_NDJSON: "ndjson"}.get(form, form)


def archive(
    place: StoreSettings,
    where: TopicPartition,
    content: HeldPartition,
    ends: Sequence[int],
    *,
    form: str,
    topic_id: str = TOPIC_ID,
    topic: str | None = None,
    compression: str = "zstd-1",
    gaps: Sequence[Gap] = (),
    configs: Mapping[str, str | None] | None = None,
) -> None:
    """Writes what is held as segments with these ends (exclusive), the first from 0 on, and the markers.

    What lies below ``content.start`` is a truncated gap; ``gaps`` are others whose kind is known.
    """
    store = open_store(place)
    starts = (0, *ends[:-1])
    for start, end in zip(starts, ends, strict=True):
        write_segment(
            store, where, content, start, end, form=form, topic_id=topic_id, compression=compression, gaps=gaps
        )
    mark(store, where, ends[-1], form=form, topic_id=topic_id, topic=topic, configs=configs)


def mark(
    store: ObjectStore,
    where: TopicPartition,
    end: int,
    *,
    form: str,
    topic_id: str = TOPIC_ID,
    topic: str | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> None:
    """Writes the markers that a run leaves."""
    ensure_root_marker(store, writer="test", now_seconds=1_700_000_000.0)
    seen = TopicRecord(
        cluster_id=CLUSTER_ID,
        topic=topic or where.topic,
        topic_id=topic_id,
        partitions=where.partition + 1,
        format=extension_of(form),
        holds_snapshots=form == "snapshot",
        configs={"retention.ms": "-1"} if configs is None else configs,
        reached={where.partition: end},
        writer="test",
    )
    record_topic(store, where.topic, seen, now_seconds=1_700_000_000.0)


def write_segment(
    store: ObjectStore,
    where: TopicPartition,
    content: HeldPartition,
    start: int,
    end: int,
    *,
    form: str,
    topic_id: str = TOPIC_ID,
    compression: str = "zstd-1",
    gaps: Sequence[Gap] = (),
    follows_mirror_v3: bool = False,
    schema_ids: SchemaIdCounts | None = None,
) -> str:
    """Publishes one segment and returns its key; a snapshot is of all below its end."""
    prefix = f"{where.topic}/{where.partition}"
    envelope = SegmentEnvelope(
        cluster_id=CLUSTER_ID,
        topic_id=topic_id,
        topic=where.topic,
        partition=where.partition,
        start_offset=start,
        writer="test",
        created_at="2026-01-02T03:04:05Z",
        follows_mirror_v3=follows_mirror_v3,
    )
    staged = store.stage(prefix, "test")
    footer = _write(staged.file, envelope, content, end, form=form, compression=compression, known=gaps, ids=schema_ids)
    key = f"{prefix}/{SegmentName(from_offset=start, to_offset=end - 1, extension=extension_of(form))}"
    if footer is not None and footer.file is not None:
        create_sidecar(store, key, footer)
    staged.publish(key)
    return key


def _write(
    file: BinaryIO,
    envelope: SegmentEnvelope,
    content: HeldPartition,
    end: int,
    *,
    form: str,
    compression: str,
    known: Sequence[Gap],
    ids: SchemaIdCounts | None,
) -> SegmentFooter | None:
    start = envelope.start_offset
    offsets = OffsetRange(start_offset=max(start, content.start), end_offset=max(end, content.start))
    gaps: list[Gap] = []
    if start < content.start:
        lost = OffsetRange(start_offset=start, end_offset=min(content.start, end))
        gaps.append(Gap(offsets=lost, kind=GapKind.TRUNCATED))
    gaps += gaps_within(known, OffsetRange(start_offset=start, end_offset=end))
    if form in _BLOCKS:
        log = LogSegmentWriter(file, envelope, block_bytes=_BLOCKS[form])
        batches = walk(memoryview(content.from_offset(offsets.start_offset)))
        cut = (
            clipped(log_batch(each), start_offset=offsets.start_offset, end_offset=end)
            for each in batches
            if each.header.base_offset < end
        )
        log.write([each for each in cut if each is not None])
        return log.close(end_offset=end, gaps=gaps, schema_ids=ids)
    if form == "snapshot":
        return _write_view(file, envelope, content, end, compression=compression, ids=ids)
    records = content.records(offsets)
    if form == "mirror-v3":
        _write_as_mirror_v3(file, envelope, records)
        return None
    writer = record_writer(extension_of(form), file, envelope, compression=compression)
    writer.write(records)
    footer = writer.close(end_offset=end, gaps=gaps, schema_ids=ids)
    return None if form == BARE_NDJSON else footer


def _write_view(
    file: BinaryIO,
    envelope: SegmentEnvelope,
    content: HeldPartition,
    end: int,
    *,
    compression: str,
    ids: SchemaIdCounts | None,
) -> SegmentFooter:
    rows = ParquetRows(file, envelope.topic, envelope.partition, compression=Compression(compression))
    held = content.records(OffsetRange(start_offset=0, end_offset=end))
    rows.write(latest_per_key(held))
    finder = GapFinder(envelope.start_offset)
    finder.follow(held.offsets[held.offsets >= envelope.start_offset])
    return rows.close(
        envelope,
        end_offset=end,
        gaps=finder.finish(end, []),
        leader_epoch=None,
        schema_ids=ids,
        snapshot=SnapshotState(complete_since_ms=0),
    )


def _write_as_mirror_v3(file: BinaryIO, envelope: SegmentEnvelope, records: RecordColumns) -> None:
    """A file with mirror-v3's columns: an unsigned offset, no exact header keys, no footer of ours."""
    kinds = {0: "create_time", 1: "log_append_time", -1: "not_available"}
    headers = [
        [{"key": each["key"].decode(), "value": each["value"]} for each in row] for row in records.headers.to_pylist()
    ]
    times = [None if time < 0 else int(time) for time in records.timestamps]
    item = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    table = pa.table(
        {
            "topic": pa.array([envelope.topic] * len(records), pa.string()),
            "partition": pa.array([envelope.partition] * len(records), pa.int32()),
            "offset": pa.array(records.offsets.tolist(), pa.uint64()),
            "timestamp_ms": pa.array(times, pa.int64()),
            "timestamp_type": pa.array([kinds[int(kind)] for kind in records.timestamp_types], pa.string()),
            "key": pa.array(records.keys.to_pylist(), pa.binary()),
            "value": pa.array(records.values.to_pylist(), pa.binary()),
            "headers": pa.array(headers, pa.list_(item)),
        }
    )
    pq.write_table(table, file, compression="zstd")


def held_records(batches: Iterable[tuple[int, bytes]], *, start: int = 0) -> HeldPartition:
    """Batches at their offsets, to be written as an archive."""
    content = HeldPartition()
    for base_offset, batch in batches:
        content.add(base_offset, batch)
    content.start = start
    return content
