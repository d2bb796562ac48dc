"""What a file says about its records, noted as they pass; the same for every format that decodes them."""

from collections.abc import Sequence

from mirrorlake.archive.checksum import ALGORITHM, PARTS_ALGORITHM, ContentChecksum, RecordPart, checksum_of_parts
from mirrorlake.archive.envelope import FileSum, SegmentEnvelope, SegmentFooter, SnapshotState
from mirrorlake.archive.gaps import GapReport
from mirrorlake.kafka.records.columns import NO_TIMESTAMP, RecordColumns
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts


class _RecordTotals:
    """How many records a file has, how large, and between which offsets and times; in whatever order they lie in it.

    Attributes:
        records: how many so far.
        raw_bytes: bytes of their keys, values and headers.
    """

    def __init__(self) -> None:
        self.records = 0
        self.raw_bytes = 0
        self._offset_min: int | None = None
        self._offset_max: int | None = None
        self._timestamp_ms_min: int | None = None
        self._timestamp_ms_max: int | None = None

    def take(self, records: RecordColumns) -> None:
        """Notes the next records, at least one."""
        self.records += len(records)
        self.raw_bytes += int(records.sizes.sum())
        self._note_offsets(int(records.offsets.min()), int(records.offsets.max()))
        times = records.timestamps
        low, high = int(times.min()), int(times.max())
        if low <= NO_TIMESTAMP:
            times = times[times != NO_TIMESTAMP]
            if not len(times):
                return
            low, high = int(times.min()), int(times.max())
        self._note_times(low, high)

    def add(self, footer: SegmentFooter) -> None:
        """Notes all records of a file by what it says of them."""
        self.records += footer.records
        self.raw_bytes += footer.raw_bytes
        if footer.first_offset is not None and footer.last_offset is not None:
            self._note_offsets(footer.first_offset, footer.last_offset)
        if footer.timestamp_ms_min is not None and footer.timestamp_ms_max is not None:
            self._note_times(footer.timestamp_ms_min, footer.timestamp_ms_max)

    def _said(
        self,
        envelope: SegmentEnvelope,
        *,
        end_offset: int,
        gaps: GapReport,
        leader_epoch: int | None,
        checksum: str,
        parts: Sequence[RecordPart] = (),
        snapshot: SnapshotState | None = None,
        file: FileSum | None = None,
        schema_ids: SchemaIdCounts | None = None,
    ) -> SegmentFooter:
        """Returns what the file says; see `SegmentFooter`."""
        return SegmentFooter(
            envelope=envelope,
            end_offset=end_offset,
            records=self.records,
            raw_bytes=self.raw_bytes,
            first_offset=self._offset_min,
            last_offset=self._offset_max,
            timestamp_ms_min=self._timestamp_ms_min,
            timestamp_ms_max=self._timestamp_ms_max,
            gap_offsets=gaps.offsets,
            gaps=gaps.listed,
            gaps_complete=gaps.is_complete,
            checksum=checksum,
            algorithm=PARTS_ALGORITHM if parts else ALGORITHM,
            parts=tuple(parts),
            leader_epoch=leader_epoch,
            snapshot=snapshot,
            file=file,
            schema_ids=schema_ids,
        )

    def _note_offsets(self, low: int, high: int) -> None:
        self._offset_min = low if self._offset_min is None else min(low, self._offset_min)
        self._offset_max = high if self._offset_max is None else max(high, self._offset_max)

    def _note_times(self, low: int, high: int) -> None:
        self._timestamp_ms_min = low if self._timestamp_ms_min is None else min(low, self._timestamp_ms_min)
        self._timestamp_ms_max = high if self._timestamp_ms_max is None else max(high, self._timestamp_ms_max)


class RecordAccount(_RecordTotals):
    """Follows the records of one file, in whatever order they lie in it."""

    def __init__(self) -> None:
        super().__init__()
        self._checksum = ContentChecksum()

    def take(self, records: RecordColumns) -> None:
        """Notes the next records, at least one."""
        super().take(records)
        self._checksum.update(records)

    def footer(
        self,
        envelope: SegmentEnvelope,
        *,
        end_offset: int,
        gaps: GapReport,
        leader_epoch: int | None,
        snapshot: SnapshotState | None = None,
        file: FileSum | None = None,
        schema_ids: SchemaIdCounts | None = None,
    ) -> SegmentFooter:
        """Returns what the file says; see `SegmentFooter`."""
        return self._said(
            envelope,
            end_offset=end_offset,
            gaps=gaps,
            leader_epoch=leader_epoch,
            checksum=self._checksum.hexdigest(),
            snapshot=snapshot,
            file=file,
            schema_ids=schema_ids,
        )


class JoinedAccount(_RecordTotals):
    """Follows the records of a file that is put together from runs of records and from whole files, in offset order."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[RecordPart] = []
        self._run: ContentChecksum | None = None

    def take(self, records: RecordColumns) -> None:
        """Notes the next records of a run, at least one."""
        super().take(records)
        self._run = self._run or ContentChecksum()
        self._run.update(records)

    def end_run(self, end_offset: int) -> str | None:
        """Ends a run of records at an offset, exclusive, and returns its checksum.

        None where it has no record; then what was before goes on up to there.
        """
        if self._run is not None:
            checksum, self._run = self._run.hexdigest(), None
            self._parts.append(RecordPart(end_offset=end_offset, checksum=checksum))
            return checksum
        if self._parts:
            self._parts[-1] = RecordPart(end_offset=end_offset, checksum=self._parts[-1].checksum)
        return None

    def add(self, footer: SegmentFooter) -> None:
        """Notes all records of a file, which is not empty, by what it says of them."""
        super().add(footer)
        self._parts += footer.parts or (RecordPart(end_offset=footer.end_offset, checksum=footer.checksum),)

    def footer(
        self,
        envelope: SegmentEnvelope,
        *,
        end_offset: int,
        gaps: GapReport,
        leader_epoch: int | None,
        schema_ids: SchemaIdCounts | None = None,
    ) -> SegmentFooter:
        """Returns what the file says; see `SegmentFooter`. The last run has ended."""
        single = self._parts[0].checksum if self._parts else ContentChecksum().hexdigest()
        parts = self._parts if len(self._parts) > 1 else ()
        return self._said(
            envelope,
            end_offset=end_offset,
            gaps=gaps,
            leader_epoch=leader_epoch,
            checksum=checksum_of_parts(parts) if parts else single,
            parts=parts,
            schema_ids=schema_ids,
        )
