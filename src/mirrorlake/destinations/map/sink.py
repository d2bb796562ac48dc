"""Kafka destination, ``offsets: map``: records take the offsets the destination gives, and a map says which.

A sink hands its batches to the transactions of its shard (``shard_transaction``), which write data, progress and offset
map at once. The destination may have other writers, markers and several sources, so there is nothing to align and no
tail to compare: the position is what the newest committed progress says.
"""

from bisect import insort
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from mirrorlake.clock import Clock
from mirrorlake.destinations.endless_sink import EndlessSink
from mirrorlake.destinations.interface import NOTHING_HELD, ClassifiedBatch, Delivery, PinnedFrame
from mirrorlake.destinations.letters.dead_letters import Letters, parted
from mirrorlake.destinations.map.marks.route_mark import UNMARKED, RouteMark
from mirrorlake.destinations.map.marks.select_mark import SelectMark
from mirrorlake.destinations.map.offset_map import OpenPage
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_origin import check_progress
from mirrorlake.destinations.map.route_change import check_route
from mirrorlake.destinations.map.settings import MapSettings
from mirrorlake.destinations.map.shard_transaction import ShardTransaction
from mirrorlake.destinations.map.transaction_participants import MapAppend, Participant
from mirrorlake.destinations.orders import Orders
from mirrorlake.destinations.output_batches import OutputBatch, OutputGap
from mirrorlake.destinations.route import SizedRoute
from mirrorlake.destinations.size_limit import SizeLimit, read_batch_bytes_max
from mirrorlake.errors import (
    LostProgressError,
    MirrorlakeError,
    OutcomeUnknownError,
    SchemaUnreadableError,
    TopicMissingError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.records.batches import Path
from mirrorlake.offsets import Gap, GapKind, OffsetRange, TopicPartition, gaps_near, gaps_of, gaps_within

QUEUE_BYTES_MAX = 4 << 20
"""What one partition may hold back before the reader leaves it out."""

QUEUE_APPENDS_MAX = 512
"""The same in batches: a queue of small ones must be sent within the half second a lease has at its end."""

LETTER_BYTES_MAX = 512 << 10
"""The same in dead letters, which are written one batch after another: about what is one."""


class MapSink(EndlessSink):
    """Copies one source partition inside the transactions of its shard.

    Args:
        settings: what goes where.
        orders: of this lease.
        shard: the transactions.
        client: of the destination cluster.
        find_start: asks the source where a partition without progress begins.
        check_tail: compares the newest records of a copy with the source's; raises where they differ, and returns how
            new they are.
        clock: the wall clock tells how old a batch is.
        changed: called whenever ``has_room`` or ``failure`` changed.
    """

    def __init__(
        self,
        settings: MapSettings,
        orders: Orders,
        *,
        shard: ShardTransaction,
        client: ClusterClient,
        find_start: Callable[[], Awaitable[int]],
        check_tail: Callable[[ProgressKey, MapProgress], Awaitable[int | None]],
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        super().__init__(changed=changed)
        self._settings = settings
        self._orders = orders
        self._route = SizedRoute(
            orders.size_limit or SizeLimit.of(settings.batch_bytes_max),
            progress=self.progress,
            clock=clock,
            packs=True,
            transform=orders.with_ids(settings.transform),
        )
        self._shard = shard
        self._client = client
        self._find_start = find_start
        self._check_tail = check_tail
        self._clock = clock
        self._participant: Participant | None = None
        self._leader_epoch = -1
        self._queued_bytes = 0
        self._queued = 0
        self._letter_bytes = 0
        self._letters_end = 0
        self._is_over = False

    @property
    def has_room(self) -> bool:
        """False while the queue holds its maximum of bytes or batches, or dead letters their maximum."""
        has_room = self._queued_bytes < QUEUE_BYTES_MAX and self._queued < QUEUE_APPENDS_MAX
        return has_room and self._letter_bytes < LETTER_BYTES_MAX

    @property
    def is_done(self) -> bool:
        """Where the lease has no time for more dead letters; else a live destination takes whatever comes."""
        return self._is_over

    async def open(self) -> None:
        """Joins the shard's transactions and reads the position from the progress.

        Where there is no progress the start is decided, and written in a transaction before anything is copied: a
        crash does not decide it again.

        Raises:
            DestinationForeignError: the progress is that of another source cluster or destination topic.
            TopicRecreatedError: it is that of an earlier source topic of the same name.
            LostTailError: the destination no longer holds what the progress says.
            LostProgressError: the progress is older than the copy, or than what was seen of it.
            RouteChangedError: another route would hold from other offsets on at other topics.
            RecordTooLargeError: a single record was refused for its size.
            SourceDivergedError: the newest records are not what the source has where they came from.
            MirrorlakeError: the destination or the source could not be asked; or the start was not committed.
        """
        settings = self._settings
        topic = settings.destination.topic
        await self._route.read_limit_again(partial(read_batch_bytes_max, self._client, topic))
        found = (await self._client.metadata([topic], refresh=True)).topics.get(topic)
        if found is None:
            raise TopicMissingError(f"destination topic {topic} does not exist", topic=topic)
        start: int | None = None

        def make_participant(progress: MapProgress | None) -> Participant:
            former = None
            if progress is not None and self._begins_anew(progress):
                former, progress = progress, None
            if progress is not None:
                self._check(progress, found.topic_id)
                check_route(settings.takes, key, progress, self._shard.known, mirror=settings.topics.mirror)
            return self._make_participant(progress, found.topic_id, start, former)

        key = ProgressKey(destination_topic=topic, source=self._settings.source)
        known = await self._shard.progress_of(key, self._orders.hand_off)
        self._check_not_older(known)
        if known is None or self._begins_anew(known):
            start = await self._find_start()
            self.progress.held_until_ms = NOTHING_HELD
        participant = await self._shard.join(
            key,
            make_participant=make_participant,
            hand_off=self._orders.hand_off,
            own_producer_ids=self._settings.own_producer_ids,
            other_shards_ids=self._settings.other_shards_ids,
            copies_lost_again=self._settings.copies_lost_again,
        )
        self._participant = participant
        # Not where the destination has lost records on the way here: the progress is another one then.
        is_asked = self._orders.hand_off is None or self._orders.needs_tail_check
        if is_asked and known is not None and participant.progress == known:
            self.progress.held_until_ms = await self._check_tail(key, known)
        # Only now: an open that is cut short leaves the failure that asked for it. And not where the shard's
        # transaction was given up meanwhile, by another source's batch: the participant is void, and joins again.
        if self._participant is participant:
            self.failure = None
        self._next_offset = self.progress.position = participant.taken_end
        if not self.progress.claims:
            self.progress.start_offset = participant.taken_end
        self.progress.claims += 1
        await self._shard.await_commit(participant)
        if participant.is_new:
            # Where it begins was not committed: a position told now would be missed by the next lease.
            raise self.failure or OutcomeUnknownError(f"where source {settings.source} begins was not committed")

    @property
    def _where(self) -> TopicPartition:
        return self._participant.destination if self._participant is not None else self._settings.destination

    async def deliver(self, delivery: Delivery) -> None:
        """Queues the delivery's batches, and notes what of it holds no record.

        Raises:
            RecordTooLargeError: a record is larger than the destination takes; what came before it stays queued.
            MirrorlakeError: the shard's transaction was given up.
        """
        if self.failure is None and self._participant is not None and self._shard.is_void(self._participant):
            # Whoever took the shard over since would commit these batches without this source's progress.
            self.shard_failed(OutcomeUnknownError(f"source {self._settings.source} has not joined its shard again"))
        if self.failure is not None:
            raise self.failure
        if self._is_over:
            return
        if self._participant is not None:
            self._participant.is_behind = delivery.covered.end_offset < delivery.end_offset
        chosen = self._settings.transform.selected(delivery, position=self._next_offset)
        source_items = delivery.batches if self._settings.transform.projects is not None else None
        gaps = [*chosen.delivery.gaps]
        # What letters are made of is what the source has.
        may_be_changed = chosen.delivery.may_be_changed and source_items is None
        delivery = replace(chosen.delivery, gaps=gaps, may_be_changed=may_be_changed)
        ids = self._route.schema_ids
        takes_letters = ids is not None and bool(ids.letters)
        try:
            for output in self._route.outputs(
                delivery,
                position=self._next_offset,
                coalesced_bytes=self._coalesced_bytes(delivery),
                unreadable=partial(self._without_letters, gaps, source_items) if takes_letters else None,
            ):
                if output.leader_epoch >= 0:
                    self._leader_epoch = output.leader_epoch
                if isinstance(output, OutputBatch):
                    self._take(output, delivery)
                else:
                    self._take_gap(output, delivery.gaps)
        except SchemaUnreadableError:
            if not self._is_over:
                raise
        if chosen.error is not None and not self._is_over:
            raise chosen.error

    def _without_letters(
        self,
        gaps: list[Gap],
        source_items: Sequence[ClassifiedBatch] | None,
        item: ClassifiedBatch,
        error: SchemaUnreadableError,
    ) -> ClassifiedBatch:
        """Takes the dead letters of a batch, and adds where they were to ``gaps``; returns what is left of it.

        Letters are the records of ``source_items``, where those are not the batch's.

        Raises:
            SchemaUnreadableError: it has none that becomes a dead letter; or the lease has no time for more, and is
                over for this partition: a delivery may be nothing but such batches, and each takes a millisecond.
            RecordTooLargeError: a letter is larger than its topic takes.
        """
        if self._letters_end and not self._shard.has_time_for_letters:
            self._is_over = True
            raise error
        ids, participant = self._route.schema_ids, self._participant
        origin = self._settings.letters_origin
        found = parted(item, ids, origin, source_items=source_items) if ids is not None else None
        if found is None or participant is None:
            raise error
        # Not those before the position, which are there; nor those of a batch that was met before and reached further.
        letters = found.letters.behind(max(self._next_offset, self._letters_end))
        if letters.reasons:
            letters.check_sizes(participant.letter_bytes_max, topic=self._settings.letters_topic)
            participant.letters.append(letters)
            self._letters_end = int(letters.records.offsets[-1]) + 1
            self._letter_bytes += letters.size_bytes
        for gap in found.gaps:
            insort(gaps, gap)
        return found.item

    def _coalesced_bytes(self, delivery: Delivery) -> int:
        """Returns up to which size batches are coalesced: where those before them wait for answers alone."""
        if self._participant is None or not delivery.batches or not self._settings.keeps_compression:
            return 0
        codec = delivery.batches[0].batch.header.codec
        return self._shard.coalesced_bytes(self._participant, codec, batch_bytes_max=self._route.split_bytes)

    async def starts_at(self, log_start: int) -> bool:
        """Goes on at the source's log start where the policy allows it; the offsets before are a truncated gap."""
        if not self._settings.skips_truncated or self._participant is None or self.failure is not None:
            return False
        lost = OffsetRange(start_offset=self._next_offset, end_offset=log_start)
        self.progress.add_gap(Gap(offsets=lost, kind=GapKind.TRUNCATED))
        self._next_offset = self._participant.empty_from = log_start
        self._shard.advance(self._participant, log_start)
        return True

    async def finish(self) -> None:
        """Waits until everything delivered is committed.

        Raises:
            MirrorlakeError: the shard's transaction was given up; ``progress.position`` is what is safe.
        """
        await self.settle()

    @property
    def is_settled(self) -> bool:
        """True where all that was taken is committed, or the shard's transaction given up."""
        return self._participant is None or not self._participant.is_dirty

    async def settle(self) -> None:
        """Has the shard commit, and waits for it.

        Raises:
            MirrorlakeError: the shard's transaction was given up.
        """
        if self._participant is not None and self.failure is None:
            await self._shard.await_commit(self._participant)
        if self.failure is not None:
            raise self.failure

    def drop_unsent(self) -> None:
        """Keeps everything: it is part of the shard's transaction."""

    def abandon(self) -> None:
        """Drops what was not sent; what is in the open transaction is committed or not with the others'."""
        if self._participant is not None:
            self._shard.leave(self._participant)

    # --- taking -------------------------------------------------------------------------------------------

    def _take(self, output: OutputBatch, delivery: Delivery) -> None:
        assert self._participant is not None
        frame: PinnedFrame | None = None
        if output.is_in_frame:
            frame = delivery.frame
            frame.pin()
        batch, end_offset, max_timestamp_ms = output.batch, output.end_offset, output.max_timestamp_ms
        records = batch.header.record_count
        size_bytes = len(batch.view)
        append = MapAppend(
            header=batch.header,
            data=batch.view,
            size_bytes=size_bytes,
            expected_offset=-1,
            end_offset=end_offset,
            records=records,
            reason=output.counted_as,
            max_timestamp_ms=max_timestamp_ms,
            frame=frame,
            participant=self._participant,
            start_offset=output.start_offset,
            runs=output.runs,
            leader_epoch=self._leader_epoch,
            empty_from=self._participant.empty_from,
        )
        self._note_missing(end_offset, records, delivery.gaps)
        self._next_offset = end_offset
        self._queued_bytes += size_bytes
        self._queued += 1
        self.progress.saw_batch(batch.header)
        self._participant.leader_epoch = self._leader_epoch
        self._participant.empty_from = end_offset
        self._shard.take(self._participant, append)

    def _take_gap(self, output: OutputGap, known: Sequence[Gap]) -> None:
        self._pass_over(output.end_offset, known)
        if output.is_batch:
            self.progress.batches[f"{Path.SKIP}:{output.reason}"] += 1

    def _pass_over(self, end_offset: int, known: Sequence[Gap]) -> None:
        """Moves on over offsets without a record."""
        if end_offset <= self._next_offset or self._participant is None:
            return
        offsets = OffsetRange(start_offset=self._next_offset, end_offset=end_offset)
        for gap in gaps_of(offsets, gaps_near(known, offsets)):
            self.progress.add_gap(gap)
            if gap.kind is not GapKind.ABSENT:
                self._participant.empty_from = gap.offsets.end_offset  # the source has, or had, records there
        self._next_offset = end_offset
        self._participant.leader_epoch = self._leader_epoch
        self._shard.advance(self._participant, end_offset)

    def _note_missing(self, end_offset: int, records: int, known: Sequence[Gap]) -> None:
        """Counts the offsets without a record below the end of a batch; what is not known to be another is absent."""
        missing = end_offset - self._next_offset - records
        if missing and known:
            offsets = OffsetRange(start_offset=self._next_offset, end_offset=end_offset)
            for gap in gaps_within(gaps_near(known, offsets), offsets):
                self.progress.add_gap(gap)
                missing -= len(gap.offsets)
        if missing:
            self.progress.gap_offsets[GapKind.ABSENT.value] += missing

    # --- the shard's side ---------------------------------------------------------------------------------

    def let_go(self, append: MapAppend) -> None:
        """Makes room for what the append held."""
        had_room = self.has_room
        self._queued_bytes -= append.size_bytes
        self._queued -= 1
        if self.has_room and not had_room:
            self._changed()

    def committed(self, position: int, appends: list[MapAppend], letters: Sequence[Letters]) -> None:
        """Counts what a transaction has made safe."""
        self.progress.position = position
        for each in letters:
            self.progress.dead_letters += each.counts
        if letters:
            had_room = self.has_room
            self._letter_bytes -= sum(each.size_bytes for each in letters)
            if self.has_room and not had_room:
                self._changed()
        now = self._clock.now_seconds()
        for append in appends:
            self.progress.records += append.records
            self.progress.raw_bytes += append.size_bytes
            self.progress.batches[append.reason] += 1
            if not self._settings.stamps_times:  # their age at the source is not among what was sent
                self.progress.saw_latency(append.max_timestamp_ms, now)

    def shard_failed(self, error: MirrorlakeError) -> None:
        """Ends the sink, as the open transaction was aborted; also one that opens again after an earlier failure."""
        self.failure = error
        self._route.append_failed(error, self._where)
        self._participant = None
        self._letter_bytes = self._letters_end = 0
        self._changed()

    # --- the participant ----------------------------------------------------------------------------------

    def _make_participant(
        self, progress: MapProgress | None, topic_id: str, start: int | None, former: MapProgress | None
    ) -> Participant:
        settings = self._settings
        destination = settings.destination
        if progress is None:
            if start is None:
                raise OutcomeUnknownError(f"the progress of source {settings.source} vanished while it was looked at")
            position, page = start, OpenPage.at(start)
        else:
            position, page = progress.position, progress.page
            destination = TopicPartition(destination.topic, progress.destination_partition)
        return Participant(
            key=ProgressKey(destination_topic=destination.topic, source=settings.source),
            member=self,
            source_cluster_id=settings.source_cluster_id,
            source_topic_id=settings.source_topic_id,
            destination_topic_id=topic_id,
            destination=destination,
            progress=progress,
            page=page,
            taken_end=position,
            committed_end=position,
            empty_from=position if progress is None or progress.empty_from is None else progress.empty_from,
            leader_epoch=progress.leader_epoch if progress else -1,
            keeps_source_time=settings.keeps_source_time,
            is_new=progress is None,
            former=former,
            select=self._select_mark(progress),
            route=self._route_mark(progress, position),
            letters_topic=settings.letters_topic,
        )

    def _select_mark(self, progress: MapProgress | None) -> SelectMark:
        projects = self._settings.projects
        fingerprint = projects.wanted.fingerprint if projects is not None else ""
        if progress is None:
            return SelectMark(fingerprint=fingerprint)
        return progress.select.followed_by(fingerprint, progress.mapped.end_offset)

    def _route_mark(self, progress: MapProgress | None, position: int) -> RouteMark:
        takes, before = self._settings.takes, progress.route if progress is not None else UNMARKED
        return UNMARKED if takes is None else before.followed_by(takes.branch.fingerprint, position)

    def _check_not_older(self, progress: MapProgress | None) -> None:
        """Checks that the progress is not behind what this process has seen committed.

        Raises:
            LostProgressError: it is, so it was lost.
        """
        settings = self._settings
        seen, found = self._orders.last_position, progress.position if progress is not None else None
        if seen is None or settings.copies_lost_again or (found is not None and found >= seen):
            return
        if progress is not None and self._begins_anew(progress):
            return
        what = "is not there" if found is None else f"says {found}"
        raise LostProgressError(
            f"the progress of source {settings.source} in {settings.topics.progress_of(settings.shard)} {what}, and "
            f"this process has seen offset {seen} committed: the progress was lost, and to continue would copy twice",
            hint="bring the progress back from another replica; or give the mirror another name, and as `start` the "
            "`offsets` to copy from",
            expected=seen,
            found=found,
        )

    def _begins_anew(self, progress: MapProgress) -> bool:
        """Tells whether the progress is that of an earlier topic, and the policy is to start over."""
        known, now = progress.source_topic_id, self._settings.source_topic_id
        is_same_cluster = progress.source_cluster_id == self._settings.source_cluster_id
        return self._settings.restarts_recreated and is_same_cluster and bool(known and now) and known != now

    def _check(self, progress: MapProgress, topic_id: str) -> None:
        check_progress(
            progress,
            source=self._settings.source,
            destination_topic=self._settings.destination.topic,
            source_cluster_id=self._settings.source_cluster_id,
            source_topic_id=self._settings.source_topic_id,
            destination_topic_id=topic_id,
            start=self._settings.start,
            is_routed=self._settings.takes is not None,
        )
