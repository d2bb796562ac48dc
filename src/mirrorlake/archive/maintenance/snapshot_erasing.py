"""Taking the records of some keys out of a snapshot.

Order of effects: 1. write the new snapshot, hidden, without the records; 2. read both, and prove that they differ by
the records of these keys and by nothing else; 3. put the new one into the place of the old one
(`snapshot_publication`). A snapshot of a single offset has no other name: it is deleted, once newer ones have followed.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import numpy as np

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.checksum import ContentChecksum
from mirrorlake.archive.envelope import FileSum, SegmentEnvelope, SegmentFooter, SnapshotState
from mirrorlake.archive.formats.parquet_reader import ParquetSegmentReader
from mirrorlake.archive.formats.parquet_rows import ParquetRows
from mirrorlake.archive.formats.summing_file import sum_of
from mirrorlake.archive.gaps import GapReport
from mirrorlake.archive.maintenance.erase_audit import Erasure, record_erasure
from mirrorlake.archive.maintenance.erased_keys import Key, KeySet, WithoutKeys
from mirrorlake.archive.maintenance.erasing import Erased
from mirrorlake.archive.maintenance.snapshot_publication import SnapshotPublication
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.snapshots.chain import replacing_name
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.view import check_snapshot_content, read_snapshot_footer, read_view
from mirrorlake.clock import Clock
from mirrorlake.errors import ChainBrokenError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counting import SchemaIdCounter
from mirrorlake.kafka.schema_ids.counts import sides_of
from mirrorlake.offsets import Gap, OffsetRange
from mirrorlake.page_compression import Compression
from mirrorlake.stores.crash_points import CrashPoint, no_crash
from mirrorlake.stores.object_store import StagedObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotErase:
    """Takes the records of some keys out of one snapshot.

    Attributes:
        folder: where it lies.
        snapshot: which.
        keys: whose records go.
        compression: of Parquet's pages.
        writer: who does it, for the new snapshot and the audit object.
        token: of this attempt alone.
        salt: of the hashes in the audit object; of one run.
        clock: tells when.
        crash_point: called before every step that touches the store; for tests.
    """

    folder: SnapshotPartition
    snapshot: Segment
    keys: Collection[Key]
    compression: str
    writer: str
    token: str
    salt: bytes
    clock: Clock
    crash_point: CrashPoint = no_crash

    def run(self) -> Erased:
        """Erases: rewrites the snapshot; deletes one of a single offset, as it has no other name, if it was followed.

        What it returns is done: the snapshot is gone, and nobody can publish one that was made of it.

        Raises:
            ChainBrokenError: the snapshot is damaged, or the new one is not what was written; nothing was deleted.
            PositionMovedError: see `SnapshotPublication.replace`.
            MirrorlakeError: the store could not be read, or refuses.
        """
        name = replacing_name(self.snapshot.name)
        publication = SnapshotPublication(
            self.folder, self.snapshot, name, token=self.token, clock=self.clock, crash_point=self.crash_point
        )
        footer = read_snapshot_footer(self.folder.store, self.folder.prefix, self.snapshot)
        origin = Origin.of(footer) if footer is not None else self._origin_of_rows()
        left_out = WithoutKeys(self.keys)
        if name is None:
            self._delete(publication, origin, left_out)
            return self._erased(left_out, 0)
        staged = self.folder.store.stage(self.folder.prefix, f"erase-{name.from_offset}")
        try:
            written = self._write(staged, name, origin, footer, left_out)
            expected = self._prove(staged, name, written, left_out)
            record = partial(self._record, name, origin, written, left_out)
            publication.replace(staged, expected, record=record)
        finally:
            staged.discard()
        return self._erased(left_out, expected.bytes)

    def _delete(self, publication: SnapshotPublication, origin: Origin, left_out: WithoutKeys) -> None:
        for chunk in self._view():
            left_out.columns(chunk)
        # What goes for good goes only where the newest, which says all, is whole.
        check_snapshot_content(self.folder, self.folder.snapshots()[-1])
        record = partial(self._record, self.snapshot.name, origin, None, left_out)
        publication.replace(None, None, record=record)

    def _view(self) -> Iterator[RecordColumns]:
        return read_view(self.folder.store, self.folder.prefix, self.snapshot)

    def _erased(self, left_out: WithoutKeys, output_bytes: int) -> Erased:
        return Erased(
            offsets=self.snapshot.name.offsets, inputs=1, records=left_out.records, output_bytes=output_bytes, deleted=1
        )

    def _record(self, name: SegmentName, origin: Origin, footer: SegmentFooter | None, left_out: WithoutKeys) -> None:
        erasure = Erasure(
            name=name,
            inputs=(self.snapshot,),
            origin=origin,
            footer=footer,
            runs=left_out.runs,
            records=left_out.records,
            keys=left_out.found,
        )
        record_erasure(
            self.folder,
            erasure,
            token=self.token,
            salt=self.salt,
            writer=self.writer,
            now_seconds=self.clock.now_seconds(),
        )

    def _origin_of_rows(self) -> Origin:
        """Returns whose records mirror-v3's snapshot holds, which its rows alone say.

        Raises:
            ChainBrokenError: they are of several, or of another partition.
        """
        key = f"{self.folder.prefix}/{self.snapshot.name}"
        with ParquetSegmentReader(self.folder.store.open(key), where=key) as reader:
            found = reader.sources()
        if len(found) != 1 or {partition for _, partition in found} != {self.folder.partition}:
            raise ChainBrokenError(f"{key} holds records of {sorted(found)}", hint="put the right file there", key=key)
        ((topic, partition),) = found
        return Origin(cluster_id="", topic=topic, topic_id=None, partition=partition)

    def _write(
        self,
        staged: StagedObject,
        name: SegmentName,
        origin: Origin,
        footer: SegmentFooter | None,
        left_out: WithoutKeys,
    ) -> SegmentFooter:
        rows = ParquetRows(staged.file, origin.topic, origin.partition, compression=Compression(self.compression))
        counter = SchemaIdCounter(0 if footer is None else sides_of(footer.schema_ids))
        try:
            for chunk in self._view():
                kept = left_out.columns(chunk)
                rows.write(kept)
                counter.take(kept)
        except BaseException:
            rows.abandon()
            raise
        envelope = SegmentEnvelope(
            cluster_id=origin.cluster_id,
            topic_id=origin.topic_id,
            topic=origin.topic,
            partition=origin.partition,
            start_offset=name.from_offset,
            writer=self.writer,
            created_at=datetime.fromtimestamp(self.clock.now_seconds(), UTC).isoformat(timespec="seconds"),
        )
        state = footer.snapshot if footer is not None else None
        state = state or SnapshotState(complete_since_ms=0)
        return rows.close(
            envelope,
            end_offset=name.end_offset,
            gaps=gaps_from(footer, name.from_offset),
            leader_epoch=footer.leader_epoch if footer is not None else None,
            snapshot=replace(state, erased=state.erased + left_out.records),
            schema_ids=counter.counts,
        )

    def _prove(self, staged: StagedObject, name: SegmentName, footer: SegmentFooter, left_out: WithoutKeys) -> FileSum:
        """Reads both snapshots; returns the sum of the new one's bytes, once that is the old one without the keys.

        Raises:
            ChainBrokenError: the old one is damaged, or the new one is something else.
        """
        where = f"{self.folder.prefix}/{name} before it was published"
        keys, wanted, kept, erased = KeySet(self.keys), ContentChecksum(), 0, 0

        def take(columns: RecordColumns) -> None:
            nonlocal kept, erased
            rows = np.flatnonzero(~keys.rows(columns.keys))
            kept, erased = kept + len(rows), erased + len(columns) - len(rows)
            wanted.update(columns.relocated(rows, columns.offsets[rows]))

        key = f"{self.folder.prefix}/{self.snapshot.name}"
        with ParquetSegmentReader(self.folder.store.open(key), where=key) as reader:
            if reader.footer is not None:
                reader.check_content(each=take)
            else:
                for columns in self._view():
                    take(columns)
        with ParquetSegmentReader(staged.reread(), where=where) as reader:
            reader.check_content()
            if reader.footer != footer or (footer.records, footer.checksum) != (kept, wanted.hexdigest()):
                raise ChainBrokenError(
                    f"{where} is not {self.snapshot.name} without the records that were to be erased",
                    hint="is the disk or the memory of this machine damaged? Nothing was published",
                )
        if erased != left_out.records:
            raise ChainBrokenError(f"{key} held {left_out.records} records of the keys, and {erased} when read again")
        with staged.reread() as file:
            return sum_of(file)


def gaps_from(footer: SegmentFooter | None, start_offset: int) -> GapReport:
    """Returns the gaps of a snapshot's range without what lies below an offset. Pure.

    Args:
        footer: what the snapshot says; None where mirror-v3 wrote it, and nobody knows.
        start_offset: where the range begins now.
    """
    if footer is None:
        return GapReport(offsets={}, listed=(), is_complete=False)
    counts = dict(footer.gap_offsets)
    listed: list[Gap] = []
    for gap in footer.gaps:
        start, end = max(gap.offsets.start_offset, start_offset), gap.offsets.end_offset
        counts[gap.kind] -= len(gap.offsets) - max(0, end - start)
        if start < end:
            listed.append(replace(gap, offsets=OffsetRange(start_offset=start, end_offset=end)))
    return GapReport(
        offsets={kind: count for kind, count in counts.items() if count},
        listed=tuple(listed),
        is_complete=footer.gaps_complete,
    )
