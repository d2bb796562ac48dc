"""One snapshot in the making: the records that change the view, and the view they make, written and published.

The view is never held. The records since the newest snapshot are reduced to the latest of every key, within a bounded
memory; at the end they are merged with that snapshot, which is in the order of keys too, into the next one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import numpy as np

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter, SnapshotState
from mirrorlake.archive.formats.parquet_rows import ParquetRows
from mirrorlake.archive.gaps import GapFinder
from mirrorlake.archive.snapshots.changes import Changes
from mirrorlake.archive.snapshots.latest import merge_runs, without_tombstones
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import confirm_same_snapshot, read_view
from mirrorlake.clock import Clock
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.interface import PublishedSegment
from mirrorlake.errors import RecordRefusedError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counting import SchemaIdCounter
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.page_compression import Compression
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import StagedObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The snapshot a view goes on from. Of it are left out records at or above ``below``, None for none."""

    snapshot: Segment
    below: int | None = None


class OpenSnapshot:
    """Takes records in offset order, and publishes the view they make once the end is known.

    ``records`` and ``raw_bytes`` are of the records at or past the position, not of the view; ``held_bytes`` is what
    they weigh, with their headers. ``leader_epoch`` is to
    be set before publishing to the source's latest of what was read, None where it is not known, and ``behind`` to the
    snapshot it follows, None where that is none or not known. ``footer`` and ``segment`` say what was published.

    Args:
        folder: the partition's snapshots.
        settings: whose records these are, and how they are written.
        base: what the view goes on from; None where it is built from the source alone.
        start_offset: the position: the snapshot is named from there.
        clock: times it.
        check_wanted: called between pieces of work; raises where nobody waits for the snapshot any more.
        crash_point: called before every step of the publication; for tests.
    """

    def __init__(
        self,
        folder: SnapshotPartition,
        settings: ArchiveSettings,
        *,
        base: Base | None,
        start_offset: int,
        clock: Clock,
        check_wanted: Callable[[], None],
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self.records = 0
        self.raw_bytes = 0
        self.held_bytes = 0
        self.leader_epoch: int | None = None
        self.behind: Segment | None = None
        self.footer: SegmentFooter | None = None
        self.segment: Segment | None = None
        self._folder = folder
        self._settings = settings
        self._base = base
        self._start_offset = start_offset
        self._clock = clock
        self._check_wanted = check_wanted
        self._crash_point = crash_point
        self._started = clock.elapsed_seconds()
        self._changes = Changes()
        self._found_gaps = GapFinder(start_offset)
        self._gaps: list[Gap] = []
        self._staged: StagedObject | None = None

    def add_truncated(self, offsets: OffsetRange) -> None:
        """Records offsets of the range that the source has deleted."""
        self._gaps.append(Gap(offsets=offsets, kind=GapKind.TRUNCATED))

    def write(self, columns: RecordColumns) -> None:
        """Takes the next records, at or past the position.

        Raises:
            RecordRefusedError: one has no key.
            StoreUnavailableError, StoreUnusableError: the folder for temporary files is full or refuses.
        """
        self.write_again(columns)
        self._found_gaps.follow(columns.offsets)
        self.records += len(columns)
        self.raw_bytes += int(columns.sizes.sum())
        self.held_bytes += int(columns.weights().sum())

    def write_again(self, columns: RecordColumns) -> None:
        """Takes records below the position, read again to build the view anew.

        Raises:
            RecordRefusedError, StoreUnavailableError, StoreUnusableError: see ``write``.
        """
        if columns.keys.null_count:
            raise self._keyless(columns)
        self._changes.add(columns)

    def publish(self, *, end_offset: int, trigger: str, state: SnapshotState) -> PublishedSegment:
        """Writes the view, claims ``[start, end_offset)``, publishes it and deletes the claim.

        Args:
            end_offset: exclusive.
            trigger: why the snapshot is cut here.
            state: what the snapshot says of the view.

        Raises:
            PositionMovedError: another writer published, or claimed another end; read the position again.
            ChainBrokenError: the newest snapshot is none, or gone, or one of this range is not what it should be.
            OtherSourceError, TopicRecreatedError: the claim, or the one of this range, is of another source.
            StoreUnavailableError: unknown whether it is published; read the position again.
        """
        publication = self._folder.publication(
            self._start_offset,
            origin=self._settings.origin,
            writer=self._settings.writer,
            crash_point=self._crash_point,
        )
        staged = self._staged = publication.stage()
        footer = self.footer = self._write_view(staged, end_offset=end_offset, state=state)
        file_bytes = staged.file.tell()
        publication.claim_exactly(end_offset - 1, raw_bytes=self.raw_bytes, whose="snapshots'", behind=self.behind)
        name = publication.segment_name
        assert name is not None, "a publication that is claimed has a name"
        segment = self.segment = Segment(name=name, size_bytes=file_bytes)
        confirm = partial(confirm_same_snapshot, self._folder.store, snapshot=segment, expected=footer)
        is_ours = publication.publish(staged, confirm_equal=confirm)
        publication.release()
        return PublishedSegment(
            key=str(name),
            offsets=OffsetRange(start_offset=self._start_offset, end_offset=end_offset),
            records=self.records,
            raw_bytes=self.raw_bytes,
            file_bytes=file_bytes,
            trigger=trigger,
            elapsed_ms=int((self._clock.elapsed_seconds() - self._started) * 1000),
            is_ours=is_ours,
            view_records=footer.records,
            gap_records=self._found_gaps.records_behind_gaps,
        )

    def discard(self) -> None:
        """Drops everything; without effect on what was published."""
        self._changes.close()
        if self._staged is not None:
            self._staged.discard()

    def _write_view(self, staged: StagedObject, *, end_offset: int, state: SnapshotState) -> SegmentFooter:
        source, settings = self._settings.source, self._settings
        gaps = self._found_gaps.finish(end_offset, self._gaps)
        rows = ParquetRows(staged.file, source.topic, source.partition, compression=Compression(settings.compression))
        counter = SchemaIdCounter(0 if settings.schema_ids is None else settings.schema_ids.sides)
        try:
            for chunk in merge_runs([*self._base_run(), *self._changes.runs()]):
                self._check_wanted()
                kept = without_tombstones(chunk)
                rows.write(kept)
                counter.take(kept)
        except BaseException:
            rows.abandon()
            raise
        envelope = SegmentEnvelope(
            cluster_id=settings.cluster_id,
            topic_id=settings.topic_id or None,
            topic=source.topic,
            partition=source.partition,
            start_offset=self._start_offset,
            writer=settings.writer,
            created_at=datetime.fromtimestamp(self._clock.now_seconds(), UTC).isoformat(timespec="seconds"),
        )
        return rows.close(
            envelope,
            end_offset=end_offset,
            gaps=gaps,
            leader_epoch=self.leader_epoch,
            snapshot=state,
            schema_ids=counter.counts,
        )

    def _base_run(self) -> list[Iterable[RecordColumns]]:
        if self._base is None:
            return []
        return [read_view(self._folder.store, self._folder.prefix, self._base.snapshot, below=self._base.below)]

    def _keyless(self, columns: RecordColumns) -> RecordRefusedError:
        row = int(np.argmax(columns.keys.is_null().to_numpy(zero_copy_only=False)))
        source, offset = self._settings.source, int(columns.offsets[row])
        return RecordRefusedError(
            f"source {source} has a record without a key at offset {offset}, and `compaction: log` keeps the latest "
            "record of every key",
            hint="leave `compaction` out to archive every record; or remove the record at the source "
            "(kafka-delete-records.sh, up to the offset after it), and set `on-truncation: skip`",
            topic=source.topic,
            partition=source.partition,
            offset=offset,
        )
