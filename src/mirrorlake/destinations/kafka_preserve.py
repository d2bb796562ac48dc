"""Kafka destination, ``offsets: preserve``: every record gets the offset it has at the source.

Order of effects for one partition, each step waited for:

1. claim: the producer's last sequence at the leader, then the leader's log end (``preserve_claim``);
2. tail check, at a take-over: the last records below the position are the source's own (``tail_check``);
3. the first batch alone, until its answer carries the expected base offset;
4. then up to five batches in flight, one where the partition may have forgotten the producer.

Every answer's base offset is checked. Anything unexpected: the answers still outstanding are read first, then the
claim starts again from 1. Nothing is ever sent after the lease's deadline.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from mirrorlake.clock import Clock
from mirrorlake.destinations.append_channel import REQUESTS_IN_FLIGHT_MAX, Append, AppendChannel
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery, HandedOn, Progress
from mirrorlake.destinations.preserve_claim import Claim, ClaimReader
from mirrorlake.errors import (
    DestinationForeignError,
    MirrorlakeError,
    OutcomeUnknownError,
    PositionMovedError,
    RecordTooLargeError,
    SourceGapError,
)
from mirrorlake.kafka.batches import Path, next_sequence, prepare_for_append
from mirrorlake.kafka.codec import decode_batches, encode_batch
from mirrorlake.kafka.error_codes import error_for
from mirrorlake.kafka.produce import ProducedPartition
from mirrorlake.offsets import GapFill, TopicPartition
from mirrorlake.stores.crash_points import CrashPoint, no_crash

QUEUE_BYTES_MAX = 4 << 20
"""What one partition may hold back before the reader leaves it out: enough to keep five large batches coming."""

STATE_AGE_MS_MAX = 12 * 3600 * 1000
"""Half of ``producer.id.expiration.ms`` (1 day by default). A broker forgets a producer by its batches' *record*
timestamps, so after batches older than this the state may be gone at the next check."""


class Step(StrEnum):
    """The steps between which a writer may die; the crash point is called with the next one before it happens."""

    READ_CLAIM = "read claim"
    CHECK_TAIL = "check tail"
    SEND_BATCH = "send batch"
    TAKE_ANSWER = "take answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreserveSettings:
    """One partition of one mirror, and where it goes.

    ``source`` and ``destination`` have the same partition number. ``batch_bytes_max`` is the destination topic's
    ``max.message.bytes``. ``needs_tail_check`` is False only where the same process's last lease of this shard
    ended without anything unknown, and ``handed_on`` is what that one left.

    ``gap_fill`` says how offsets without a record are closed. ``own_producer_ids`` are those the shard wrote under
    before its transactional id was given another one. The topics' ``cleanup.policy`` says with
    ``source_is_compacted`` and ``destination_is_compacted`` where records may vanish at any time.
    ``fill_wait_seconds`` is how long after the lease's start the first gap may be filled: the owner before may have
    read the source when the gap was not there yet, and is past its deadline then.
    """

    source: TopicPartition
    destination: TopicPartition
    transactional_id: str
    batch_bytes_max: int
    needs_tail_check: bool
    handed_on: HandedOn | None = None
    gap_fill: GapFill = GapFill.REFUSE
    own_producer_ids: frozenset[int] = frozenset()
    source_is_compacted: bool = False
    destination_is_compacted: bool = False
    fill_wait_seconds: float = 0.0


class PreserveSink:
    """Appends the batches of one source partition at their own offsets.

    Args:
        settings: what goes where.
        claims: reads claims at the destination cluster.
        channel_to: gives the produce channel to a broker of the destination cluster.
        check_tail: compares the tails at a position; raises where they differ.
        clock: the wall clock tells how old a batch is.
        changed: called whenever ``has_room`` or ``failure`` changed.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        settings: PreserveSettings,
        *,
        claims: ClaimReader,
        channel_to: Callable[[int], Awaitable[AppendChannel]],
        check_tail: Callable[[int], Awaitable[None]],
        clock: Clock,
        changed: Callable[[], None],
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self.progress = Progress()
        self.failure: MirrorlakeError | None = None
        self._settings = settings
        self._claims = claims
        self._channel_to = channel_to
        self._check_tail = check_tail
        self._clock = clock
        self._changed = changed
        self._crash_point = crash_point
        self._needs_tail_check = settings.needs_tail_check
        self._claim: Claim | None = None
        self._channel: AppendChannel | None = None
        self._queue: deque[Append] = deque()
        self._queued_bytes = 0
        self._in_flight: deque[Append] = deque()
        self._is_proven = False
        self._sequence = 0
        self._next_offset = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def topic(self) -> str:
        """The destination topic."""
        return self._settings.destination.topic

    @property
    def partition(self) -> int:
        """The destination partition, the source's number."""
        return self._settings.destination.partition

    @property
    def next_offset(self) -> int:
        """The source offset the next delivery must start at."""
        return self._next_offset

    @property
    def has_room(self) -> bool:
        """False while the queue holds its maximum of bytes."""
        return self._queued_bytes < QUEUE_BYTES_MAX

    @property
    def is_endless(self) -> bool:
        """Always: a live destination takes whatever comes."""
        return True

    @property
    def is_done(self) -> bool:
        """Never by itself: a live destination takes whatever comes until the lease ends."""
        return False

    async def open(self) -> None:
        """Claims the partition: reads sequence, then log end, and checks the tail where the owner is new.

        Raises:
            DestinationForeignError: somebody else writes there, or wrote there.
            MirrorlakeError: the destination could not be read.
        """
        await self._idle.wait()
        self._is_proven = False
        self._crash_point(Step.READ_CLAIM)
        claim = await self._claims.read(self._settings.destination, self._settings.transactional_id)
        if claim.strangers:
            raise DestinationForeignError(
                f"destination {self._settings.destination} has another writer: producer id {claim.strangers[0]}, "
                f"ours is {claim.producer_id}",
                hint="stop that producer and re-create the topic, or mirror to a topic of its own",
                position=claim.end_offset,
            )
        if self._needs_tail_check:
            self._crash_point(Step.CHECK_TAIL)
            await self._check_tail(claim.end_offset)
            self._needs_tail_check = False
        self._channel = await self._channel_to(claim.leader)
        self._claim = claim
        self._sequence = claim.next_sequence
        self._next_offset = claim.end_offset
        # Only now: an open that is cut short leaves the failure that asked for it.
        self.failure = None
        self.progress.position = claim.end_offset
        if not self.progress.claims:
            self.progress.start_offset = claim.end_offset
        self.progress.claims += 1

    async def deliver(self, delivery: Delivery) -> None:
        """Queues the delivery's batches; they are sent as answers make room.

        Raises:
            SourceGapError: an offset of the delivery holds no record; what came before it stays queued.
            RecordTooLargeError: a batch is larger than the destination takes.
            MirrorlakeError: an earlier batch failed.
        """
        if self.failure is not None:
            raise self.failure
        try:
            for item in delivery.batches:
                self._take(item, delivery)
            if delivery.covered.end_offset > self._next_offset:
                raise self._gap(self._next_offset, delivery.covered.end_offset, "no batch covers them")
        finally:
            self._send()  # what came before a gap is right where it is

    async def starts_at(self, log_start: int) -> bool:
        """Never: equal offsets would need ``[position, log_start)`` filled."""
        del log_start
        return False

    async def finish(self) -> None:
        """Waits until every queued batch is answered.

        Raises:
            MirrorlakeError: an append failed; ``progress.position`` is what is safe.
        """
        await self._idle.wait()
        if self.failure is not None:
            raise self.failure

    def abandon(self) -> None:
        """Drops what is queued; what is in flight is unknown."""
        self._fail(OutcomeUnknownError("the lease ended before every append was answered"))

    def _take(self, item: ClassifiedBatch, delivery: Delivery) -> None:
        header = item.batch.header
        if item.path == Path.SKIP:
            raise self._gap(max(header.base_offset, self._next_offset), header.next_offset, item.reason)
        if header.base_offset > self._next_offset:
            raise self._gap(self._next_offset, header.base_offset, "compacted or removed")
        if item.path == Path.RAW and header.base_offset == self._next_offset:
            data, records = item.batch.view, header.record_count
            frame = delivery.frame
            frame.pin()
            self._check_size(len(data), header.base_offset, header.last_offset)
            assert self._claim is not None
            prepare_for_append(
                item.batch,
                producer_id=self._claim.producer_id,
                producer_epoch=self._claim.producer_epoch,
                base_sequence=self._sequence,
            )
        else:
            data, records = self._encode(item)
            frame = None
        self._queue.append(
            Append(
                data=data,
                size_bytes=len(data),
                expected_offset=self._next_offset,
                end_offset=header.next_offset,
                records=records,
                reason=f"{item.path}:{item.reason}",
                max_timestamp_ms=header.max_timestamp,
                frame=frame,
            )
        )
        self._sequence = next_sequence(self._sequence, records)
        self._queued_bytes += len(data)
        self._next_offset = header.next_offset
        self.progress.saw_timestamps(header.base_timestamp, header.max_timestamp)
        self._idle.clear()

    def _encode(self, item: ClassifiedBatch) -> tuple[memoryview, int]:
        """Builds a batch anew from its records: the position lies inside it, or its times are the log's."""
        header = item.batch.header
        columns = decode_batches([item.batch], start_offset=self._next_offset)
        if len(columns) != header.next_offset - self._next_offset:
            raise self._gap(self._next_offset, header.next_offset, item.reason)
        assert self._claim is not None
        data = encode_batch(
            columns,
            codec=header.codec,
            producer_id=self._claim.producer_id,
            producer_epoch=self._claim.producer_epoch,
            base_sequence=self._sequence,
        )
        self._check_size(len(data), self._next_offset, header.last_offset)
        return memoryview(data), len(columns)

    def _check_size(self, size: int, first_offset: int, last_offset: int) -> None:
        if size > self._settings.batch_bytes_max:
            raise RecordTooLargeError(
                f"the batch at source {self._settings.source} offsets {first_offset}…{last_offset} has {size} bytes, "
                f"destination topic {self.topic} takes {self._settings.batch_bytes_max}",
                hint=f"raise max.message.bytes of {self.topic} to at least {size}",
                offset=first_offset,
                bytes=size,
            )

    # --- the channel's side -------------------------------------------------------------------------------

    def next_append(self) -> Append | None:
        """Hands the channel the next batch where the claim allows one more in flight."""
        if not self._queue or self.failure is not None or len(self._in_flight) >= self._in_flight_max():
            return None
        self._crash_point(Step.SEND_BATCH)
        append = self._queue.popleft()
        self._in_flight.append(append)
        return append

    def _in_flight_max(self) -> int:
        if not self._is_proven:
            return 1
        # An old batch is sent alone, so of those in flight the first tells for all.
        oldest = self._queue[0].max_timestamp_ms
        if self._in_flight:
            oldest = min(oldest, self._in_flight[0].max_timestamp_ms)
        if oldest < self._clock.now_seconds() * 1000 - STATE_AGE_MS_MAX:
            return 1
        return REQUESTS_IN_FLIGHT_MAX

    def answered(self, append: Append, answer: ProducedPartition) -> None:
        """Checks the broker's answer: no error, and exactly the offset the records have at the source."""
        self._crash_point(Step.TAKE_ANSWER)
        self._let_go(append)
        if answer.error_code:
            self._fail(
                error_for(
                    answer.error_code,
                    what=f"append to destination {self._settings.destination} at offset {append.expected_offset}"
                    + (f": {answer.error_message}" if answer.error_message else ""),
                    topic=self.topic,
                    partition=self.partition,
                )
            )
        elif answer.base_offset < append.expected_offset:
            self._fail(
                PositionMovedError(
                    f"destination {self._settings.destination} answered offset {answer.base_offset} for "
                    f"{append.expected_offset}: another writer of this mirror had sent the same sequence"
                )
            )
        elif answer.base_offset > append.expected_offset:
            self._fail(
                DestinationForeignError(
                    f"destination {self._settings.destination} is misaligned: the records of source offset "
                    f"{append.expected_offset} landed at {answer.base_offset}, so somebody else wrote there",
                    hint="stop the other writer, then delete and re-create the destination topic",
                    expected_offset=append.expected_offset,
                    found_offset=answer.base_offset,
                )
            )
        elif self.failure is None:
            self._accepted(append)
        self._after_answer()

    def answer_lost(self, append: Append, error: MirrorlakeError) -> None:
        """The batch may or may not be there: claim again, and compare the tail before going on."""
        self._let_go(append)
        self._fail(error)
        self._after_answer()

    def _accepted(self, append: Append) -> None:
        self._is_proven = True
        self.progress.position = append.end_offset
        self.progress.records += append.records
        self.progress.raw_bytes += append.size_bytes
        self.progress.batches[append.reason] += 1
        self.progress.saw_latency(self._clock.now_seconds() - append.max_timestamp_ms / 1000)
        if self._queued_bytes + append.size_bytes >= QUEUE_BYTES_MAX and self.has_room:
            self._changed()

    def _let_go(self, append: Append) -> None:
        self._in_flight.remove(append)
        self._queued_bytes -= append.size_bytes
        append.let_go()

    def _after_answer(self) -> None:
        if not self._in_flight and not self._queue:
            self._idle.set()
        elif self.failure is None:
            self._send()

    def _send(self) -> None:
        if self._queue and self._channel is not None and self.failure is None:
            self._channel.notify(self)

    def _fail(self, error: MirrorlakeError) -> None:
        """Keeps the first failure, drops what was not sent; the answers still outstanding are waited for."""
        if self.failure is None:
            self.failure = error
        self._needs_tail_check = True
        for append in self._queue:
            self._queued_bytes -= append.size_bytes
            append.let_go()
        self._queue.clear()
        if not self._in_flight:
            self._idle.set()
        self._changed()

    def _gap(self, start: int, end: int, reason: str) -> MirrorlakeError:
        return SourceGapError(
            f"source {self._settings.source} has no record at offsets {start}…{end - 1} ({reason}), so destination "
            f"{self._settings.destination} cannot get equal offsets past {start}",
            hint="send this topic to an archive destination, which records gaps; gap-fill comes with the next release",
            position=start,
            gap_end=end,
        )
