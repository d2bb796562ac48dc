"""Kafka destination, ``offsets: preserve``: every record gets the offset it has at the source.

Order of effects for one partition, each step waited for:

1. claim: the producer's last sequence at the leader, then the leader's log end (``claim``); a transaction of
   ours that is open is ended first (``gap_filler``);
2. tail check, at a take-over: what lies below the position is the source's own (``tail_check``); only then, and before
   the first batch, are fillers deleted with which the log begins, each of them looked at, up to the source's log start
   (``log_start``);
3. the first batch alone, until its answer carries the expected base offset;
4. then up to twenty batches in flight (``round_trips.py``), one where the partition may have forgotten the producer;
5. at a gap: all answers, then the gap is filled, then on from 3 with the claim the filling ended with;
6. at dead letters, which come before the gaps their records leave: all answers, then they are written, in a transaction
   that also says so (``letter_book``), then on with the gap. What has a letter is read before step 1.

Every answer's base offset is checked. Anything unexpected: the answers still outstanding are read first, then the
claim starts again from 1. Nothing is ever sent after the lease's deadline.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from mirrorlake.clock import Clock
from mirrorlake.destinations.append_channel import Append, AppendChannel
from mirrorlake.destinations.endless_sink import EndlessSink
from mirrorlake.destinations.interface import Delivery, PinnedFrame
from mirrorlake.destinations.orders import Orders
from mirrorlake.destinations.output_batches import OutputBatch, OutputGap
from mirrorlake.destinations.preserve.filling import Filling
from mirrorlake.destinations.preserve.in_flight import AppendsInFlight
from mirrorlake.destinations.preserve.lettering import Lettering
from mirrorlake.destinations.preserve.look import check_writers
from mirrorlake.destinations.preserve.refusals import answer_refused, not_owner_of_letters, too_large
from mirrorlake.destinations.preserve.send_queue import Fill, QueueItem, SendQueue, WaitingLetters
from mirrorlake.destinations.preserve.settings import PreserveSettings, Step
from mirrorlake.destinations.route import SizedRoute
from mirrorlake.destinations.schema_batches import Unreadable
from mirrorlake.destinations.size_limit import ReadLimit, SizeLimit
from mirrorlake.destinations.transactions.claim import ClaimReader, PartitionClaim
from mirrorlake.destinations.transactions.gap_filler import GapFiller
from mirrorlake.errors import (
    MirrorlakeError,
    OutcomeUnknownError,
    RecordTooLargeError,
    SchemaUnreadableError,
)
from mirrorlake.kafka.wire.produce import ProducedPartition
from mirrorlake.offsets import Gap
from mirrorlake.stores.crash_points import CrashPoint, no_crash

QUEUE_BYTES_MAX = 8 << 20
"""What one partition may hold back before the reader leaves it out: a whole answer of the source."""

LETTER_BYTES_MAX = 512 << 10
"""The same in dead letters, which are written one batch after another: about what is one."""


class PreserveSink(EndlessSink):
    """Appends the batches of one source partition at their own offsets, and fills its gaps.

    Args:
        settings: what goes where.
        orders: of this lease.
        claims: reads claims at the destination cluster.
        channel_to: gives the produce channel to a broker of the destination cluster.
        check_tail: compares the tails at a position, told all producer ids that are ours; raises where they differ,
            and returns how new they are.
        read_limit: asks how large a batch the destination topic takes.
        filler: the identity of the shard, shared by its partitions.
        filling: which gaps are filled, and how.
        lettering: what becomes a dead letter, None where nothing does.
        clock: the wall clock tells how old a batch is.
        changed: called whenever ``has_room`` or ``failure`` changed.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        settings: PreserveSettings,
        orders: Orders,
        *,
        claims: ClaimReader,
        channel_to: Callable[[int], Awaitable[AppendChannel]],
        check_tail: Callable[[int, frozenset[int] | None], Awaitable[int | None]],
        read_limit: ReadLimit,
        filler: GapFiller,
        filling: Filling,
        lettering: Lettering | None = None,
        clock: Clock,
        changed: Callable[[], None],
        crash_point: CrashPoint = no_crash,
    ) -> None:
        super().__init__(changed=changed)
        self.topic = settings.destination.topic
        self.partition = settings.destination.partition
        self._settings = settings
        self._orders = orders
        self._claims = claims
        self._channel_to = channel_to
        self._check_tail = check_tail
        self._read_limit = read_limit
        self._filler = filler
        self._filling = filling
        self._lettering = lettering
        self._clock = clock
        self._crash_point = crash_point
        self._route = SizedRoute(
            orders.size_limit or SizeLimit.of(settings.batch_bytes_max),
            progress=self.progress,
            clock=clock,
            packs=False,
            transform=orders.with_ids(settings.transform),
        )
        self._needs_tail_check = orders.needs_tail_check
        self._channel: AppendChannel | None = None
        self._queue = SendQueue()
        self._in_flight = AppendsInFlight(clock)
        self._work: asyncio.Task[None] | None = None
        self._is_over = False
        self._last_timestamp_ms: int | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        hand_off = orders.hand_off
        filler.join(self.progress, hand_off.identity if hand_off is not None else None)

    @property
    def has_room(self) -> bool:
        """False while the queue holds its maximum of bytes, or dead letters theirs."""
        return self._queue.held_bytes < QUEUE_BYTES_MAX and self._queue.letter_bytes < LETTER_BYTES_MAX

    @property
    def is_done(self) -> bool:
        """Where the lease's time ended before all was sent or filled; else a live destination takes whatever comes."""
        return self._is_over

    async def open(self) -> None:
        """Claims the partition: reads sequence, then log end, and checks the tail where the owner is new.

        Raises:
            DestinationForeignError: somebody else writes there, or wrote there.
            RecordTooLargeError: a single record was refused for its size.
            MirrorlakeError: the destination could not be read.
        """
        await self._idle.wait()
        await self._route.read_limit_again(self._read_limit)
        self._in_flight.is_proven = False
        if self._lettering is not None:
            await self._lettering.open()
        claim = await self._read_claim()
        if claim.has_open_transaction:
            await self._filler.clean(self._settings.destination)
            self._needs_tail_check = True
            claim = await self._read_claim()
        check_writers(self._settings, claim, self._orders.own_producer_ids)
        own_ids = self._orders.own_producer_ids | {claim.producer_id}
        self._filling.take_own_ids(own_ids)
        if self._needs_tail_check or self._has_moved(claim):
            self._crash_point(Step.CHECK_TAIL)
            # Who is not the owner does not know under which ids the owners before have written.
            known = None if self._orders.not_owner_because else own_ids
            self.progress.held_until_ms = await self._check_tail(claim.end_offset, known)
            # Only now: where the tail is not ours nothing is.
            await self._filling.look_at_start(claim.end_offset)
            self._needs_tail_check = False
        await self._go_on_with(claim)
        self._next_offset = claim.end_offset
        # Only now: an open that is cut short leaves the failure that asked for it.
        self.failure = None
        self.progress.position = claim.end_offset
        if not self.progress.claims:
            self.progress.start_offset = claim.end_offset
        self.progress.claims += 1

    def _has_moved(self, claim: PartitionClaim) -> bool:
        """Returns whether the log ends elsewhere than where this process' last lease left it.

        A late batch of its own may have come in after the broker forgot the producer, or an unknown producer wrote.
        """
        last = self._orders.last_position
        return not self.progress.claims and last is not None and claim.end_offset != last

    async def _read_claim(self) -> PartitionClaim:
        self._crash_point(Step.READ_CLAIM)
        return await self._claims.read(self._settings.destination, self._settings.transactional_id)

    async def _go_on_with(self, claim: PartitionClaim) -> None:
        self._channel = await self._channel_to(claim.leader)
        self._in_flight.go_on_with(claim)

    async def deliver(self, delivery: Delivery) -> None:
        """Queues the delivery's batches and gaps; they are sent and filled as answers make room.

        Raises:
            SourceGapError: an offset holds no record, and gaps are refused; what came before it stays queued.
            RecordTooLargeError: a record is larger than the destination takes.
            MirrorlakeError: an earlier batch failed.
        """
        if self.failure is not None:
            raise self.failure
        if self._is_over:
            return
        # The owner before may have died between filling up to the source's log start and deleting the fillers.
        await self._filling.delete_found(delivery.log_start_offset)
        try:
            if self._lettering is None:
                self._take_all(delivery, delivery.gaps)
            elif await self._may_copy(self._lettering):
                self._take_with_letters(delivery, self._lettering)
        except RecordTooLargeError as error:
            if "topic" in error.facts:  # a letter, for another topic than the copy
                raise
            raise too_large(error, self._settings) from error
        finally:
            self._send(self._queue.head)  # what came before is right where it is

    def _take_all(self, delivery: Delivery, gaps: Sequence[Gap], unreadable: Unreadable | None = None) -> None:
        for output in self._route.outputs(
            delivery,
            position=self._next_offset,
            coalesced_bytes=self._coalesced_bytes(delivery),
            unreadable=unreadable,
        ):
            if isinstance(output, OutputBatch):
                self._take(output, delivery.frame)
            else:
                self._take_gap(output, gaps)

    # --- dead letters -------------------------------------------------------------------------------------

    async def _may_copy(self, lettering: Lettering) -> bool:
        """Waits until no owner before can still write letters; False where this lease ends before that.

        Raises:
            NotOwnerError: this process could not take the mirror over.
            MirrorlakeError: it could not be read which letters there are.
        """
        if self._orders.not_owner_because:
            raise not_owner_of_letters(self._next_offset, self._settings, self._orders.not_owner_because)
        if not lettering.is_allowed:
            self._is_over = True
            return False
        await lettering.become_certain()
        return True

    def _take_with_letters(self, delivery: Delivery, lettering: Lettering) -> None:
        left, gaps = lettering.begin(delivery)
        try:
            self._take_all(left, gaps, lettering.taker(self._route.schema_ids, gaps))
        except SchemaUnreadableError:
            if not lettering.is_out_of_time:
                raise
            self._is_over = True

    async def _write_letters(self, waiting: WaitingLetters, lettering: Lettering) -> None:
        """Writes the letters at the head of the queue; nothing is in flight meanwhile."""
        is_written = False
        try:
            self._crash_point(Step.WRITE_LETTERS)
            is_written = await lettering.write(waiting.letters, position=self.progress.position)
        except MirrorlakeError as error:
            # Where the lease's time was over meanwhile the next one reads what became of it.
            if self._clock.elapsed_seconds() < self._filler.until_seconds:
                self._work = None
                self._fail(error)
                return
        self._work = None
        if self.failure is not None:  # abandoned meanwhile
            self._after_answer()
            return
        if is_written:
            for each in waiting.letters:
                self.progress.dead_letters += each.counts
            self._queue.take()
            self._changed()
        else:
            self._end_at(self.progress.position)
        self._after_answer()

    def _coalesced_bytes(self, delivery: Delivery) -> int:
        """Returns up to which size batches are coalesced: where those before them wait for answers alone."""
        head = self._queue.head
        if not isinstance(head, Append) or self._channel is None or not self._settings.keeps_compression:
            return 0
        is_waiting = self._channel.is_full or not self._in_flight.has_room_for(head)
        if not is_waiting or not delivery.batches:
            return 0
        codec = delivery.batches[0].batch.header.codec
        return self._channel.coalesced_bytes(codec, batch_bytes_max=self._route.split_bytes)

    def _take(self, output: OutputBatch, of_delivery: PinnedFrame) -> None:
        header, data = output.batch
        end_offset, max_timestamp_ms = output.end_offset, header.max_timestamp
        frame: PinnedFrame | None = None
        if output.is_in_frame:
            if self._queue.gaps:
                # A gap takes its time, and a pinned buffer is missing to all partitions of the lease meanwhile.
                data = memoryview(bytearray(data))
            else:
                frame = of_delivery
                frame.pin()
        size_bytes = len(data)
        self._queue.put(
            # By position: one is made for every batch.
            Append(
                header,
                data,
                size_bytes,
                self._next_offset,
                end_offset,
                header.record_count,
                output.counted_as,
                max_timestamp_ms,
                frame,
            )
        )
        self._next_offset = end_offset
        self._last_timestamp_ms = max_timestamp_ms
        self.progress.saw_batch(header)
        self._idle.clear()

    def _take_gap(self, output: OutputGap, known: Sequence[Gap]) -> None:
        self._filling.check_allowed(output)
        for gap in self._filling.gaps(output.offsets, known):
            # Not before: behind a gap that is refused nothing is to be written.
            for letters in self._lettering.due(gap.offsets.end_offset) if self._lettering is not None else ():
                self._queue.put_letters(letters)
            self._queue_fill(Fill(gap, self._last_timestamp_ms))

    def _queue_fill(self, fill: Fill) -> None:
        self._queue.put_fill(fill)
        self._next_offset = fill.gap.offsets.end_offset
        self._idle.clear()

    async def starts_at(self, log_start: int) -> bool:
        """Fills ``[next_offset, log_start)``, where the copy is new or the policy says so.

        At the beginning of a copy by fillers that are deleted at once, so that the destination's log begins where
        the source's does; later as ``gap_fill`` says, recorded as truncated.

        Raises:
            SourceGapError: that is more than may be filled.
        """
        if self.failure is not None:
            return False
        fill = await self._filling.fill_to(log_start, position=self._next_offset, timestamp_ms=self._last_timestamp_ms)
        if fill is None:
            return False
        self._queue_fill(fill)
        self._send(self._queue.head)
        return True

    async def finish(self) -> None:
        """Waits until every queued batch is answered and every queued gap filled.

        Raises:
            MirrorlakeError: an append or a fill failed; ``progress.position`` is what is safe.
        """
        await self.settle()

    async def settle(self) -> None:
        """Waits for what is queued too, as it is sent whenever an answer makes room.

        Raises:
            MirrorlakeError: an append or a fill failed.
        """
        await self._idle.wait()
        if self.failure is not None:
            raise self.failure

    @property
    def is_settled(self) -> bool:
        """True where every append is answered, and no gap is being filled, no letter written."""
        return not self._in_flight and self._work is None

    async def stands(self) -> bool:
        """Reads the claim anew, and returns whether it is still the one that the next batch would be sent under."""
        if self.failure is not None or self._is_over or self._channel is None:
            return False
        if not self._is_resting:
            return True  # each answer says where its batch came to lie
        position = self._next_offset
        try:
            claim = await self._read_claim()
            check_writers(self._settings, claim, self._orders.own_producer_ids)
        except MirrorlakeError:
            return False  # the next lease meets it too, and says what it is
        if not self._is_resting or self._next_offset != position:
            return self.failure is None and not self._is_over
        return claim.end_offset == position and self._in_flight.holds(claim)

    @property
    def _is_resting(self) -> bool:
        return not self._in_flight and not len(self._queue) and self._work is None

    def drop_unsent(self) -> None:
        """Forgets the batches and gaps that wait; what is in flight, or being filled, is still waited for."""
        if self.failure is not None or not len(self._queue):
            return
        self._queue.drop(keeps_work=True)
        self._is_over = True
        self._after_answer()

    def abandon(self) -> None:
        """Drops what is queued; what is in flight is unknown."""
        if self._in_flight:
            self._filler.distrust()
        if self._work is not None:
            self._work.cancel()
        self._fail(OutcomeUnknownError("the lease ended before every append was answered"))

    # --- gaps ---------------------------------------------------------------------------------------------

    async def _fill(self, fill: Fill) -> None:
        """Fills the gap at the head of the queue; nothing is in flight meanwhile."""
        try:
            claim = await self._filling.fill(fill, self.progress, batch_bytes_max=self._route.split_bytes)
            if claim is not None:
                await self._go_on_with(claim)
        except MirrorlakeError as error:
            self._work = None
            self._fail(error)
            return
        self._work = None
        self._in_flight.is_proven = False
        if self.failure is not None:  # abandoned meanwhile
            self._after_answer()
            return
        self._queue.take()
        filled_end = fill.gap.offsets.start_offset if claim is None else claim.end_offset
        if filled_end < fill.gap.offsets.end_offset:
            self._end_at(filled_end)
        self._after_answer()

    def _end_at(self, end_offset: int) -> None:
        """Ends what is taken: the lease has no time left. Nothing is in flight, and the next goes on from there."""
        self._is_over = True
        self._queue.drop()
        self._next_offset = end_offset
        self._changed()

    # --- the channel's side -------------------------------------------------------------------------------

    def next_append(self) -> Append | None:
        """Hands the channel the next batch where the claim allows one more in flight, addressed to it."""
        if self.failure is not None or self._work is not None:
            return None
        head = self._queue.head
        if not isinstance(head, Append) or not self._in_flight.has_room_for(head):
            return None
        self._crash_point(Step.SEND_BATCH)
        self._queue.take()
        self._in_flight.put(head)
        return head

    def answered(self, append: Append, answer: ProducedPartition) -> None:
        """Checks the broker's answer: no error, and exactly the offset the records have at the source."""
        self._crash_point(Step.TAKE_ANSWER)
        self._let_go(append)
        if answer.error_code or answer.base_offset != append.expected_offset:
            self._filler.distrust()
        refusal = answer_refused(answer, append, self._settings)
        if refusal is not None:
            self._fail(refusal)
        elif self.failure is None:
            self._accepted(append)
        self._after_answer()

    def answer_lost(self, append: Append, error: MirrorlakeError) -> None:
        """The batch may be there, or still come: claim again, compare the tail, and fill no gap under this identity."""
        self._let_go(append)
        self._filler.distrust()
        self._fail(error)
        self._after_answer()

    def _accepted(self, append: Append) -> None:
        self._in_flight.is_proven = True
        self.progress.position = append.end_offset
        self.progress.records += append.records
        self.progress.raw_bytes += append.size_bytes
        self.progress.batches[append.reason] += 1
        if not self._settings.stamps_times:  # their age at the source is not among what was sent
            self.progress.saw_latency(append.max_timestamp_ms, self._clock.now_seconds())
        if self._queue.held_bytes + append.size_bytes >= QUEUE_BYTES_MAX and self.has_room:
            self._changed()

    def _let_go(self, append: Append) -> None:
        self._in_flight.take_out(append)
        self._queue.let_go(append)

    def _after_answer(self) -> None:
        head = self._queue.head
        if head is not None:
            self._send(head)
        elif not self._in_flight and self._work is None:
            self._idle.set()

    def _send(self, head: QueueItem | None) -> None:
        """Lets the channel send, or begins to write letters or to fill where such is next and nothing is in flight."""
        if head is None or self._channel is None or self.failure is not None or self._work is not None:
            return
        if isinstance(head, Append):
            self._channel.notify(self)
        elif not self._in_flight:
            self._queue.is_head_in_work = True
            self._work = asyncio.create_task(self._do(head))

    async def _do(self, head: Fill | WaitingLetters) -> None:
        if isinstance(head, Fill):
            await self._fill(head)
        elif self._lettering is not None:
            await self._write_letters(head, self._lettering)

    def _fail(self, error: MirrorlakeError) -> None:
        """Keeps the first failure, drops what was not sent; the answers still outstanding are waited for."""
        if self.failure is None:
            self.failure = error
            self._route.append_failed(error, self._settings.destination)
        self._needs_tail_check = True
        self._queue.drop()
        if not self._in_flight:
            self._idle.set()
        self._changed()
