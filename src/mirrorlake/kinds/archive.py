"""Archives: every record, in files that each hold one range of offsets."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar

from mirrorlake.archive.chain import floor_of
from mirrorlake.archive.ends.lost_end import check_end_stands
from mirrorlake.archive.folder import check_folder_content
from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.archive.names import FLOOR_PREFIX, partition_prefix
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.reading import check_covered
from mirrorlake.config.destinations.archive import ArchiveDestination, ArchiveFormat, Compaction
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.resolved import TruncationPolicy
from mirrorlake.destinations.archive.archived_tail import ArchivedTailCheck
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.errors import MirrorlakeError, UnsupportedError
from mirrorlake.kinds.archive_ends import archived_partition, check_end, passes_over
from mirrorlake.kinds.copies import ArchiveSide, CopySide
from mirrorlake.kinds.filter_warnings import filter_warnings
from mirrorlake.kinds.kafka import archived_ids
from mirrorlake.kinds.kind import Kind, Look
from mirrorlake.kinds.side_by_side import errors_of
from mirrorlake.kinds.spans import span_text
from mirrorlake.kinds.standing import Position, Sample, Standing
from mirrorlake.mirror.due import FlushRule
from mirrorlake.mirror.flush_clock import FlushClock
from mirrorlake.stores.os_errors import why_not_writable
from mirrorlake.stores.settings import FilesystemSettings
from mirrorlake.together import all_of
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target

DAY_SECONDS = 86400.0

JSON_LOOPS = "mirrorlake.archive.formats.json_kernels"
"""Compiled when it is imported."""


class ArchiveKind(Kind):
    """The end of the newest file is the position."""

    work_type: ClassVar[type[DestinationWork]] = ArchiveWork
    holds_segments = True

    def takes(self, destination: Destination) -> bool:
        """Returns whether it is an archive of every record."""
        return isinstance(destination, ArchiveDestination) and destination.compaction is Compaction.NONE

    def work(self, target: Target, *, writer: str) -> ArchiveWork:
        """Returns what a lease is told; ``writer`` is written into claims and files."""
        return ArchiveWork(
            destination=target.archive.label,
            store=target.archive.store.settings,
            settings=self.settings(target, writer=writer),
        )

    def settings(self, target: Target, *, writer: str) -> ArchiveSettings:
        """Returns how the partition is archived."""
        destination = target.archive
        return ArchiveSettings(
            source=target.source,
            destination_name=target.destination_topic,
            compression=destination.compression.value,
            format=destination.format.value,
            records_max=destination.flush.records_max,
            bytes_max=destination.flush.bytes_max,
            cluster_id=target.source_cluster_id,
            topic_id=target.topic_id,
            writer=writer,
            skips_truncated=target.mirror.on_truncation is TruncationPolicy.SKIP,
            source_is_compacted=target.source_is_compacted,
            keeps=target.keeps,
            takes=target.takes,
            projects=target.projects,
            schema_ids=archived_ids(target),
        )

    def flush_rule(self, target: Target) -> FlushRule:
        """Returns when a segment is cut."""
        flush = target.archive.flush
        return FlushRule(
            bytes_max=flush.bytes_max, records_max=flush.records_max, time_seconds_max=flush.time_seconds_max
        )

    def flush_clock(self, target: Target) -> FlushClock:
        """Returns what keeps the time of day, and what the source keeps."""
        return FlushClock(daily_at_utc=target.archive.flush.daily_at_utc, retention=target.source_retention)

    def segment_bytes_max(self, destination: Destination) -> int | None:
        """Returns the most bytes of one segment."""
        assert isinstance(destination, ArchiveDestination)
        return destination.flush.bytes_max

    def preload(self, destination: Destination) -> tuple[str, ...]:
        """Returns the work's module, and the loops of NDJSON, which take seconds the first time a machine sees them."""
        assert isinstance(destination, ArchiveDestination)
        more = (JSON_LOOPS,) if destination.format is ArchiveFormat.NDJSON else ()
        return (*super().preload(destination), *more)

    async def positions(
        self, targets: Mapping[int, Target], clients: WorkerCache
    ) -> Mapping[int, Position | MirrorlakeError]:
        """Lists the end of each folder, and checks whose it is."""
        del clients
        known = {n: target for n, target in targets.items() if target.source.partition != UNKNOWN_PARTITION}
        found = await all_of(asyncio.to_thread(_position, target) for target in known.values())
        return dict(zip(known, found, strict=True))

    def place(self, target: Target) -> str:
        """Returns the topic's folder."""
        return target.archive.store.settings.where(target.destination_topic)

    async def looks(self, rows: Mapping[int, Standing], clients: WorkerCache, *, at_once: int) -> Mapping[int, Look]:
        """Compares the newest segment of each archive that has one with the source's records.

        Where a gap is to be recorded, it is asked whether the archive has lost what was there, as by a lease.
        """

        async def look(row: Standing) -> None:
            archived = archived_partition(row.target)
            assert isinstance(archived, ArchivedPartition)
            if passes_over(row):
                await asyncio.to_thread(check_end_stands, archived, archived.find_end)
            tail = (await asyncio.to_thread(archived.find_end)).tail
            check = ArchivedTailCheck(
                row.target.source_work.log(row.target.source, clients),
                archived,
                source_is_compacted=row.target.source_is_compacted,
                projects=row.target.projects,
                in_thread=asyncio.to_thread,
            )
            if tail is not None:
                await check.check(tail)

        asked = {number: row for number, row in rows.items() if row.position or passes_over(row)}
        errors = await errors_of(asked, look, at_once=at_once)
        return {number: Look(error=error) for number, error in errors.items()}

    def why_not_writable(self, target: Target) -> MirrorlakeError | None:
        """Returns what a filesystem says of the partition's folder, or of the one above it that is there."""
        settings = target.archive.store.settings
        if not isinstance(settings, FilesystemSettings):
            return None  # a bucket tells who writes
        return why_not_writable(settings.root / partition_prefix(target.destination_topic, target.source.partition))

    def copy_side(self, row: Standing) -> CopySide:
        """Returns the partition's folder."""
        target = row.target
        return ArchiveSide(
            store=target.archive.store.settings,
            destination_name=target.destination_topic,
            partition=target.source.partition,
            extension=extension_of(target.archive.format.value),
        )

    def floor(self, target: Target) -> int:
        """Returns the floor that retention wrote, 0 where it wrote none."""
        archived = archived_partition(target)
        return floor_of(archived.store.list(archived.prefix, start_after=FLOOR_PREFIX))

    def check_names(self, target: Target) -> None:
        """Reads the whole chain, of which `positions` may have read the end, and what says that it had come further.

        What lies beside the chain must be covered by it: others read that too.
        """
        archived = archived_partition(target)
        check_end_stands(archived, archived.read_chain)
        if isinstance(archived, ArchivedPartition):
            check_covered(archived)

    def check_content(self, target: Target) -> None:
        """Compares every file with what it says of itself."""
        check_folder_content(archived_partition(target))

    def immovable(self, target: Target) -> MirrorlakeError | None:
        """Returns that the end of the chain is the position."""
        return UnsupportedError(
            f"the position of {target.source} at {target.destination.label} is the end of its newest archive file: "
            "it is not moved",
            hint="`mirrorlake archive ls` shows the files; to archive a range again see `Archiving a range again` in "
            "the operations page; to let old ones go use `mirrorlake archive retain`; to begin anew give the "
            "destination another `name`",
        )

    def refusal(self, row: Standing) -> MirrorlakeError | None:
        """Returns None: an archive records the gap."""
        del row
        return None

    def notes(self, row: Standing, *, is_new: bool) -> Sequence[str]:
        """Returns which offsets are recorded as a gap."""
        del is_new
        start, source_start = row.position, row.source_start
        if start is None or source_start is None or source_start <= start:
            return ()
        return [f"offsets {start}…{source_start - 1} are gone at the source and recorded as a gap"]

    def warnings(self, target: Target, sample: Sample, *, now_ms: int) -> Sequence[str]:
        """Returns what becomes of a flush that would come after the source has deleted what it is to hold."""
        del sample, now_ms
        return [*_late_flush(target, target.archive), *filter_warnings(target)]


def _position(target: Target) -> Position | MirrorlakeError:
    try:
        archived = archived_partition(target)
        chain = archived.find_end()
        check_end(target, archived, chain)
    except MirrorlakeError as error:
        return error
    return Position(offset=chain.position)


def waits_seconds(destination: ArchiveDestination) -> float:
    """Returns how long a record may wait for its segment, at most."""
    flush = destination.flush
    return min(flush.time_seconds_max, DAY_SECONDS if flush.daily_at_utc is not None else flush.time_seconds_max)


def _late_flush(target: Target, destination: ArchiveDestination) -> list[str]:
    """Says what becomes of a flush that would come after the source has deleted what it is to hold."""
    waits, kept = waits_seconds(destination), target.source_retention.seconds
    if kept is None or kept > waits:
        return []
    deleted_after, waits_for = span_text(int(kept * 1000)), span_text(int(waits * 1000))
    return [
        f"{destination.store.name}/{target.destination_topic}: the source deletes records older than {deleted_after}, "
        f"and `flush` lets a record wait for {waits_for}: segments are cut early, at half that age "
        "(`trigger=retention`); a mirror that is down for that long still loses records"
    ]
