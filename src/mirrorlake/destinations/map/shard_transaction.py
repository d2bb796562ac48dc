"""The shard of a mirror with mapped offsets, taken over once in a lease: who writes its data, progress and maps.

Order of effects of a take-over: InitProducerId; what is open on the progress is closed; progress is read past the
*uncommitted* end; what is open elsewhere is closed as the progress says; what the progress says is at a destination
partition is looked for there. Anything unexpected inside a transaction (``owned_shard``), a lost answer above all:
nothing is sent again, the shard is taken over anew and its members read their positions. What each step of the protocol
proves, and what a death, a lost answer and a fencing mean at it, is said in ``transactions.session``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from mirrorlake.clock import Clock
from mirrorlake.destinations.append_channel import AppendChannel
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.map.owned_shard import OwnedShard
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_store import ProgressTopics, check_same_topics, ensure_topics, read_progress
from mirrorlake.destinations.map.progress_writer import ProgressWriter
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.map.transaction_outcome import was_progress_committed, were_pages_committed
from mirrorlake.destinations.map.transaction_participants import MapAppend, Participant
from mirrorlake.destinations.transactions.session import Standing, TransactionSession
from mirrorlake.errors import OutcomeUnknownError, PositionMovedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.crash_points import CrashPoint

TRANSACTION_TIMEOUT_MS = 30_000
"""What a writer that died may hold back readers of the destination, should nobody take over."""


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
        letters_template: names the topics that dead letters go to, empty where there are none.
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
        letters_template: str = "",
        crash_point: CrashPoint,
    ) -> None:
        self._client = client
        self._clock = clock
        self._crash_point = crash_point
        self._transactional_id = transactional_id
        self._progress_partition = topics.progress_of(shard)
        self._pages_partition = topics.pages_of(shard)
        self._topics = topics
        self._letters_template = letters_template
        self._channel_to = channel_to
        self._send_until = send_until_seconds
        now = clock.elapsed_seconds()
        self._letters_until = now + (send_until_seconds - now) / 2
        self._owned: OwnedShard | None = None
        self._taking: asyncio.Task[OwnedShard] | None = None
        self._running: list[asyncio.Task[None]] = []

    @property
    def has_time_for_letters(self) -> bool:
        """True in the first half of a lease: what batches with dead letters bring is still to be written then."""
        return self._clock.elapsed_seconds() < self._letters_until

    async def progress_of(self, key: ProgressKey, hand_off: ProducerHandOff | None) -> MapProgress | None:
        """Returns the newest progress of a source partition; takes the shard over where nobody has in this lease.

        Args:
            key: whose progress.
            hand_off: what the shard's last lease left, if it ended cleanly.

        Raises:
            MirrorlakeError: the shard could not be taken over.
        """
        return (await self._take_over(hand_off)).known.get(key)

    @property
    def known(self) -> Mapping[ProgressKey, MapProgress]:
        """The committed progress of all partitions of the shard; none before it is taken over."""
        return self._owned.known if self._owned is not None else {}

    async def join(
        self,
        key: ProgressKey,
        *,
        make_participant: Callable[[MapProgress | None], Participant],
        hand_off: ProducerHandOff | None,
        own_producer_ids: Collection[int] = (),
        other_shards_ids: Collection[int] = (),
        copies_lost_again: bool = False,
    ) -> Participant:
        """Adds a source partition to the transactions; takes the shard over where nobody has in this lease.

        Args:
            key: whose progress.
            make_participant: makes it from the newest progress, None where there is none; may refuse by raising.
            hand_off: what the shard's last lease left, if it ended cleanly.
            own_producer_ids: those the shard is known to have written under, beside the one of now.
            other_shards_ids: those that the mirror's other shards are known to have written under.
            copies_lost_again: whether the progress goes back where the destination has lost its newest records.

        Raises:
            LostTailError: the destination partition has lost records that progress of this shard says are there.
            LostProgressError: it holds records of ours that the progress does not know.
            MirrorlakeError: the shard could not be taken over, or the destination partition not be asked.
        """
        owned = await self._take_over(hand_off)
        wanted = make_participant(owned.known.get(key))
        await owned.open_partition(
            wanted.destination,
            wanted.destination_topic_id,
            self._channel_to,
            own_producer_ids=own_producer_ids,
            other_shards_ids=other_shards_ids,
            copies_lost_again=copies_lost_again,
        )
        # Before anything of this partition is copied: how an open transaction ended is told by its position of now.
        letters = await owned.open_letters(wanted.letters_topic) if wanted.letters_topic else None
        participant = make_participant(owned.known.get(key))
        participant.letter_bytes_max = letters.batch_bytes_max if letters is not None else 0
        return owned.admit(participant)

    async def rewrite(
        self,
        expected: Mapping[ProgressKey, MapProgress | None],
        wanted: Mapping[ProgressKey, MapProgress],
        *,
        before_write: Callable[[], Awaitable[None]],
    ) -> None:
        """Takes the shard over and writes progress that comes with no data: all of it or, after an error, maybe none.

        Order of effects: the take-over, which fences every other writer of the shard; ``before_write``; the
        transaction.

        Args:
            expected: the progress that the caller has seen; None for none.
            wanted: what it becomes.
            before_write: is asked once the others are fenced; raises where nothing is to be written after all.

        Raises:
            PositionMovedError: the progress is another one than expected; nothing was written.
            MirrorlakeError: it is not known to be written: read it again.
        """
        owned = await self._take_over(None)
        for key, progress in expected.items():
            if owned.known.get(key) != progress:
                raise PositionMovedError(
                    f"the position of source {key.source} at {key.destination_topic} has moved since it was looked at; "
                    "nothing is written to its shard",
                    hint="another process has copied meanwhile: look again",
                )
        await before_write()
        await owned.rewrite(wanted)

    def is_void(self, participant: Participant) -> bool:
        """Tells whether the transactions that a participant joined were given up: it must join again."""
        return self._owned_of(participant) is None

    def _owned_of(self, participant: Participant) -> OwnedShard | None:
        owned = self._owned
        return owned if owned is not None and participant in owned.participants else None

    def take(self, participant: Participant, append: MapAppend) -> None:
        """Queues a batch of a participant; it is sent in the open transaction, or in the next."""
        if self._owned is not None:
            self._owned.take(participant, append)

    def advance(self, participant: Participant, end_offset: int) -> None:
        """Moves a participant's position over offsets without a record; the next commit writes it."""
        participant.taken_end = end_offset
        if self._owned is not None:
            self._owned.changed.set()

    def coalesced_bytes(self, participant: Participant, codec: Codec, *, batch_bytes_max: int) -> int:
        """Returns up to which size batches of a participant should be coalesced, 0 for small ones only."""
        owned = self._owned_of(participant)
        return 0 if owned is None else owned.coalesced_bytes(participant, codec, batch_bytes_max=batch_bytes_max)

    async def await_commit(self, participant: Participant) -> None:
        """Waits until all it handed over is committed, or the participant void; a commit is not put off for long."""
        if (owned := self._owned_of(participant)) is None:
            return
        participant.waits += 1
        try:
            while (participant.is_dirty or owned.is_closing) and participant in owned.participants:
                participant.clean.clear()
                owned.changed.set()
                await participant.clean.wait()
        finally:
            participant.waits -= 1

    def leave(self, participant: Participant) -> None:
        """Drops what was not sent of a participant; what was sent is committed with the others."""
        if self._owned is not None:
            self._owned.leave(participant)

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

    async def _take_over(self, hand_off: ProducerHandOff | None) -> OwnedShard:
        """Returns the shard as it is owned now; those who ask at once share one take-over."""
        if self._owned is not None and self._owned.failure is None:
            return self._owned
        if self._taking is None or self._taking.done():
            # A hand-off is good for the first take-over of a lease only.
            hint = hand_off if self._owned is None else None
            self._taking = asyncio.create_task(self._own(hint))
        return await asyncio.shield(self._taking)

    async def _own(self, hand_off: ProducerHandOff | None) -> OwnedShard:
        self._check_time()
        # One session for each take-over: what the one before has yet to end, it ends under its own epoch.
        session = TransactionSession(
            self._client,
            self._transactional_id,
            timeout_ms=TRANSACTION_TIMEOUT_MS,
            before_send=self._check_time,
        )
        if hand_off is None or not await self._continues(session, hand_off):
            hand_off = None
            await ensure_topics(self._client, self._topics)
            self._crash_point(Step.FENCE)
            await session.own()
        standing = await session.look((self._progress_partition, self._pages_partition))
        known = await self._read_progress(session, standing, is_fenced=hand_off is None)
        await self._close_pages(session, standing, known)
        writer = ProgressWriter(
            session,
            progress_partition=self._progress_partition,
            pages_partition=self._pages_partition,
            sequences={at: each.sequence for at, each in standing.items()},
            clock=self._clock,
            crash_point=self._crash_point,
        )
        self._owned = OwnedShard(
            self._client,
            session,
            writer,
            known=known,
            seen_whole=hand_off.leader_epochs if hand_off is not None else {},
            clock=self._clock,
            crash_point=self._crash_point,
        )
        self._running.append(asyncio.create_task(self._owned.run()))
        return self._owned

    async def _continues(self, session: TransactionSession, hand_off: ProducerHandOff) -> bool:
        """Adopts the identity of the hand-off; False where something has happened under the id since.

        The coordinator must name the same producer and no open transaction, and the progress partition, which every
        transaction writes to, must expect the very sequence of the hand-off.
        """
        if not await session.still_holds(hand_off.identity):
            return False
        session.adopt(hand_off.identity)
        progress = self._progress_partition
        standing = (await session.look([progress]))[progress]
        expected = hand_off.sequences.get((progress.topic, progress.partition), 0)
        return standing.open_from is None and standing.sequence == expected

    async def _read_progress(
        self, session: TransactionSession, standing: Mapping[TopicPartition, Standing], *, is_fenced: bool
    ) -> dict[ProgressKey, MapProgress]:
        progress = self._progress_partition
        open_from = standing[progress].open_from
        if open_from is not None:
            committed = await was_progress_committed(
                self._client, session, progress, open_from, letters_template=self._letters_template
            )
            await session.close([progress], committed=committed)
        self._crash_point(Step.READ_PROGRESS)
        # The end is the leader's, uncommitted and all: below the last stable offset alone, progress may be missing.
        end = (await session.look([progress]))[progress].end_offset
        known = await read_progress(self._client, progress, end_offset=end)
        if is_fenced:
            await check_same_topics(self._client, self._topics)  # a topic recreated meanwhile has no progress to read
        return known

    async def _close_pages(
        self,
        session: TransactionSession,
        standing: Mapping[TopicPartition, Standing],
        known: Mapping[ProgressKey, MapProgress],
    ) -> None:
        pages = self._pages_partition
        open_from = standing[pages].open_from
        if open_from is not None:
            committed = await were_pages_committed(self._client, session, known, pages, open_from)
            await session.close([pages], committed=committed)

    def _check_time(self) -> None:
        """Checks that the lease may still send.

        Raises:
            OutcomeUnknownError: its time is over; a writer that was frozen must not act on what it knew.
        """
        if self._clock.elapsed_seconds() >= self._send_until:
            raise OutcomeUnknownError(f"the lease's time to write as {self._transactional_id} is over")
