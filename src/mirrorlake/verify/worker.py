"""One task of a verification: digests a range of one side, next to that side; only digests travel."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import erased_ranges, read_archived_range
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.letters.dead_letters import LetterOrigin
from mirrorlake.destinations.map.progress import ProgressKey
from mirrorlake.destinations.map.progress_store import read_offset_map
from mirrorlake.destinations.source_log import SourceLog
from mirrorlake.destinations.transform import AS_IT_IS, Transform
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.records.scratch import DECOMPRESSED_BYTES_MAX, allow
from mirrorlake.kinds.copies import ArchiveSide, KafkaSide, MappedSide
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.source import SourceWork
from mirrorlake.stores.opening import open_store
from mirrorlake.verify.cleaned import Trace, key_hash, traces_of
from mirrorlake.verify.digest import Block, BlockDigests
from mirrorlake.verify.lettered import NO_OFFSETS, LettersTask, Offsets, find_letters
from mirrorlake.verify.unnamed import UnnamedTask, find_unnamed


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSide:
    """A partition of a source, which has to hold all that is asked for."""

    source_work: SourceWork
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestTask:
    """What one task reads; with ``in_detail`` it returns every record's trace, so the range should be short.

    With ``latest_of`` it returns the highest offset of each of these keys (by hash) instead. ``offsets`` are the
    source's, on every side; those of ``lettered``, ascending, are dead letters and left out on both sides.
    ``transform`` is what the copy changes of records. ``largest_batch_bytes`` is what one record batch may decompress
    to.
    """

    side: SourceSide | KafkaSide | MappedSide | ArchiveSide
    offsets: OffsetRange
    in_detail: bool = False
    latest_of: frozenset[int] = frozenset()
    transform: Transform = AS_IT_IS
    lettered: Offsets = field(default_factory=lambda: NO_OFFSETS, compare=False)
    largest_batch_bytes: int = DECOMPRESSED_BYTES_MAX

    @property
    def is_of_copy(self) -> bool:
        """True where the side is the copy, False where it is the source."""
        return not isinstance(self.side, SourceSide)


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestResult:
    """What one task found. ``traces`` are those of every record, ``latest`` offsets by key, only where asked for.

    ``covered`` counts the offsets of the task that were read: what holds no record is known to hold none.
    ``erased`` are offsets that an archive says were erased from it, only of a task in detail; of a view those of the
    records that the other side's audit objects name. ``cleaned`` are those, as offsets of the source, where the log of
    the side shows that a cleaner has taken records, only of a task in detail. ``copied`` are those that an offset map
    names, where the side has one.
    Of an ``UnnamedTask`` ``records`` are those that no offset map names, ``first_unnamed`` the first one's offset, and
    ``repeated`` those that a map names as copied once more. Of a ``LettersTask`` ``letters`` are what it found.
    ``lettered`` are the records that were left out as dead letters.
    """

    records: int = 0
    covered: int = 0
    blocks: dict[int, Block] | None = None
    traces: tuple[Trace, ...] = ()
    latest: Mapping[int, int] = field(default_factory=dict)
    erased: tuple[OffsetRange, ...] = ()
    cleaned: tuple[OffsetRange, ...] = ()
    copied: tuple[OffsetRange, ...] | None = None
    first_unnamed: int | None = None
    repeated: int = 0
    letters: Mapping[LetterOrigin, Offsets] = field(default_factory=dict)
    lettered: int = 0
    error: MirrorlakeError | None = None


def work(plan: bytes) -> list[dict[str, object]]:
    """Runs the pickled task; returns one mapping ``{"kind": "digest", "result": DigestResult}``."""
    task: DigestTask | UnnamedTask | LettersTask = pickle.loads(plan)
    allow(task.largest_batch_bytes)
    try:
        if isinstance(task, UnnamedTask):
            found = asyncio.run(find_unnamed(task))
            result = DigestResult(records=found.records, first_unnamed=found.first_offset, repeated=found.repeated)
        elif isinstance(task, LettersTask):
            result = DigestResult(letters=asyncio.run(find_letters(task)))
        else:
            result = _digest(task)
    except MirrorlakeError as error:
        result = DigestResult(error=error)
    return [{"kind": "digest", "result": result}]


def _digest(task: DigestTask) -> DigestResult:
    if isinstance(task.side, ArchiveSide):
        return digest_archive(task)
    return asyncio.run(digest_source(task) if isinstance(task.side, SourceSide) else digest_kafka(task))


async def digest_source(task: DigestTask) -> DigestResult:
    """Digests a range of a source partition.

    Raises:
        MirrorlakeError: see ``SourceLog.read_range``.
    """
    assert isinstance(task.side, SourceSide)
    collector = Collector(task)
    async with source_log(task.side) as log:
        async for columns in log.read_range(task.offsets, cleaned=collector.cleaned):
            collector.add(columns)
    return collector.result()


@asynccontextmanager
async def source_log(side: SourceSide) -> AsyncIterator[SourceLog]:
    """Opens the source partition of a side."""
    clients = WorkerCache()
    try:
        yield side.source_work.log(side.partition, clients)
    finally:
        await clients.close()


async def digest_kafka(task: DigestTask) -> DigestResult:
    """Digests a range of a copy in Kafka.

    Raises:
        MirrorlakeError: see ``range_reader.read_range``.
    """
    assert isinstance(task.side, KafkaSide | MappedSide)
    collector = Collector(task)
    async with ClusterClient(task.side.cluster) as client:
        if isinstance(task.side, MappedSide):
            copied = await _digest_mapped(client, task.side, task.offsets, collector)
            if copied is None:
                return DigestResult()
            return replace(collector.result(), copied=copied if task.in_detail else None)
        where = task.side.partition
        offsets = await _what_is_left(client, where, task.offsets)
        async for columns in read_range(client, where, offsets, whose="destination", cleaned=collector.cleaned):
            collector.add(columns)
    return collector.result()


async def _what_is_left(client: ClusterClient, partition: TopicPartition, offsets: OffsetRange) -> OffsetRange:
    """Returns ``offsets`` without those before the log's start."""
    log_start = await client.offset_at(partition, EARLIEST)
    start = min(max(offsets.start_offset, log_start), offsets.end_offset)
    return OffsetRange(start_offset=start, end_offset=offsets.end_offset)


