"""Fills the gaps of a shard's partitions, so that offsets at the destination stay equal to the source's.

All of a shard's gaps that lie open at the same time share their transactions. One round, each step waited for:

1. own the identity: InitProducerId, unless the last lease handed it on and the coordinator says that it still holds;
2. the log ends of all partitions, read after that, are where their gaps begin, or inside them;
3. AddPartitionsToTxn;
4. where fillers are wanted, one filler batch for each partition, whose base offset is the gap's start;
5. EndTxn (abort): its marker takes one offset more;
6. the coordinator calls the transaction complete, **and** every log end is where it should be now.

Anything unexpected: nothing more is sent under the identity, everybody reads the destination again, and the next
round begins with InitProducerId, which ends what stands open. A crash anywhere leaves a transaction that the next
owner's InitProducerId, or the broker's time-out, ends with a marker inside the gap.

An append of the shard's data whose answer is not known is the same to the identity (``distrust``): the batch may still
arrive, and a marker of the epoch it was sent with does not stop it. It would be appended behind the gap, and the
shard's next batch be called its duplicate. A marker of a new epoch stops it. Why that is enough, case by case:
``docs/decisions/0125-an-unknown-append-ends-the-identity.md``.

Source of the order: KIP-98, KIP-890, and the attacks named in ``docs/decisions/0005-filling-gaps.md``.
"""

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum

