"""One transaction session: every transaction of ours, at every destination, goes through these steps and no others.

A session is one transactional id at one cluster, under the identity (producer id and epoch) that its owner got. Each
step is waited for before the next. What is known after each:

1. ``own``: InitProducerId. Whoever held the id can begin and end nothing any more, and its open transaction is aborted,
   with markers of a higher epoch wherever a leader was there to take them: what it sent before is refused there.
2. ``look``: how the leaders stand to us. The producers are read first, the log end after them (``claim``). A
   transaction of ours that is open now is one whose marker was left out, as the partition had no leader (KIP-98;
   the coordinator calls it complete all the same), or was lost by an unclean election. It would share the fate of our
   next transaction there, so it is closed first (step 7).
3. ``add``: AddPartitionsToTxn. The transaction is open at the coordinator, and ends by itself after its time-out.
4. ``produce``: one batch alone; or the user's own channel, several batches in flight, whose answers all count.
5. ``end``: EndTxn. The outcome is decided when it is answered; nothing is readable yet.
6. ``until_closed`` or ``until_marked``: the coordinator has no marker on its way any more, and the leaders, asked
   after that, have no transaction of ours open, or end where they should.
7. ``close``: a transaction that writes nothing but its marker, where step 2 or 6 found one that is open.

What it means when a step does not come to its end:

| | the process dies | the answer is lost | an answer says that we are fenced |
|---|---|---|---|
| own | nothing is open; at most an epoch is used up | the same: own again | – |
| add | open, or not; the next ``own`` or the time-out aborts it | open, or not | not open |
| produce | as add; readers of committed data see nothing of it | there, or not, **or still on its way** | not there |
| end | ended, or open | ended, or open | ended by who came, not as we asked |
| until_… | ended; the next owner looks (step 2) | ended; asked again | ended |
| close | closed, or aborted by the next ``own`` | the same | the same |

A ``close`` that was to commit and is cut short may end as an abort, so who commits by it looks for its records at the
next take-over (``map.tail_look``) before it believes its progress.

So after a lost answer nothing is concluded and nothing more is sent: ``OutcomeUnknownError`` leads back to 1, and the
user reads its destination again. In particular the transaction is **not** aborted by its own epoch (``abort``): the
marker would carry the epoch of a batch that may still come, and not stop it; one of InitProducerId's does. Fencing
(``PositionMovedError``) leads back to reading too, without taking anything from who came.

Deadlines: ``before_send`` is asked right before each request that changes something goes out, after all waiting for
coordinators and connections. A writer that was frozen, or waited too long, sends nothing more. Two requests go out all
the same, as leaving them out would be worse and who came meanwhile has fenced them: EndTxn that aborts, and that of a
``close`` whose partitions are added, which may stand for data that was committed.

Source of the order: KIP-98, KIP-360, KIP-890, and ``docs/decisions/0005-filling-gaps.md``,
``0054-forgotten-state-transactions.md``, ``0125-an-unknown-append-ends-the-identity.md``.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, OutcomeUnknownError, UnsupportedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.coordinators import BeforeSend, at_any_time
from mirrorlake.kafka.control.descriptions import AppendState, ProducerIdentity, TransactionState
from mirrorlake.kafka.control.lone_append import append_alone
from mirrorlake.kafka.records.batches import next_sequence
from mirrorlake.kafka.wire.error_codes import OPERATION_NOT_ATTEMPTED, error_for
from mirrorlake.offsets import TopicPartition

IS_OVER = frozenset({"Empty", "CompleteAbort", "CompleteCommit"})
"""The coordinator's states in which no marker of a transaction is on its way any more."""

_PAUSE_SECONDS_MIN = 0.0005
_PAUSE_SECONDS_MAX = 0.05
_PATIENCE_SECONDS = 0.05
"""A marker is there within a few milliseconds; only then is the coordinator asked why it is not."""

MARKED_SECONDS_MAX = 5.0
"""How long markers are waited for whose number counts: a coordinator that was moved writes them some seconds later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a partition's leader knows of our producer id.

    ``open_from`` is the first offset of a transaction of ours that is open there, None where none is. ``sequence`` is
    the next one it expects of our epoch. ``end_offset`` is its log end, ``leader_epoch`` the epoch it leads in.
    ``has_written`` where it remembers that our producer id has written there, in whatever epoch.
    """

    open_from: int | None
    sequence: int
    end_offset: int
    leader_epoch: int
    has_written: bool


def was_not_attempted(error: MirrorlakeError) -> bool:
    """Tells whether a partition was refused for the sake of another one of the same request, whose error says why."""
    return error.facts.get("code") == OPERATION_NOT_ATTEMPTED


