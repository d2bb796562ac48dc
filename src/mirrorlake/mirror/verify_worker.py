"""One task of a verification: digests a range of one side, next to that side; only digests travel."""

import asyncio
import pickle
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import read_archived_range
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.kafka.columns import RecordColumns
from mirrorlake.kafka.range_reader import read_range
from mirrorlake.kafka.settings import ClusterSettings
from mirrorlake.mirror.digest import Block, BlockDigests, record_hash_pairs
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.stores.filesystem import FilesystemStore


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSide:
    """A partition of a cluster."""

    cluster: ClusterSettings
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSide:
    """A partition of an archive on a filesystem. ``extension`` is the format's."""

    root: Path
    destination_name: str
    partition: int
    extension: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestTask:
    """What one task reads; with ``in_detail`` it returns every record's hash, so the range should be one block."""

    side: KafkaSide | ArchiveSide
    offsets: OffsetRange
    in_detail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestResult:
    """What one task found. ``pairs`` are offset and hash of every record, only where asked for."""

    records: int = 0
    blocks: dict[int, Block] | None = None
    pairs: tuple[tuple[int, int], ...] = ()
    error: MirrorlakeError | None = None


def work(plan: bytes) -> list[dict[str, object]]:
    """Runs the pickled ``DigestTask``; returns one mapping ``{"kind": "digest", "result": DigestResult}``."""
    task: DigestTask = pickle.loads(plan)
    try:
        result = digest_archive(task) if isinstance(task.side, ArchiveSide) else asyncio.run(digest_kafka(task))
    except MirrorlakeError as error:
        result = DigestResult(error=error)
    return [{"kind": "digest", "result": result}]


async def digest_kafka(task: DigestTask) -> DigestResult:
    """Digests a range of a Kafka partition.

    Raises:
        MirrorlakeError: see ``range_reader.read_range``.
    """
    assert isinstance(task.side, KafkaSide)
    client = ClusterClient(task.side.cluster)
    collector = _Collector(in_detail=task.in_detail)
    try:
        async for columns in read_range(client, task.side.partition, task.offsets):
            collector.add(columns)
    finally:
        await client.close()
    return collector.result()


def digest_archive(task: DigestTask) -> DigestResult:
    """Digests a range of an archived partition.

    Raises:
        ChainBrokenError: the files are not what they should be.
        MirrorlakeError: the store could not be read.
    """
    assert isinstance(task.side, ArchiveSide)
    archived = ArchivedPartition(
        FilesystemStore(task.side.root),
        destination_name=task.side.destination_name,
        partition=task.side.partition,
        extension=task.side.extension,
    )
    collector = _Collector(in_detail=task.in_detail)
    for columns in read_archived_range(archived, task.offsets):
        collector.add(columns)
    return collector.result()


class _Collector:
    """Keeps block digests, or every record's hash."""

    def __init__(self, *, in_detail: bool) -> None:
        self._in_detail = in_detail
        self._digests = BlockDigests()
        self._pairs: list[tuple[int, int]] = []

    def add(self, columns: RecordColumns) -> None:
        if self._in_detail:
            self._pairs += record_hash_pairs(columns)
        else:
            self._digests.add(columns)

    def result(self) -> DigestResult:
        if self._in_detail:
            return DigestResult(records=len(self._pairs), pairs=tuple(self._pairs))
        return DigestResult(records=self._digests.records, blocks=self._digests.blocks())
