"""Dead letters of a shard whose copies keep offsets: which there are, and writing more, each once.

At a destination with equal offsets nothing can take a record's offset in the transaction that writes its letter: an
abort leaves a marker there too (``docs/decisions/0266-…``). So there are two steps, and the first is remembered:

1. one transaction of the shard writes the letters, and *letter progress*, which names their source offsets;
2. those offsets are filled as gaps.

Between the two the progress names offsets that the log end has not passed. Whoever copies the partition reads it first,
under an identity that has ended what writers before had open; what it names is left out of the copy, and gets no second
letter, whatever a registry says of it by then.

Order of effects of the first step, each waited for (``transactions.session`` says what each proves): AddPartitionsToTxn
for the letters' partition and the progress; the letters; the progress, which says where the first of them lies;
EndTxn(commit); both leaders are asked whether it is closed. One that is closed at one of them only ended as it did
there: progress that is open is committed if the letter it names is; letters that are open, if committed progress names
the first of them. Where both are open it is aborted.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from mirrorlake.clock import Clock
from mirrorlake.destinations.letters.dead_letters import Letters
from mirrorlake.destinations.letters.progress import (
    NO_OFFSETS,
    Lettered,
    LetterKey,
    Offsets,
    decode_lettered,
    encode_key,
    encode_lettered,
    joined,
)
from mirrorlake.destinations.letters.progress_store import read_letter_progress
from mirrorlake.destinations.letters.settings import LetterStep
from mirrorlake.destinations.letters.topics import LetterTopic, find_letter_topic
from mirrorlake.destinations.tail import TAIL_OFFSETS
from mirrorlake.destinations.transactions.compacted_topics import check_compacted
from mirrorlake.destinations.transactions.gap_filler import GapFiller
from mirrorlake.destinations.transactions.outcome import is_committed
from mirrorlake.destinations.transactions.own_records import columns_of
from mirrorlake.destinations.transactions.record_writer import RecordWriter
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.destinations.transactions.written_records import read_written_by
from mirrorlake.errors import PositionMovedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.records.batches import Codec
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.stores.crash_points import CrashPoint, no_crash


class LetterBook:
    """The dead letters of one shard during one lease, shared by the sinks of its partitions.

    Args:
        client: of the destination cluster.
        filler: fills the shard's gaps, and lends its session.
        progress: the partition of the letter progress.
        clock: dates the progress.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self,
        client: ClusterClient,
        filler: GapFiller,
        progress: TopicPartition,
        *,
        clock: Clock,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        self._client = client
        self._filler = filler
        self._progress = progress
        self._clock = clock
        self._crash_point = crash_point
        self._under: ProducerIdentity | None = None
        self._known: dict[LetterKey, Lettered] = {}
        self._writer: RecordWriter | None = None
        self._topics: dict[str, LetterTopic] = {}
        self._open: set[TopicPartition] = set()
        self._forgot_at = -inf
        self._write_seconds = 0.0

    async def cancel(self) -> None:
        """Does nothing: who asks waits, and is cancelled with what asked."""

    async def known(self, key: LetterKey, topic: str) -> Offsets:
        """Returns which source offsets of a partition have a letter already, as far as that may still be asked.

        Under an identity that has ended what writers before had open: read once under each.

        Args:
            key: of the partition and its copy.
            topic: for its letters; what is open of ours there is closed.

        Raises:
            TopicMissingError: one of the topics does not exist.
            UnsupportedError: the progress would be deleted by age or size.
            MirrorlakeError: the identity could not be had, or a topic not be read.
        """
        async with self._filler.turn() as session:
            await self._make_ready(session, key, topic)
            return self._offsets_of(key)

    def forget(self, before_seconds: float) -> None:
        """Has the shard taken over, and all read, anew, once for all its partitions.

        What is known may not be all that owners before have written. They cannot be at work any more from
        ``before_seconds`` on, a reading of the clock that is past, so what is read then is all there will be of theirs.
        """
        if self._forgot_at < before_seconds:
            self._forgot_at = self._clock.elapsed_seconds()
            self._filler.distrust()

    def batch_bytes_max(self, topic: str) -> int:
        """Returns how large a batch a topic takes that ``known`` was asked with."""
        return self._topics[topic].batch_bytes_max

    async def write(self, key: LetterKey, topic: str, letters: Sequence[Letters], *, position: int) -> bool:
        """Writes letters, and that they are there, in a transaction of their own; sees it closed.

        Returns False where the lease's time is over before it could end: nothing was sent then.

        Args:
            key: of the partition and its copy.
            topic: where they go.
            letters: in offset order.
            position: the log end of the copy; what is far below it is asked for by nobody any more.

        Raises:
            PositionMovedError: one of them is there already, by another writer, or the log of the copy ends elsewhere.
            MirrorlakeError: it is not known to be committed: read what there is again.
        """
        offsets = joined(each.records.offsets for each in letters)
        if not self._filler.has_time(self._write_seconds):
            return False
        async with self._filler.turn() as session:
            began = self._clock.elapsed_seconds()
            if not self._filler.has_time(self._write_seconds):  # others had their turns meanwhile
                return False
            writer, at = await self._make_ready(session, key, topic)
            before = self._offsets_of(key)
            if len(there := np.intersect1d(before, offsets)):
                raise PositionMovedError(
                    f"the record at source offset {there[0]} of {key.source} has a dead letter in {topic} already: "
                    "another writer of this mirror was there"
                )
            await self._check_end(session, TopicPartition(key.destination_topic, key.partition), position)
            self._crash_point(LetterStep.ADD_PARTITIONS)
            await session.add_all([at, self._progress])
            first = await self._write_letters(writer, at, letters, self._topics[topic])
            lettered = Lettered(
                offsets=joined([before, offsets], start=max(0, position - TAIL_OFFSETS)),
                first_letter=at,
                letter_offset=first,
            )
            record = encode_key(key), encode_lettered(lettered)
            columns = columns_of([record], int(self._clock.now_seconds() * 1000))
            await writer.append(self._progress, columns, codec=Codec.NONE, step=LetterStep.SEND_PROGRESS)
            self._crash_point(LetterStep.COMMIT)
            await session.end(committed=True)
            self._crash_point(LetterStep.LOOK_CLOSED)
            if left_open := await session.until_closed([at, self._progress]):
                await session.close(left_open.keys(), committed=True)
            self._known[key] = lettered
            self._write_seconds = self._clock.elapsed_seconds() - began
            self._crash_point(LetterStep.TAKE_COMMIT)
            return True

    async def _check_end(self, session: TransactionSession, copy: TopicPartition, position: int) -> None:
        """Checks that nobody has copied since the partition was claimed; an owner before may, until its time is over.

        Raises:
            PositionMovedError: somebody has.
            MirrorlakeError: its leader could not be asked.
        """
        end = (await session.look([copy]))[copy].end_offset
        if end != position:
            raise PositionMovedError(
                f"destination {copy} ends at offset {end}, and not at {position}, where the next record gets a dead "
                "letter: another writer of this mirror was there",
                expected_offset=position,
                found_offset=end,
            )

    async def _write_letters(
        self, writer: RecordWriter, at: TopicPartition, letters: Sequence[Letters], topic: LetterTopic
    ) -> int:
        """Appends them; returns the offset of the first."""
        landed = [
            await writer.append(at, columns, codec=each.codec, step=LetterStep.SEND_LETTERS)
            for each in Letters.merged(letters)
            for columns in each.parts(topic.batch_bytes_max)
        ]
        return landed[0]

    # --- what is there ------------------------------------------------------------------------------------

    def _offsets_of(self, key: LetterKey) -> Offsets:
        found = self._known.get(key)
        return NO_OFFSETS if found is None else found.offsets

    async def _make_ready(
        self, session: TransactionSession, key: LetterKey, topic: str
    ) -> tuple[RecordWriter, TopicPartition]:
        """Reads the progress where that was not done under this identity, and opens the partition for the letters."""
        writer = self._writer
        if writer is None or self._under != session.identity:
            writer = await self._read(session)
        if topic not in self._topics:
            self._topics[topic] = await find_letter_topic(self._client, topic)
        at = self._topics[topic].partition_of(key.source)
        if at not in self._open:
            await self._open_partition(session, writer, at)
        return writer, at

    async def _read(self, session: TransactionSession) -> RecordWriter:
        self._under = None
        self._open.clear()
        self._topics.clear()
        self._crash_point(LetterStep.READ_PROGRESS)
        at = self._progress
        standing = (await session.look([at]))[at]
        if standing.open_from is not None:
            await session.close([at], committed=await self._was_committed(session, standing.open_from))
            standing = (await session.look([at]))[at]
        # A letter that it forgets cannot be told from a lost record.
        await check_compacted(self._client, [at.topic])
        # The end is the leader's, uncommitted and all: below the last stable offset alone, some may be missing.
        self._known = await read_letter_progress(self._client, at, end_offset=standing.end_offset)
        self._writer = RecordWriter(session, {at: standing.sequence}, crash_point=self._crash_point)
        self._under = session.identity
        return self._writer

    async def _was_committed(self, session: TransactionSession, open_from: int) -> bool:
        """Tells how a transaction ended whose marker never came to its progress, by the letters it names."""
        end = (await session.look([self._progress]))[self._progress].end_offset
        offsets = OffsetRange(start_offset=open_from, end_offset=max(open_from, end))
        written = await read_written_by(self._client, self._progress, session.identity.producer_id, offsets)
        for _, value in written:
            where, offset = decode_lettered(value or b"").first_at
            there = (await self._client.metadata([where.topic], refresh=True)).partition(where)
            if there is not None and await is_committed(self._client, session, where, offset):
                return True
        return False

    async def _open_partition(self, session: TransactionSession, writer: RecordWriter, at: TopicPartition) -> None:
        standing = (await session.look([at]))[at]
        if standing.open_from is not None:
            named = {each.first_at for each in self._known.values()}
            await session.close([at], committed=(at, standing.open_from) in named)
            standing = (await session.look([at]))[at]
        writer.opens({at: standing.sequence})
        self._open.add(at)
