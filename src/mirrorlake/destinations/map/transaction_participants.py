"""Who takes part in a shard's transactions: participants for source partitions, appenders for destination partitions.

Several source partitions may go to one destination partition; their batches then share its sequence and its place in
every request, so the appender is the destination partition's, not the source's.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mirrorlake.destinations.append_channel import Append, AppendChannel
from mirrorlake.destinations.interface import Progress
from mirrorlake.destinations.letters.dead_letters import Letters
from mirrorlake.destinations.map.marks.route_mark import UNMARKED, RouteMark
from mirrorlake.destinations.map.marks.select_mark import AS_IT_IS_MARK, SelectMark
from mirrorlake.destinations.map.offset_map import (
    FullPage,
    MappedRun,
    OpenPage,
    add_runs,
    coalesced_runs,
    decode_runs,
    later_pages,
    runs_before,
    runs_from,
)
from mirrorlake.destinations.map.progress import MapPage, MapProgress, PageKey, ProgressKey
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.record_clock import is_expected, times_kept, times_replaced
from mirrorlake.destinations.round_trips import REQUESTS_MAX
from mirrorlake.destinations.size_limit import refused
from mirrorlake.errors import MirrorlakeError, OutcomeUnknownError
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.records.batches import Batch, Codec, next_sequence, prepare_for_append
from mirrorlake.kafka.wire.produce import ProducedPartition
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.stores.crash_points import CrashPoint


class Member(Protocol):
    """What the shard tells a sink."""

    progress: Progress

    def let_go(self, append: "MapAppend") -> None:
        """The bytes of an append are not needed any more, whatever became of it."""
        ...

    def committed(self, position: int, appends: "list[MapAppend]", letters: Sequence[Letters]) -> None:
        """Everything below ``position`` is safe at the destination; the others are what came with it."""
        ...

    def shard_failed(self, error: MirrorlakeError) -> None:
        """The open transaction was given up; the participant is void."""
        ...


@dataclass(slots=True, kw_only=True)
class MapAppend(Append):
    """A batch of one participant.

    ``start_offset`` is the source offset of its first record, ``runs`` where all lie. From ``empty_from`` to its first
    record the source holds none.
    """

    participant: "Participant"
    start_offset: int
    runs: tuple[OffsetRange, ...]
    leader_epoch: int
    empty_from: int


@dataclass(slots=True, kw_only=True, eq=False)
class Participant:
    """One source partition's part in the transactions of its shard.

    ``taken_end`` is the source position after all that was handed over, ``committed_end`` what is safe. ``pending``
    are appends not yet sent, ``accepted`` those of the open transaction that were answered, ``runs`` where their
    records lie. ``is_new`` until the start of a partition without progress is written. ``is_behind`` while the source
    was last seen to hold more than was handed over. ``keeps_source_time`` as `record_clock.is_expected` takes it.
    ``former`` is the progress of the source topic before, where this one was recreated: its records stay where they
    are. ``select`` says by which `select` records are made from now on, ``route`` by which route they are taken.
    From ``empty_from`` to ``taken_end`` the source holds no record.
    ``letters`` are dead letters not yet safe, by source offset: a commit writes those below its position, and the
    others wait. They go to ``letters_topic``, empty
    where there are none, in batches of ``letter_bytes_max`` at most.
    """

    key: ProgressKey
    member: Member
    source_cluster_id: str
    source_topic_id: str
    destination_topic_id: str
    destination: TopicPartition
    progress: MapProgress | None
    page: OpenPage
    taken_end: int
    committed_end: int
    empty_from: int
    leader_epoch: int = -1
    keeps_source_time: bool | None = True
    is_new: bool = False
    is_behind: bool = False
    former: MapProgress | None = None
    select: SelectMark = AS_IT_IS_MARK
    route: RouteMark = UNMARKED
    has_left: bool = False
    in_flight: int = 0
    pending: deque[MapAppend] = field(default_factory=deque)
    accepted: list[MapAppend] = field(default_factory=list)
    runs: list[MappedRun] = field(default_factory=list)
    letters: list[Letters] = field(default_factory=list)
    letters_topic: str = ""
    letter_bytes_max: int = 0
    waits: int = 0
    clean: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_dirty(self) -> bool:
        """True where something handed over is not yet safe."""
        return bool(
            self.pending or self.in_flight or self.accepted or self.is_new or self.taken_end != self.committed_end
        )

    @property
    def covered_end(self) -> int:
        """The position a commit reaches now: before the first append that was not sent, or all that was taken."""
        return self.pending[0].start_offset if self.pending else self.taken_end

    def letters_below(self, offset: int) -> list[Letters]:
        """Returns the dead letters below a source offset, in order."""
        found = (each.below(offset) for each in self.letters)
        return [each for each in found if each.reasons]

    def written(self) -> tuple[MapProgress, list[tuple[PageKey, MapPage]]]:
        """Returns what a commit has to write for this participant: its progress, and the pages that became full."""
        runs = coalesced_runs(self.runs)
        # A position that was moved back has records copied once more, or for the first time where they were skipped.
        # The map keeps naming the first copies: a group that continues there meets the second ones later, so it misses
        # none (decision 0217). Which of these are first ones is found by who reads the map (decision 0234).
        later = later_pages(runs_before(runs, self.page.last_end))
        full, page = add_runs(self.page, runs_from(runs, self.page.last_end))
        epoch = self.accepted[-1].leader_epoch if self.pending and self.accepted else self.leader_epoch
        empty_from = self.pending[0].empty_from if self.pending else self.empty_from
        known = self.progress or self.former
        before = known.destination_end if known else 0
        progress = MapProgress(
            source_cluster_id=self.source_cluster_id,
            source_topic_id=self.source_topic_id,
            destination_topic_id=self.destination_topic_id,
            leader_epoch=epoch,
            offsets=OffsetRange(start_offset=self.committed_end, end_offset=self.covered_end),
            destination_partition=self.destination.partition,
            destination_offset=runs[0].destination_offset if runs else None,
            destination_end=runs[-1].destination_end if runs else before,
            page=page,
            start_offset=self.progress.start_offset if self.progress else self.page.start_offset,
            select=self.select,
            route=self.route,
            empty_from=empty_from if empty_from < self.covered_end else None,
        )
        pages = [self._page(each) for each in full]
        return progress, [*self._left_behind(), *(self._page(each, is_later=True) for each in later), *pages]

    def _page(self, page: FullPage, *, is_later: bool = False) -> tuple[PageKey, MapPage]:
        first = next(decode_runs(page.offsets.start_offset, page.encoded))
        key = PageKey(
            progress=self.key,
            source_topic_id=self.source_topic_id,
            start_offset=page.offsets.start_offset,
            later_at=first.destination_offset if is_later else None,
        )
        return key, MapPage(page=page, destination_partition=self.destination.partition)

    def _left_behind(self) -> list[tuple[PageKey, MapPage]]:
        """Returns the open page of the topic before as a page: the first progress of this one takes its place."""
        former = self.former
        if former is None or not self.is_new or not former.page.runs:
            return []
        end_offset = max(former.position, former.page.last_end)  # it may have been moved back
        offsets = OffsetRange(start_offset=former.page.start_offset, end_offset=end_offset)
        return [
            (
                PageKey(progress=self.key, source_topic_id=former.source_topic_id, start_offset=offsets.start_offset),
                MapPage(
                    page=FullPage(offsets=offsets, encoded=former.page.encoded),
                    destination_partition=former.destination_partition,
                ),
            )
        ]

    def took_commit(self, progress: MapProgress) -> None:
        """Notes that ``progress`` is committed, and tells the member."""
        appends, self.accepted, self.runs = self.accepted, [], []
        letters = self.letters_below(progress.position)
        self.letters = [left for each in self.letters if (left := each.behind(progress.position)).reasons]
        self.progress, self.page, self.is_new = progress, progress.page, False
        self.committed_end = progress.position
        self.member.committed(progress.position, appends, letters)


class TransactionContext(Protocol):
    """What an appender must know of the transaction it sends in."""

    identity: ProducerIdentity
    transactional_id: str

    @property
    def is_sending(self) -> bool:
        """True while batches may be sent in the open transaction."""
        ...

    def sent(self, append: MapAppend) -> None:
        """Learns of a batch that goes out now."""
        ...

    def settled(self) -> None:
        """Learns that an appender waits for no answer any more."""
        ...

    def refused(self, participant: Participant, error: MirrorlakeError) -> None:
        """Learns that a batch was refused: the transaction cannot be committed."""
        ...

    def lost(self, participant: Participant, error: MirrorlakeError) -> None:
        """Learns that a batch has no answer: the transaction can be neither committed nor aborted by its own epoch."""
        ...


class PartitionAppender:
    """Sends the batches of all participants that go to one destination partition, in the order they were handed over.

    Args:
        partition: where they go.
        channel: to its leader.
        transaction: whose part it is.
        sequence: the next one the partition expects.
        end_offset: its log end after the fence: nothing of ours can land below it.
        crash_point: called before every step.
    """

    def __init__(
        self,
        partition: TopicPartition,
        *,
        channel: AppendChannel,
        transaction: TransactionContext,
        sequence: int,
        end_offset: int,
        crash_point: CrashPoint,
    ) -> None:
        self.where = partition
        self.sequence = sequence
        self.is_added = False
        self.queue: deque[MapAppend] = deque()
        self._channel = channel
        self._transaction = transaction
        self._end_offset = end_offset
        self._crash_point = crash_point
        self._in_flight = 0

    @property
    def topic(self) -> str:
        """The destination topic."""
        return self.where.topic

    @property
    def partition(self) -> int:
        """The destination partition."""
        return self.where.partition

    @property
    def is_idle(self) -> bool:
        """True where nothing waits and nothing is under way."""
        return not self.queue and not self._in_flight

    @property
    def in_flight(self) -> int:
        """How many batches wait for their answer."""
        return self._in_flight

    def coalesced_bytes(self, codec: Codec, *, batch_bytes_max: int) -> int:
        """Returns up to which size batches for it should be coalesced: where those before them wait for answers."""
        is_waiting = self._channel.is_full or self._in_flight >= REQUESTS_MAX or not self._transaction.is_sending
        if not self.queue or not is_waiting:
            return 0
        return self._channel.coalesced_bytes(codec, batch_bytes_max=batch_bytes_max)

    def notify(self) -> None:
        """Has the channel ask for what may be sent."""
        if self.queue and self.is_added and self._transaction.is_sending:
            self._channel.notify(self)

    def drop(self, wanted: Callable[[Participant], bool]) -> None:
        """Drops every append that was not sent and whose participant ``wanted`` does not want."""
        kept: deque[MapAppend] = deque()
        for append in self.queue:
            if wanted(append.participant):
                kept.append(append)
            else:
                append.participant.pending.popleft()  # all of a participant's or none
                append.participant.member.let_go(append)
                append.let_go()
        self.queue = kept

    # --- the channel's side -------------------------------------------------------------------------------

    def next_append(self) -> Append | None:
        """Hands out the next batch, addressed, while the transaction takes any."""
        may_send = self._transaction.is_sending and self.is_added and self._in_flight < REQUESTS_MAX
        if not may_send or not self.queue:
            return None
        self._crash_point(Step.SEND_BATCH)
        append = self.queue.popleft()
        identity = self._transaction.identity
        prepare_for_append(
            Batch(append.header, append.data),
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        append.transactional_id = self._transaction.transactional_id
        self.sequence = next_sequence(self.sequence, append.records)
        self._in_flight += 1
        participant = append.participant
        participant.pending.popleft()
        participant.in_flight += 1
        self._transaction.sent(append)
        return append

    def answered(self, append: Append, answer: ProducedPartition) -> None:
        """Takes where the batch landed, or why it did not."""
        assert isinstance(append, MapAppend)
        self._crash_point(Step.TAKE_ANSWER)
        self._settle(append)
        if answer.error_code:
            error = refused(
                answer.error_code,
                what=f" to destination {self.where} of source {append.participant.key.source} offset "
                f"{append.start_offset}",
                where=self.where,
                bytes_sent=append.size_bytes,
                records=append.records,
                said=answer.error_message or "",
            )
            self._transaction.refused(append.participant, error)
        elif answer.base_offset < self._end_offset:
            # Below what was there already: the broker took the batch for one it knows, and appended nothing.
            self._transaction.refused(
                append.participant,
                OutcomeUnknownError(
                    f"destination {self.where} answered offset {answer.base_offset}, its end was {self._end_offset} "
                    "already"
                ),
            )
        elif not is_expected(answer.log_append_time_ms, keeps_source_time=append.participant.keeps_source_time):
            # Unlike a batch outside of a transaction this one is not visible, and nothing of it ever will be.
            self._transaction.refused(append.participant, self._other_clock(append.participant, answer.base_offset))
        else:
            self._accept(append, answer.base_offset)
        self.notify()  # there is room for one more in flight
        if not self._in_flight:
            self._transaction.settled()

    def _other_clock(self, participant: Participant, offset: int) -> MirrorlakeError:
        if participant.keeps_source_time:
            return times_replaced(self.where, offset, is_seen=False)
        return times_kept(self.where, offset)

    def answer_lost(self, append: Append, error: MirrorlakeError) -> None:
        """The batch may or may not be there; the fence decides, and the transaction is given up."""
        assert isinstance(append, MapAppend)
        self._settle(append)
        self._transaction.lost(append.participant, error)
        if not self._in_flight:
            self._transaction.settled()

    def _settle(self, append: MapAppend) -> None:
        self._in_flight -= 1
        append.participant.in_flight -= 1
        append.participant.member.let_go(append)
        append.let_go()

    def _accept(self, append: MapAppend, base_offset: int) -> None:
        self._end_offset = base_offset + append.records
        for run in append.runs:
            append.participant.runs.append(
                MappedRun(start_offset=run.start_offset, length=len(run), destination_offset=base_offset)
            )
            base_offset += len(run)
        append.participant.accepted.append(append)
