"""One task of a comparison: digests a range of one side, next to that side, and says what it could not read of it."""

import asyncio
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.records.scratch import allow
from mirrorlake.offsets import Gap, OffsetRange, gaps_within
from mirrorlake.sources.archive.archive import Found, OpenArchive
from mirrorlake.sources.archive.log import opened, segments_within
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.stores.object_store import ObjectMissingError
from mirrorlake.verify.diff.gap_digests import gap_digests, joined
from mirrorlake.verify.diff.values import Unread
from mirrorlake.verify.worker import Collector, DigestResult, DigestTask, SourceSide, digest_source

WORK = "mirrorlake.verify.diff.task:work"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTask:
    """What one task reads of one side; ``number`` is its own, that of no other task of the comparison."""

    number: int
    digest: DigestTask


@dataclass(frozen=True, slots=True, kw_only=True)
class SideResult:
    """What one task found.

    ``digest`` is of what could be read; of ``unread`` it may hold some records or none. ``gap_blocks`` are digests of
    gaps by block (see `gap_digests`). Only of a task in detail there are the gaps themselves, and the offsets of which
    none are said.
    """

    digest: DigestResult = field(default_factory=DigestResult)
    gap_blocks: dict[int, int] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    unsaid: tuple[OffsetRange, ...] = ()
    unread: tuple[Unread, ...] = ()


def work(plan: bytes) -> list[dict[str, object]]:
    """Runs the pickled ``SideTask``; returns one mapping ``{"kind": "side", "result": SideResult}``."""
    task: SideTask = pickle.loads(plan)
    allow(task.digest.largest_batch_bytes)
    return [{"kind": "side", "result": digest_side(task.digest)}]


def digest_side(task: DigestTask) -> SideResult:
    """Digests a range of an archive or of a cluster; raises nothing of ours."""
    assert isinstance(task.side, SourceSide)
    if isinstance(task.side.source_work, ArchiveSourceWork):
        return _digest_archive(task, task.side, task.side.source_work)
    try:
        digest = asyncio.run(digest_source(task))
    except MirrorlakeError as error:
        return unread_whole(task.offsets, error)
    # A log does not say why an offset holds no record.
    blocks = gap_digests([], [task.offsets])
    return SideResult(digest=digest, gap_blocks=blocks, unsaid=(task.offsets,) if task.in_detail else ())


def unread_whole(offsets: OffsetRange, error: MirrorlakeError) -> SideResult:
    """Returns the result of a task that could read nothing."""
    return SideResult(unread=(Unread(offsets=offsets, error=error),))


def _digest_archive(task: DigestTask, side: SourceSide, work: ArchiveSourceWork) -> SideResult:
    clients = WorkerCache()
    try:
        reading = _Reading(OpenArchive(work, clients), side, Collector(task), task.offsets)
        try:
            reading.run()
        except MirrorlakeError as error:
            return unread_whole(task.offsets, error)
    finally:
        asyncio.run(clients.close())
    gaps = joined(reading.gaps)
    return SideResult(
        digest=reading.collector.result(),
        gap_blocks={} if task.latest_of else gap_digests(gaps, reading.unsaid),
        gaps=tuple(gaps) if task.in_detail else (),
        unsaid=tuple(reading.unsaid) if task.in_detail else (),
        unread=tuple(reading.unread),
    )


class _Reading:
    """Reads the segments of a range one by one; what one of them does not give is noted, and the next one is read.

    Args:
        archive: open for this task.
        side: which partition of it.
        collector: takes the records.
        offsets: what is read.
    """

    def __init__(self, archive: OpenArchive, side: SourceSide, collector: Collector, offsets: OffsetRange) -> None:
        self.collector = collector
        self.gaps: list[Gap] = []
        self.unsaid: list[OffsetRange] = []
        self.unread: list[Unread] = []
        self._archive = archive
        self._partition = side.partition
        self._position = offsets.start_offset
        self._end = offsets.end_offset

    def run(self) -> None:
        """Reads all there is.

        Raises:
            PositionMovedError: segments go faster than they can be looked at.
            MirrorlakeError: the folder could not be looked into.
        """
        for _ in range(LOOKS_MAX):
            found = self._archive.look(self._partition, is_whole=True)
            try:
                self._read(found)
            except ObjectMissingError:
                continue  # merged meanwhile: what holds its offsets now is in the next look
            return
        raise moved(str(self._partition))

    def _read(self, found: Found) -> None:
        rest = OffsetRange(start_offset=self._position, end_offset=self._end)
        for segment, within in segments_within(found, rest):
            self._note_hole(found, within.start_offset)
            try:
                self._read_segment(found, segment, within)
            except ObjectMissingError:
                raise
            except MirrorlakeError as error:
                self.unread.append(Unread(offsets=within, error=error))
            self._position = within.end_offset
        self._note_hole(found, self._end)

    def _note_hole(self, found: Found, end: int) -> None:
        """Notes that no segment has what lies between the position and ``end``: retired since, or lost."""
        if end > self._position:
            offsets = OffsetRange(start_offset=self._position, end_offset=end)
            self.unread.append(Unread(offsets=offsets, error=no_segment(found.folder.prefix, offsets)))
            self._position = end

    def _read_segment(self, found: Found, segment: Segment, within: OffsetRange) -> None:
        each = opened(found, segment)
        try:
            # Before its records: where it goes meanwhile, only what is left is read of the one that takes its place.
            self._take_gaps(within, None if each.footer is None else each.footer.gaps)
            for columns in _parts(each.records(within)):
                self.collector.add(columns)
                self._position = int(columns.offsets[-1]) + 1
        finally:
            each.close()

    def _take_gaps(self, within: OffsetRange, gaps: Sequence[Gap] | None) -> None:
        if gaps is None:
            self.unsaid.append(within)
        else:
            self.gaps += gaps_within(gaps, within)


def _parts(records: Iterator[RecordColumns]) -> Iterator[RecordColumns]:
    return (part for part in records if len(part))


def no_segment(prefix: str, offsets: OffsetRange) -> MirrorlakeError:
    """Returns the error of offsets that no segment has although others behind them are there, or were."""
    return ChainBrokenError(
        f"{prefix}: no segment has offsets {offsets}",
        hint="they were lost, are on their way, or were retired meanwhile: `mirrorlake archive check` says what is "
        "missing",
        start_offset=offsets.start_offset,
        end_offset=offsets.end_offset,
    )
