"""Reads one partition of a cluster: answers of its leader become deliveries, and nothing is concluded unproven."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from mirrorlake.destinations.interface import ClassifiedBatch, Delivery
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.holes import TailHole
from mirrorlake.kafka.records.batches import AbortedTransactions
from mirrorlake.kafka.wire.error_codes import OFFSET_OUT_OF_RANGE
from mirrorlake.kafka.wire.fetch import FetchedPartition
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.facts import classified
from mirrorlake.sources.kafka.answer import check_answer, placed
from mirrorlake.sources.kafka.leader_epoch_check import read_on
from mirrorlake.sources.kafka.read_limit import ReadLimit
from mirrorlake.sources.kafka.read_partition import PinnedAnswer, ReadPartition
from mirrorlake.sources.mark import UNKNOWN_EPOCH, SourceMark
from mirrorlake.sources.source import Taker

NO_ANSWER_ASKED = -1


class Broker(Protocol):
    """The connection that reads from the partition's leader, for all partitions it leads."""

    over: asyncio.Event

    def add(self, partition: ReadPartition) -> None:
        """Adds a partition; it is part of the next request."""
        ...

    def changed(self, partition: ReadPartition) -> None:
        """Says that a partition may want something again, or is over."""
        ...


class KafkaPartitionReader:
    """Reads one source partition for one taker.

    Args:
        source: the source partition.
        broker: reads from its leader.
        explain_out_of_range: asks the source for its ends and returns what is wrong with a position.
        why_no_hole: asks the source why empty answers say nothing of these offsets; None where they prove a hole.
        topic_id: the id the source topic must have, empty for any.
        leader_epoch: in which the source's leader must lead, −1 for any.
        limit: where reading ends, None where it goes on for ever.
    """

    def __init__(
        self,
        source: TopicPartition,
        broker: Broker,
        *,
        explain_out_of_range: Callable[[int], Awaitable[MirrorlakeError]],
        why_no_hole: Callable[[OffsetRange], Awaitable[MirrorlakeError | None]],
        topic_id: str = "",
        leader_epoch: int = UNKNOWN_EPOCH,
        limit: ReadLimit | None = None,
    ) -> None:
        self.source = source
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.over = broker.over
        self.source_start: int | None = None
        self.source_end: int | None = None
        self.ended_at: int | None = None
        self._broker = broker
        self._explain_out_of_range = explain_out_of_range
        self._why_no_hole = why_no_hole
        self._limit = limit
        self._taker: Taker  # from `begin` on
        self._epoch_read = UNKNOWN_EPOCH  # the latest of all that was delivered
        self._asked_offset = NO_ANSWER_ASKED
        self._hole = TailHole()

    # --- the taker's side ---------------------------------------------------------------------------------

    def begin(self, taker: Taker) -> None:
        """Begins to deliver; call once."""
        self._taker = taker
        self._broker.add(self)

    def changed(self) -> None:
        """Says that the taker may want more, or is over."""
        self._broker.changed(self)

    def restart(self) -> None:
        """An answer still on its way belongs to the old position: taken, it would be delivered to the new one."""
        self._asked_offset = NO_ANSWER_ASKED
        self._broker.changed(self)

    @property
    def refusal(self) -> MirrorlakeError | None:
        """Why empty answers are not believed; None where none came."""
        return self._hole.refusal

    @property
    def has_question(self) -> bool:
        """True where it must be asked what an empty answer means."""
        return self._hole.question is not None

    async def ask(self) -> None:
        """Asks once about what came back empty; the next answer, empty again, is believed or not by what is said."""
        if (question := self._hole.question) is not None:
            self._hole.answered(question, await self._why_no_hole(question))

    async def explain_out_of_range(self, position: int) -> MirrorlakeError:
        """Returns what is wrong with a position, by the leader's own ends."""
        return await self._explain_out_of_range(position)

    def placed(self, error: MirrorlakeError) -> MirrorlakeError:
        """Names the source in an error of its bytes."""
        return placed(error, self.source)

    def mark_after(self, before: SourceMark | None, *, next_offset: int) -> SourceMark | None:
        """Returns how far was read in which epoch."""
        return read_on(before, epoch=self._epoch_read, offset=next_offset, leader_epoch=self.leader_epoch)

    # --- the broker's side --------------------------------------------------------------------------------

    @property
    def fetch_offset(self) -> int:
        """The offset to ask for next."""
        self._asked_offset = self._taker.next_offset
        return self._asked_offset

    @property
    def wants_fetch(self) -> bool:
        """True where the taker takes more."""
        return self._taker.wants_more

    @property
    def is_over(self) -> bool:
        """True where the taker wants nothing more."""
        return self._taker.is_over

    @property
    def is_at_end(self) -> bool:
        """True where all is read that was decided when the broker last answered."""
        return self.source_end is not None and 0 <= self.source_end <= self._taker.next_offset

    @property
    def is_steady(self) -> bool:
        """True where what the taker wants changes by deliveries only, or it says so."""
        return self._taker.is_steady

    def fetched(self, answer: FetchedPartition, frame: PinnedAnswer, *, is_quiet: bool) -> None:
        """Turns an answer into a delivery; answers to an offset no longer wanted are dropped."""
        taker = self._taker
        if self._asked_offset != taker.next_offset:
            return
        if answer.error_code == OFFSET_OUT_OF_RANGE:
            taker.out_of_range()
            return
        try:
            check_answer(answer, self.source, position=self._asked_offset, topic_id=self.topic_id)
            delivery, is_end = self._delivery(answer, frame, tail_end=self._tail_end(answer, is_quiet=is_quiet))
        except MirrorlakeError as error:
            taker.cannot_read_on(error)
            return
        self.source_start, self.source_end = delivery.log_start_offset, delivery.end_offset
        if delivery.covered:
            self._epoch_read = max([self._epoch_read, *[item.batch.header.leader_epoch for item in delivery.batches]])
            frame.pin()
            taker.take(delivery)
        if is_end:
            self.ended_at = delivery.covered.end_offset
            taker.ends_at(self.ended_at)

    def fetch_failed(self, error: MirrorlakeError) -> None:
        """The source could not be read."""
        self._taker.source_failed(error)

    def _tail_end(self, answer: FetchedPartition, *, is_quiet: bool) -> int:
        """Returns where a tail without a batch ends; the asked offset where there is none, or it is not proven."""
        if len(answer.records):
            self._hole.saw_batches()
        elif is_quiet:
            end = self._hole.saw_nothing(self._asked_offset, answer.last_stable_offset)
            if self._hole.question is not None:
                self._taker.look_again()
            return min(end, self._taker.end_offset)
        return self._asked_offset

    def _delivery(self, answer: FetchedPartition, frame: PinnedAnswer, *, tail_end: int) -> tuple[Delivery, bool]:
        """Returns what an answer brings, and whether the source ends there for this reader."""
        aborted, is_end, start = AbortedTransactions(answer.aborted), False, self._asked_offset
        batches: Sequence[ClassifiedBatch]
        batches, position = classified(answer.records, aborted, tail_end, end_offset=self._taker.end_offset)
        if self._limit is not None:
            batches, position, is_end = self._limit.within(batches, position, start=start)
        delivery = Delivery(
            covered=OffsetRange(start_offset=start, end_offset=max(position, start)),
            batches=batches,
            frame=frame,
            log_start_offset=answer.log_start_offset,
            end_offset=answer.last_stable_offset,
            leader_epoch=self.leader_epoch,
            may_be_changed=True,  # an answer is delivered once; who begins again fetches again
        )
        return delivery, is_end
