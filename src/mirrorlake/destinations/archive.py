"""Archive destination: cuts segments of one partition inside one lease and publishes them.

Order of effects for one segment: read the position from the listing, stage a file, encode as the records come,
and once the end is known claim it, publish, delete the claim (``archive.publish``). Nothing unpublished is worth
anything: at any trouble the staged file is dropped and the position is read again.

Decoding and writing happen in a thread: the libraries let go of the interpreter's lock there, and live partitions
of the same lease go on meanwhile.
"""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from mirrorlake.archive.chain import Chain, Segment
from mirrorlake.archive.claims import SEGMENT_RAW_BYTES_MAX
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.clock import Clock
from mirrorlake.destinations.cut import Cut, CutRule
from mirrorlake.destinations.filling import filling_for
from mirrorlake.destinations.interface import Delivery, Progress
from mirrorlake.destinations.segment import OpenSegment
from mirrorlake.destinations.triggers import Trigger
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.batches import Path
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.crash_points import CrashPoint, no_crash

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    """One source partition and how it is archived.

    ``format`` is what segments are written in, by the configuration's names.

    ``skips_truncated`` allows a gap of kind ``truncated`` past the archive's start: the source's log start has moved
    above the position. ``snapshots`` is set for `compaction: log` alone: segments are snapshots then.

    The last four are this lease's orders: ``known_tail`` is the last segment as somebody saw or wrote it before, which
    must still be there; ``read_end_offset`` (exclusive) is how far to read, at most;
    ``flushes_rest`` whether what is left below it becomes a segment too, for the reason ``rest_trigger``.
    """

    source: TopicPartition
    destination_name: str
    compression: str
    records_max: int
    bytes_max: int
    cluster_id: str
    topic_id: str
    writer: str
    format: str = "parquet"
    skips_truncated: bool = False
    snapshots: SnapshotRule | None = None
    known_tail: Segment | None = None
    read_end_offset: int = 0
    flushes_rest: bool = False
    rest_trigger: str = ""


