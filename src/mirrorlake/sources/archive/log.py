"""A partition of an archive, as its destinations may ask of it."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.formats.name_check import check_range_named
from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.layouts.foreign_store import ForeignStore
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.destinations.tail import Tail
from mirrorlake.errors import BrokerNotReadyError, SourceTruncatedError
from mirrorlake.kafka.records.columns import RecordColumns
from mirrorlake.kafka.schema_ids.counting import all_counts
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts, sides_of
from mirrorlake.kafka.schema_ids.framing import SIDE_NAMES
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.archive.archive import Found, OpenArchive
from mirrorlake.sources.archive.known_segments import TimeSearch
from mirrorlake.sources.archive.opened_segment import OpenSegment
from mirrorlake.stores.object_store import ObjectMissingError


class ArchiveSourceLog:
    """Asks about one partition.

    Args:
        partition: which one.
        archive: its archive.
        threads: to look at the store in.
    """

    def __init__(self, partition: TopicPartition, archive: OpenArchive, threads: StoreThreads) -> None:
        self._partition = partition
        self._archive = archive
        self._threads = threads

    @property
    def partition(self) -> TopicPartition:
        """Which one."""
        return self._partition

    async def start(self) -> int:
        """Returns where the chain begins, or what is read of it."""
        return (await self._look()).start

    async def end(self) -> int:
        """Returns where the chain ends, up to the first hole: everything in it is decided."""
        return (await self._look()).end

    async def written_end(self) -> int | None:
        """Returns the same; None before a hole, or an overlap: more was written, and nobody can tell how much."""
        found = await self._look()
        return None if found.is_cut_short else found.end

    async def offset_at(self, timestamp_ms: int) -> int | None:
        """Returns the offset of the first record of that time or later, None where there is none.

        Looks at what each segment says of its times, from the first on, and into those that may hold such a record.
        """
        return await self._threads.look(
            lambda: self._archive.ask(self._partition, lambda found: offset_at(found, timestamp_ms))
        )

    async def read_tail(self, offsets: OffsetRange) -> Tail:
        """Returns the records of a range below the end.

        What a snapshot holds is the latest of every key when it was made. An offset without a record in it is no
        unwritten one, so that a copy of an older snapshot is told from one of this: its tail holds records that are
        not in here.

        Raises:
            BrokerNotReadyError: the archive does not show all of it.
            StoreUnavailableError: a segment of it is missing; or ChainBrokenError: two of them overlap.
        """
        found = await self._look()
        if (lost := found.missing_below(offsets.end_offset, SystemClock().now_seconds())) is not None:
            raise lost
        if found.end < offsets.end_offset:
            raise BrokerNotReadyError(
                f"{found.folder.prefix} holds records up to offset {found.end}, and those up to {offsets.end_offset} "
                "must be compared before anything is appended",
                hint="put the files that are missing back; it is tried again",
                position=offsets.end_offset,
                readable_offset=found.end,
            )
        records = RecordColumns.concat([part async for part in self._parts(found, offsets)])
        unseen = tuple(_holes(records, offsets)) if found.view.snapshot is not None else ()
        missing = [hole.offsets for hole in found.view.holes if hole.offsets.end_offset > offsets.start_offset]
        skips = self._archive.work.skip_after_seconds is not None
        return Tail(records=records, unseen=unseen, unknown=tuple(missing), skips_late=skips)

    async def read_range(
        self, offsets: OffsetRange, *, cleaned: list[OffsetRange] | None = None
    ) -> AsyncIterator[RecordColumns]:
        """Yields the records of a range; see `SourceLog.read_range`."""
        del cleaned  # no cleaner works in an archive
        async for part in self._parts(await self._holding(offsets), offsets):
            yield part

    async def schema_ids(self, offsets: OffsetRange, sides: int) -> AsyncIterator[SchemaIdCounts]:
        """Yields what the records of a range have where a schema is named; see `SourceLog.schema_ids`.

        Segments that say it of all their records are not read; ``archive check`` compares what they say.
        """
        found, position = await self._holding(offsets), offsets.start_offset
        for _ in range(LOOKS_MAX):
            try:
                for segment, within in segments_within(found, replace(offsets, start_offset=position)):
                    said = await self._threads.look(partial(_said_ids, found, segment, within, sides))
                    if said is not None:
                        yield said
                    else:
                        async for records in self._parts(found, within):
                            yield all_counts(records, sides)
                    position = within.end_offset
            except ObjectMissingError:
                found = await self._archive.find(self._partition, is_whole=True)  # merged meanwhile
            else:
                return
        raise moved(found.folder.prefix)

    async def _holding(self, offsets: OffsetRange) -> Found:
        """Returns the partition, which holds a range.

        Raises:
            SourceTruncatedError: it does not.
        """
        found = await self._look()
        if offsets and not (found.start <= offsets.start_offset and offsets.end_offset <= found.end):
            raise SourceTruncatedError(
                f"{found.folder.prefix} holds offsets from {found.start} to {found.end}, and {offsets} were to be read",
                log_start=found.start,
                log_end=found.end,
            )
        return found

    async def _parts(self, found: Found, offsets: OffsetRange) -> AsyncIterator[RecordColumns]:
        position = offsets.start_offset
        for _ in range(LOOKS_MAX):
            parts = records_of(found, OffsetRange(start_offset=position, end_offset=offsets.end_offset))
            try:
                while (part := await self._threads.look(partial(next, parts, None))) is not None:
                    yield part
                    position = int(part.offsets[-1]) + 1
            except ObjectMissingError:
                found = await self._archive.find(self._partition, is_whole=True)  # merged meanwhile
            else:
                return
        raise moved(found.folder.prefix)

    async def _look(self) -> Found:
        return await self._archive.find(self._partition)


def offset_at(found: Found, timestamp_ms: int) -> int | None:
    """Returns the first offset at which a record of that time or later lies; None where there is none.

    Segments never change, so what was looked at before is not read again: a worker reads each of them once for a time.

    Raises:
        MirrorlakeError: a segment is damaged, or the store could not be read.
    """
    record, known = found.topic.record, found.folder.known
    topic_id = record.topic_id if record is not None else None
    question = (found.archive_id, topic_id, found.view.snapshot, timestamp_ms)
    before = known.search(question)
    if before is None or not before.start_offset <= found.start <= before.end_offset:
        before = TimeSearch(start_offset=found.start, end_offset=found.start)
    if before.found is not None and found.start <= before.found < found.end:
        return before.found
    if before.found is not None:
        before = TimeSearch(start_offset=found.start, end_offset=found.start)
    rest = OffsetRange(start_offset=min(before.end_offset, found.end), end_offset=found.end)
    for segment, offsets in segments_within(found, rest):
        answer = _offset_within(found, segment, offsets, timestamp_ms)
        if not found.view.holes:  # what is missing may still come
            search = TimeSearch(start_offset=before.start_offset, end_offset=offsets.end_offset, found=answer)
            known.searched(question, search)
        if answer is not None:
            return answer
    return None


def _offset_within(found: Found, segment: Segment, offsets: OffsetRange, timestamp_ms: int) -> int | None:
    each = opened(found, segment)
    try:
        latest = each.footer.timestamp_ms_max if each.footer is not None else None
        if each.footer is not None and (latest is None or latest < timestamp_ms):
            return None
        for columns in each.records(offsets):
            rows = np.flatnonzero(columns.timestamps >= timestamp_ms)
            if len(rows):
                return int(columns.offsets[rows[0]])
    finally:
        each.close()
    return None


def first_records(found: Found, position: int) -> RecordColumns | None:
    """Returns some records from a position on; None where there are none."""
    offsets = OffsetRange(start_offset=max(position, found.start), end_offset=max(position, found.start, found.end))
    return next(records_of(found, offsets, is_glimpse=True), None)


def records_of(found: Found, offsets: OffsetRange, *, is_glimpse: bool = False) -> Iterator[RecordColumns]:
    """Yields the records of a range in order, in parts of bounded memory.

    Args:
        found: the partition.
        offsets: the range.
        is_glimpse: see `OpenSegment.records`.

    Raises:
        MirrorlakeError: a segment is damaged or gone, or the store could not be read.
    """
    for segment, within in segments_within(found, offsets):
        each = opened(found, segment)
        try:
            yield from (part for part in each.records(within, is_glimpse=is_glimpse) if len(part))
        finally:
            each.close()


def opened(found: Found, segment: Segment) -> OpenSegment:
    """Opens a segment; close it."""
    key = f"{found.folder.prefix}/{segment.name}"
    is_snapshot = found.view.snapshot is not None
    return OpenSegment(found.folder.store, key, segment, is_snapshot=is_snapshot, known=found.folder.known)


def _said_ids(found: Found, segment: Segment, within: OffsetRange, sides: int) -> SchemaIdCounts | None:
    """Returns what a segment says of the schema ids of all its records; None where they are to be read for it.

    Raises:
        MirrorlakeError: it is damaged, renamed or gone, or the store could not be read.
    """
    if isinstance(found.folder.store, ForeignStore):
        return None
    key = f"{found.folder.prefix}/{segment.name}"
    with open_segment(found.folder.store, key) as reader:
        check_range_named(key, reader.footer)
        footer = reader.footer
    if footer is None or footer.schema_ids is None or sides & ~sides_of(footer.schema_ids):
        return None
    if (footer.snapshot is not None) != (found.view.snapshot is not None):
        return None  # who reads it says what is wrong
    first, last = footer.first_offset, footer.last_offset
    if first is not None and last is not None and not within.start_offset <= first <= last < within.end_offset:
        return None
    return {name: footer.schema_ids[name] for side, name in enumerate(SIDE_NAMES) if sides >> side & 1}


def segments_within(found: Found, offsets: OffsetRange) -> Iterator[tuple[Segment, OffsetRange]]:
    """Yields the segments that hold some of a range, in order, and what of it each holds."""
    if not offsets:
        return
    if found.view.snapshot is not None:
        yield found.view.snapshot, offsets
        return
    for segment in found.view.chain.overlapping(offsets):
        held = segment.name.offsets
        start, end = max(held.start_offset, offsets.start_offset), min(held.end_offset, offsets.end_offset)
        yield segment, OffsetRange(start_offset=start, end_offset=end)


def _holes(records: RecordColumns, offsets: OffsetRange) -> Iterator[OffsetRange]:
    position = offsets.start_offset
    for offset in [*records.offsets.tolist(), offsets.end_offset]:
        if offset > position:
            yield OffsetRange(start_offset=position, end_offset=offset)
        position = offset + 1
