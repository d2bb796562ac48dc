"""Archive destination: cuts segments of one partition inside one lease and publishes them.

Order of effects for one segment: read the position from the listing, look whose segment ends there, stage a file,
encode as the records come, and once the end is known and the segment before is published, claim it, publish, unclaim it
(``archive.publish``). Nothing unpublished is worth anything: at any trouble the staged file is dropped and the position
is read again.

Decoding and writing happen in a thread: the libraries let go of the interpreter's lock there, and live partitions
of the same lease go on meanwhile. Publishing happens in others, while the encoder writes the next segment.
"""

import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from mirrorlake.archive.chain import Chain, Segment
from mirrorlake.archive.claims import SEGMENT_RAW_BYTES_MAX, RangeClaim
from mirrorlake.archive.ends.lost_end import check_end_stands
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.gaps import FilteredAccount
from mirrorlake.archive.names import parse_segment_name
from mirrorlake.archive.newest import ReadNewest, check_newest
from mirrorlake.archive.origin import Origin
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.clock import Clock
from mirrorlake.destinations.archive.adoption import check_claim_size, claim_too_large
from mirrorlake.destinations.archive.cut import Cut, CutRule
from mirrorlake.destinations.archive.cutting_sink import CuttingSink, Published
from mirrorlake.destinations.archive.segment import OpenSegment
from mirrorlake.destinations.archive.segment_encoding import encoding_for
from mirrorlake.destinations.archive.triggers import Trigger
from mirrorlake.destinations.filtering import PartitionBranch, PartitionFilter, PartitionProjection
from mirrorlake.destinations.interface import Delivery, PublishedSegment
from mirrorlake.destinations.orders import Orders
from mirrorlake.destinations.route import with_records
from mirrorlake.destinations.schema_batches import check_ids, count_ids
from mirrorlake.destinations.store_threads import StoreThreads
from mirrorlake.destinations.transform import Transform
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.schema_ids.counts import SchemaIdCounts
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition, gaps_within
from mirrorlake.stores.crash_points import CrashPoint, no_crash


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    """One source partition and how it is archived.

    ``format`` is what segments are written in, by the configuration's names.

    ``skips_truncated`` allows a gap of kind ``truncated`` past the archive's start: the source's log start has moved
    above the position. ``snapshots`` is set for `compaction: log` alone: segments are snapshots then.

    ``snapshots_kept`` is how many stay, the newest among them; None for all.

    ``source_is_compacted`` says that the source topic may lose records to its cleaner.

    ``keeps`` is what of the source's records is archived, ``takes`` what a route gives to this folder, both None for
    all, and ``projects`` what they become.

    ``schema_ids`` says where records have schema ids whose schemas are archived first; None where schemas are not.

    ``mirror_v3_end`` is where the part of the archive ends that mirror-v3 wrote, where nobody has gone on since.
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
    snapshots_kept: int | None = None
    source_is_compacted: bool = False
    mirror_v3_end: int | None = None
    keeps: PartitionFilter | None = None
    takes: PartitionBranch | None = None
    projects: PartitionProjection | None = None
    schema_ids: SchemaIdMap | None = None

    @property
    def origin(self) -> Origin:
        """Whose records the archive holds."""
        return Origin(
            cluster_id=self.cluster_id,
            topic=self.source.topic,
            topic_id=self.topic_id or None,
            partition=self.source.partition,
        )

    def known_ids(self, orders: Orders) -> SchemaIdMap | None:
        """Returns the schema ids whose schemas are archived by now; None where schemas are not archived."""
        return None if self.schema_ids is None else orders.schema_ids or self.schema_ids

    def knows(self, chain: Chain, known_tail: Segment | None) -> bool:
        """Tells whether the newest segment of a chain, if there is one, was looked at before the lease.

        Behind one of mirror-v3, which does not say whose records it holds, a mirror goes on where its start did.
        """
        return chain.tail in (None, known_tail) or chain.position == self.mirror_v3_end


class ArchiveSink(CuttingSink):
    """Turns the batches of one source partition into published segments.

    Args:
        settings: what and how.
        orders: of this lease.
        archived: the partition's archive.
        read_end: lists its end and returns it checked; called in a thread that looks at stores.
        read_newest: reads what its newest segment says of itself; called in the same.
        read_source_end: asks the source for its last stable offset.
        check_tail: compares the newest segment's records with the source's; raises where they differ.
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
        orders: Orders,
        *,
        archived: ArchivedPartition,
        read_end: Callable[[], Chain],
        read_newest: ReadNewest,
        read_source_end: Callable[[], Awaitable[int]],
        check_tail: Callable[[Segment], Awaitable[None]],
        executor: Executor,
        store_threads: StoreThreads,
        clock: Clock,
        may_begin: Callable[[], bool],
        changed: Callable[[], None],
        crash_point: CrashPoint = no_crash,
    ) -> None:
        super().__init__(executor=executor, may_begin=may_begin, changed=changed)
        self._settings = settings
        self._orders = orders
        self._archived = archived
        self._read_end = read_end
        self._read_newest = read_newest
        self._read_source_end = read_source_end
        self._check_tail = check_tail
        self._needs_tail_check = orders.needs_tail_check
        self._store_threads = store_threads
        self._clock = clock
        self._crash_point = crash_point
        self._encoding = encoding_for(
            archived.extension,
            compression=settings.compression,
            schema_sides=0 if settings.schema_ids is None else settings.schema_ids.sides,
        )
        self._segment: OpenSegment | None = None
        self._start_offset = 0
        self._truncated_end = 0
        self._known_gaps: list[Gap] = []
        self._transform = Transform(keeps=settings.keeps, takes=settings.takes, projects=settings.projects)
        self._filtered = FilteredAccount()
        self._behind: Segment | None = None

    async def open(self) -> None:
        """Reads the position from the listing, whose segment ends there, and the claim another writer may have left.

        Raises:
            ChainBrokenError: the folder's files do not follow one another, or are not ours.
            OtherSourceError, TopicRecreatedError: the newest, or the claim, is of another source.
            SourceDivergedError: the newest ends with other records than the source has there.
            ClaimAheadError: the claim lies past the source's end; `ChainBrokenError` where it stays there.
            MirrorlakeError: the store could not be read.
        """
        # What was on its way is published, or was not: the listing knows.
        with contextlib.suppress(MirrorlakeError):
            await self.settle()
        chain, claim = await self._store_threads.look(self._read_tail)
        if self._needs_tail_check and chain.tail is not None:
            await self._check_tail(chain.tail)
        self._needs_tail_check = False
        self._next_offset = self._start_offset = self.progress.position = chain.position
        self._claimed_end = None
        self._truncated_end = 0
        self._known_gaps = []
        self._filtered = FilteredAccount()
        self._behind = chain.tail
        self._drop()
        if claim is not None:
            check_claim_size(claim)
            await self._adopt(claim, self._settings.source, self._orders, self._read_source_end)
        self.failure = None
        if not self.progress.claims:
            self.progress.start_offset = chain.position
        self.progress.claims += 1
        self._is_done = not self._may_begin() or self._nothing_left()

    @property
    def wanted_end(self) -> int:
        """The end of what is due, or of another writer's claim."""
        return max(self._orders.read_end_offset, self._claimed_end or 0)

    def _read_tail(self) -> tuple[Chain, RangeClaim | None]:
        chain = self._read_end()
        if chain.tail is not None and not self._settings.knows(chain, self._orders.known_tail):
            self._check_newest(chain.tail)
        claim = self._archived.pending_claim(chain, origin=self._settings.origin)
        return chain, claim

    def _check_newest(self, tail: Segment) -> None:
        said, settings = self._read_newest(tail), self._settings
        check_newest(
            self._archived, tail, said, origin=settings.origin, is_snapshot=False, known=self._orders.known_tail
        )

    async def starts_at(self, log_start: int) -> bool:
        """Deals with a source's log that begins above the position; the offsets between become a gap of the segment.

        A new archive may always begin so: its chain starts at 0 all the same, so that a reader need not know where the
        source began. Past 0 it is for ``skips_truncated`` to allow. Records that were taken and not yet cut are
        published first, as they are not to be had again. Where nothing is left of what was due, the gap is published
        at once: no delivery would come to do it.

        Raises:
            ChainBrokenError: the archive ends below where it once did, or had segments and has none.
            MirrorlakeError: the store refused.
        """
        await self.settle()
        is_new = self.progress.position == 0 and self._segment is None
        if not (is_new or self._settings.skips_truncated):
            return False
        # Records that the archive has lost at its end would be called never archived, and the loss be forgotten.
        seen = max(self.progress.position, self._orders.last_position or 0)
        await self._store_threads.look(lambda: check_end_stands(self._archived, self._read_end, seen=seen))
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
        chosen = self._transform.selected(delivery, position=self._next_offset)
        if chosen.delivery.covered.end_offset > self._next_offset or chosen.error is None:
            self._fill_with(chosen.delivery)
        if chosen.error is not None and not self._is_done:
            raise chosen.error

    def _fill_with(self, delivery: Delivery) -> None:
        counts = self._check_ids(delivery)
        self._known_gaps += [gap for gap in delivery.gaps if gap.kind is not GapKind.FILTERED]
        filtered = [gap for gap in delivery.gaps if gap.kind is GapKind.FILTERED]
        self._filtered.take(filtered, start_offset=self._next_offset)
        data = with_records(delivery.batches)
        end = delivery.covered.end_offset
        ends = self._encoding.take(data, start_offset=self._next_offset, covered_end=end, counts=counts)
        try:
            for number, end in enumerate(ends):
                self._check_wanted()
                if number == 0:
                    self._note_batches(delivery)
                self._fill(end)
                if self._is_done:
                    break
        finally:
            # Batches as they are lie in the fetch buffer, which is given back.
            self._encoding.forget()

    def _check_ids(self, delivery: Delivery) -> list[SchemaIdCounts] | None:
        """Checks that all schemas are archived; returns which ones each batch names, where the encoding wants that."""
        ids = self._settings.known_ids(self._orders)
        if ids is not None and self._encoding.takes_counts:
            return count_ids(delivery.batches, ids)
        check_ids(delivery.batches, ids)
        return None

    def _fill(self, covered_end: int) -> None:
        while True:
            segment = self._segment or self._begin()
            cut = self._settled(self._encoding.find_cut(self._rule(), covered_end=covered_end))
            self._encoding.write(cut)
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
        if end is None and self._orders.flushes_rest:
            end = self._truncated_end  # at or past what was due
        if end is not None:
            self._truncated_end = min(self._truncated_end, end)
            self._publish(self._begin(), Cut(stop_row=0, end_offset=end, trigger=self._rule().end_trigger))
        self._is_done = True

    def _rule(self) -> CutRule:
        end, trigger = None, ""
        if self._claimed_end is not None:
            end, trigger = self._claimed_end, Trigger.ADOPTED.value
        elif self._orders.flushes_rest:
            end, trigger = self._orders.read_end_offset, self._orders.rest_trigger
        if self._claimed_end is not None:
            # The claim alone says where this segment ends, whatever our own bounds are; see `_settled`.
            return CutRule(
                records_max=1 << 62,
                bytes_max=SEGMENT_RAW_BYTES_MAX,
                end_offset=end,
                end_trigger=trigger,
                is_end_settled=True,
            )
        return CutRule(
            records_max=self._settings.records_max,
            bytes_max=min(self._settings.bytes_max, SEGMENT_RAW_BYTES_MAX),
            end_offset=end,
            end_trigger=trigger,
        )

    def _settled(self, cut: Cut | None) -> Cut | None:
        """Returns the cut; where a claim says the end, it must be that.

        Raises:
            ChainBrokenError: the claim reaches farther than any writer of segments does.
        """
        if cut is None or self._claimed_end is None or cut.trigger != Trigger.BYTES:
            return cut
        if cut.end_offset < self._claimed_end:
            assert self._claim is not None, "an adopted end is a claim's"
            raise claim_too_large(self._claim, f"there are more than {SEGMENT_RAW_BYTES_MAX} up to {cut.end_offset}")
        return replace(cut, trigger=Trigger.ADOPTED.value)

    def _begin(self) -> OpenSegment:
        start = self._start_offset
        self._segment = OpenSegment(
            self._archived,
            source=self._settings.source,
            cluster_id=self._settings.cluster_id,
            topic_id=self._settings.topic_id,
            make_writer=self._encoding.begin,
            writer=self._settings.writer,
            start_offset=start,
            clock=self._clock,
            follows_mirror_v3=start == self._settings.mirror_v3_end,
            select=self._transform.fingerprint,
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
        written = OffsetRange(start_offset=self._start_offset, end_offset=cut.end_offset)
        for gap in gaps_within(self._known_gaps, written):
            segment.add_gap(gap)
        self._known_gaps = [gap for gap in self._known_gaps if gap.offsets.end_offset > cut.end_offset]
        segment.filtered(self._filtered.until(cut.end_offset))
        segment.schema_ids = self._encoding.schema_ids
        segment.finish(end_offset=cut.end_offset)
        self._note_published()
        self._check_wanted()
        segment.behind = self._behind
        self._segment = None
        self._claimed_end = None
        self._next_offset = self._start_offset = cut.end_offset
        self._publishing = self._store_threads.publish(lambda: _published(segment, cut))

    def _note_segment(self, published: PublishedSegment, footer: SegmentFooter | None) -> None:
        super()._note_segment(published, footer)
        # Of an equal one that was there already, the size is not known here.
        name = parse_segment_name(published.key)
        assert name is not None, "a published segment has a name"
        self._behind = Segment(name=name, size_bytes=published.file_bytes) if published.is_ours else None
        # The oldest record waited longest for its segment to be cut: no record of it was later than this. Of format
        # `log` the footer knows first records of batches alone, and none where a cleaner put its horizon there.
        if published.is_ours and footer is not None and footer.timestamp_ms_min is not None:
            self.progress.saw_latency(footer.timestamp_ms_min, self._clock.now_seconds())

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
