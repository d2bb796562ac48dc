"""What ``archive snapshot`` makes of one partition: up to which offset, of which segments, and where it goes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.archive.names import partition_prefix
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.topic_record import TopicRecord, read_topic_record
from mirrorlake.clock import Clock
from mirrorlake.errors import (
    MirrorlakeError,
    SourceTruncatedError,
)
from mirrorlake.mirror.plan_bytes import plan_bytes
from mirrorlake.offsets import OffsetRange
from mirrorlake.page_compression import Compression
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.snapshot_options import SnapshotOptions
from mirrorlake.service.archives.snapshot_target import (
    FolderAddress,
    SnapshotTarget,
    adopted_end,
    find_target,
    refused_earlier,
)
from mirrorlake.sources.archive.archive import Found
from mirrorlake.sources.archive.counting import count_behind
from mirrorlake.sources.archive.folder import SourceFolder
from mirrorlake.sources.archive.identity import TopicFolder
from mirrorlake.sources.archive.log import offset_at
from mirrorlake.sources.archive.snapshot_work import PartTask, SnapshotPlan
from mirrorlake.stores.object_store import ObjectMissingError
from mirrorlake.stores.opening import open_store

PART_BYTES_MAX = 128 << 20
"""What one task reads, to within one file, as Spark's own file sources have it."""

FILE_COST_BYTES = 256 << 10
"""What opening one more file costs, as bytes read: some milliseconds."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSnapshot:
    """The snapshot that was asked for and is there already: of which source, and up to which offset, exclusive."""

    origin: Origin
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSnapshot:
    """One partition, and what is to be made of it.

    ``plan`` is None where nothing is, for ``reason``, or where it cannot be, for ``failure``. ``is_adopted`` where the
    end is one that a run which died had claimed, and not the one that was asked for. ``folder`` is where snapshots go,
    None where it was not looked at. ``held`` is what is there of what was asked for, where nothing is to be made.
    """

    place: ArchivePlace
    plan: SnapshotPlan | None = None
    segments: tuple[Segment, ...] = ()
    record: TopicRecord | None = None
    reason: str = ""
    failure: MirrorlakeError | None = None
    is_adopted: bool = False
    folder: FolderAddress | None = None
    held: HeldSnapshot | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the files that are read."""
        return sum(each.size_bytes for each in self.segments)


def plan_snapshot(place: ArchivePlace, options: SnapshotOptions, *, clock: Clock) -> PlannedSnapshot:
    """Looks at one partition and at where its snapshot goes, and plans it; changes nothing."""
    try:
        if place.are_snapshots:
            return _already_views(place)
        return _planned(place, options, clock)
    except MirrorlakeError as error:
        return PlannedSnapshot(place=place, failure=error)


def pickled_plan(planned: PlannedSnapshot, *, bucket: int, slots: int) -> tuple[bytes, list[bytes]]:
    """Returns a plan, and the tasks that read its parts: as many as ``slots`` where there is enough to read."""
    assert planned.plan is not None
    groups = grouped(planned.segments, slots=slots)
    plan = replace(planned.plan, bucket=bucket, parts=len(groups))
    return plan_bytes(plan), [
        plan_bytes(
            PartTask(
                plan=plan,
                number=number,
                segments=group,
                offsets=OffsetRange(
                    start_offset=max(group[0].name.from_offset, plan.read.start_offset),
                    end_offset=min(group[-1].name.end_offset, plan.read.end_offset),
                ),
            )
        )
        for number, group in enumerate(groups)
    ]