class TransactionSession:
    """The transactions of one transactional id at one cluster, one after the other.

    Args:
        client: of the cluster.
        transactional_id: whose transactions.
        timeout_ms: after which the coordinator aborts one that is left open.
        before_send: called right before each request that changes something; raises where the time for it is over.
    """

    def __init__(
        self,
        client: ClusterClient,
        transactional_id: str,
        *,
        timeout_ms: int,
        before_send: BeforeSend = at_any_time,
    ) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._before_send = before_send
        self._identity: ProducerIdentity | None = None
        self._is_unknown = False

    @property
    def transactional_id(self) -> str:
        """Whose transactions."""
        return self._transactional_id

    @property
    def is_owned(self) -> bool:
        """True from ``own`` or ``adopt`` on, until given up."""
        return self._identity is not None

    @property
    def identity(self) -> ProducerIdentity:
        """Under what all is written; only while it is owned."""
        assert self._identity is not None, "nothing is sent before the id is owned"
        return self._identity

    # --- the identity -------------------------------------------------------------------------------------

    async def own(self) -> ProducerIdentity:
        """Takes the id over (step 1), whatever was held before.

        Raises:
            MirrorlakeError: the coordinator could not do it; nothing is owned.
        """
        self._identity = None
        identity = await self._client.init_producer_id(
            self._transactional_id, transaction_timeout_ms=self._timeout_ms, before_send=self._before_send
        )
        return self.adopt(identity)

    def adopt(self, identity: ProducerIdentity) -> ProducerIdentity:
        """Goes on under an identity without a new epoch; ``still_holds`` tells whether one may."""
        self._identity, self._is_unknown = identity, False
        return identity

    def give_up(self) -> None:
        """Drops the identity: nothing more is sent under it."""
        self._identity = None

    async def found(self) -> TransactionState | MirrorlakeError | None:
        """Returns what the coordinator knows of the id: None for nothing, an error where it could not be asked."""
        return (await self._client.describe_transactions([self._transactional_id])).get(self._transactional_id)

    async def still_holds(self, identity: ProducerIdentity) -> bool:
        """Tells whether the id stands for an identity, and nothing of it is open; False where nobody can say."""
        found = await self.found()
        return (
            isinstance(found, TransactionState)
            and (found.producer_id, found.producer_epoch) == (identity.producer_id, identity.producer_epoch)
            and found.state in IS_OVER
        )

    # --- a transaction ------------------------------------------------------------------------------------

    async def add(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, MirrorlakeError]:
        """Makes partitions part of the transaction, opening it with the first (step 3); returns those refused.

        Kafka adds all of one request or none.

        Raises:
            OutcomeUnknownError: the answer was lost.
            MirrorlakeError: nothing was added.
        """
        with self._noting_the_unknown():
            added = await self._client.add_partitions_to_transaction(
                self._transactional_id, self.identity, partitions, before_send=self._before_send
            )
        return {at: error for at, error in added.items() if error is not None}

    async def add_all(self, partitions: Collection[TopicPartition]) -> None:
        """Does what ``add`` does, and raises what one of them is refused for."""
        for error in sorted((await self.add(partitions)).values(), key=was_not_attempted):
            raise error

    async def produce(self, partition: TopicPartition, batch: bytearray, *, what: str) -> int:
        """Appends one batch of the transaction alone (step 4); returns the offset of its first record.

        Args:
            partition: to which, added before.
            batch: addressed with the identity.
            what: is appended where, for the error.

        Raises:
            PositionMovedError: another writer was there first, or has fenced us; it was not appended.
            OutcomeUnknownError: the answer was lost, or leaves it open.
            MirrorlakeError: it was not appended.
        """
        with self._noting_the_unknown():
            answer = await append_alone(
                self._client,
                partition,
                batch,
                transactional_id=self._transactional_id,
                before_send=self._before_send,
            )
            if answer.error_code:
                raise error_for(
                    answer.error_code,
                    what=what + (f": {answer.error_message}" if answer.error_message else ""),
                    topic=partition.topic,
                    partition=partition.partition,
                )
        return answer.base_offset

    async def end(self, *, committed: bool) -> None:
        """Ends the transaction (step 5).

        Raises:
            PositionMovedError: fenced, or there is no such transaction.
            OutcomeUnknownError: the answer was lost.
            BrokerNotReadyError: not done now; nothing has changed.
        """
        await self._end(committed=committed, before_send=self._before_send if committed else at_any_time)

    async def abort(self) -> None:
        """Ends a transaction that was given up, so that nobody waits for its time-out.

        Does nothing where an answer is missing: only InitProducerId stops what is still on its way.

        Raises:
            MirrorlakeError: as ``end``.
        """
        if not self._is_unknown:
            await self.end(committed=False)

    def lost_an_answer(self) -> None:
        """Notes that a batch of the transaction, which another way carried, has no answer: it may still come."""
        self._is_unknown = True

    # --- what became of it --------------------------------------------------------------------------------

    async def look(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Standing]:
        """Returns how each partition stands to our producer id (step 2).

        Raises:
            MirrorlakeError: one of them could not be asked.
        """
        states = await self._client.append_states(partitions)
        return {partition: _standing(self.identity, state) for partition, state in states.items()}

    async def until_closed(
        self, partitions: Collection[TopicPartition], *, committed: bool = True
    ) -> Mapping[TopicPartition, int]:
        """Waits for the markers of a transaction that has ended; returns where they will never come (step 6).

        Args:
            partitions: that were part of it.
            committed: how it ended.

        Returns:
            First offsets of ours that are open although the coordinator had called the transaction complete before
            the leaders were asked.

        Raises:
            BrokerNotReadyError: the coordinator is not done after the request timeout.
            MirrorlakeError: a leader or the coordinator could not be asked.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        pause, is_over = _PAUSE_SECONDS_MIN, False
        while True:
            standings = await self.look(partitions)
            still_open = {at: each.open_from for at, each in standings.items() if each.open_from is not None}
            if not still_open or is_over:
                return still_open
            waited = loop.time() - began
            if waited > self._client.settings.request_timeout_seconds:
                raise BrokerNotReadyError(f"the markers of {self._transactional_id} are not written yet")
            if waited > _PATIENCE_SECONDS:
                is_over = await self._is_over(committed=committed)
            await asyncio.sleep(pause)
            pause = min(_PAUSE_SECONDS_MAX, pause * 2)

    async def until_marked(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, AppendState]:
        """Waits until a transaction that has ended is over, and every log reaches its end in ``ends`` (step 6).

        For transactions whose markers fill offsets: also where nothing but the marker was written.

        Raises:
            OutcomeUnknownError: not within a few seconds.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + MARKED_SECONDS_MAX
        pause = _PAUSE_SECONDS_MIN
        while True:
            # In this order: a marker that is written twice is written before the coordinator calls it complete.
            found = await self.found()
            states = await self._client.append_states(ends)
            good = {partition: state for partition, state in states.items() if isinstance(state, AppendState)}
            if (
                isinstance(found, TransactionState)
                and found.state in IS_OVER
                and all(at in good and good[at].log_end.end_offset >= end for at, end in ends.items())
            ):
                return good
            if loop.time() >= deadline:
                raise OutcomeUnknownError(
                    f"the markers of {self._transactional_id!r} did not all come: "
                    + ", ".join(f"{at} should end at {end}" for at, end in ends.items())
                )
            await asyncio.sleep(pause)
            pause = min(_PAUSE_SECONDS_MAX, pause * 2)

    async def close(self, partitions: Collection[TopicPartition], *, committed: bool) -> None:
        """Ends what is open on some partitions by a transaction that writes nothing (step 7).

        Raises:
            PositionMovedError: fenced by another writer.
            OutcomeUnknownError: an answer was lost.
            BrokerNotReadyError: it is still open afterwards.
        """
        await self.add_all(partitions)
        await self._end(committed=committed, before_send=at_any_time)
        still_open = await self.until_closed(partitions, committed=committed)
        if still_open:
            raise BrokerNotReadyError(
                f"a transaction of {self._transactional_id} is open on {', '.join(map(str, still_open))}, although "
                "its coordinator calls it complete",
                hint="it is tried again; kafka-transactions.sh find-hanging shows it",
            )

    # --- within -------------------------------------------------------------------------------------------

    async def _end(self, *, committed: bool, before_send: BeforeSend) -> None:
        with self._noting_the_unknown():
            await self._client.end_transaction(
                self._transactional_id, self.identity, committed=committed, before_send=before_send
            )

    async def _is_over(self, *, committed: bool) -> bool:
        found = await self.found()
        if isinstance(found, UnsupportedError):  # before Kafka 3.0
            return await self._client.has_ended(self._transactional_id, self.identity, committed=committed)
        return isinstance(found, TransactionState) and found.state in IS_OVER

    @contextmanager
    def _noting_the_unknown(self) -> Iterator[None]:
        try:
            yield
        except (OutcomeUnknownError, asyncio.CancelledError):
            self.lost_an_answer()
            raise


def _standing(identity: ProducerIdentity, state: AppendState | MirrorlakeError) -> Standing:
    if isinstance(state, MirrorlakeError):
        raise state
    ours = [each for each in state.producers if each.producer_id == identity.producer_id]
    current = next((each for each in ours if each.producer_epoch == identity.producer_epoch), None)
    starts = [each.transaction_start_offset for each in ours if each.transaction_start_offset is not None]
    return Standing(
        open_from=min(starts, default=None),
        sequence=next_sequence(current.last_sequence, 1) if current else 0,
        end_offset=state.log_end.end_offset,
        leader_epoch=state.log_end.leader_epoch,
        has_written=bool(ours),
    )
