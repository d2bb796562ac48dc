"""The tail check of an archive: at a take-over, what its newest file ends with must be what the source has there.

Whose records a file holds is told by its description, and a log that was cut and written anew by leader epochs. Neither
tells a source that was put back from a backup: the same topic id, the same epochs, other records from some offset on.
So the newest records are compared, as those of a Kafka destination are (see ``tail_check``).

The newest file is read only where its end is cheap to read: of Parquet that is its last row group, of other formats the
whole file, up to ``WHOLE_FILE_BYTES_MAX``. Files of mirror-v3 are not compared: they do not hold all of a record.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import numpy as np

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.destinations.filtering import PartitionProjection
from mirrorlake.destinations.source_log import SourceLog
from mirrorlake.destinations.tail import TAIL_OFFSETS, Tail
from mirrorlake.destinations.tail_check import first_difference
from mirrorlake.destinations.transform import Transform
from mirrorlake.errors import SourceDivergedError
from mirrorlake.kafka.records.codec import RecordColumns
from mirrorlake.offsets import GapKind, OffsetRange

WHOLE_FILE_BYTES_MAX = 16 << 20
"""Of formats without row groups. A larger newest file is not compared: reading it would hold up the start."""

PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The newest records of an archive, whether some of the source's were left out of their segment, and more."""

    tail: Tail
    is_filtered: bool
    select: str
    """The fingerprint of the projection that made its records, empty where none did."""


InThread = Callable[[Callable[[], Held | None]], Awaitable[Held | None]]


class ArchivedTailCheck:
    """Compares the end of one archived partition with its source.

    Args:
        source_log: the source partition.
        archived: its archive.
        source_is_compacted: the source topic may lose records to the cleaner.
        projects: what records become; a file that was made by another one is compared by offsets and times.
        in_thread: runs a look at the store.
    """

    def __init__(
        self,
        source_log: SourceLog,
        archived: ArchivedPartition,
        *,
        source_is_compacted: bool,
        projects: PartitionProjection | None,
        in_thread: InThread,
    ) -> None:
        self._source_log = source_log
        self._archived = archived
        self._source_is_compacted = source_is_compacted
        self._transform = Transform(projects=projects)
        self._in_thread = in_thread

    async def check(self, tail: Segment) -> None:
        """Compares the last records of the newest file with the source's; returns where they are equal. Reads only.

        Where the source has deleted all of them, or the file is too large or mirror-v3's, nothing is compared. A source
        that ends below them is told by who reads on.

        Raises:
            SourceDivergedError: they differ; the text names the first differing offset.
            ChainBrokenError: the file cannot be read.
            MirrorlakeError: a side could not be read; nothing is concluded.
        """
        if tail.name.extension != PARQUET and tail.size_bytes > WHOLE_FILE_BYTES_MAX:
            return
        end = tail.name.end_offset
        start = max(tail.name.from_offset, end - TAIL_OFFSETS, await self._source_log.start())
        log_end = await self._source_log.written_end()
        if start >= end or (log_end is not None and log_end < end):
            return
        offsets = OffsetRange(start_offset=start, end_offset=end)
        held = await self._in_thread(lambda: self._read(tail, offsets))
        if held is None:
            return
        expected = await self._source_log.read_tail(offsets)
        difference = first_difference(
            _of_file(expected, held) if held.is_filtered else expected,
            held.tail,
            source_is_compacted=self._source_is_compacted,
            # What filter or route left out, those of now or those before them, is for `verify`.
            destination_is_compacted=held.is_filtered,
            transform=self._transform
            if held.select == self._transform.fingerprint
            else Transform(sets_content_aside=True),
        )
        if difference is not None:
            raise self._diverged(tail, difference)

    def _read(self, tail: Segment, offsets: OffsetRange) -> Held | None:
        with open_segment(self._archived.store, f"{self._archived.prefix}/{tail.name}") as segment:
            if segment.footer is None:
                return None
            records = RecordColumns.concat(list(segment.records(within=offsets)))
            missing = [gap.offsets for gap in segment.footer.gaps if gap.kind is GapKind.MISSING]
            held = Tail(records=records, unseen=tuple(missing))
            footer = segment.footer
            return Held(tail=held, is_filtered=GapKind.FILTERED in footer.gap_offsets, select=footer.envelope.select)

    def _diverged(self, tail: Segment, offset: int) -> SourceDivergedError:
        source = self._source_log.partition
        return SourceDivergedError(
            f"{self._archived.prefix}/{tail.name} and source {source} hold different records at offset {offset}: the "
            "source's log was cut and rewritten after it was archived",
            hint="a source that was put back from a backup, or an unclean election, does this; to copy its "
            "records of now, archive to another folder. `verify` names the differences",
            position=tail.name.end_offset,
            differing_offset=offset,
        )


def _of_file(expected: Tail, held: Held) -> Tail:
    """Returns of the source's records those that the file has: of what was left out `select` may make nothing."""
    offsets = expected.records.offsets
    rows = np.flatnonzero(np.isin(offsets, held.tail.records.offsets))
    return replace(expected, records=expected.records.relocated(rows, offsets[rows]))
