"""One transaction after another for a shard: its partitions' data, progress and offset maps, all or nothing.

Order of effects of one transaction, each step waited for:

1. AddPartitionsToTxn: destination partitions that have something to append, and the shard's progress;
2. the batches, several in flight; each answer says where the records lie;
3. the progress records, and pages of offset maps that became full;
4. EndTxn(commit);
5. the leaders are asked whether the transaction is closed everywhere; what never will be by itself is closed.

Order of effects of a take-over: InitProducerId; what stands open on the progress is closed; progress is read past the
*uncommitted* end; what stands open elsewhere is closed as the progress says; what the progress says is at a destination
partition is looked for there. Anything unexpected inside a transaction,
a lost answer above all: nothing is sent again, the shard is taken over anew and its members read their positions.
"""

import asyncio
import contextlib
import traceback
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from copy import copy

from mirrorlake.clock import Clock
from mirrorlake.destinations.append_channel import AppendChannel
from mirrorlake.destinations.interface import HandedOn
from mirrorlake.destinations.map.lost_tail import Trim, progress_at
from mirrorlake.destinations.map.progress import (
    KeyAndValue,
    MapProgress,
    ProgressKey,
    columns_of,
    decode_page,
    decode_page_key,
    encode_page,
    encode_page_key,
    encode_progress,
    encode_progress_key,
)
from mirrorlake.destinations.map.progress_store import ProgressTopics, check_same_topics, ensure_topics, read_progress
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.map.tail_look import TailLook
from mirrorlake.destinations.map.transaction_seats import MapAppend, PartitionAppender, Seat
from mirrorlake.destinations.transactions.transaction_fence import Standing, TransactionFence, was_data_committed
from mirrorlake.errors import (
    BrokerNotReadyError,
    CorruptBatchError,
    MirrorlakeError,
    OutcomeUnknownError,
    PositionMovedError,
    TopicMissingError,
    TransientError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.records.batches import Codec, next_sequence
from mirrorlake.kafka.records.codec import encode_batch
from mirrorlake.kafka.wire.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.kafka.wire.produce import decode_produce, encode_produce
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.crash_points import CrashPoint

COMMIT_SECONDS_MIN = 0.1
"""Between two commits of a stream that is thin; each costs five round trips and a marker per partition."""

COMMIT_SECONDS_MAX = 1.0
"""A transaction ends at this age, however much more there is: readers of committed data wait for it."""

TRANSACTION_BYTES_MAX = 64 << 20
TRANSACTION_RUNS_MAX = 8192
"""Bounds what is remembered of a transaction: where its records lie, one run at least for each batch."""

PROGRESS_BATCH_BYTES_MAX = 512 << 10
"""Half of what a topic takes by default."""


class ShardTransaction:
    """The transactions of one shard in one lease, shared by the sinks of all its partitions.

    Args:
        client: of the destination cluster.
        transactional_id: the shard's.
        topics: where progress and offset maps are kept.
        shard: which partition of them.
        channel_to: gives the produce channel to a broker of the destination cluster.
        clock: dates progress, measures ages.
        send_until_seconds: reading of ``clock.elapsed_seconds`` after which nothing is sent any more.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        client: ClusterClient,
        transactional_id: str,
        topics: ProgressTopics,
        shard: int,
        *,
        channel_to: Callable[[int], Awaitable[AppendChannel]],
        clock: Clock,
        send_until_seconds: float,
        crash_point: CrashPoint,
    ) -> None:
        self.client = client
        self.clock = clock
        self.crash_point = crash_point
        self.transactional_id = transactional_id
        self.progress_partition = topics.progress_of(shard)
        self.pages_partition = topics.pages_of(shard)
        self.fence = TransactionFence(client, transactional_id)
        self._topics = topics
        self._channel_to = channel_to
        self._send_until = send_until_seconds
        self._owned: _Owned | None = None
        self._taking: asyncio.Task[_Owned] | None = None
        self._running: list[asyncio.Task[None]] = []

    async def progress_of(self, key: ProgressKey, handed_on: HandedOn | None) -> MapProgress | None:
        """Returns the newest progress of a source partition; takes the shard over where nobody has in this lease.

        Args:
            key: whose progress.
            handed_on: what the shard's last lease left, if it ended cleanly.

        Raises:
            MirrorlakeError: the shard could not be taken over.
        """
        return (await self._take_over(handed_on)).known.get(key)

    async def join(
        self,
        key: ProgressKey,
        *,
        make_seat: Callable[[MapProgress | None], Seat],
        handed_on: HandedOn | None,
        own_producer_ids: Collection[int] = (),
        copies_lost_again: bool = False,
    ) -> Seat:
        """Gives a source partition its seat; takes the shard over where nobody has in this lease.

        Args:
            key: whose progress.
            make_seat: makes the seat from the newest progress, None where there is none; may refuse by raising.
            handed_on: what the shard's last lease left, if it ended cleanly.
            own_producer_ids: those the mirror's shards are known to have written under, beside the one of now.
            copies_lost_again: whether the progress goes back where the destination has lost its newest records.

        Raises:
            LostTailError: the destination partition has lost records that progress of this shard says are there.
            LostProgressError: it holds records of ours that the progress does not know.
            MirrorlakeError: the shard could not be taken over, or the destination partition not be asked.
        """
        owned = await self._take_over(handed_on)
        wanted = make_seat(owned.known.get(key))
        await owned.open_partition(
            wanted.destination,
            wanted.destination_topic_id,
            self._channel_to,
            own_producer_ids=own_producer_ids,
            copies_lost_again=copies_lost_again,
        )
        return owned.sit_down(make_seat(owned.known.get(key)))

    def take(self, seat: Seat, append: MapAppend) -> None:
        """Queues a batch of a seat; it is sent in the open transaction, or in the next."""
        if self._owned is not None:
            self._owned.take(seat, append)

    def advance(self, seat: Seat, end_offset: int) -> None:
        """Moves a seat's position over offsets without a record; the next commit writes it."""
        seat.taken_end = end_offset
        if self._owned is not None:
            self._owned.changed.set()

    async def flush(self, seat: Seat) -> None:
        """Waits until all that was handed over is committed, or the seat void; a commit is not put off for long."""
        if self._owned is None or seat not in self._owned.seats:
            return
        seat.waits += 1
        try:
            while (seat.is_dirty or self._owned.is_closing) and seat in self._owned.seats:
                seat.clean.clear()
                self._owned.changed.set()
                await seat.clean.wait()
        finally:
            seat.waits -= 1

    def leave(self, seat: Seat) -> None:
        """Drops what was not sent of a seat; what was sent is committed with the others."""
        if self._owned is not None:
            self._owned.leave(seat)

    async def cancel(self) -> None:
        """Gives everything up at once; an open transaction is left to the next owner's fence."""
        if self._taking is not None:
            self._taking.cancel()
        if self._owned is not None:
            self._owned.fail(OutcomeUnknownError("the lease ended"))
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, *([self._taking] if self._taking else []), return_exceptions=True)

    # --- take-over ----------------------------------------------------------------------------------------

    async def _take_over(self, handed_on: HandedOn | None) -> "_Owned":
        """Returns the shard as it is owned now; those who ask at once share one take-over."""
        if self._owned is not None and self._owned.failure is None:
            return self._owned
        if self._taking is None or self._taking.done():
            # What was handed on is good for the first take-over of a lease only.
            hint = handed_on if self._owned is None else None
            self._taking = asyncio.create_task(self._own(hint))
        return await asyncio.shield(self._taking)

    async def _own(self, handed_on: HandedOn | None) -> "_Owned":
        self.check_time()
        if handed_on is not None and await self.fence.still_holds(handed_on, self.progress_partition):
            identity = handed_on.identity
        else:
            handed_on = None
            await ensure_topics(self.client, self._topics)
            self.crash_point(Step.FENCE)
            identity = await self.fence.fence()
        own = (self.progress_partition, self.pages_partition)
        standing = await self.fence.look(identity, own)
        open_from = standing[self.progress_partition].open_from
        if open_from is not None:
            committed = await self.fence.progress_was_committed(identity, self.progress_partition, open_from)
            await self.fence.close(identity, [self.progress_partition], committed=committed)
        self.crash_point(Step.READ_PROGRESS)
        # The end is the leader's, uncommitted and all: below the last stable offset alone, progress may be missing.
        end = (await self.fence.look(identity, [self.progress_partition]))[self.progress_partition].end_offset
        known = await read_progress(self.client, self.progress_partition, end_offset=end)
        if handed_on is None:
            await check_same_topics(self.client, self._topics)  # a topic made again meanwhile has no progress to read
        pages_from = standing[self.pages_partition].open_from
        if pages_from is not None:
            committed = await self._pages_were_committed(identity, known, pages_from)
            await self.fence.close(identity, [self.pages_partition], committed=committed)
        sequences = {at: each.sequence for at, each in standing.items()}
        seen_whole = handed_on.leader_epochs if handed_on is not None else {}
        self._owned = _Owned(self, identity, sequences, known, seen_whole)
        self._running.append(asyncio.create_task(self._owned.run()))
        return self._owned

    async def _pages_were_committed(
        self, identity: ProducerIdentity, known: dict[ProgressKey, MapProgress], start: int
    ) -> bool:
        """Tells whether the progress has left the pages behind that stand open from ``start`` on."""
        for key_bytes, value in await self.fence.written_from(identity, self.pages_partition, start):
            key = decode_page_key(key_bytes)
            progress = known.get(key.progress)
            if progress is None:
                continue
            if key.source_topic_id and progress.source_topic_id not in ("", key.source_topic_id):
                was_committed = True  # of the topic before, left behind by the first progress of this one
            elif value is None:  # forgotten by a progress that went back to before it
                was_committed = progress.page.start_offset <= key.start_offset
            else:
                was_committed = progress.page.start_offset >= decode_page(key, value).page.offsets.end_offset
            if was_committed:
                return True
        return False

    def check_time(self) -> None:
        """Checks that the lease may still send.

        Raises:
            OutcomeUnknownError: its time is over; a writer that was frozen must not act on what it knew.
        """
        if self.clock.elapsed_seconds() >= self._send_until:
            raise OutcomeUnknownError(f"the lease's time to write as {self.transactional_id} is over")


