"""Where times bound the partitions of an archive, in offsets. Reads only.

What is found holds for what the archive held when it was looked at: a partition of which no record is later than
``until`` ends where it ended then, and a later look finds more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.archive.archive import OpenArchive
from mirrorlake.sources.archive.counting import count_behind
from mirrorlake.sources.archive.selection import ALL, ArchivedRange, ranges_of
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.sources.client import Bounds, SourceClient
from mirrorlake.sources.source import SourceWork
from mirrorlake.topics.holes import with_passed_holes
from mirrorlake.window import Window

Found = Mapping[TopicPartition, int | MirrorlakeError | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """A source with the bounds of a window.

    ``errors`` say why those of some partitions could not be found. ``not_due`` are partitions none of whose records is
    as late as ``from`` yet: where they begin is told by one that is still to come. Neither have a range in ``work``,
    so that nothing of them can be read.
    """

    work: SourceWork
    errors: Mapping[TopicPartition, MirrorlakeError] = field(default_factory=dict)
    not_due: frozenset[TopicPartition] = frozenset()


async def with_window(
    work: SourceWork, window: Window, partitions: Sequence[TopicPartition], clients: WorkerCache
) -> Windowed:
    """Returns the source as a mirror with this window sees it.

    Args:
        work: as the configuration says it.
        window: of the mirror.
        partitions: that it reads.
        clients: of all clusters.

    Raises:
        MirrorlakeError: the source could not be asked.
    """
    if not isinstance(work, ArchiveSourceWork):
        return Windowed(work=work)
    pinned = await _snapshots(work, partitions, clients)
    work = replace(work, ranges=_with_snapshots(work.ranges, pinned))
    if work.skip_after_seconds is not None:
        return Windowed(work=await with_passed_holes(work, partitions, clients))
    if not window.is_of_times:
        return Windowed(work=work)
    asked: SourceWork = replace(work, window=Window(), ranges=_with_snapshots(ranges_of(window), pinned))
    source = asked.client(clients)
    # First the ends: what is looked for is looked for in all of that, and perhaps in more.
    bounds = await source.bounds(partitions)
    starts = await _offsets_at(source, partitions, window.from_ms)
    ends = await _offsets_at(source, partitions, None if window.until_ms is None else window.until_ms + 1)
    errors = await _not_reached(source, [starts, ends])
    ranges: dict[TopicPartition, ArchivedRange] = {}
    not_due = []
    for partition in partitions:
        found = range_of(window, bounds[partition], starts.get(partition), ends.get(partition))
        if isinstance(found, MirrorlakeError):
            errors[partition] = found
        elif partition in errors:
            continue
        elif found is None:
            not_due.append(partition)
        else:
            ranges[partition] = found
    ranges = {each: replace(found, snapshot=pinned.get(each)) for each, found in ranges.items()}
    return Windowed(work=replace(work, window=window, ranges=ranges), errors=errors, not_due=frozenset(not_due))


async def _snapshots(
    work: ArchiveSourceWork, partitions: Sequence[TopicPartition], clients: WorkerCache
) -> Mapping[TopicPartition, str]:
    """Returns the snapshot that each partition is copied from, as leases that read two would lose what moved between.

    Nothing is read of a partition of snapshots that could not be looked at.
    """
    if not work.pins_snapshots:
        return {}
    anything = replace(work, window=Window(), ranges={}, pins_snapshots=False)
    return await anything.client(clients).snapshots(partitions)


def _with_snapshots(
    ranges: Mapping[TopicPartition, ArchivedRange], pinned: Mapping[TopicPartition, str]
) -> dict[TopicPartition, ArchivedRange]:
    named = {each: replace(ranges.get(each, ALL), snapshot=name) for each, name in pinned.items()}
    return {**ranges, **named}


async def count_left_out(work: SourceWork, window: Window, partition: TopicPartition, clients: WorkerCache) -> int:
    """Returns how many records behind the end of a partition are not later than ``until``; 0 where no time ends it.

    Raises:
        MirrorlakeError: the archive could not be read.
    """
    if window.until_ms is None or not isinstance(work, ArchiveSourceWork):
        return 0
    end, until_ms = work.range_of(partition).end_offset, window.until_ms
    if end is None:
        return 0
    archive = OpenArchive(replace(work, ranges={}, window=Window(), pins_snapshots=False), clients)
    return await clients.store_threads.look(
        lambda: archive.ask(partition, lambda found: count_behind(found, end, until_ms))
    )


async def _not_reached(source: SourceClient, looked_for: Sequence[Found]) -> dict[TopicPartition, MirrorlakeError]:
    """Returns why a bound of some partitions is not known: no record is late enough, and what follows is missing."""
    open_ended = {partition: None for found in looked_for for partition, offset in found.items() if offset is None}
    return dict(await source.missing(open_ended)) if open_ended else {}


async def _offsets_at(source: SourceClient, partitions: Sequence[TopicPartition], time_ms: int | None) -> Found:
    return {} if time_ms is None else await source.offsets_at(partitions, time_ms)


def range_of(
    window: Window,
    bounds: Bounds | MirrorlakeError,
    first_due: int | MirrorlakeError | None,
    first_late: int | MirrorlakeError | None,
) -> ArchivedRange | MirrorlakeError | None:
    """Returns what a window leaves of a partition, or why that is not known. Pure.

    A start is never moved by what a later look finds: a copy that was begun before it would stand below its own start.
    So it is the first due record, or None is returned, for a partition that has none yet; and an end that is a late
    record's is that record's offset, whatever else was there when the ends were read.

    Args:
        window: which times count.
        bounds: of the partition within the window's offsets, as they were before the others were looked for.
        first_due: the offset of the first record at or past ``from_ms``, None where there is none.
        first_late: the offset of the first record later than ``until_ms``, None where there is none.
    """
    for error in (bounds, first_due, first_late):
        if isinstance(error, MirrorlakeError):
            return error
    assert isinstance(bounds, Bounds)
    start, end = bounds.start, bounds.end
    if window.until_ms is not None and isinstance(first_late, int):
        end = max(start, first_late)
    if window.from_ms is not None:
        if not isinstance(first_due, int):
            return None
        start = max(start, first_due)
    if window.until_ms is None:
        return ArchivedRange(start_offset=start)
    if isinstance(first_late, int):
        start = min(start, end)
    return ArchivedRange(start_offset=start, end_offset=max(start, end))
