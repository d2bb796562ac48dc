"""Copies one source partition to the sinks that stand at the same position: one read serves them all."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from mirrorlake.destinations.interface import ENDLESS, Delivery, PartitionSink
from mirrorlake.errors import (
    MirrorlakeError,
    OutcomeUnknownError,
    SourceTruncatedError,
)
from mirrorlake.kafka.control.holes import TailHole
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.mirror.encoder_turn import EncoderTurn
from mirrorlake.mirror.leader_epoch_check import UNKNOWN_EPOCH
from mirrorlake.mirror.policy import Decision, within_lease
from mirrorlake.mirror.reader import PinnedAnswer
from mirrorlake.mirror.source_answer import check_answer, classified, placed
from mirrorlake.offsets import OffsetRange, TopicPartition

OFFSET_OUT_OF_RANGE = 1
CLAIM_AGAIN_SECONDS = 0.02


class PartitionCopy:
    """The reader's view of one partition, and the task that hands its deliveries to the sinks in order.

    Args:
        source: the source partition.
        sinks: opened, all at the same ``next_offset``.
        end_offset: where to stop (exclusive), or None.
        topic_id: the id the source topic must have, empty for any.
        leader_epoch: in which the source's leader must lead, −1 for any.
        changed: called when the reader may want to look again.
        explain_out_of_range: asks the source for its ends and returns what is wrong with a position.
        why_no_hole: asks the source why empty answers say nothing of these offsets; None where they prove a hole.
        turn: the encoder, held; given back when no sink needs it any more.
    """

    def __init__(
        self,
        source: TopicPartition,
        sinks: Sequence[PartitionSink],
        *,
        end_offset: int | None,
        changed: Callable[[], None],
        explain_out_of_range: Callable[[int], Awaitable[MirrorlakeError]],
        why_no_hole: Callable[[OffsetRange], Awaitable[MirrorlakeError | None]],
        topic_id: str = "",
        leader_epoch: int = UNKNOWN_EPOCH,
        turn: EncoderTurn | None = None,
    ) -> None:
        self.source = source
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.epoch_read = UNKNOWN_EPOCH  # the latest of all that was delivered
        self.source_start: int | None = None
        self.source_end: int | None = None
        self._errors: dict[int, MirrorlakeError] = {}
        self.steps = 0  # deliveries handed over
        self._sinks = list(sinks)
        self._end_offset = ENDLESS if end_offset is None else end_offset
        self._reader_changed = changed
        self._inbox: deque[tuple[Delivery, PinnedAnswer]] = deque()
        self._next_offset = sinks[0].next_offset
        self._asked_offset = -1
        self._hole = TailHole()
        self._is_busy = False
        self._is_handing_over = False
        self._is_settling = False
        self._turn = turn
        self._is_out_of_range = False
        self._unreadable: MirrorlakeError | None = None
        self._explain_out_of_range = explain_out_of_range
        self._why_no_hole = why_no_hole
        self._wake = asyncio.Event()

    @property
    def errors(self) -> dict[int, MirrorlakeError]:
        """What ended a sink, by its id; and what those that are left wait for, if the source shows them nothing."""
        refusal = self._hole.refusal
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
    def fetch_offset(self) -> int:
        """The offset to ask for next."""
        self._asked_offset = self._next_offset
        return self._next_offset

    @property
    def wants_fetch(self) -> bool:
        """True where every sink has room and nothing waits to be handed over."""
        return (
            bool(self._sinks)
            and not self._inbox
            and not self._is_out_of_range
            and self._unreadable is None
            and self._next_offset < min(self._end_offset, self._wanted_end())
            and all(sink.has_room and sink.failure is None and not sink.is_done for sink in self._sinks)
        )

    def _wanted_end(self) -> int:
        """What lies further is no sink's: at the log's end such a fetch would hold up what comes behind it."""
        return max([sink.wanted_end for sink in self._sinks], default=ENDLESS)

    @property
    def is_over(self) -> bool:
        """True where no sink is left that wants anything, or the end is reached."""
        if self._is_busy or self._inbox or self._unsettled():
            return False  # what was not published is read again
        return self._next_offset >= self._end_offset or not self._active()

    def fetched(self, answer: FetchedPartition, frame: PinnedAnswer, *, is_quiet: bool) -> None:
        """Turns an answer into a delivery; answers to an offset no longer wanted are dropped."""
        if self._asked_offset != self._next_offset:
            return
        if answer.error_code == OFFSET_OUT_OF_RANGE:
            self._is_out_of_range = True
            self._wake.set()
            return
        try:
            check_answer(answer, self.source, position=self._next_offset, topic_id=self.topic_id)
            delivery = self._delivery(answer, frame, tail_end=self._tail_end(answer, is_quiet=is_quiet))
        except MirrorlakeError as error:
            self._unreadable = error
            self._wake.set()
            return
        self.source_start, self.source_end = delivery.log_start_offset, delivery.end_offset
        if delivery.covered:
            self.epoch_read = max(self.epoch_read, *(item.batch.header.leader_epoch for item in delivery.batches), -1)
            frame.pin()
            self._next_offset = delivery.covered.end_offset
            self._inbox.append((delivery, frame))
            self._wake.set()

    def fetch_failed(self, error: MirrorlakeError) -> None:
        """The source could not be read: every sink ends with this error."""
        self._fail_all(error)

    def sink_changed(self) -> None:
        """A sink has room again, or failed."""
        self._wake.set()
        self._reader_changed()

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
                self._reader_changed()
            if self._is_out_of_range:
                await self._settle_out_of_range()
            await self._look_into_hole()
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
        if self._is_out_of_range or self._unreadable is not None or self._hole.question is not None:
            return True
        return any(sink.failure for sink in self._sinks)

    async def _look_into_hole(self) -> None:
        """Asks once about what came back empty; the next answer, empty again, is believed or not by what is said."""
        question = self._hole.question
        if question is not None and not self._inbox:
            self._hole.answered(question, await self._why_no_hole(question))
            self._reader_changed()

    async def drain(self) -> None:
        """Hands over what was fetched, then waits until every sink has made it safe."""
        while self._inbox:
            await self._hand_over_next()
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
            self._inbox.popleft()[1].unpin()

    def _active(self) -> bool:
        return any(not sink.is_done for sink in self._sinks)

    async def _hand_over_next(self) -> None:
        """Hands the oldest delivery over; the pin goes after the views, or its buffer would never be used again."""
        delivery, frame = self._inbox.popleft()
        self._reader_changed()  # one delivery ahead may be fetched while this one is taken
        self._is_handing_over = True
        try:
            await self._hand_over(delivery)
        finally:
            self._is_handing_over = False
            self.steps += 1
            del delivery
            frame.unpin()

    async def _hand_over(self, delivery: Delivery) -> None:
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
                f"internal error: offsets {delivery.covered} of source {self.source} came to a destination that "
                f"stands at {sink.next_offset}; please report it"
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
        error = await self._explain_out_of_range(self._next_offset)
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
                self._reader_changed()
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
                # An answer still on its way belongs to the old position: taken, it would be delivered to the new one.
                self._asked_offset = -1
                try:
                    await asyncio.sleep(CLAIM_AGAIN_SECONDS * sink.progress.claims)
                    await sink.open()
                except MirrorlakeError as error:
                    self._end(sink, error)
                    break
                self._next_offset = sink.next_offset
                self._reader_changed()

    def _end(self, sink: PartitionSink, error: MirrorlakeError) -> None:
        if sink not in self._sinks:
            return  # the source failed while the sink was waited for: that came first
        self._errors[id(sink)] = placed(error, self.source)
        self._sinks.remove(sink)
        sink.abandon()
        if not self._sinks:
            self.drop()
        self._wake.set()
        self._reader_changed()

    def _fail_all(self, error: MirrorlakeError) -> None:
        for sink in list(self._sinks):
            self._end(sink, error)

    def _tail_end(self, answer: FetchedPartition, *, is_quiet: bool) -> int:
        """Returns where a tail without a batch ends; the asked offset where there is none, or it is not proven."""
        if len(answer.records):
            self._hole.saw_batches()
        elif is_quiet:
            end = self._hole.saw_nothing(self._next_offset, answer.last_stable_offset)
            if self._hole.question is not None:
                self._wake.set()
            return min(end, self._end_offset)
        return self._next_offset

    def _delivery(self, answer: FetchedPartition, frame: PinnedAnswer, *, tail_end: int) -> Delivery:
        batches, position = classified(answer, tail_end, end_offset=self._end_offset)
        return Delivery(
            covered=OffsetRange(start_offset=self._next_offset, end_offset=max(position, self._next_offset)),
            batches=batches,
            frame=frame,
            log_start_offset=answer.log_start_offset,
            end_offset=answer.last_stable_offset,
            leader_epoch=self.leader_epoch,
        )
