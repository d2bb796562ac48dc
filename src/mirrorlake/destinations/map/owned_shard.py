"""One transaction after another for a shard: its partitions' data, progress and offset maps, all or nothing.

Order of effects of one transaction, each step waited for (``transactions.session`` says what each proves):

1. AddPartitionsToTxn: destination partitions that have something to append, and the shard's progress;
2. the batches, several in flight; each answer says where the records lie;
3. dead letters below the position, the progress records, and pages of offset maps that became full;
4. EndTxn(commit);
5. the leaders are asked whether the transaction is closed everywhere; what never will be by itself is closed.
"""

import asyncio
import contextlib
import traceback
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy

from mirrorlake.clock import Clock
from mirrorlake.destinations.append_channel import AppendChannel
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.letters.dead_letters import Letters
from mirrorlake.destinations.letters.topics import LetterTopic
from mirrorlake.destinations.map.commit_pace import CommitPace
from mirrorlake.destinations.map.letter_topics import LetterTopics
from mirrorlake.destinations.map.lost_tail import Trim
from mirrorlake.destinations.map.progress import MapPage, MapProgress, PageKey, ProgressKey
from mirrorlake.destinations.map.progress_writer import ProgressWriter
from mirrorlake.destinations.map.seen_whole import SeenWhole
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.map.tail_look import TailLook
from mirrorlake.destinations.map.transaction_outcome import was_data_committed
from mirrorlake.destinations.map.transaction_participants import MapAppend, Participant, PartitionAppender
from mirrorlake.destinations.transactions.session import TransactionSession, was_not_attempted
from mirrorlake.errors import (
    MirrorlakeError,
    OutcomeUnknownError,
    PositionMovedError,
    TopicMissingError,
    TransientError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.crash_points import CrashPoint


class OwnedShard:
    """The shard under one producer epoch, from a take-over until something goes wrong.

    Args:
        client: of the destination cluster.
        session: owned; its identity is the epoch.
        writer: of the shard's own records.
        known: the committed progress, by whose.
        seen_whole: the leader epochs in which destination partitions were found to hold what the progress says.
        clock: measures ages.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        client: ClusterClient,
        session: TransactionSession,
        writer: ProgressWriter,
        *,
        known: dict[ProgressKey, MapProgress],
        seen_whole: Mapping[tuple[str, int], int],
        clock: Clock,
        crash_point: CrashPoint,
    ) -> None:
        self.identity = session.identity
        self.transactional_id = session.transactional_id
        self.known = known
        self.failure: MirrorlakeError | None = None
        self.participants: set[Participant] = set()
        self.changed = asyncio.Event()
        self.is_sending = False
        self.is_closing = False
        self._client = client
        self._session = session
        self._writer = writer
        self._crash_point = crash_point
        self._appenders: dict[TopicPartition, PartitionAppender] = {}
        self._opening: defaultdict[TopicPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._seen_whole = SeenWhole(client, session, writer, leader_epochs=seen_whole)
        self._letters = LetterTopics(client, session, writer, crash_point=crash_point)
        self._members: list[Participant] = []
        self._turn = asyncio.Lock()
        self._pace = CommitPace(clock)
        self._is_clean = True
        self._may_abort = False

    # --- participants -------------------------------------------------------------------------------------

    async def open_partition(
        self,
        where: TopicPartition,
        topic_id: str,
        channel_to: Callable[[int], Awaitable[AppendChannel]],
        *,
        own_producer_ids: Collection[int],
        other_shards_ids: Collection[int],
        copies_lost_again: bool,
    ) -> None:
        """Makes a destination partition ready for participants; the first who asks looks at it, the others wait.

        Order of effects: what is open of ours is closed; what the progress says is there is looked for, and the
        progress goes back where it is not, and that is wanted.

        Raises:
            MirrorlakeError: see ``ShardTransaction.join``.
        """
        async with self._opening[where]:
            if where in self._appenders or self.failure is not None:
                return
            standing = (await self._session.look([where]))[where]
            end_offset = standing.end_offset
            if standing.open_from is not None:
                async with self._turn:
                    committed = was_data_committed(self.known, where, standing.open_from)
                    await self._session.close([where], committed=committed)
                    standing = (await self._session.look([where]))[where]
            ids = (self.identity.producer_id, *own_producer_ids)
            look = TailLook(self._client, where, ids, end_offset=end_offset, other_shards_ids=other_shards_ids)
            trims = await self._seen_whole.find_lost(
                look, standing, self.known, topic_id, copies_lost_again=copies_lost_again
            )
            if trims:
                await self._go_back(trims)
            self._seen_whole.found(look, standing)
            led = (await self._client.metadata([where.topic])).partition(where)
            if led is None:
                raise TopicMissingError(f"destination partition {where} does not exist", topic=where.topic)
            self._appenders[where] = PartitionAppender(
                where,
                channel=await channel_to(led.leader),
                transaction=self,
                sequence=standing.sequence,
                end_offset=standing.end_offset,
                crash_point=self._crash_point,
            )

    async def open_letters(self, topic: str) -> LetterTopic:
        """Makes a topic ready for dead letters; see `LetterTopics.open`."""
        await self._letters.open(topic, self.known, self._turn)
        return self._letters.topic(topic)

    async def _go_back(self, trims: Sequence[Trim]) -> None:
        """Writes what becomes of the progress of sources whose newest records are lost, in a transaction of its own."""
        await self.rewrite(
            {trim.key: trim.progress for trim in trims},
            pages=[page for trim in trims for page in trim.pages],
            forgotten=[key for trim in trims for key in trim.forgotten],
        )

    async def rewrite(
        self,
        progress: Mapping[ProgressKey, MapProgress],
        *,
        pages: Sequence[tuple[PageKey, MapPage]] = (),
        forgotten: Collection[PageKey] = (),
    ) -> None:
        """Writes progress that comes with no data, in a transaction of its own, and sees it closed.

        Args:
            progress: all or none of it is committed.
            pages: of offset maps, written anew with it.
            forgotten: pages taken back with it.

        Raises:
            MirrorlakeError: it is not known to be committed; the shard is given up.
        """
        partitions = [self._writer.progress_partition, self._writer.pages_partition]
        try:
            async with self._turn:
                self._set_hand_off(None)
                await self._add(partitions)
                await self._writer.write_pages(pages, forgotten=forgotten)
                await self._writer.write_progress(progress.items())
                self._crash_point(Step.COMMIT)
                await self._session.end(committed=True)
                self._crash_point(Step.TAKE_COMMIT)
                await self._see_closed(partitions)
                self.known.update(progress)
                self._set_hand_off(self._new_hand_off())
        except MirrorlakeError as error:
            self.fail(error)
            raise

    def admit(self, participant: Participant) -> Participant:
        """Adds a participant for a destination partition that is open."""
        if self.failure is not None:
            raise copy(self.failure)
        self.participants.add(participant)
        self._members.append(participant)
        participant.member.progress.hand_off = self._new_hand_off() if self._is_clean else None
        self.changed.set()
        return participant

    def take(self, participant: Participant, append: MapAppend) -> None:
        """Queues an append of a participant."""
        appender = self._appenders[participant.destination]
        participant.pending.append(append)
        appender.queue.append(append)
        participant.taken_end = append.end_offset
        if appender.is_added and self.is_sending:
            appender.notify()
        else:
            self.changed.set()

    def coalesced_bytes(self, participant: Participant, codec: Codec, *, batch_bytes_max: int) -> int:
        """Returns up to which size batches of a participant should be coalesced; see ``round_trips.py``."""
        appender = self._appenders[participant.destination]
        return appender.coalesced_bytes(codec, batch_bytes_max=batch_bytes_max)

    def leave(self, participant: Participant) -> None:
        """Drops what was not sent of a participant; it stays until what was sent is committed."""
        if participant not in self.participants:
            return
        if participant.pending:
            participant.taken_end = participant.pending[0].start_offset
            self._appenders[participant.destination].drop(lambda other: other is not participant)
        participant.has_left = True
        if not participant.is_dirty:
            self.participants.discard(participant)
        self.changed.set()

    # --- the appenders' side ------------------------------------------------------------------------------

    def sent(self, append: MapAppend) -> None:
        """Counts a batch of the open transaction."""
        self._pace.sent(append)
        if self._pace.is_full:
            self.changed.set()

    def settled(self) -> None:
        """A partition has nothing under way any more."""
        # While it is behind, and nobody waits, only the clock or its size ends a transaction: a wake for each request
        # would cost as much as the request.
        if not self.is_sending or self._has_caught_up or any(each.waits for each in self.participants):
            self.changed.set()

    def refused(self, participant: Participant, error: MirrorlakeError) -> None:
        """A batch was refused."""
        self.fail(error, culprit=participant)

    def lost(self, participant: Participant, error: MirrorlakeError) -> None:
        """A batch has no answer, and may still come."""
        self._session.lost_an_answer()
        self.fail(error, culprit=participant)

    def fail(self, error: MirrorlakeError, *, culprit: Participant | None = None) -> None:
        """Aborts the open transaction: the participant to blame gets the error, others read their positions again."""
        if self.failure is not None:
            return
        self.failure = error
        self.is_sending = self.is_closing = False
        self._set_hand_off(None)
        for appender in self._appenders.values():
            appender.drop(lambda _: False)
        others: MirrorlakeError = OutcomeUnknownError(
            f"a transaction of {self.transactional_id} was given up: {error.message}"
        )
        others.__cause__ = error
        if culprit is None and (isinstance(error, PositionMovedError) or not isinstance(error, TransientError)):
            others = error
        participants, self.participants = self.participants, set()
        for participant in participants:
            participant.clean.set()
            if not participant.has_left:
                participant.member.shard_failed(copy(error if participant is culprit else others))
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
        # Not before every answer is there: a batch that comes after the marker would be open for ever. Where one
        # never comes the session leaves it to the next owner's fence, whose marker stops such a batch.
        await self._until_answered()
        if self._may_abort and not isinstance(self.failure, PositionMovedError):
            await self._session.abort()

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
            dirty = [each for each in self.participants if each.is_dirty]
            if dirty:
                left = self._pace.seconds_to_next()
                if left <= 0 or any(each.waits for each in dirty):
                    return True
            await self._wait(left)
        return False

    async def _transact(self) -> None:
        self._set_hand_off(None)
        self._may_abort = True
        self._pace.begin()
        await self._add([self._writer.progress_partition, *self._fresh()])
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
        self._crash_point(Step.ADD_PARTITIONS)
        refused = await self._session.add(partitions)
        # A broker that refuses one partition says of the others that it did not try; that is not why.
        for at, error in sorted(refused.items(), key=lambda pair: was_not_attempted(pair[1])):
            culprit = next((each for each in self.participants if each.destination == at), None)
            self.fail(error, culprit=culprit)
            raise error
        for at in partitions:
            if at in self._appenders:
                self._appenders[at].is_added = True

    @property
    def _has_caught_up(self) -> bool:
        return not any(each.is_behind and not each.has_left for each in self.participants)

    def _may_end(self) -> bool:
        if self.failure is not None or self._pace.is_full:
            return True
        if any(not appender.is_idle for appender in self._appenders.values()):
            return False
        return any(each.waits for each in self.participants) or self._seconds_to_end() <= 0

    def _seconds_to_end(self) -> float:
        is_idle = self._has_caught_up and all(appender.is_idle for appender in self._appenders.values())
        return self._pace.seconds_to_end(is_idle=is_idle)

    async def _commit(self) -> None:
        """Writes progress, commits, tells the members, and looks that the transaction is closed everywhere."""
        participants = [each for each in self.participants if each.is_new or each.covered_end != each.committed_end]
        written = [(participant, *participant.written()) for participant in participants]
        letters = [
            (participant, found)
            for participant, progress, _ in written
            if (found := participant.letters_below(progress.position))
        ]
        pages = [page for _, _, full in written for page in full]
        part_of_it = [self._writer.progress_partition, *(at for at, each in self._appenders.items() if each.is_added)]
        for participant, found in letters:
            part_of_it.append(await self._write_letters(participant, found))
        if pages:
            await self._add([self._writer.pages_partition])
            part_of_it.append(self._writer.pages_partition)
            await self._writer.write_pages(pages)
        await self._writer.write_progress([(participant.key, progress) for participant, progress, _ in written])
        self._crash_point(Step.COMMIT)
        self._may_abort = False
        await self._session.end(committed=True)
        self._crash_point(Step.TAKE_COMMIT)
        self._pace.committed()
        self.is_closing = True
        for participant, progress, _ in written:
            self.known[participant.key] = progress
            participant.took_commit(progress)
        await self._see_closed(part_of_it)
        for appender in self._appenders.values():
            appender.is_added = False
        self._set_hand_off(self._new_hand_off())
        self.is_closing = False
        for participant in list(self.participants):
            if not participant.is_dirty:
                participant.clean.set()
                if participant.has_left:
                    self.participants.discard(participant)

    async def _write_letters(self, participant: Participant, letters: Sequence[Letters]) -> TopicPartition:
        try:
            return await self._letters.write(participant.letters_topic, participant.key.source, letters)
        except MirrorlakeError as error:
            self.fail(error, culprit=participant)
            raise

    async def _see_closed(self, partitions: Collection[TopicPartition]) -> None:
        """Makes sure that the committed transaction is closed, before the next could share its fate."""
        self._crash_point(Step.LOOK_CLOSED)
        left_open = await self._session.until_closed(partitions)
        if left_open:
            await self._session.close(left_open.keys(), committed=True)

    # --- within -------------------------------------------------------------------------------------------

    def _new_hand_off(self) -> ProducerHandOff:
        # Every transaction writes progress, so its sequence tells whether there was another one since.
        at = self._writer.progress_partition
        sequences = {(at.topic, at.partition): self._writer.progress_sequence}
        # One mapping for all members of a lease: what they leave behind must be the same whenever they joined.
        return ProducerHandOff(
            identity=self.identity, sequences=sequences, leader_epochs=self._seen_whole.leader_epochs
        )

    def _set_hand_off(self, hand_off: ProducerHandOff | None) -> None:
        """Sets what every member of this lease leaves behind, those that are done with it too."""
        self._is_clean = hand_off is not None
        for participant in self._members:
            participant.member.progress.hand_off = hand_off

    async def _wait(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.changed.wait()
        except TimeoutError:
            return
