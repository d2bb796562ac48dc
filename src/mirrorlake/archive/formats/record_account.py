"""What a file says about its records, noted as they pass; the same for every format that decodes them."""

from mirrorlake.archive.checksum import ContentChecksum
from mirrorlake.archive.envelope import FileSum, SegmentEnvelope, SegmentFooter, SnapshotState
from mirrorlake.archive.gaps import GapReport
from mirrorlake.kafka.records.columns import NO_TIMESTAMP, RecordColumns


class RecordAccount:
    """Follows the records of one file, in whatever order they lie in it."""

    def __init__(self) -> None:
        self.records = 0
        self.raw_bytes = 0
        self._checksum = ContentChecksum()
        self._offset_min: int | None = None
        self._offset_max: int | None = None
        self._timestamp_ms_min: int | None = None
        self._timestamp_ms_max: int | None = None

    def take(self, records: RecordColumns) -> None:
        """Notes the next records, at least one."""
        self.records += len(records)
        self.raw_bytes += int(records.sizes.sum())
        low, high = int(records.offsets.min()), int(records.offsets.max())
        self._offset_min = low if self._offset_min is None else min(low, self._offset_min)
        self._offset_max = high if self._offset_max is None else max(high, self._offset_max)
        self._note_times(records)
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
            checksum=self._checksum.hexdigest(),
            leader_epoch=leader_epoch,
            snapshot=snapshot,
            file=file,
        )

    def _note_times(self, records: RecordColumns) -> None:
        times = records.timestamps
        low, high = int(times.min()), int(times.max())
        if low <= NO_TIMESTAMP:
            times = times[times != NO_TIMESTAMP]
            if not len(times):
                return
            low, high = int(times.min()), int(times.max())
        self._timestamp_ms_min = low if self._timestamp_ms_min is None else min(low, self._timestamp_ms_min)
        self._timestamp_ms_max = high if self._timestamp_ms_max is None else max(high, self._timestamp_ms_max)
