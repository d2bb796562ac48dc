"""A writer of a segment archive that dies at its crash points: run in processes of its own by test_publish_crashes.py.

A root is a folder, or the address of an S3 store with ``#`` and a prefix.
"""

import contextlib
import itertools
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter
from mirrorlake.archive.formats.log import LogSegmentWriter
from mirrorlake.archive.formats.log_batches import LogBatch, log_batch
from mirrorlake.archive.formats.registry import LOG, record_writer
from mirrorlake.archive.formats.same_range import confirm_same_range
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.publish import Adopted, SegmentPublication, StandDown
from mirrorlake.archive.sidecar import create_sidecar
from mirrorlake.errors import TransientError
from mirrorlake.kafka.records.batches import Codec, walk
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.records.columns import HEADERS_TYPE, RecordColumns
from mirrorlake.stores.bucket_store import BucketStore
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.stores.object_store import ObjectStore, StagedObject
from mirrorlake.stores.settings import S3Settings
from support.object_servers import settings_at

LIVES_MAX = 2_000


def source_records(start_offset: int, end_offset: int) -> RecordColumns:
    """What the source holds: every third offset is compacted away, and values differ in size."""
    offsets = [offset for offset in range(start_offset, end_offset) if offset % 3 != 1]
    return RecordColumns.of(
        offsets=np.array(offsets, np.int64),
        timestamps=np.array([1_700_000_000_000 + offset for offset in offsets], np.int64),
        timestamp_types=np.zeros(len(offsets), np.int8),
        keys=pa.array([b"key %d" % (offset % 5) for offset in offsets], pa.large_binary()),
        values=pa.array([b"%d " % offset * (offset % 40) for offset in offsets], pa.large_binary()),
        headers=pa.array([[] for _ in offsets], HEADERS_TYPE),
    )


ORIGIN = Origin(cluster_id="cluster", topic="orders", topic_id="topic-id", partition=0)


def store_at(root: str, crash_point: CrashPoint) -> ObjectStore:
    """The store of ROOT: a folder, or the place of a bucket that ``bucket_root`` made."""
    if not root.startswith("http"):
        return FilesystemStore(Path(root), crash_point=crash_point)
    endpoint, _, prefix = root.partition("#")
    return BucketStore(settings_at(endpoint, prefix))


def bucket_root(settings: S3Settings) -> str:
    return f"{settings.endpoint}#{settings.prefix}"


def archived(root: str, crash_point: CrashPoint, *, extension: str) -> ArchivedPartition:
    store = store_at(root, crash_point)
    return ArchivedPartition(store, destination_name="orders", partition=0, extension=extension)


def write_archive(archive: ArchivedPartition, source_end: int, length: int, crash_point: CrashPoint) -> None:
    """Publishes segments until the archive has all of the source."""
    while True:
        # Another writer was first, or a store failed: read again.
        with contextlib.suppress(TransientError):
            chain = archive.read_chain()
            if chain.position >= source_end:
                return
            archive.sweep(chain)
            pending = archive.pending_claim(chain, origin=ORIGIN)
            planned = pending.to_offset if pending else min(chain.position + length, source_end) - 1
            publication = archive.publication(
                chain.position, origin=ORIGIN, writer=f"writer {length}", crash_point=crash_point
            )
            publish(archive, publication, planned, crash_point)


def publish(archive: ArchivedPartition, publication: SegmentPublication, planned: int, crash_point: CrashPoint) -> None:
    staged, footer = staged_segment(publication, planned, archive.extension)
    outcome = publication.claim(planned, raw_bytes=footer.raw_bytes)
    if isinstance(outcome, StandDown):
        staged.discard()
        return
    if isinstance(outcome, Adopted):
        staged.discard()
        staged, footer = staged_segment(publication, outcome.to_offset, archive.extension)

    def confirm(key: str) -> None:
        assert confirm_same_range(archive.store, key, footer), f"{key} differs from what this writer has"

    if footer.file is not None:
        key = f"{archive.prefix}/{publication.segment_name}"
        create_sidecar(archive.store, key, footer, crash_point=crash_point)
    publication.publish(staged, confirm_equal=confirm)
    publication.release()