class _Owned:
    """The shard under one producer epoch, from a take-over until something goes wrong."""

    def __init__(
        self,
        shard: ShardTransaction,
        identity: ProducerIdentity,
        sequences: dict[TopicPartition, int],
        known: dict[ProgressKey, MapProgress],
        seen_whole: Mapping[tuple[str, int], int],
    ) -> None:
        self.identity = identity
        self.transactional_id = shard.transactional_id
        self.known = known
        self.failure: MirrorlakeError | None = None
        self.seats: set[Seat] = set()
        self.changed = asyncio.Event()
        self.is_sending = False
        self.is_closing = False
        self._shard = shard
        self._sequences = sequences
        self._appenders: dict[TopicPartition, PartitionAppender] = {}
        self._opening: defaultdict[TopicPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._seen_whole = dict(seen_whole)
        self._members: list[Seat] = []
        self._turn = asyncio.Lock()
        self._committed_at = float("-inf")
        self._began = 0.0
        self._bytes = 0
        self._runs = 0
        self._is_clean = True
        self._may_abort = False

    # --- seats --------------------------------------------------------------------------------------------

    async def open_partition(
        self,
        where: TopicPartition,
        topic_id: str,
        channel_to: Callable[[int], Awaitable[AppendChannel]],
        *,
        own_producer_ids: Collection[int],
        copies_lost_again: bool,
    ) -> None:
        """Makes a destination partition ready for seats; the first who asks looks at it, the others wait.

        Order of effects: what stands open of ours is closed; what the progress says is there is looked for, and the
        progress goes back where it is not, and that is wanted.

        Raises:
            MirrorlakeError: see ``ShardTransaction.join``.
        """
        async with self._opening[where]:
            if where in self._appenders or self.failure is not None:
                return
            client, fence = self._shard.client, self._shard.fence
            standing = (await fence.look(self.identity, [where]))[where]
            end_offset = standing.end_offset
            if standing.open_from is not None:
                async with self._turn:
                    committed = was_data_committed(self.known, where, standing.open_from)
                    self._shard.check_time()
                    await fence.close(self.identity, [where], committed=committed)
                    standing = (await fence.look(self.identity, [where]))[where]
            ids = (self.identity.producer_id, *own_producer_ids)
            look = TailLook(client, where, ids, end_offset=end_offset)
            await self._see_whole(look, topic_id, standing, copies_lost_again=copies_lost_again)
            led = (await client.metadata([where.topic])).partition(where)
            if led is None:
                raise TopicMissingError(f"destination partition {where} does not exist", topic=where.topic)
            self._appenders[where] = PartitionAppender(
                where,
                channel=await channel_to(led.leader),
                transaction=self,
                sequence=standing.sequence,
                end_offset=standing.end_offset,
                crash_point=self._shard.crash_point,
            )

    async def _see_whole(self, look: TailLook, topic_id: str, standing: Standing, *, copies_lost_again: bool) -> None:
        """Compares a destination partition with the progress of every source that has records there."""
        where = look.partition
        there = progress_at(self.known, where, topic_id)
        is_new_leader = self._seen_whole.get((where.topic, where.partition)) != standing.leader_epoch
        lost = await look.find_lost(there, looks_at_records=is_new_leader)
        if lost and not copies_lost_again:
            raise next(iter(lost.values()))
        if lost:
            trims = [await look.trim(key, there[key], self._shard.pages_partition, lost[key]) for key in lost]
            await self._go_back(trims)
        elif is_new_leader and standing.has_written:
            await look.check_behind(there, self._shard.progress_partition)
        self._seen_whole[where.topic, where.partition] = standing.leader_epoch

    async def _go_back(self, trims: Sequence[Trim]) -> None:
        """Writes what becomes of the progress of sources whose newest records are lost, in a transaction of its own."""
        try:
            async with self._turn:
                self._hand_on(None)
                await self._add([self._shard.progress_partition, self._shard.pages_partition])
                pages = [(encode_page_key(key), encode_page(page)) for trim in trims for key, page in trim.pages]
                forgotten = [(encode_page_key(key), None) for trim in trims for key in trim.forgotten]
                await self._write(self._shard.pages_partition, [*pages, *forgotten])
                records = [(encode_progress_key(trim.key), encode_progress(trim.progress)) for trim in trims]
                await self._write(self._shard.progress_partition, records)
                self._shard.check_time()
                self._shard.crash_point(Step.COMMIT)
                client = self._shard.client
                await client.end_transaction(self.transactional_id, self.identity, committed=True)
                await self._see_closed([self._shard.progress_partition, self._shard.pages_partition])
                self.known.update({trim.key: trim.progress for trim in trims})
                self._hand_on(self._handed_on())
        except MirrorlakeError as error:
            self.fail(error)
            raise

    def sit_down(self, seat: Seat) -> Seat:
        """Adds a seat for a destination partition that is open."""
        if self.failure is not None:
            raise copy(self.failure)
        self.seats.add(seat)
        self._members.append(seat)
        seat.member.progress.handed_on = self._handed_on() if self._is_clean else None
        self.changed.set()
        return seat

    def take(self, seat: Seat, append: MapAppend) -> None:
        """Queues an append of a seat."""
        appender = self._appenders[seat.destination]
        seat.pending.append(append)
        appender.queue.append(append)
        seat.taken_end = append.end_offset
        if appender.is_added and self.is_sending:
            appender.notify()
        else:
            self.changed.set()

    def leave(self, seat: Seat) -> None:
        """Drops what was not sent of a seat; it stays until what was sent is committed."""
        if seat not in self.seats:
            return
        if seat.pending:
            seat.taken_end = seat.pending[0].start_offset
            self._appenders[seat.destination].drop(lambda other: other is not seat)
        seat.has_left = True
        if not seat.is_dirty:
            self.seats.discard(seat)
        self.changed.set()

    # --- the appenders' side ------------------------------------------------------------------------------

    def sent(self, append: MapAppend) -> None:
        """Counts a batch of the open transaction."""
        self._bytes += append.size_bytes
        self._runs += len(append.runs)
        if self._is_full:
            self.changed.set()

    def settled(self) -> None:
        """A partition has nothing under way any more."""
        # While it is behind, and nobody waits, only the clock or its size ends a transaction: a wake for each request
        # would cost as much as the request.
        if not self.is_sending or self._has_caught_up or any(seat.waits for seat in self.seats):
            self.changed.set()

    def refused(self, seat: Seat, error: MirrorlakeError) -> None:
        """A batch was refused or its answer lost."""
        self.fail(error, culprit=seat)

    def fail(self, error: MirrorlakeError, *, culprit: Seat | None = None) -> None:
        """Gives the open transaction up: the seat to blame gets the error, the others read their positions again."""
        if self.failure is not None:
            return
        self.failure = error
        self.is_sending = self.is_closing = False
        self._hand_on(None)
        for appender in self._appenders.values():
            appender.drop(lambda _: False)
        others: MirrorlakeError = OutcomeUnknownError(
            f"a transaction of {self.transactional_id} was given up: {error.message}"
        )
        others.__cause__ = error
        if culprit is None and (isinstance(error, PositionMovedError) or not isinstance(error, TransientError)):
            others = error
        seats, self.seats = self.seats, set()
        for seat in seats:
            seat.clean.set()
            if not seat.has_left:
                seat.member.shard_failed(copy(error if seat is culprit else others))
        self.changed.set()

    # --- transactions -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs one transaction after another until something fails; ends the last one where it surely may."""
        try:
            while await self._until_worth_it():
                async with self._turn:
                    await self._transact()
        except MirrorlakeError as error:
            self.fail(error)
        except Exception as error:  # noqa: BLE001 - a bug of ours ends this shard's part, not the others' (law 6)
            traceback.print_exc()
            self.fail(OutcomeUnknownError(f"internal error: {error!r}; please report it"))
        with contextlib.suppress(MirrorlakeError):
            await self._abort()

    async def _abort(self) -> None:
        """Ends a transaction that was given up, so that nobody waits for its time-out. The fence needs none of it."""
        # Not before every answer is there: a batch that comes after the marker would stand open for ever.
        await self._until_answered()
        if self._may_abort and not isinstance(self.failure, PositionMovedError):
            self._shard.check_time()
            await self._shard.client.end_transaction(self.transactional_id, self.identity, committed=False)

    async def _until_answered(self) -> None:
        while any(appender.in_flight for appender in self._appenders.values()):
            self.changed.clear()
            await self._wait(None)

    async def _until_worth_it(self) -> bool:
        """Waits until a transaction should begin; False where there will be none."""
        while self.failure is None:
            self.changed.clear()
            if any(appender.queue for appender in self._appenders.values()):
                return True
            left: float | None = None
            dirty = [seat for seat in self.seats if seat.is_dirty]
            if dirty:
                left = self._committed_at + COMMIT_SECONDS_MIN - self._now()
                if left <= 0 or any(seat.waits for seat in dirty):
                    return True
            await self._wait(left)
        return False

    async def _transact(self) -> None:
        self._hand_on(None)
        self._may_abort = True
        self._began, self._bytes, self._runs = self._now(), 0, 0
        await self._add([self._shard.progress_partition, *self._fresh()])
        self.is_sending = True
        while not self._may_end():
            self.changed.clear()
            if fresh := self._fresh():
                await self._add(fresh)
            for appender in self._appenders.values():
                appender.notify()
            await self._wait(self._seconds_to_end())
        self.is_sending = False
        await self._until_answered()
        if self.failure is None:
            await self._commit()

    def _fresh(self) -> list[TopicPartition]:
        return [at for at, appender in self._appenders.items() if appender.queue and not appender.is_added]

    async def _add(self, partitions: Collection[TopicPartition]) -> None:
        """Makes partitions part of the transaction, opening it with the first."""
        self._shard.check_time()
        self._shard.crash_point(Step.ADD_PARTITIONS)
        added = await self._shard.client.add_partitions_to_transaction(self.transactional_id, self.identity, partitions)
        refused = {at: error for at, error in added.items() if error is not None}
        # A broker that refuses one partition says of the others that it did not try; that is not why.
        for at, error in sorted(refused.items(), key=lambda pair: isinstance(pair[1], TransientError)):
            culprit = next((seat for seat in self.seats if seat.destination == at), None)
            self.fail(error, culprit=culprit)
            raise error
        for at in partitions:
            if at in self._appenders:
                self._appenders[at].is_added = True

    @property
    def _is_full(self) -> bool:
        return (
            self._bytes >= TRANSACTION_BYTES_MAX
            or self._runs >= TRANSACTION_RUNS_MAX
            or self._now() - self._began >= COMMIT_SECONDS_MAX
        )

    @property
    def _has_caught_up(self) -> bool:
        return not any(seat.is_behind and not seat.has_left for seat in self.seats)

    def _may_end(self) -> bool:
        if self.failure is not None or self._is_full:
            return True
        if any(not appender.is_idle for appender in self._appenders.values()):
            return False
        return any(seat.waits for seat in self.seats) or self._seconds_to_end() <= 0

    def _seconds_to_end(self) -> float:
        """Seconds until the transaction may end if nothing more comes; where something is under way, must end.

        A stream that is behind runs dry for a moment after almost every fetch. That is no reason to commit: whoever
        reads old records can wait for a full transaction of them.
        """
        is_idle = self._has_caught_up and all(appender.is_idle for appender in self._appenders.values())
        until = self._committed_at + COMMIT_SECONDS_MIN if is_idle else self._began + COMMIT_SECONDS_MAX
        return max(0.0, until - self._now())

    async def _commit(self) -> None:
        """Writes progress, commits, tells the members, and looks that the transaction is closed everywhere."""
        shard = self._shard
        seats = [seat for seat in self.seats if seat.is_new or seat.covered_end != seat.committed_end]
        written = [(seat, *seat.written()) for seat in seats]
        pages = [(encode_page_key(key), encode_page(page)) for _, _, full in written for key, page in full]
        part_of_it = [at for at, appender in self._appenders.items() if appender.is_added]
        part_of_it.append(shard.progress_partition)
        if pages:
            await self._add([shard.pages_partition])
            part_of_it.append(shard.pages_partition)
            await self._write(shard.pages_partition, pages)
        records = [(encode_progress_key(seat.key), encode_progress(progress)) for seat, progress, _ in written]
        await self._write(shard.progress_partition, records)
        shard.check_time()
        shard.crash_point(Step.COMMIT)
        self._may_abort = False
        await shard.client.end_transaction(self.transactional_id, self.identity, committed=True)
        shard.crash_point(Step.TAKE_COMMIT)
        self._committed_at = self._now()
        self.is_closing = True
        for seat, progress, _ in written:
            self.known[seat.key] = progress
            seat.took_commit(progress)
        await self._see_closed(part_of_it)
        for appender in self._appenders.values():
            appender.is_added = False
        self._hand_on(self._handed_on())
        self.is_closing = False
        for seat in list(self.seats):
            if not seat.is_dirty:
                seat.clean.set()
                if seat.has_left:
                    self.seats.discard(seat)

    async def _see_closed(self, partitions: Collection[TopicPartition]) -> None:
        """Makes sure that the committed transaction is closed, before the next could share its fate."""
        self._shard.crash_point(Step.LOOK_CLOSED)
        left_open = await self._shard.fence.until_closed(self.identity, partitions)
        if left_open:
            self._shard.check_time()
            await self._shard.fence.close(self.identity, left_open.keys(), committed=True)

    async def _write(self, partition: TopicPartition, records: Iterable[KeyAndValue]) -> None:
        """Appends records of our own, in as many batches as needed, one after the other."""
        part: list[KeyAndValue] = []
        size = 0
        for key, value in records:
            record_bytes = len(key) + len(value or b"")
            if part and size + record_bytes > PROGRESS_BATCH_BYTES_MAX:
                await self._append(partition, part)
                part, size = [], 0
            part.append((key, value))
            size += record_bytes
        await self._append(partition, part)

    async def _append(self, partition: TopicPartition, records: list[KeyAndValue]) -> None:
        if not records:
            return
        client = self._shard.client
        sequence = self._sequences[partition]
        batch = encode_batch(
            columns_of(records, int(self._shard.clock.now_seconds() * 1000)),
            codec=Codec.NONE,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        led = (await client.metadata([partition.topic])).partition(partition)
        if led is None or led.leader < 0:
            raise BrokerNotReadyError(f"{partition} has no leader at the moment")
        connection = await client.connection(led.leader)
        timeout = client.settings.request_timeout_seconds
        body = encode_produce(
            [(partition.topic, partition.partition, batch)],
            timeout_ms=int(timeout * 1000),
            transactional_id=self.transactional_id,
        )
        self._shard.check_time()
        self._shard.crash_point(Step.SEND_PROGRESS)
        self._sequences[partition] = next_sequence(sequence, len(records))
        with await connection.request(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=timeout) as frame:
            try:
                (answer,) = decode_produce(frame.view)
            except CorruptBatchError as error:
                connection.close(str(error))
                raise OutcomeUnknownError(f"the answer to an append to {partition} was garbled") from error
        if answer.error_code:
            raise error_for(answer.error_code, what=f"append to {partition}", topic=partition.topic)

    # --- within -------------------------------------------------------------------------------------------

    def _handed_on(self) -> HandedOn:
        # Every transaction writes progress, so its sequence tells whether there was another one since.
        at = self._shard.progress_partition
        sequences = {(at.topic, at.partition): self._sequences[at]}
        # One mapping for all members of a lease: what they leave behind must be the same whenever they sat down.
        return HandedOn(identity=self.identity, sequences=sequences, leader_epochs=self._seen_whole)

    def _hand_on(self, handed_on: HandedOn | None) -> None:
        """Sets what every member of this lease leaves behind, those that are done with it too."""
        self._is_clean = handed_on is not None
        for seat in self._members:
            seat.member.progress.handed_on = handed_on

    def _now(self) -> float:
        return self._shard.clock.elapsed_seconds()

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.changed.wait()
        except TimeoutError:
            return
