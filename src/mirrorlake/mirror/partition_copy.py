"""Copies one source partition to the sinks that stand at the same position: one read serves them all."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from mirrorlake.destinations.interface import ENDLESS, Delivery, PartitionSink
from mirrorlake.errors import (
    MirrorlakeError,
    OutcomeUnknownError,
    SourceTruncatedError,
)
from mirrorlake.mirror.delivery_pieces import pieces_of
from mirrorlake.mirror.encoder_turn import EncoderTurn
from mirrorlake.mirror.pace import Pace
from mirrorlake.mirror.policy import Decision, within_lease
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.source import PartitionReader

CLAIM_AGAIN_SECONDS = 0.02


class PartitionCopy:
    """What a reader of one partition delivers to, and the task that hands its deliveries to the sinks in order.

    Args:
        source: the source partition.
        reader: of the partition, not begun yet; `begin` begins it.
        sinks: opened, all at the same ``next_offset``.
        end_offset: where to stop (exclusive), or None.
        turn: the encoder, held; given back when no sink needs it any more.
        pace: how fast may be read where every sink is live; None for as fast as can be.
    """

    def __init__(
        self,
        source: TopicPartition,
        reader: PartitionReader,
        sinks: Sequence[PartitionSink],
        *,
        end_offset: int | None,
        turn: EncoderTurn | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.source = source
        self.live_bytes = 0
        self.cut_bytes = 0
        self.has_taken = False  # a delivery, or that the source begins further on
        self._pace = pace
        self.reader = reader
        self._errors: dict[int, MirrorlakeError] = {}
        self.steps = 0  # deliveries handed over
        self._sinks = list(sinks)
        self._end_offset = ENDLESS if end_offset is None else end_offset
        self._inbox: deque[Delivery] = deque()
        self._next_offset = sinks[0].next_offset
        self._is_busy = False
        self._is_handing_over = False
        self._is_settling = False
        self._turn = turn
        self._is_out_of_range = False
        self._unreadable: MirrorlakeError | None = None
        self._wake = asyncio.Event()

    def begin(self) -> None:
        """Has the reader begin."""
        self.reader.begin(self)
        if self._pace is not None:
            self._pace.follow(self.reader.changed)

    @property
    def errors(self) -> dict[int, MirrorlakeError]:
        """What ended a sink, by its id; and what those that are left wait for, if the source shows them nothing."""
        refusal = self.reader.refusal
        waiting = [] if refusal is None else [id(sink) for sink in self._sinks if not sink.is_done]
        return {**{each: refusal for each in waiting if refusal is not None}, **self._errors}

    @property
    def is_live_only(self) -> bool:
        """True where every sink that is left would go on for ever."""
        return all(sink.is_endless for sink in self._sinks if not sink.is_done)

    @property
    def has_archive(self) -> bool:
        """True where a sink is left that has an end, or a file of it is on its way."""
        return self._is_settling or any(not sink.is_endless and not sink.is_done for sink in self._sinks)

    @property
    def is_busy(self) -> bool:
        """True while a delivery is being handed over, or a file is on its way."""
        return self._is_handing_over or self._is_settling

    @property
    def next_offset(self) -> int:
        """The source offset up to which everything was read and delivered, or is about to be."""
        return self._next_offset

    def end_reading(self) -> None:
        """Asks for no more; what was fetched is still handed over by ``drain``."""
        self._end_offset = min(self._end_offset, self._next_offset)

    # --- the reader's side --------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """Where reading ends (exclusive)."""
        return self._end_offset

    @property
    def wants_more(self) -> bool:
        """True where every sink has room and nothing waits to be handed over."""
        return (
            bool(self._sinks)
            and not self._inbox
            and not self._is_out_of_range
            and self._unreadable is None
            and self._next_offset < min(self._end_offset, self._wanted_end())
            and all(sink.has_room and sink.failure is None and not sink.is_done for sink in self._sinks)
            # Last, as it asks to be woken. A segment is cut in one go: it is the driver that holds an archive back.
            and (self._pace is None or not self.is_live_only or self._pace.is_open)
        )

    def _wanted_end(self) -> int:
        """What lies further is no sink's: at a log's end such a read would hold up what comes behind it."""
        return max([sink.wanted_end for sink in self._sinks], default=ENDLESS)

    @property
    def is_over(self) -> bool:
        """True where no sink is left that wants anything, or the end is reached."""
        if self._is_busy or self._inbox or self._unsettled():
            return False  # what was not published is read again
        return self._next_offset >= self._end_offset or not self._active()

    @property
    def is_steady(self) -> bool:
        """True where every sink is live, and no pace is kept that other partitions use up too."""
        return self._pace is None and self.is_live_only

    def take(self, delivery: Delivery) -> None:
        """Takes a delivery that begins at the position, with its pin."""
        self.has_taken = True
        self._next_offset = delivery.covered.end_offset
        if self._pace is not None:
            self._count(self._pace, sum(item.batch.header.batch_bytes for item in delivery.batches))
        pieces = [*pieces_of(delivery)]
        for _ in pieces[1:]:
            delivery.frame.pin()
        self._inbox.extend(pieces)
        self._wake.set()

    def _count(self, pace: Pace, read_bytes: int) -> None:
        if self.is_live_only:
            self.live_bytes += read_bytes
            pace.took(read_bytes)
        else:
            self.cut_bytes += read_bytes

    def cannot_read_on(self, error: MirrorlakeError) -> None:
        """What comes next cannot be read; what was read before is made safe before the sinks end with this error."""
        self._unreadable = error
        self._wake.set()

    def source_failed(self, error: MirrorlakeError) -> None:
        """The source could not be read: every sink ends with this error."""
        self._fail_all(error)

    def out_of_range(self) -> None:
        """The source refused the position: why is asked by the partition's own task."""
        self._is_out_of_range = True
        self._wake.set()

    def look_again(self) -> None:
        """The reader has a question, which the partition's own task asks."""
        self._wake.set()

    def ends_at(self, offset: int) -> None:
        """What is read ends there: a lease is over for the partition once what lies before it is safe."""
        self._end_offset = min(self._end_offset, offset)
        self._wake.set()

    def sink_changed(self) -> None:
        """A sink has room again, or failed."""
        self._wake.set()
        self.reader.changed()

    # --- the partition's own task -------------------------------------------------------------------------

    async def run(self) -> None:
        """Hands deliveries over until cancelled or over; failures of a sink end or restart that sink only.

        When nothing more is wanted, the encoder is given back, and what is on its way is waited for; where it was not
        published, as another writer was first, the encoder is taken again for what is to be read from there.
        """
        await self._hand_over_all()
        while self._turn is not None and await self._fails_to_settle(self._turn):
            await self._look_after_failures()
            await self._hand_over_all()

    async def _fails_to_settle(self, turn: EncoderTurn) -> bool:
        """Waits for what is on its way; returns whether something failed that may be tried again now."""
        unsettled = self._unsettled()
        if not unsettled:
            return False
        turn.give_back()
        await self._settle()
        return any(sink.failure is not None for sink in unsettled) and await turn.take()

    def _unsettled(self) -> list[PartitionSink]:
        """What rests with something on its way; an endless sink never does, ``finish`` waits for it."""
        return [sink for sink in self._sinks if not sink.is_endless and not sink.is_settled]

    async def _settle(self) -> None:
        self._is_settling = True
        try:
            for sink in self._unsettled():
                with contextlib.suppress(MirrorlakeError):  # it is the sink's failure now
                    await sink.settle()
        finally:
            self._is_settling = False

    async def _hand_over_all(self) -> None:
        while self._active():
            if self._inbox:
                self._is_busy = True
                try:
                    await self._hand_over_next()
                finally:
                    self._is_busy = False
                self.reader.changed()
                await self._let_others_go_on()
            if self._is_out_of_range:
                await self._settle_out_of_range()
            await self._let_reader_ask()
            await self._look_after_failures()
            if self._unreadable is not None and not self._inbox:
                # What was read before is right where it is, and is made safe before the partition stops.
                for sink in list(self._sinks):
                    await self._end_after_finish(sink, self._unreadable)
                return
            if self._next_offset >= self._end_offset and not self._inbox:
                return
            if not self._inbox and self._active():
                self._wake.clear()
                if not self._has_to_look():
                    await self._wake.wait()

    def _has_to_look(self) -> bool:
        if self._is_out_of_range or self._unreadable is not None or self.reader.has_question:
            return True
        return any(sink.failure for sink in self._sinks)

    async def _let_reader_ask(self) -> None:
        if self.reader.has_question and not self._inbox:
            await self.reader.ask()
            self.reader.changed()

    async def drain(self) -> None:
        """Hands over what was fetched, then waits until every sink has made it safe."""
        while self._inbox:
            await self._hand_over_next()
            await self._let_others_go_on()
        if self._turn is not None:
            for sink in self._sinks:
                await sink.end_encoding()
            self._turn.give_back()
            await self._settle()
        for sink in list(self._sinks):
            try:
                await sink.finish()
            except MirrorlakeError as error:
                self._end(sink, error)

    def drop_unsent(self) -> None:
        """Forgets what live sinks did not send yet; call when reading has ended."""
        if self.is_live_only:
            for sink in self._sinks:
                sink.drop_unsent()

    def drop(self) -> None:
        """Forgets what was fetched and not handed over."""
        while self._inbox:
            self._inbox.popleft().frame.unpin()

    def _active(self) -> bool:
        return any(not sink.is_done for sink in self._sinks)

    async def _hand_over_next(self) -> None:
        """Hands the oldest delivery over; the pin goes after the views, or its buffer would never be used again."""
        delivery = self._inbox.popleft()
        frame = delivery.frame
        self.reader.changed()  # one delivery ahead may be fetched while this one is taken
        self._is_handing_over = True
        try:
            await self._hand_over(delivery)
        finally:
            self._is_handing_over = False
            self.steps += 1
            del delivery
            frame.unpin()

    async def _let_others_go_on(self) -> None:
        """Lets the lease look at its time, and its connections send and receive, between two pieces of a delivery."""
        if self._inbox:
            await asyncio.sleep(0)

    async def _hand_over(self, delivery: Delivery) -> None:
        if len(self._sinks) > 1:
            delivery = replace(delivery, may_be_changed=False)
        for sink in list(self._sinks):
            try:
                if not sink.is_done:
                    self._check_follows(sink, delivery)
                    await sink.deliver(delivery)
            except MirrorlakeError as error:
                if sink.failure is None:
                    await self._end_after_finish(sink, error)

    def _check_follows(self, sink: PartitionSink, delivery: Delivery) -> None:
        """Checks that a delivery begins where the sink stands: what lay between would be taken for a gap, and lost.

        Raises:
            OutcomeUnknownError: it does not; the sink's position is read again.
        """
        if sink.failure is None and delivery.covered.start_offset != sink.next_offset:
            raise OutcomeUnknownError(
                f"internal error: offsets {delivery.covered} of source {self.source} came to a destination whose "
                f"position is {sink.next_offset}; please report it"
            )

    async def _end_after_finish(self, sink: PartitionSink, error: MirrorlakeError) -> None:
        """What the sink took before the error is right: it is made safe before the sink ends."""
        try:
            await sink.finish()
        except MirrorlakeError as earlier:
            error = earlier
        self._end(sink, error)

    async def _settle_out_of_range(self) -> None:
        """The source refused the offset: begin at its log start where every sink can, else end with the reason."""
        self.has_taken = True
        error = await self.reader.explain_out_of_range(self._next_offset)
        log_start = error.facts.get("log_start") if isinstance(error, SourceTruncatedError) else None
        if isinstance(log_start, int):
            for sink in list(self._sinks):
                try:
                    if not await sink.starts_at(log_start):
                        self._end(sink, error)
                except MirrorlakeError as refusal:
                    self._end(sink, refusal)
            if self._sinks:
                self._next_offset = log_start
                self._is_out_of_range = False
                self.reader.changed()
        else:
            self._fail_all(error)

    async def _look_after_failures(self) -> None:
        for sink in list(self._sinks):
            while sink.failure is not None:
                decision = within_lease(sink.failure, claims=sink.progress.claims)
                if decision is not Decision.CLAIM_AGAIN or len(self._sinks) > 1:
                    failure = sink.failure
                    await self._settle()  # where what came before it is, counts
                    self._end(sink, failure)
                    break
                self.drop()
                self.reader.restart()
                try:
                    await asyncio.sleep(CLAIM_AGAIN_SECONDS * sink.progress.claims)
                    await sink.open()
                except MirrorlakeError as error:
                    self._end(sink, error)
                    break
                self._next_offset = sink.next_offset
                self.reader.changed()

    def _end(self, sink: PartitionSink, error: MirrorlakeError) -> None:
        if sink not in self._sinks:
            return  # the source failed while the sink was waited for: that came first
        self._errors[id(sink)] = self.reader.placed(error)
        self._sinks.remove(sink)
        sink.abandon()
        if not self._sinks:
            self.drop()
        self._wake.set()
        self.reader.changed()

    def _fail_all(self, error: MirrorlakeError) -> None:
        for sink in list(self._sinks):
            self._end(sink, error)