def staged_segment(
    publication: SegmentPublication, to_offset: int, extension: str
) -> tuple[StagedObject, SegmentFooter]:
    staged = publication.stage()
    envelope = SegmentEnvelope(
        cluster_id="cluster",
        topic_id="topic-id",
        topic="orders",
        partition=0,
        start_offset=publication.from_offset,
        writer=f"process {os.getpid()}",
        created_at="2026-01-02T03:04:05Z",
    )
    records = source_records(publication.from_offset, to_offset + 1)
    if extension == LOG:
        log = LogSegmentWriter(staged.file, envelope)
        log.write(source_batches(records))
        return staged, log.close(end_offset=to_offset + 1)
    segment = record_writer(extension, staged.file, envelope, compression="zstd-1")
    segment.write(records)
    return staged, segment.close(end_offset=to_offset + 1)


def source_batches(records: RecordColumns) -> list[LogBatch]:
    """A batch for each record, so that batches end wherever a segment may."""
    rows = (records.slice(row, row + 1) for row in range(len(records)))
    made = (encode_batch(row, codec=Codec.NONE, base_offset=int(row.offsets[0])) for row in rows)
    return [log_batch(batch) for data in made for batch in walk(memoryview(data))]


def live(root: str, extension: str, source_end: int, length: int, crash_point: CrashPoint) -> int:
    """Runs one life in a process of its own; returns its wait status."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            write_archive(archived(root, crash_point, extension=extension), source_end, length, crash_point)
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def dies_sometimes(seed: int, probability: float) -> CrashPoint:
    chance = random.Random(seed)

    def crash_point(step: str) -> None:
        if chance.random() < probability:
            os.kill(os.getpid(), signal.SIGKILL)

    return crash_point


def dies_at(count: int) -> CrashPoint:
    """Dies at the ``count``-th crash point it comes to."""
    steps: list[str] = []

    def crash_point(step: str) -> None:
        steps.append(step)
        if len(steps) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    return crash_point


def die_at_each(root: str, extension: str, length: int) -> int:
    """Forks a life per crash point of publishing one segment of so many offsets, killed at that point.

    Each has a root of its own, ``ROOT/0``, ``ROOT/1``, …. Returns how many lives were killed; one more was not.
    """
    for killed in range(LIVES_MAX):
        folder = f"{root}/{killed}"
        if not root.startswith("http"):
            Path(folder).mkdir()
        status = live(folder, extension, length, length, dies_at(killed + 1))
        if status == 0:
            return killed
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    raise AssertionError("no life got to the end")


def die_at_each_of_another_segment(root: str, length: int) -> int:
    """As `die_at_each` with Parquet, but behind a first segment that was published in peace."""
    for killed in range(LIVES_MAX):
        folder = f"{root}/{killed}"
        Path(folder).mkdir()
        write_archive(archived(folder, no_crash, extension="parquet"), length, length, no_crash)
        status = live(folder, "parquet", 2 * length, length, dies_at(killed + 1))
        if status == 0:
            return killed
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    raise AssertionError("no life got to the end")


def write_for_ever(root: str, length: int, pause_seconds: float = 0.01) -> None:
    """Publishes a Parquet segment of ``length`` offsets after each pause, until the process is killed."""
    archive = archived(root, no_crash, extension="parquet")
    for end in itertools.count(archive.read_chain().position + length, length):
        write_archive(archive, end, length, no_crash)
        time.sleep(pause_seconds)


def die_at_random(root: str, extension: str, source_end: int, length: int, seed: int, probability: float) -> int:
    """Forks one life after another until one gets to the end.

    Each publishes segments of ``length`` offsets until the archive has ``source_end``, and kills itself at a crash
    point with ``probability``. Returns 0 when a life got to the end.
    """
    for life in range(LIVES_MAX):
        crash_point = dies_sometimes(seed * LIVES_MAX + life, probability)
        status = live(root, extension, source_end, length, crash_point)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            return os.waitstatus_to_exitcode(status)
    return 2
