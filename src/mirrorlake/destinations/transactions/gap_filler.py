"""Fills the gaps of a shard's partitions, so that offsets at the destination stay equal to the source's.

All of a shard's gaps that lie open at the same time share their transactions. One round, each step waited for; what
is known after a step, and what a death, a lost answer and a fencing mean at it, is said in ``session``:

1. own the identity: InitProducerId, unless the last lease handed it on and the coordinator says that it still holds;
2. the log ends of all partitions, read after that, are where their gaps begin, or inside them;
3. AddPartitionsToTxn;
4. where fillers are wanted, one filler batch for each partition, whose base offset is the gap's start;
5. EndTxn (abort): its marker takes one offset more;
6. the coordinator calls the transaction complete, **and** every log end is where it should be now.

Anything unexpected: nothing more is sent under the identity, everybody reads the destination again, and the next
round begins with InitProducerId, which ends what is open. A crash anywhere leaves a transaction that the next
owner's InitProducerId, or the broker's time-out, ends with a marker inside the gap.

An append of the shard's data whose answer is not known is the same to the identity (``distrust``): the batch may still
arrive, and a marker of the epoch it was sent with does not stop it. It would be appended behind the gap, and the
shard's next batch be called its duplicate. A marker of a new epoch stops it. Why that is enough, case by case:
``docs/decisions/0125-an-unknown-append-ends-the-identity.md``.

Source of the order: KIP-98, KIP-890, and the attacks named in ``docs/decisions/0005-filling-gaps.md``.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum

from mirrorlake.clock import Clock
from mirrorlake.destinations.interface import ProducerHandOff, Progress
from mirrorlake.destinations.transactions.claim import FILL_TRANSACTION_TIMEOUT_MS, PartitionClaim, claim_from
from mirrorlake.destinations.transactions.filler_batch import build_filler
from mirrorlake.destinations.transactions.session import TransactionSession, was_not_attempted
from mirrorlake.destinations.transactions.waiting_gap import GapToFill, WaitingGap
from mirrorlake.errors import (
    BrokerNotReadyError,
    MirrorlakeError,
    OutcomeUnknownError,
    PositionMovedError,
    RecordTooLargeError,
    SizeRefusedError,
    TopicMissingError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import AppendState, ProducerIdentity
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.stores.crash_points import CrashPoint, no_crash

ROUNDS_SPARED = 2.0
"""A round is begun while this many times the last one's length is left: an open transaction is not left to a next
owner."""


class FillStep(StrEnum):
    """The steps between which a filling process may die; the crash point is called before each."""

    INIT_PRODUCER = "init producer"
    ADD_PARTITIONS = "add partitions"
    SEND_FILLER = "send filler"
    END_TRANSACTION = "end transaction"
    AWAIT_MARKERS = "await markers"


class GapFiller:
    """Fills gaps under one shard's transactional id, during one lease.

    Args:
        client: of the destination cluster.
        transactional_id: the shard's, whose producer id its data carries too.
        hand_off: the identity of one of the shard's partitions; the others say theirs by ``join``.
        clock: read before every request that changes something.
        fill_until_seconds: reading of ``clock.elapsed_seconds`` after which no round begins.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        client: ClusterClient,
        transactional_id: str,
        *,
        hand_off: ProducerIdentity | None,
        clock: Clock,
        fill_until_seconds: float,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._client = client
        self._session = TransactionSession(
            client, transactional_id, timeout_ms=FILL_TRANSACTION_TIMEOUT_MS, before_send=self._check_time
        )
        self._hand_off = hand_off
        self._hint = hand_off
        self._is_trusted = True
        self._members: list[Progress] = []
        self._clock = clock
        self._until = fill_until_seconds
        self._crash_point = crash_point
        self._waiting: list[WaitingGap] = []
        self._rounds: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._round_seconds = 0.0

    @property
    def until_seconds(self) -> float:
        """Reading of the clock after which no gap is begun."""
        return self._until

    def prolong(self, seconds: float) -> None:
        """Lets rounds begin for so many seconds longer."""
        self._until += seconds

    def has_time(self, seconds: float) -> bool:
        """Tells whether a transaction that takes about so long, and is begun now, ends before that."""
        return self._clock.elapsed_seconds() + ROUNDS_SPARED * max(seconds, self._round_seconds) < self._until

    def join(self, progress: Progress, hand_off: ProducerIdentity | None) -> None:
        """Takes a partition of the shard, and says in ``progress``, from now on, what the lease leaves to the next one.

        That is the identity of a transaction that ended well, or the hand-off's where it was not used; nothing
        once an append of any partition of the shard has had no answer.

        Args:
            progress: of the partition's sink.
            hand_off: of the partition's last lease. Where two partitions differ in that, one of them has had an
                append without an answer since, so neither counts.
        """
        self._members.append(progress)
        if hand_off != self._hand_off:
            self.distrust()
        self._pass_on()

    def distrust(self) -> None:
        """Says that an append under the shard's producer id has no answer, or a bad one.

        The round that is at work may end, as it is about other partitions: who waits for a gap to be filled has no
        append on its way. The next one begins with InitProducerId.
        """
        self._is_trusted = False
        self._pass_on()

    def _pass_on(self) -> None:
        held = self._session.identity if self._session.is_owned else self._hint
        identity = held if self._is_trusted else None
        hand_off = ProducerHandOff(identity=identity) if identity is not None else None
        for progress in self._members:
            progress.hand_off = hand_off

    async def fill(self, gap: GapToFill) -> PartitionClaim:
        """Fills ``gap``; returns the claim to go on with. Its ``end_offset`` is short of the gap's where time ran out.

        Raises:
            PositionMovedError: the log does not end inside the gap, before or after it was filled: nothing more is
                written before the destination was read again.
            MirrorlakeError: the round failed; the destination must be read again.
        """
        waits = WaitingGap(gap, asyncio.get_running_loop().create_future())
        self._waiting.append(waits)
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._run())
        return await waits.done

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[TransactionSession]:
        """Lends the session, owned, to whoever writes something else under the shard's identity; no gap is filled then.

        Whatever goes wrong meanwhile ends the identity.

        Raises:
            MirrorlakeError: the identity could not be had.
        """
        async with self._one_at_a_time:
            try:
                await self._own()
                yield self._session
            except (MirrorlakeError, asyncio.CancelledError):
                self._drop_identity()
                raise

    async def clean(self, partition: TopicPartition) -> None:
        """Ends a transaction of ours that is open on ``partition``.

        One the coordinator knows of is aborted by InitProducerId; one it calls complete though its marker never
        came (the partition had no leader then) by a further transaction that writes nothing.

        Raises:
            MirrorlakeError: it could not be ended; it still stands.
        """
        async with self._one_at_a_time:
            if not await self._is_open(partition):
                return  # ended together with another partition's
            self._drop_identity()
            try:
                await self._own()
                if (await self._session.look([partition]))[partition].open_from is not None:
                    self._crash_point(FillStep.ADD_PARTITIONS)
                    await self._session.close([partition], committed=False)
            except (MirrorlakeError, asyncio.CancelledError):
                self._drop_identity()  # it may stand for an open transaction
                raise

    async def cancel(self) -> None:
        """Gives up what is being filled; who waits for it is cancelled. Returns when nothing goes on any more."""
        if self._rounds is not None:
            self._rounds.cancel()
            await asyncio.gather(self._rounds, return_exceptions=True)

    # --- rounds -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # what is asked for in the same turn is filled together
            batch, self._waiting = self._waiting, []
            try:
                async with self._one_at_a_time:
                    batch = await self._round(batch)
            except MirrorlakeError as error:
                self._drop_identity()
                for waits in batch:
                    waits.fail(error)
                continue
            except asyncio.CancelledError:
                self._drop_identity()
                for waits in [*batch, *self._waiting]:
                    waits.done.cancel()
                raise
            self._waiting += batch

    def _drop_identity(self) -> None:
        self._session.give_up()
        self._hint = None
        self._pass_on()

    async def _round(self, batch: list[WaitingGap]) -> list[WaitingGap]:
        """Does one transaction for all of ``batch``; returns those whose gaps are not full yet."""
        began = self._clock.elapsed_seconds()
        before = self._session.identity if self._session.is_owned else None
        identity = await self._own()
        # A new epoch may have ended something: what was read before it does not count.
        is_same = identity is before
        states: dict[TopicPartition, AppendState | MirrorlakeError] = {
            waits.gap.partition: waits.state for waits in batch if is_same and waits.state is not None
        }
        if unread := [waits for waits in batch if waits.gap.partition not in states]:
            states |= await self._states(unread)
        ready = await self._at_their_ends(batch, states, identity)
        if not ready:
            return []
        if began + ROUNDS_SPARED * self._round_seconds >= self._until:
            for waits in ready:
                waits.answer(await self._claim(waits, states[waits.gap.partition], identity))
            return []
        self._crash_point(FillStep.ADD_PARTITIONS)
        if untried := await self._add(ready):
            return untried
        await self._send_fillers(ready, states, identity)
        self._crash_point(FillStep.END_TRANSACTION)
        await self._session.end(committed=False)
        self._crash_point(FillStep.AWAIT_MARKERS)
        ends = await self._session.until_marked({waits.gap.partition: waits.next_end for waits in ready})
        left = [rest for waits in ready if (rest := await self._took(waits, ends[waits.gap.partition], identity))]
        self._round_seconds = self._clock.elapsed_seconds() - began
        return left

    async def _add(self, ready: Sequence[WaitingGap]) -> list[WaitingGap]:
        """Makes partitions part of the transaction; returns none, or those not tried for the sake of others.

        These others have failed then, and nothing was added. A topic that is gone, or may not be written, ends no gap
        but its own.
        """
        refused = await self._session.add([waits.gap.partition for waits in ready])
        culprits = [
            waits
            for waits in ready
            if (error := refused.get(waits.gap.partition)) is not None and not was_not_attempted(error)
        ]
        if len(culprits) in (0, len(refused)):
            for error in refused.values():
                raise error
            return []
        for waits in culprits:
            waits.fail(refused[waits.gap.partition])
        return [waits for waits in ready if waits not in culprits]

    async def _at_their_ends(
        self,
        batch: Sequence[WaitingGap],
        states: dict[TopicPartition, AppendState | MirrorlakeError],
        identity: ProducerIdentity,
    ) -> list[WaitingGap]:
        """Returns what is left of the gaps whose log ends inside them; the others are answered.

        The end may have moved since the gap was asked for: what an owner before us left open is ended by
        InitProducerId, with a marker in the gap it was filling.
        """
        ready = []
        for waits in batch:
            state = states[waits.gap.partition]
            if isinstance(state, MirrorlakeError):
                waits.fail(state)
            elif _is_open(state, identity.producer_id):
                waits.fail(BrokerNotReadyError(f"a transaction of ours is still open on {waits.gap.partition}"))
            elif not waits.may_begin_at(state.log_end.end_offset):
                waits.fail(waits.moved_error(state.log_end.end_offset))
            elif rest := await self._took(waits, state, identity):
                ready.append(rest)
        return ready

    async def _took(self, waits: WaitingGap, state: AppendState, identity: ProducerIdentity) -> WaitingGap | None:
        """Takes a log end; returns what is left of the gap, None where it is full."""
        end = state.log_end.end_offset
        gap = waits.gap.offsets
        if end > gap.end_offset:
            # A marker came twice, or another lease copied on behind ours, which needs no new identity for records:
            # who reads the destination again tells the two apart, by what lies there (``tail_check``).
            waits.fail(waits.moved_error(end))
            return None
        if end > gap.start_offset:
            waits.gap.moved(end)
        if end == gap.end_offset:
            waits.answer(await self._claim(waits, state, identity))
            return None
        rest = OffsetRange(start_offset=end, end_offset=gap.end_offset)
        return WaitingGap(replace(waits.gap, offsets=rest), waits.done, state)

    async def _claim(
        self, waits: WaitingGap, state: AppendState | MirrorlakeError, identity: ProducerIdentity
    ) -> PartitionClaim | MirrorlakeError:
        partition = waits.gap.partition
        led = (await self._client.metadata([partition.topic])).partition(partition)
        if isinstance(state, MirrorlakeError):
            return state
        if led is None:
            return TopicMissingError(f"destination partition {partition} does not exist", topic=partition.topic)
        return claim_from(identity, state, leader=led.leader)

    # --- requests -----------------------------------------------------------------------------------------

    async def _own(self) -> ProducerIdentity:
        """Returns the identity, ours at this moment; takes it by InitProducerId where none is held that is trusted."""
        if not self._is_trusted:
            self._session.give_up()
            self._hint = None
            self._is_trusted = True  # of what is held from here on
        if not self._session.is_owned and self._hint is not None:
            if await self._session.still_holds(self._hint):
                self._session.adopt(self._hint)
            self._hint = None
        if not self._session.is_owned:
            self._crash_point(FillStep.INIT_PRODUCER)
            await self._session.own()
        self._pass_on()
        return self._session.identity

    async def _send_fillers(
        self,
        ready: Sequence[WaitingGap],
        states: dict[TopicPartition, AppendState | MirrorlakeError],
        identity: ProducerIdentity,
    ) -> None:
        """Appends one filler to each partition that wants one; each lands at its gap's start, or the round fails."""
        for waits in ready:
            if not waits.records:
                continue
            state = states[waits.gap.partition]
            assert isinstance(state, AppendState)
            known = claim_from(identity, state, leader=-1)
            batch = build_filler(
                waits.records,
                timestamp_ms=waits.gap.timestamp_ms,
                has_key=waits.gap.has_key,
                identity=identity,
                base_sequence=known.next_sequence if known.producer_epoch == identity.producer_epoch else 0,
            )
            await self._append(waits, batch)

    async def _append(self, waits: WaitingGap, batch: bytearray) -> None:
        self._crash_point(FillStep.SEND_FILLER)
        what = f"append of {waits.records} fillers to destination {waits.gap.partition} at offset {waits.start}"
        try:
            landed_at = await self._session.produce(waits.gap.partition, batch, what=what)
        except RecordTooLargeError as error:
            facts = {**error.facts, "bytes": len(batch), "records": waits.records}
            raise SizeRefusedError(f"{error.message}: it has {len(batch)} bytes", hint=error.hint, **facts) from error
        if landed_at != waits.start:
            raise PositionMovedError(f"{what} landed at {landed_at}: another writer was there first")

    def _check_time(self) -> None:
        if self._clock.elapsed_seconds() >= self._until:
            raise OutcomeUnknownError("the lease's time to fill gaps was over; nothing was sent")

    # --- reading ------------------------------------------------------------------------------------------

    async def _states(self, batch: Sequence[WaitingGap]) -> dict[TopicPartition, AppendState | MirrorlakeError]:
        return await self._client.append_states([waits.gap.partition for waits in batch])

    async def _is_open(self, partition: TopicPartition) -> bool:
        """Tells whether a transaction of the producer that the coordinator names is open on ``partition``.

        Raises:
            MirrorlakeError: the leader or the coordinator could not be asked, and nobody else can say.
        """
        state = (await self._client.append_states([partition]))[partition]
        if isinstance(state, MirrorlakeError):
            raise state
        found = await self._session.found()
        if isinstance(found, MirrorlakeError):
            raise found
        return found is not None and _is_open(state, found.producer_id)


def _is_open(state: AppendState, producer_id: int) -> bool:
    return any(p.producer_id == producer_id and p.transaction_start_offset is not None for p in state.producers)
