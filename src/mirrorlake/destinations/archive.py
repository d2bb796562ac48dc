"""Archive destination: cuts segments of one partition inside one lease and publishes them.

Order of effects for one segment: read the position from the listing, stage a file, encode as the records come,
and once the end is known and the segment before is published, claim it, publish, delete the claim
(``archive.publish``). Nothing unpublished is worth anything: at any trouble the staged file is dropped and the position
is read again.

Decoding and writing happen in a thread: the libraries let go of the interpreter's lock there, and live partitions
of the same lease go on meanwhile. Publishing happens in others, while the encoder writes the next segment.
"""

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from mirrorlake.archive.chain import Chain, Segment
from mirrorlake.archive.claims import SEGMENT_RAW_BYTES_MAX
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.clock import Clock
from mirrorlake.destinations.cut import Cut, CutRule
from mirrorlake.destinations.cutting_sink import CuttingSink, Published
from mirrorlake.destinations.filling import filling_for
from mirrorlake.destinations.interface import Delivery
from mirrorlake.destinations.segment import OpenSegment
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.destinations.triggers import Trigger
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.batches import Path
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition
from mirrorlake.stores.crash_points import CrashPoint, no_crash


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    """One source partition and how it is archived.

    ``format`` is what segments are written in, by the configuration's names.

    ``skips_truncated`` allows a gap of kind ``truncated`` past the archive's start: the source's log start has moved
    above the position. ``snapshots`` is set for `compaction: log` alone: segments are snapshots then.

    ``mirror_v3_end`` is where the part of the archive ends that mirror-v3 wrote, where nobody has gone on since.

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
    mirror_v3_end: int | None = None
    known_tail: Segment | None = None
    read_end_offset: int = 0
    flushes_rest: bool = False
    rest_trigger: str = ""


class ArchiveSink(CuttingSink):
    """Turns the batches of one source partition into published segments.

    Args:
        settings: what and how.
        archived: the partition's archive.
        read_end: lists its end and returns it checked; called in a thread that looks at stores.
        executor: one thread, where the lease's encoding happens.
        store_threads: where finished segments are published, and the archive is looked at.
        clock: times segments.
        may_begin: False once the lease should begin no further segment.
        changed: called when room, failure or the end changed.
        crash_point: called before every step of a publication; for tests.
    """

    _written = "segment"

    def __init__(
        self,
        settings: ArchiveSettings,
        *,
        archived: ArchivedPartition,
        read_end: Callable[[], Chain],
        executor: Executor,
        store_threads: StoreThreads,
        clock: Clock,
        may_begin: Callable[[], bool],
        changed: Callable[[], None],
        crash_point: CrashPoint = no_crash,
    ) -> None:
        super().__init__(executor=executor, may_begin=may_begin, changed=changed)
        self._settings = settings
        self._archived = archived
        self._read_end = read_end
        self._store_threads = store_threads
        self._clock = clock
        self._crash_point = crash_point
        self._filling = filling_for(archived.extension, compression=settings.compression)
        self._segment: OpenSegment | None = None
        self._start_offset = 0
        self._truncated_end = 0

    async def open(self) -> None:
        """Reads the position from the listing, and the claim another writer may have left on it.

        Raises:
            ChainBrokenError: the folder's files do not follow one another, or are not ours.
            MirrorlakeError: the store could not be read.
        """
        # What was on its way is published, or was not: the listing knows.
        with contextlib.suppress(MirrorlakeError):
            await self.settle()
        chain, claim = await self._store_threads.look(self._read_tail)
        self._next_offset = self._start_offset = self.progress.position = chain
        self._claimed_end = claim
        self._truncated_end = 0
        self._drop()
        self.failure = None
        if not self.progress.claims:
            self.progress.start_offset = chain
        self.progress.claims += 1
        self._is_done = not self._may_begin() or self._nothing_left()

    @property
    def wanted_end(self) -> int:
        """The end of what is due, or of another writer's claim."""
        return max(self._settings.read_end_offset, self._claimed_end or 0)

    def _read_tail(self) -> tuple[int, int | None]:
        chain = self._read_end()
        claim = self._archived.pending_claim(chain)
        return chain.position, claim.to_offset + 1 if claim else None

    async def starts_at(self, log_start: int) -> bool:
        """Takes that the source's log begins above the position; the offsets between become a gap of the segment.

        A new archive may always begin so: its chain starts at 0 all the same, so that a reader need not know where the
        source began. Past 0 it is for ``skips_truncated`` to allow. Records that were taken and not yet cut are
        published first, as they are not to be had again. Where nothing is left of what was due, the gap is published
        at once: no delivery would come to do it.

        Raises:
            MirrorlakeError: the store refused.
        """
        await self.settle()
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

    # --- in the thread ------------------------------------------------------------------------------------

    def _take(self, delivery: Delivery) -> None:
        data = [item.batch for item in delivery.batches if item.path != Path.SKIP]
        self._filling.take(data, start_offset=self._next_offset)
        self._check_wanted()
        self._note_batches(delivery)
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
        if self._next_offset == self._start_offset:
            self._drop()
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
        start = self._start_offset
        self._segment = OpenSegment(
            self._archived,
            source=self._settings.source,
            cluster_id=self._settings.cluster_id,
            topic_id=self._settings.topic_id,
            make_writer=self._filling.begin,
            writer=self._settings.writer,
            start_offset=start,
            clock=self._clock,
            follows_mirror_v3=start == self._settings.mirror_v3_end,
            crash_point=self._crash_point,
        )
        if self._truncated_end > start:
            lost = OffsetRange(start_offset=start, end_offset=self._truncated_end)
            self._segment.add_gap(Gap(offsets=lost, kind=GapKind.TRUNCATED))
        return self._segment

    def _publish(self, segment: OpenSegment, cut: Cut) -> None:
        """Hands the segment over to be published, once the one before it is: no reader ever sees a hole."""
        self._check_wanted()
        segment.leader_epoch = self._leader_epoch
        segment.finish(end_offset=cut.end_offset)
        self._note_published()
        self._check_wanted()
        self._segment = None
        self._claimed_end = None
        self._next_offset = self._start_offset = cut.end_offset
        self._publishing = self._store_threads.publish(lambda: _published(segment, cut))

    def _nothing_left(self) -> bool:
        return self._next_offset >= self.wanted_end

    def _drop(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.discard()


def _published(segment: OpenSegment, cut: Cut) -> Published:
    """Publishes a finished segment; what cannot be published is dropped."""
    try:
        return segment.publish(end_offset=cut.end_offset, trigger=cut.trigger), segment.footer
    finally:
        segment.discard()
