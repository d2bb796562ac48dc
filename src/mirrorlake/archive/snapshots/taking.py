"""Making one snapshot of records that an archive holds, and publishing it.

Order of effects: 1. write the view, hidden, from runs that are merged as a stream; 2. read it back and compare it with
what it says of itself; 3. claim its range, create it if absent, delete the claim (`archive.publish`). A crash before 3
leaves a hidden file that is swept, in 3 a claim, whose end the next one takes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentEnvelope, SegmentFooter, SnapshotState
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.parquet_rows import ParquetRows
from mirrorlake.archive.gaps import GAPS_LISTED_MAX, GapReport
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.snapshots.latest import merge_runs, without_tombstones
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import confirm_same_snapshot
from mirrorlake.clock import Clock
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import Gap, GapKind, OffsetRange
from mirrorlake.page_compression import Compression
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import StagedObject


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSnapshot:
    """A snapshot that is there: its name, its records and bytes; ``is_ours`` unless an equal one was there before."""

    name: str
    records: int
    size_bytes: int
    is_ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMaking:
    """How one snapshot is made.

    Attributes:
        folder: where it goes.
        origin: whose records it holds.
        offsets: from the folder's position to the end of what was read.
        behind: the snapshot that ends at the position; None where that is none.
        keeps_tombstones: whether the keys stay whose latest record is a tombstone.
        compression: of Parquet's pages.
        writer: who makes it, for the file.
        clock: dates it.
        crash_point: called before every step of the publication; for tests.
    """

    folder: SnapshotPartition
    origin: Origin
    offsets: OffsetRange
    behind: Segment | None
    keeps_tombstones: bool
    compression: str
    writer: str
    clock: Clock
    crash_point: CrashPoint = no_crash

    def make(
        self, runs: Sequence[Iterable[RecordColumns]], *, gaps: GapReport, raw_bytes: int, leader_epoch: int | None
    ) -> TakenSnapshot:
        """Merges the runs, the oldest first, and publishes what they make.

        Args:
            runs: of everything below the end; each can be read once.
            gaps: of ``offsets``.
            raw_bytes: record bytes of what was read, for the claim.
            leader_epoch: the source's latest of what was read; None where it is not known.

        Raises:
            PositionMovedError: another writer published, or claimed another end; plan again.
            ChainBrokenError: what was written is not what can be read back; or see `SegmentPublication`.
            OtherSourceError, TopicRecreatedError: the claim, or the one of this range, is of another source.
            MirrorlakeError: the store could not be read, or refuses.
        """
        publication = self.folder.publication(
            self.offsets.start_offset, origin=self.origin, writer=self.writer, crash_point=self.crash_point
        )
        staged = publication.stage()
        try:
            footer = self._write(staged, runs, gaps=gaps, leader_epoch=leader_epoch)
            size_bytes = staged.file.tell()
            self._prove(staged, footer)
            last = self.offsets.end_offset - 1
            publication.claim_exactly(last, raw_bytes=raw_bytes, whose="snapshots'", behind=self.behind)
            name = publication.segment_name
            assert name is not None, "a publication that is claimed has a name"
            segment = Segment(name=name, size_bytes=size_bytes)
            confirm = partial(confirm_same_snapshot, self.folder.store, snapshot=segment, expected=footer)
            is_ours = publication.publish(staged, confirm_equal=confirm)
        finally:
            staged.discard()
        publication.release()
        return TakenSnapshot(name=str(name), records=footer.records, size_bytes=size_bytes, is_ours=is_ours)

    def _write(
        self,
        staged: StagedObject,
        runs: Sequence[Iterable[RecordColumns]],
        *,
        gaps: GapReport,
        leader_epoch: int | None,
    ) -> SegmentFooter:
        origin = self.origin
        rows = ParquetRows(staged.file, origin.topic, origin.partition, compression=Compression(self.compression))
        try:
            for chunk in merge_runs(runs):
                rows.write(chunk if self.keeps_tombstones else without_tombstones(chunk))
        except BaseException:
            rows.abandon()
            raise
        envelope = SegmentEnvelope(
            cluster_id=origin.cluster_id,
            topic_id=origin.topic_id,
            topic=origin.topic,
            partition=origin.partition,
            start_offset=self.offsets.start_offset,
            writer=self.writer,
            created_at=datetime.fromtimestamp(self.clock.now_seconds(), UTC).isoformat(timespec="seconds"),
        )
        # Whether the archive has seen every tombstone is not known: who goes on from here looks for itself.
        state = SnapshotState(complete_since_ms=0, is_exact=False, holds_tombstones=self.keeps_tombstones)
        end = self.offsets.end_offset
        return rows.close(envelope, end_offset=end, gaps=gaps, leader_epoch=leader_epoch, snapshot=state)

    def _prove(self, staged: StagedObject, footer: SegmentFooter) -> None:
        """Reads the hidden file back and compares it with what was written."""
        end = self.offsets.end_offset
        name = SegmentName(from_offset=self.offsets.start_offset, to_offset=end - 1, extension=self.folder.extension)
        where = f"{self.folder.prefix}/{name} before it was published"
        with ParquetSegmentReader(staged.reread(), where=where) as reader:
            reader.check_content()
            if reader.footer != footer:
                raise ChainBrokenError(
                    f"{where} says of itself what was not written",
                    hint="is the disk or the memory of this machine damaged? Nothing was published",
                )


def joined_gaps(parts: Sequence[GapReport], *, before: OffsetRange | None) -> GapReport:
    """Returns the gaps of ranges that follow one another, as one report. Pure.

    Args:
        parts: in offset order.
        before: offsets in front of them that the archive has no more; None for none.
    """
    lost = [Gap(offsets=before, kind=GapKind.TRUNCATED)] if before else []
    counts = {kind: sum(part.offsets.get(kind, 0) for part in parts) for kind in GapKind}
    counts[GapKind.TRUNCATED] += len(before) if before else 0
    every = [*lost, *(gap for part in parts for gap in part.listed)]
    absent = [gap for gap in every if gap.kind is GapKind.ABSENT]
    room = max(0, GAPS_LISTED_MAX - (len(every) - len(absent)))
    left_out = set(absent[room:])
    return GapReport(
        offsets={kind: count for kind, count in counts.items() if count},
        listed=tuple(gap for gap in every if gap not in left_out),
        is_complete=not left_out and all(part.is_complete for part in parts),
    )
