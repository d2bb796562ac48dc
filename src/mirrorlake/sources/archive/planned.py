"""Reading a range of an archived partition that was fixed beforehand, whatever becomes of its segments meanwhile.

What is read is what was planned: segments that come later do not count. One that was merged away since goes on with
what covers it. Each segment is read whole and compared with all that it says of itself, also where a part of it is
wanted. Blocking.
"""

from collections.abc import Iterator, Sequence

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.formats.record_order import within_range
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.archive.names import SegmentName
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.source_continuity import SourceContinuity, check_by_next, name_behind
from mirrorlake.errors import ChainBrokenError, SourceTruncatedError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.offsets import FOLLOWING_KINDS, Gap, OffsetRange
from mirrorlake.sources.archive.folder import SourceFolder
from mirrorlake.sources.archive.opened_segment import OpenSegment
from mirrorlake.stores.object_store import ObjectMissingError


class PlannedReading:
    """Reads one range once.

    Args:
        folder: of the partition.
        segments: that hold the range, in order, as they were planned.
        offsets: the range.

    Attributes:
        origin: whose records these are, as the segments say; None where none says it.
        topics: the topics that records of segments which say nothing name.
        gaps: of the range, those that are neither ``absent`` nor ``filtered``, in offset order.
        leader_epoch: the source's latest that a segment knows; None where none does.
    """

    def __init__(self, folder: SourceFolder, segments: Sequence[Segment], offsets: OffsetRange) -> None:
        self.origin: Origin | None = None
        self.topics: set[str] = set()
        self.gaps: list[Gap] = []
        self.leader_epoch: int | None = None
        self._folder = folder
        self._segments = tuple(segments)
        self._offsets = offsets
        self._position = offsets.start_offset
        self._accounted = offsets.start_offset
        self._continuity = SourceContinuity()

    def records(self) -> Iterator[RecordColumns]:
        """Yields the records of the range in offset order, each once, in pieces of bounded size.

        Raises:
            ChainBrokenError: a segment is damaged, renamed, swapped, or of another source than those before it.
            SourceTruncatedError: retention deleted some of the range meanwhile.
            StoreUnavailableError: segments of the range are missing.
            MirrorlakeError: the store could not be read.
        """
        segments: Sequence[Segment] = self._segments
        for _ in range(LOOKS_MAX):
            try:
                for segment, behind in zip(segments, [*segments[1:], None], strict=True):
                    yield from self._records_of(segment, behind)
            except ObjectMissingError:
                segments = self._left()
            else:
                return
        raise moved(self._folder.prefix)

    def _left(self) -> list[Segment]:
        """Returns the segments that hold what was not read yet, by a new look."""
        left = OffsetRange(start_offset=self._accounted, end_offset=self._offsets.end_offset)
        view = self._folder.look(holds_snapshots=False, reached=left.end_offset, is_whole=True)
        if left.start_offset < view.chain.start:
            raise SourceTruncatedError(
                f"{self._folder.prefix} begins at offset {view.chain.start} now, and {left} was still to be read: "
                "retention deleted the rest",
                hint="run it again: it begins where the archive does",
                position=left.start_offset,
            )
        if view.chain.end < left.end_offset:
            raise not_there(self._folder.prefix, view.chain.end, left.end_offset)
        return list(view.chain.overlapping(left))

    def _records_of(self, segment: Segment, behind: Segment | None) -> Iterator[RecordColumns]:
        key = f"{self._folder.prefix}/{segment.name}"
        opened = OpenSegment(self._folder.store, key, segment, is_snapshot=False, known=self._folder.known)
        try:
            self._follow(key, opened.footer)
            if opened.footer is None and (following := self._name_behind(segment, behind)) is not None:
                check_by_next(self._folder.store, key, f"{self._folder.prefix}/{following}")
            opened.check_batches()
            for columns in opened.records(segment.name.offsets):
                wanted = OffsetRange(start_offset=self._position, end_offset=self._offsets.end_offset)
                part = within_range(columns, wanted)
                if len(part):
                    self._position = int(part.offsets[-1]) + 1
                    yield part
        finally:
            opened.close()
        self._account(segment, opened.footer)

    def _name_behind(self, segment: Segment, behind: Segment | None) -> SegmentName | None:
        """Returns what follows a segment, also the last one that was planned; None where nothing does yet."""
        if behind is not None:
            return behind.name
        return name_behind(self._folder.store, self._folder.prefix, segment.name.end_offset)

    def _follow(self, key: str, footer: SegmentFooter | None) -> None:
        for flaw in self._continuity.follow(key, footer):
            raise flaw
        if footer is not None:
            self.origin = self.origin or Origin.of(footer)
        elif self.origin is None and not self.topics:
            with open_segment(self._folder.store, key) as reader:
                self.topics = {topic for topic, _ in reader.sources()}

    def _account(self, segment: Segment, footer: SegmentFooter | None) -> None:
        end = min(segment.name.end_offset, self._offsets.end_offset)
        if footer is not None:
            self.leader_epoch = footer.leader_epoch if footer.leader_epoch is not None else self.leader_epoch
            for gap in footer.gaps:
                low, high = max(gap.offsets.start_offset, self._accounted), min(gap.offsets.end_offset, end)
                if gap.kind not in FOLLOWING_KINDS and low < high:
                    self.gaps.append(Gap(offsets=OffsetRange(start_offset=low, end_offset=high), kind=gap.kind))
        self._accounted = max(self._accounted, end)
        self._position = max(self._position, self._accounted)


def not_there(prefix: str, end: int, wanted_end: int) -> ChainBrokenError:
    """Returns the error of an archive that ends, or has a hole, before what is wanted of it."""
    return ChainBrokenError(
        f"{prefix}: offsets from {end} on are missing, and those below {wanted_end} are wanted",
        hint="put the segments back, or ask for what lies before them",
        position=end,
        expected=wanted_end,
    )
