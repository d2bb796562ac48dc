"""Snapshots: the latest record of every key."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mirrorlake.archive.ends.lost_end import check_end_stands
from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.archive.snapshots.followed import followed_snapshots
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.tombstones import PATIENCE_SHARE, snapshot_rule
from mirrorlake.config.destinations.archive import ArchiveDestination, Compaction
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.snapshots.work import SnapshotWork
from mirrorlake.errors import MirrorlakeError, UnsupportedError
from mirrorlake.kinds.archive import ArchiveKind, waits_seconds
from mirrorlake.kinds.archive_ends import archived_partition, origin_of, passes_over
from mirrorlake.kinds.copies import CopySide, SnapshotSide
from mirrorlake.kinds.kind import Look
from mirrorlake.kinds.side_by_side import errors_of
from mirrorlake.kinds.spans import span_text
from mirrorlake.kinds.standing import Sample, Standing
from mirrorlake.topics.targets import Target


class SnapshotKind(ArchiveKind):
    """An archive whose files are snapshots."""

    work_type = SnapshotWork
    holds_view = True

    def takes(self, destination: Destination) -> bool:
        """Returns whether it is an archive with ``compaction: log``."""
        return isinstance(destination, ArchiveDestination) and destination.compaction is Compaction.LOG

    def work(self, target: Target, *, writer: str) -> SnapshotWork:
        """Returns what a lease is told; ``writer`` is written into claims and files."""
        return SnapshotWork(
            destination=target.archive.label,
            store=target.archive.store.settings,
            settings=self.settings(target, writer=writer),
        )

    def settings(self, target: Target, *, writer: str) -> ArchiveSettings:
        """Returns how the partition is archived, and which tombstones a view may have missed."""
        configs = target.source_configs
        rule = snapshot_rule(configs.get("cleanup.policy"), configs.get("delete.retention.ms"))
        settings = super().settings(target, writer=writer)
        return replace(settings, snapshots=rule, snapshots_kept=target.archive.snapshots_kept)

    def segment_bytes_max(self, destination: Destination) -> int | None:
        """Returns None: a view is read for alone."""
        del destination
        return None

    async def looks(self, rows: Mapping[int, Standing], clients: WorkerCache, *, at_once: int) -> Mapping[int, Look]:
        """Compares nothing: a view holds no record that could be compared by its offset alone (decision 0165).

        Where a gap is to be recorded, it is asked whether newer snapshots are lost, as by a lease.
        """
        del clients

        async def look(row: Standing) -> None:
            folder = archived_partition(row.target)
            await asyncio.to_thread(check_end_stands, folder, folder.find_end)

        asked = {number: row for number, row in rows.items() if passes_over(row)}
        errors = await errors_of(asked, look, at_once=at_once)
        return {number: Look(error=error) for number, error in errors.items()}

    def immovable(self, target: Target) -> MirrorlakeError | None:
        """Returns that the end of the newest snapshot is the position."""
        return UnsupportedError(
            f"the position of {target.source} at {target.destination.label} is the end of its newest snapshot: "
            "it is not moved",
            hint="`mirrorlake archive ls` shows the files; to begin anew give the destination another `name`",
        )

    def copy_side(self, row: Standing) -> CopySide:
        """Returns the folder, of which the newest snapshot counts."""
        target = row.target
        return SnapshotSide(
            store=target.archive.store.settings,
            destination_name=target.destination_topic,
            partition=target.source.partition,
            extension=extension_of(target.archive.format.value),
        )

    def floor(self, target: Target) -> int:
        """Returns 0: each snapshot is whole."""
        del target
        return 0

    def warnings(self, target: Target, sample: Sample, *, now_ms: int) -> Sequence[str]:
        """Returns what a view makes of its source, and what an archive warns of."""
        return [*_view(target, target.archive), *super().warnings(target, sample, now_ms=now_ms)]

    def removals(self, target: Target, *, now_ms: int) -> Sequence[str]:
        """Returns which snapshots would be removed, by the function that decides it for `run`."""
        kept, folder = target.archive.snapshots_kept, archived_partition(target)
        if kept is None or not isinstance(folder, SnapshotPartition):
            return ()
        try:
            going = followed_snapshots(folder, kept=kept, origin=origin_of(target), now_seconds=now_ms / 1000)
        except MirrorlakeError as error:
            return [f"{folder.prefix}: what would be removed is not known: {error}"]
        if not going:
            return ()
        return [
            f"{folder.prefix}: removes {len(going)} snapshot(s) that newer ones have followed, {going[0].name} first"
        ]


def _view(target: Target, destination: ArchiveDestination) -> list[str]:
    """Says what `compaction: log` makes of a source that is not compacted, or that forgets tombstones soon."""
    if not target.source_configs:
        return []
    name = f"{destination.store.name}/{target.destination_topic}"
    rule = snapshot_rule(target.source_configs.get("cleanup.policy"), target.source_configs.get("delete.retention.ms"))
    if rule.tombstones_kept_seconds is None:
        return [f"{name}: the source is not compacted; `compaction: log` keeps the latest record of each key only"]
    waits = waits_seconds(destination)
    patience = rule.tombstones_kept_seconds * PATIENCE_SHARE
    if patience > waits:
        return []
    forgotten_after, waits_for = span_text(int(rule.tombstones_kept_seconds * 1000)), span_text(int(waits * 1000))
    return [
        f"{name}: the source may forget tombstones after {forgotten_after} (delete.retention.ms), and `flush` lets a "
        f"record wait for {waits_for}: a view that is older than half the former is built anew from the log's start "
        "where the source was cleaned meanwhile (`trigger=rebuilt`)"
    ]
