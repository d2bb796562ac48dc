"""The dead letters of one partition whose copy keeps offsets, in one lease: what has one already, and what gets one."""

import asyncio
from bisect import insort
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mirrorlake.clock import Clock
from mirrorlake.destinations.interface import ClassifiedBatch, Delivery
from mirrorlake.destinations.letters.dead_letters import Letters, parted, without_lettered
from mirrorlake.destinations.letters.progress import NO_OFFSETS, LetterKey, Offsets
from mirrorlake.destinations.letters.progress_store import committed_letters
from mirrorlake.destinations.letters.settings import LetterSettings
from mirrorlake.destinations.preserve.letter_book import LetterBook
from mirrorlake.destinations.schema_batches import Unreadable
from mirrorlake.errors import SchemaUnreadableError, TopicMissingError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap
from mirrorlake.offsets import Gap


class Lettering:
    """Takes the records out of a partition's deliveries that have a dead letter, or become one.

    Args:
        settings: where they go.
        book: of the shard.
        client: of the destination cluster.
        clock: the lease's.
        from_seconds: reading of ``clock.elapsed_seconds`` before which an owner before may still be at work: until then
            it could write letters that were not there when they were read.
        until_seconds: reading after which no batch with letters is taken but a lease's first.
        is_allowed: False where this lease copies nothing, as it is not the owner's, or ends before ``from_seconds``. It
            then leaves the shard's identity to who is.

    Attributes:
        is_out_of_time: whether one was left because of that.
    """

    def __init__(
        self,
        settings: LetterSettings,
        book: LetterBook,
        client: ClusterClient,
        *,
        clock: Clock,
        from_seconds: float,
        until_seconds: float,
        is_allowed: bool = True,
    ) -> None:
        self._settings = settings
        self._book = book
        self._client = client
        self._clock = clock
        self._from = from_seconds
        self._until = until_seconds
        self.is_allowed = is_allowed
        self._key: LetterKey | None = None
        self._lettered = NO_OFFSETS
        self._is_certain = False
        self._pending: list[Letters] = []
        self._taken_end = 0
        self._has_taken = False
        self.is_out_of_time = False

    async def open(self) -> None:
        """Reads which records have a letter.

        Raises:
            TopicMissingError: a topic does not exist.
            MirrorlakeError: it could not be read.
        """
        if not self.is_allowed:
            return
        name = self._settings.destination_topic
        found = (await self._client.metadata([name], refresh=True)).topics.get(name)
        if found is None:
            raise TopicMissingError(f"destination topic {name} does not exist", topic=name)
        self._key = self._settings.key(found.topic_id)
        self._is_certain = self._clock.elapsed_seconds() >= self._from
        await self._read()

    async def _read(self) -> None:
        assert self._key is not None, "it was opened"
        self._lettered = await self._book.known(self._key, self._settings.topic)

    async def lettered(self) -> Offsets:
        """Returns the source offsets that have a letter, as far as that may still be asked; for the tail check.

        Raises:
            MirrorlakeError: it could not be read.
        """
        return self._lettered if self.is_allowed else await committed_letters(self._client, self._settings)

    async def become_certain(self) -> None:
        """Waits until no owner before can still be at work, and reads what it has written meanwhile.

        Raises:
            MirrorlakeError: it could not be read.
        """
        if self._is_certain:
            return
        await asyncio.sleep(max(0.0, self._from - self._clock.elapsed_seconds()))
        self._book.forget(self._from)
        await self._read()
        self._is_certain = True

    def begin(self, delivery: Delivery) -> tuple[Delivery, list[Gap]]:
        """Returns a delivery without the records that have a letter, and its gaps, to which others may be added.

        Raises:
            CorruptBatchError, BatchTooLargeError: a batch with such a record cannot be decoded.
        """
        self._pending.clear()
        self._taken_end = delivery.covered.start_offset
        gaps = [*delivery.gaps]
        lettered = self._lettered[int(np.searchsorted(self._lettered, delivery.covered.start_offset)) :]
        if not len(lettered):
            return delivery, gaps
        batches = []
        for item in delivery.batches:
            left, found = without_lettered(item, lettered)
            batches.append(left)
            for gap in found:
                insort(gaps, gap)
        return replace(delivery, batches=batches), gaps

    def taker(self, ids: SchemaIdMap | None, gaps: list[Gap]) -> Unreadable:
        """Returns what takes the letters of a batch, adds where they were to ``gaps``, and returns what is left of it.

        It raises the error it is given where no record becomes a dead letter, or there is no time for more of them: a
        delivery may be nothing but such batches, and to take one apart takes a millisecond. It raises others too: a
        record that stops its partition (`SchemaUnreadableError`), a letter larger than its topic takes
        (`RecordTooLargeError`).
        """

        def take(item: ClassifiedBatch, error: SchemaUnreadableError) -> ClassifiedBatch:
            self.is_out_of_time = self._has_taken and self._clock.elapsed_seconds() >= self._until
            found = None if ids is None or self.is_out_of_time else parted(item, ids, self._settings.origin)
            if found is None:
                raise error
            self._has_taken = True
            letters = found.letters.behind(self._taken_end)
            if letters.reasons:
                topic = self._settings.topic
                letters.check_sizes(self._book.batch_bytes_max(topic), topic=topic)
                self._pending.append(letters)
                self._taken_end = int(letters.records.offsets[-1]) + 1
            for gap in found.gaps:
                insort(gaps, gap)
            return found.item

        return take

    def due(self, end_offset: int) -> Iterator[Letters]:
        """Yields the letters of batches that begin to be passed over below ``end_offset``, each once."""
        while self._pending and int(self._pending[0].records.offsets[0]) < end_offset:
            yield self._pending.pop(0)

    async def write(self, letters: list[Letters], *, position: int) -> bool:
        """Writes letters in a transaction, False where there is no time for it; see `LetterBook.write`."""
        assert self._key is not None, "it was opened"
        return await self._book.write(self._key, self._settings.topic, letters, position=position)