def grouped(segments: Sequence[Segment], *, slots: int) -> list[tuple[Segment, ...]]:
    """Returns adjacent segments in groups of about equal cost, none above `PART_BYTES_MAX` but for one file. Pure."""
    whole = sum(each.size_bytes + FILE_COST_BYTES for each in segments)
    limit = max(1, min(PART_BYTES_MAX, -(-whole // max(1, slots))))
    groups: list[tuple[Segment, ...]] = []
    group: list[Segment] = []
    cost = 0
    for segment in segments:
        more = segment.size_bytes + FILE_COST_BYTES
        if group and cost + more > limit:
            groups.append(tuple(group))
            group, cost = [], 0
        group.append(segment)
        cost += more
    return [*groups, tuple(group)] if group else groups


def _planned(place: ArchivePlace, options: SnapshotOptions, clock: Clock) -> PlannedSnapshot:
    store = open_store(place.store)
    record = read_topic_record(store, place.name)
    reached = record.reached.get(place.partition, 0) if record is not None else 0
    folder = SourceFolder(store, partition_prefix(place.name, place.partition), clock=clock)

    def look() -> tuple[Found, int, list[str]]:
        found = _looked(place, record, folder, reached)
        return found, *((0, []) if found.view.snapshot is not None else _end(found, options, clock))

    found, end, notes = _steadily(look, folder.prefix)
    if found.view.snapshot is not None:
        return _already_views(place)
    if end <= found.start:
        return PlannedSnapshot(place=place, reason="there is no record up to there" if found.end else "there is none")
    origin = _origin(found, record, place)
    target = find_target(place, options, origin)
    if target.claimed_end is not None:
        end = adopted_end(target, end, found.end)
        notes = [*notes, f"up to offset {end}, as a run that did not finish had claimed"]
    elif target.chain.position == end:
        there = f"the snapshot up to offset {end} is there"
        held = HeldSnapshot(origin=origin, end_offset=end)
        return PlannedSnapshot(place=place, record=record, reason=there, folder=target.folder, held=held)
    elif target.chain.position > end:
        raise refused_earlier(target, end)
    if found.start:
        notes = [*notes, f"the archive begins at offset {found.start}: keys last written before are not in it"]
    read = OffsetRange(start_offset=found.start, end_offset=end)
    plan = _plan(place, options, target, origin, read)
    return PlannedSnapshot(
        place=place,
        plan=plan,
        segments=tuple(found.view.chain.overlapping(read)),
        record=record,
        reason="; ".join(notes),
        is_adopted=target.claimed_end is not None,
        folder=target.folder,
    )


def _plan(
    place: ArchivePlace, options: SnapshotOptions, target: SnapshotTarget, origin: Origin, read: OffsetRange
) -> SnapshotPlan:
    """Returns the plan of one snapshot, before it is known in how many parts it is read, and in which bucket it is."""
    return SnapshotPlan(
        bucket=0,
        source=place.store,
        source_name=place.name,
        partition=place.partition,
        read=read,
        parts=0,
        store=target.folder.store,
        name=target.name,
        offsets=OffsetRange(start_offset=target.chain.position, end_offset=read.end_offset),
        origin=origin,
        behind=target.chain.tail,
        keeps_tombstones=options.keeps_tombstones,
        compression=(place.destination.compression if place.destination is not None else Compression.ZSTD_1).value,
        writer=options.writer,
    )


def _already_views(place: ArchivePlace) -> PlannedSnapshot:
    return PlannedSnapshot(place=place, reason="it holds snapshots, each of them the latest record of every key")


def _looked(place: ArchivePlace, record: TopicRecord | None, folder: SourceFolder, reached: int) -> Found:
    view = folder.look(holds_snapshots=False, reached=reached, is_whole=True)
    topic = TopicFolder(topic=place.name, folder=place.name, record=record, partitions=frozenset({place.partition}))
    return Found(archive_id="", topic=topic, folder=folder, view=view, start=view.chain.start, end=view.end)


def _steadily(look: Callable[[], T], where: str) -> T:
    """Returns what a look finds, taken again while files are merged or retired under it."""
    for _ in range(LOOKS_MAX):
        try:
            return look()
        except ObjectMissingError:
            continue
    raise moved(where)


def _end(found: Found, options: SnapshotOptions, clock: Clock) -> tuple[int, list[str]]:
    """Returns the end that is asked for, and what is to be said of it.

    Raises:
        SourceTruncatedError: the archive begins behind the offset.
        ChainBrokenError, StoreUnavailableError: segments are missing below the end, or overlap there.
    """
    end, notes, offset = found.end, list[str](), options.until_offset
    if offset is not None and 0 < offset <= found.start:
        raise SourceTruncatedError(
            f"{found.folder.prefix} begins at offset {found.start}, and the snapshot is to end at {offset}: what lay "
            "before was retired, or was never archived",
            hint="ask for an offset behind that",
            position=offset,
            log_start=found.start,
        )
    is_bounded = offset is not None and offset <= found.end
    if offset is not None:
        end = min(end, offset)
    if options.until_ms is not None:
        first_late = offset_at(found, options.until_ms + 1)
        if first_late is not None and first_late <= end:
            end, is_bounded = first_late, True
            count = count_behind(found, end, options.until_ms)
            notes += [f"{count} records behind offset {end} are not later, and left out"] if count else []
    if not is_bounded and found.view.hole is not None:
        raise found.view.hole.error(clock.now_seconds())
    if not is_bounded and found.view.overlap is not None:
        raise found.view.overlap
    if offset is not None and not is_bounded and end < offset:
        notes.append(f"the archive ends at offset {end}")
    return end, notes


def _origin(found: Found, record: TopicRecord | None, place: ArchivePlace) -> Origin:
    """Returns whose records a partition holds, as far as its first segment and the topic's record say it."""
    first = found.view.chain.at(found.start)
    assert first is not None, "a range that is not empty has a first segment"
    # One that was merged away this moment is found by the next run: `PositionMovedError`.
    with open_segment(found.folder.store, f"{found.folder.prefix}/{first.name}") as reader:
        if reader.footer is not None:
            return Origin.of(reader.footer)
        if record is not None:
            return Origin(
                cluster_id=record.cluster_id, topic=record.topic, topic_id=record.topic_id, partition=place.partition
            )
        topics = {topic for topic, _ in reader.sources()}
    topic = topics.pop() if len(topics) == 1 else place.name
    return Origin(cluster_id="", topic=topic, topic_id=None, partition=place.partition)