class ArchiveSink:
    """Turns the batches of one source partition into published segments.

    Args:
        settings: what and how.
        archived: the partition's archive.
        read_end: lists its end and returns it checked; called in the executor's thread.
        executor: one thread, where the lease's encoding happens.
        clock: times segments.
        may_begin: False once the lease should begin no further segment.
        changed: called when room, failure or the end changed.
        crash_point: called before every step of a publication; for tests.
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        *,
        archived: ArchivedPartition,
        read_end: Callable[[], Chain],
        executor: Executor,
        clock: Clock,
        may_begin: Callable[[], bool],
        changed: Callable[[], None],
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self.progress = Progress()
        self.failure: MirrorlakeError | None = None
        self._settings = settings
        self._archived = archived
        self._read_end = read_end
        self._executor = executor
        self._clock = clock
        self._may_begin = may_begin
        self._changed = changed
        self._crash_point = crash_point
        self._filling = filling_for(archived.extension, compression=settings.compression)
        self._segment: OpenSegment | None = None
        self._next_offset = 0
        self._claimed_end: int | None = None
        self._truncated_end = 0
        self._leader_epoch: int | None = None
        self._is_done = False
        self._is_abandoned = False

    @property
    def next_offset(self) -> int:
        """The source offset the next delivery must start at."""
        return self._next_offset

    @property
    def has_room(self) -> bool:
        """Always: one delivery is encoded before the next is taken."""
        return True

    @property
    def is_endless(self) -> bool:
        """Never: what is due has an end."""
        return False

    @property
    def is_done(self) -> bool:
        """True once what was due is published, or turned out not to be due."""
        return self._is_done

    async def open(self) -> None:
        """Reads the position from the listing, and the claim another writer may have left on it.

        Raises:
            ChainBrokenError: the folder's files do not follow one another, or are not ours.
            MirrorlakeError: the store could not be read.
        """
        chain, claim = await self._in_thread(self._read_tail)
        self._next_offset = self.progress.position = chain
        self._claimed_end = claim
        self._truncated_end = 0
        self._drop_segment()
        self.failure = None
        if not self.progress.claims:
            self.progress.start_offset = chain
        self.progress.claims += 1
        self._is_done = not self._may_begin() or self._nothing_left()

    def _read_tail(self) -> tuple[int, int | None]:
        chain = self._read_end()
        claim = self._archived.pending_claim(chain)
        return chain.position, claim.to_offset + 1 if claim else None

    async def deliver(self, delivery: Delivery) -> None:
        """Encodes a delivery, publishing every segment that is cut in it.

        Raises:
            CorruptBatchError: a batch is not what it claims to be; nothing of it is written.
            MirrorlakeError: the store refused.
        """
        try:
            await self._in_thread(lambda: self._take(delivery))
        except MirrorlakeError as error:
            self._drop_segment()
            self.failure = error
            raise
        self._changed()

    async def starts_at(self, log_start: int) -> bool:
        """Takes that the source's log begins above the position; the offsets between become a gap of the segment.

        A new archive may always begin so: its chain starts at 0 all the same, so that a reader need not know where the
        source began. Past 0 it is for ``skips_truncated`` to allow. Records that were taken and not yet cut are
        published first, as they are not to be had again. Where nothing is left of what was due, the gap is published
        at once: no delivery would come to do it.

        Raises:
            MirrorlakeError: the store refused.
        """
        is_new = self.progress.position == 0 and self._segment is None
        if not (is_new or self._settings.skips_truncated):
            return False
        if self._segment is not None:
            await self._in_thread(lambda: self._pass_over(log_start))
        if self._is_done:
            return True
        self._next_offset = log_start
        if self._segment is None:
            self._truncated_end = log_start
        if self._nothing_left():
            await self._in_thread(self._publish_gap)
        return True

    async def finish(self) -> None:
        """Drops what was not cut; everything published is safe already.

        Raises:
            MirrorlakeError: an earlier failure.
        """
        # In the thread, which may still be at work for a delivery that was cut short.
        await self._in_thread(self._drop_segment)
        if self.failure is not None:
            raise self.failure

    def abandon(self) -> None:
        """Drops everything; a thread still at work finds out before it publishes."""
        self._is_abandoned = True
        # In the thread, behind what it is at: closed under its hands, a file's descriptor may belong to another file
        # or a connection by the time it writes. A thread that is shut down leaves the file to the sweep.
        with contextlib.suppress(RuntimeError):
            self._executor.submit(self._drop_segment)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # Set before anybody can reuse the bytes the thread is reading: what it makes of them is not published.
            self._is_abandoned = True
            raise

    # --- in the thread ------------------------------------------------------------------------------------

    def _take(self, delivery: Delivery) -> None:
        data = [item.batch for item in delivery.batches if item.path != Path.SKIP]
        self._filling.take(data, start_offset=self._next_offset)
        self._check_not_abandoned()
        for item in delivery.batches:
            self.progress.batches[f"{item.path}:{item.reason}"] += 1
            if item.batch.header.leader_epoch >= 0:
                self._leader_epoch = max(item.batch.header.leader_epoch, self._leader_epoch or 0)
        try:
            self._fill(delivery.covered.end_offset)
        finally:
            # Batches as they are lie in the fetch buffer, which is given back.
            self._filling.forget()

    def _fill(self, covered_end: int) -> None:
        while True:
            segment = self._segment or self._begin()
            cut = self._filling.find_cut(self._rule(), covered_end=covered_end)
            self._filling.write(cut)
            if cut is None:
                self._next_offset = covered_end
                break
            self._publish(segment, cut)
            if self._nothing_left() or not self._may_begin():
                self._is_done = True
                break
            if self._next_offset >= covered_end:
                break
        if self._nothing_left():
            self._is_done = True

    def _pass_over(self, log_start: int) -> None:
        """Publishes what was taken before the offsets that are gone; a claimed segment goes on behind them instead."""
        segment = self._segment
        assert segment is not None
        if self._claimed_end is not None:
            end = min(self._claimed_end, log_start)
            lost = OffsetRange(start_offset=self._next_offset, end_offset=end)
            segment.add_gap(Gap(offsets=lost, kind=GapKind.TRUNCATED))
            self._next_offset = end
        if self._next_offset == self.progress.position:
            self._drop_segment()
        elif self._claimed_end is None or self._next_offset == self._claimed_end:
            cut = Cut(stop_row=0, end_offset=self._next_offset, trigger=Trigger.TRUNCATED.value)
            self._publish(segment, cut)
            self._is_done = self._nothing_left() or not self._may_begin()

    def _publish_gap(self) -> None:
        end = self._claimed_end
        if end is None and self._settings.flushes_rest:
            end = self._truncated_end  # at or past what was due
        if end is not None:
            self._truncated_end = min(self._truncated_end, end)
            self._publish(self._begin(), Cut(stop_row=0, end_offset=end, trigger=self._rule().end_trigger))
        self._is_done = True

    def _rule(self) -> CutRule:
        end, trigger = None, ""
        if self._claimed_end is not None:
            end, trigger = self._claimed_end, Trigger.ADOPTED.value
        elif self._settings.flushes_rest:
            end, trigger = self._settings.read_end_offset, self._settings.rest_trigger
        if self._claimed_end is not None:
            # The claim alone says where this segment ends, whatever our own bounds are.
            return CutRule(
                records_max=1 << 62, bytes_max=1 << 62, end_offset=end, end_trigger=trigger, is_end_settled=True
            )
        return CutRule(
            records_max=self._settings.records_max,
            bytes_max=min(self._settings.bytes_max, SEGMENT_RAW_BYTES_MAX),
            end_offset=end,
            end_trigger=trigger,
        )

    def _begin(self) -> OpenSegment:
        start = self.progress.position
        self._segment = OpenSegment(
            self._archived,
            source=self._settings.source,
            cluster_id=self._settings.cluster_id,
            topic_id=self._settings.topic_id,
            make_writer=self._filling.begin,
            writer=self._settings.writer,
            start_offset=start,
            clock=self._clock,
            crash_point=self._crash_point,
        )
        if self._truncated_end > start:
            lost = OffsetRange(start_offset=start, end_offset=self._truncated_end)
            self._segment.add_gap(Gap(offsets=lost, kind=GapKind.TRUNCATED))
        return self._segment

    def _publish(self, segment: OpenSegment, cut: Cut) -> None:
        self._check_not_abandoned()
        segment.leader_epoch = self._leader_epoch
        flush = segment.publish(end_offset=cut.end_offset, trigger=cut.trigger)
        self._segment = None
        self._claimed_end = None
        self._next_offset = self.progress.position = cut.end_offset
        self.progress.records += flush.records
        self.progress.raw_bytes += flush.raw_bytes
        footer = segment.footer
        assert footer is not None, "a published segment has a footer"
        for kind, offsets in footer.gap_offsets.items():
            self.progress.gap_offsets[kind.value] += offsets
        if footer.timestamp_ms_min is not None and footer.timestamp_ms_max is not None:
            self.progress.saw_timestamps(footer.timestamp_ms_min, footer.timestamp_ms_max)
        self.progress.flushes.append(flush)

    def _nothing_left(self) -> bool:
        return self._next_offset >= max(self._settings.read_end_offset, self._claimed_end or 0)

    def _check_not_abandoned(self) -> None:
        if self._is_abandoned:
            raise OutcomeUnknownError("the lease ended while a segment was being written")

    def _drop_segment(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.discard()