from mirrorlake.clock import Clock
from mirrorlake.destinations.interface import HandedOn, Progress
from mirrorlake.destinations.transactions.claim import FILL_TRANSACTION_TIMEOUT_MS, Claim, claim_from
from mirrorlake.destinations.transactions.filler_batch import build_filler
from mirrorlake.destinations.transactions.gap_cost import filler_records
from mirrorlake.errors import (
    BrokerNotReadyError,
    MirrorlakeError,
    MisalignedError,
    OutcomeUnknownError,
    PositionMovedError,
    TopicMissingError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import AppendState, ProducerIdentity, TransactionState
from mirrorlake.kafka.control.lone_append import append_alone
from mirrorlake.kafka.wire.error_codes import error_for
from mirrorlake.offsets import GapFill, OffsetRange, TopicPartition
from mirrorlake.stores.crash_points import CrashPoint, no_crash

COMPLETE_STATES = frozenset({"Empty", "CompleteAbort", "CompleteCommit"})
"""States of a transaction in which nothing of it is on its way any more."""

_PAUSE_SECONDS_MIN = 0.0005
_PAUSE_SECONDS_MAX = 0.05
_COMPLETE_SECONDS_MAX = 5.0
"""How long a marker may be waited for: a coordinator that was moved writes it up to some seconds later."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GapToFill:
    """A gap at one destination partition, whose log ends where ``offsets`` begins.

    ``timestamp_ms`` and ``has_key`` are for fillers: a neighbour's time, and whether the topic needs keys.
    ``moved`` is called with every new log end on the way.
    """

    partition: TopicPartition
    offsets: OffsetRange
    gap_fill: GapFill
    batch_bytes_max: int
    timestamp_ms: int
    has_key: bool
    moved: Callable[[int], None]


@dataclass(slots=True)
class _Open:
    """A gap being filled, who waits for it, and its partition's state where the round before has just read it."""

    gap: GapToFill
    done: asyncio.Future[Claim]
    state: AppendState | None = None

    @property
    def start(self) -> int:
        return self.gap.offsets.start_offset

    @property
    def next_end(self) -> int:
        """Where the log ends after the next round."""
        return self.start + self.records + 1

    @property
    def records(self) -> int:
        """Filler records of the next round."""
        if self.gap.gap_fill is not GapFill.FILLER:
            return 0
        return filler_records(len(self.gap.offsets), batch_bytes_max=self.gap.batch_bytes_max)


class GapFiller:
    """Fills gaps under one shard's transactional id, during one lease.

    Args:
        client: of the destination cluster.
        transactional_id: the shard's, whose producer id its data carries too.
        handed_on: the identity that one of the shard's partitions was handed on; the others say theirs by ``join``.
        clock: read before every request that changes something.
        fill_until_seconds: reading of ``clock.elapsed_seconds`` after which no round begins.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        client: ClusterClient,
        transactional_id: str,
        *,
        handed_on: ProducerIdentity | None,
        clock: Clock,
        fill_until_seconds: float,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self._handed_on = handed_on
        self._hint = handed_on
        self._identity: ProducerIdentity | None = None
        self._is_trusted = True
        self._members: list[Progress] = []
        self._clock = clock
        self._until = fill_until_seconds
        self._crash_point = crash_point
        self._waiting: list[_Open] = []
        self._rounds: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._round_seconds = 0.0

    @property
    def until_seconds(self) -> float:
        """Reading of the clock after which no gap is begun."""
        return self._until

    def join(self, progress: Progress, handed_on: ProducerIdentity | None) -> None:
        """Takes a partition of the shard, and says in ``progress``, from now on, what the lease leaves to the next one.

        That is the identity of a transaction that ended well, or what was handed on and not used; nothing once an
        append of any partition of the shard has had no answer.

        Args:
            progress: of the partition's sink.
            handed_on: what the partition was handed on. Where two partitions differ in that, one of them has had an
                append without an answer since, so neither counts.
        """
        self._members.append(progress)
        if handed_on != self._handed_on:
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
        identity = (self._identity or self._hint) if self._is_trusted else None
        handed_on = HandedOn(identity=identity) if identity is not None else None
        for progress in self._members:
            progress.handed_on = handed_on

    async def fill(self, gap: GapToFill) -> Claim:
        """Fills ``gap``; returns the claim to go on with. Its ``end_offset`` is short of the gap's where time ran out.

        Raises:
            MisalignedError: the log ends past the gap: its next offset would hold the wrong record.
            PositionMovedError: the log does not end inside the gap; nothing was changed.
            MirrorlakeError: the round failed; the destination must be read again.
        """
        waits = _Open(gap, asyncio.get_running_loop().create_future())
        self._waiting.append(waits)
        if self._rounds is None or self._rounds.done():
            self._rounds = asyncio.create_task(self._run())
        return await waits.done

    async def clean(self, partition: TopicPartition) -> None:
        """Ends a transaction of ours that stands open on ``partition``.

        One the coordinator knows of is aborted by InitProducerId; one it calls complete though its marker never
        came (the partition had no leader then) by a further transaction that writes nothing.

        Raises:
            MirrorlakeError: it could not be ended; it still stands.
        """
        async with self._one_at_a_time:
            if not await self._is_open(partition):
                return  # ended together with another partition's
            self._drop_identity()
            await self._own()
            if await self._is_open(partition):
                await self._add([partition])
                await self._end()
                await self._await_closed(partition)

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
                    _fail(waits, error)
                continue
            except asyncio.CancelledError:
                self._drop_identity()
                for waits in [*batch, *self._waiting]:
                    waits.done.cancel()
                raise
            self._waiting += batch

    def _drop_identity(self) -> None:
        self._identity = self._hint = None
        self._pass_on()

    async def _round(self, batch: list[_Open]) -> list[_Open]:
        """Does one transaction for all of ``batch``; returns those whose gaps are not full yet."""
        began = self._clock.elapsed_seconds()
        before = self._identity
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
                _answer(waits, await self._claim(waits, states[waits.gap.partition], identity))
            return []
        ready = await self._added(ready)
        await self._send_fillers(ready, states, identity)
        await self._end()
        ends = await self._await_ends(ready)
        left = [rest for waits in ready if (rest := await self._took(waits, ends[waits.gap.partition], identity))]
        self._round_seconds = self._clock.elapsed_seconds() - began
        return left

    async def _at_their_ends(
        self,
        batch: Sequence[_Open],
        states: dict[TopicPartition, AppendState | MirrorlakeError],
        identity: ProducerIdentity,
    ) -> list[_Open]:
        """Returns what is left of the gaps whose log ends inside them; the others are answered.

        The end may have moved since the gap was asked for: what an owner before us left open is ended by
        InitProducerId, with a marker in the gap it was filling.
        """
        ready = []
        for waits in batch:
            state = states[waits.gap.partition]
            if isinstance(state, MirrorlakeError):
                _fail(waits, state)
            elif _is_open(state, identity.producer_id):
                _fail(waits, BrokerNotReadyError(f"a transaction of ours still stands open on {waits.gap.partition}"))
            elif not waits.start <= state.log_end.end_offset <= waits.gap.offsets.end_offset:
                _fail(waits, _moved(waits, state.log_end.end_offset))
            elif rest := await self._took(waits, state, identity):
                ready.append(rest)
        return ready

    async def _added(self, ready: Sequence[_Open]) -> list[_Open]:
        refused = await self._add([waits.gap.partition for waits in ready])
        for waits in ready:
            if (error := refused[waits.gap.partition]) is not None:
                # Kafka adds all of them or none.
                raise error
        return list(ready)

    async def _took(self, waits: _Open, state: AppendState, identity: ProducerIdentity) -> _Open | None:
        """Takes a log end; returns what is left of the gap, None where it is full."""
        end = state.log_end.end_offset
        gap = waits.gap.offsets
        if end > gap.end_offset:
            _fail(waits, _overfilled(waits, end))
            return None
        if end > gap.start_offset:
            waits.gap.moved(end)
        if end == gap.end_offset:
            _answer(waits, await self._claim(waits, state, identity))
            return None
        rest = OffsetRange(start_offset=end, end_offset=gap.end_offset)
        return _Open(replace(waits.gap, offsets=rest), waits.done, state)

    async def _claim(
        self, waits: _Open, state: AppendState | MirrorlakeError, identity: ProducerIdentity
    ) -> Claim | MirrorlakeError:
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
            self._identity = self._hint = None
            self._is_trusted = True  # of what is held from here on
        if self._identity is None and self._hint is not None:
            found = (await self._client.describe_transactions([self._transactional_id])).get(self._transactional_id)
            if _still_holds(found, self._hint):
                self._identity = self._hint
            self._hint = None
        if self._identity is None:
            self._check_time()
            self._crash_point(FillStep.INIT_PRODUCER)
            self._identity = await self._client.init_producer_id(
                self._transactional_id, transaction_timeout_ms=FILL_TRANSACTION_TIMEOUT_MS
            )
        self._pass_on()
        return self._identity

    async def _add(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, MirrorlakeError | None]:
        assert self._identity is not None
        self._check_time()
        self._crash_point(FillStep.ADD_PARTITIONS)
        return await self._client.add_partitions_to_transaction(self._transactional_id, self._identity, partitions)

    async def _end(self) -> None:
        assert self._identity is not None
        self._crash_point(FillStep.END_TRANSACTION)
        await self._client.end_transaction(self._transactional_id, self._identity, committed=False)

    async def _send_fillers(
        self,
        ready: Sequence[_Open],
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

    async def _append(self, waits: _Open, batch: bytearray) -> None:
        partition = waits.gap.partition
        self._check_time()
        self._crash_point(FillStep.SEND_FILLER)
        answer = await append_alone(self._client, partition, batch, transactional_id=self._transactional_id)
        what = f"append of {waits.records} fillers to destination {partition} at offset {waits.start}"
        if answer.error_code:
            raise error_for(
                answer.error_code,
                what=what + (f": {answer.error_message}" if answer.error_message else ""),
                topic=partition.topic,
                partition=partition.partition,
            )
        if answer.base_offset != waits.start:
            raise PositionMovedError(f"{what} landed at {answer.base_offset}: another writer was there first")

    def _check_time(self) -> None:
        if self._clock.elapsed_seconds() >= self._until:
            raise OutcomeUnknownError("the lease's time to fill gaps was over; nothing was sent")

    # --- reading ------------------------------------------------------------------------------------------

    async def _states(self, batch: Sequence[_Open]) -> dict[TopicPartition, AppendState | MirrorlakeError]:
        return await self._client.append_states([waits.gap.partition for waits in batch])

    async def _await_ends(self, ready: Sequence[_Open]) -> dict[TopicPartition, AppendState]:
        """Returns the states once the coordinator has nothing on its way any more and every marker is there.

        Raises:
            OutcomeUnknownError: not within a few seconds.
        """
        self._crash_point(FillStep.AWAIT_MARKERS)
        expected = {waits.gap.partition: waits.next_end for waits in ready}
        deadline = self._clock.elapsed_seconds() + _COMPLETE_SECONDS_MAX
        pause = _PAUSE_SECONDS_MIN
        while True:
            # In this order: a marker that is written twice is written before the coordinator calls it complete.
            found = (await self._client.describe_transactions([self._transactional_id])).get(self._transactional_id)
            states = await self._states(ready)
            good = {partition: state for partition, state in states.items() if isinstance(state, AppendState)}
            if (
                isinstance(found, TransactionState)
                and found.state in COMPLETE_STATES
                and all(p in good and good[p].log_end.end_offset >= end for p, end in expected.items())
            ):
                return good
            if self._clock.elapsed_seconds() >= deadline:
                raise OutcomeUnknownError(
                    f"the markers of {self._transactional_id!r} did not all come: "
                    + ", ".join(f"{p} should end at {end}" for p, end in expected.items())
                )
            await asyncio.sleep(pause)
            pause = min(_PAUSE_SECONDS_MAX, pause * 2)

    async def _is_open(self, partition: TopicPartition) -> bool:
        state = (await self._client.append_states([partition]))[partition]
        if isinstance(state, MirrorlakeError):
            raise state
        found = (await self._client.describe_transactions([self._transactional_id])).get(self._transactional_id)
        return isinstance(found, TransactionState) and _is_open(state, found.producer_id)

    async def _await_closed(self, partition: TopicPartition) -> None:
        deadline = self._clock.elapsed_seconds() + _COMPLETE_SECONDS_MAX
        while await self._is_open(partition):
            if self._clock.elapsed_seconds() >= deadline:
                raise BrokerNotReadyError(
                    f"a transaction of {self._transactional_id!r} still stands open on destination {partition}",
                    hint="kafka-transactions.sh find-hanging shows it; it is ended as soon as the brokers answer",
                )
            await asyncio.sleep(_PAUSE_SECONDS_MAX)


def _is_open(state: AppendState, producer_id: int) -> bool:
    return any(p.producer_id == producer_id and p.transaction_start_offset is not None for p in state.producers)


def _still_holds(found: TransactionState | MirrorlakeError | None, hint: ProducerIdentity) -> bool:
    return (
        isinstance(found, TransactionState)
        and (found.producer_id, found.producer_epoch) == (hint.producer_id, hint.producer_epoch)
        and found.state in COMPLETE_STATES
    )


def _answer(waits: _Open, claim: Claim | MirrorlakeError) -> None:
    if isinstance(claim, MirrorlakeError):
        _fail(waits, claim)
    elif not waits.done.done():
        waits.done.set_result(claim)


def _fail(waits: _Open, error: MirrorlakeError) -> None:
    if not waits.done.done():
        waits.done.set_exception(copy(error))


def _moved(waits: _Open, end: int) -> MirrorlakeError:
    return PositionMovedError(
        f"destination {waits.gap.partition} ends at offset {end}, outside the gap {waits.gap.offsets} that was to be "
        "filled: another writer of this mirror was there first",
        expected_offset=waits.start,
        found_offset=end,
    )


def _overfilled(waits: _Open, end: int) -> MirrorlakeError:
    gap = waits.gap.offsets
    return MisalignedError(
        f"destination {waits.gap.partition} is misaligned: the gap {gap} was filled up to {end}, so the record of "
        f"source offset {gap.end_offset} cannot get its own offset any more",
        hint="a coordinator that failed over wrote a marker twice, or somebody else wrote there; delete and re-create "
        "the destination topic, or use `offsets: map`",
        expected_offset=gap.end_offset,
        found_offset=end,
    )