async def _digest_mapped(
    client: ClusterClient, side: MappedSide, offsets: OffsetRange, collector: "Collector"
) -> tuple[OffsetRange, ...] | None:
    """Digests what the offset map says is ours, at the source offsets it says; other writers' records are no part.

    Returns the source offsets that the map names; None where there is no map, so that nothing was read.
    """
    key = ProgressKey(destination_topic=side.partition.topic, source=side.source)
    whole = await read_offset_map(client, side.topics, side.shard, key)
    if whole is None:
        return None
    asked = whole.within(offsets)
    for part in asked.stretches:
        there = await _what_is_left(client, side.partition, part.destination_range)
        cleaned: list[OffsetRange] | None = None if collector.cleaned is None else []
        async for columns in read_range(client, side.partition, there, whose="destination", cleaned=cleaned):
            sources = part.sources_of(columns.offsets)
            rows = np.flatnonzero(sources >= 0)
            collector.add(columns.relocated(rows, sources[rows]))
        if collector.cleaned is not None and cleaned is not None:
            collector.cleaned += part.source_ranges(cleaned)
    return tuple(OffsetRange(start_offset=run.start_offset, end_offset=run.end_offset) for run in asked.runs)


def digest_archive(task: DigestTask) -> DigestResult:
    """Digests a range of an archived partition.

    Raises:
        ChainBrokenError: the files are not what they should be.
        MirrorlakeError: the store could not be read.
    """
    assert isinstance(task.side, ArchiveSide)
    archived = ArchivedPartition(
        open_store(task.side.store),
        destination_name=task.side.destination_name,
        partition=task.side.partition,
        extension=task.side.extension,
    )
    collector = Collector(task)
    for columns in read_archived_range(archived, task.offsets):
        collector.add(columns)
    erased = erased_ranges(archived, task.offsets) if task.in_detail else ()
    return replace(collector.result(), erased=tuple(erased))


class Collector:
    """Keeps block digests, every record's trace, or the latest offsets of keys, as the task asks.

    Args:
        task: what is asked; only records of its offsets are to be added.

    Attributes:
        cleaned: takes where the log of the side shows that it was cleaned, by the source's offsets; None where that
            is not asked.
    """

    def __init__(self, task: DigestTask) -> None:
        self.cleaned: list[OffsetRange] | None = [] if task.in_detail else None
        self._task = task
        self._digests = BlockDigests()
        self._traces: list[Trace] = []
        self._latest: dict[int, int] = {}
        self._lettered = 0

    def add(self, columns: RecordColumns) -> None:
        """Takes the next records, in offset order."""
        transform = self._task.transform
        if self._task.latest_of:
            # As the cleaner sees them, whatever a filter leaves out of the copy, and has no value but a key.
            projects = transform.projects and transform.projects.of_keys
            transform = replace(transform, keeps=None, takes=None, projects=projects)
        elif len(self._task.lettered):
            rows = np.flatnonzero(~np.isin(columns.offsets, self._task.lettered))
            self._lettered += len(columns) - len(rows)
            columns = columns.relocated(rows, columns.offsets[rows])
        columns = transform.copy_side(columns) if self._task.is_of_copy else transform.source_side(columns)
        if self._task.latest_of:
            hashes = map(key_hash, columns.keys.to_pylist())
            self._latest |= {
                each: offset
                for each, offset in zip(hashes, columns.offsets.tolist(), strict=True)
                if each in self._task.latest_of
            }
        elif self._task.in_detail:
            self._traces += traces_of(columns)
        else:
            self._digests.add(columns)

    def result(self) -> DigestResult:
        """Returns what was found; call when all of the task's offsets were read."""
        covered = len(self._task.offsets)
        if self._task.latest_of:
            return DigestResult(covered=covered, latest=self._latest)
        if self._task.in_detail:
            return DigestResult(
                records=len(self._traces),
                covered=covered,
                traces=tuple(self._traces),
                cleaned=tuple(self.cleaned or ()),
                lettered=self._lettered,
            )
        return DigestResult(
            records=self._digests.records, covered=covered, blocks=self._digests.blocks(), lettered=self._lettered
        )
