"""The topics that a shard writes dead letters to, within its transactions."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from mirrorlake.destinations.letters.dead_letters import Letters
from mirrorlake.destinations.letters.topics import LetterTopic, find_letter_topic
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_writer import ProgressWriter
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.map.transaction_outcome import were_letters_committed
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.crash_points import CrashPoint


class LetterTopics:
    """Opens topics for dead letters, and writes to them. Of one shard under one epoch.

    Args:
        client: of the destination cluster.
        session: owned; its transactions are the shard's.
        writer: of the shard's own records.
        crash_point: called before every step; for tests.
    """

    def __init__(
        self, client: ClusterClient, session: TransactionSession, writer: ProgressWriter, *, crash_point: CrashPoint
    ) -> None:
        self._client = client
        self._session = session
        self._writer = writer
        self._crash_point = crash_point
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._open: dict[str, LetterTopic] = {}

    def topic(self, name: str) -> LetterTopic:
        """Returns a topic that was opened."""
        return self._open[name]

    async def open(
        self, name: str, known: Mapping[ProgressKey, MapProgress], turn: AbstractAsyncContextManager[object]
    ) -> None:
        """Makes a topic ready: what is open of ours there is closed; the first who asks does it, the others wait.

        To be called before the positions of its letters' source partitions can move: by where these stand it is told
        how a transaction ended whose marker never came.

        Args:
            name: of the topic.
            known: the committed progress.
            turn: held while a transaction that writes nothing is run.

        Raises:
            TopicMissingError: there is no such topic.
            MirrorlakeError: it could not be asked, or a transaction that is open there not be closed.
        """
        async with self._opening[name]:
            if name in self._open:
                return
            topic = await find_letter_topic(self._client, name)
            for at, standing in (await self._session.look(topic.partitions)).items():
                if standing.open_from is not None:
                    async with turn:
                        committed = await were_letters_committed(
                            self._client, self._session, known, at, standing.open_from
                        )
                        await self._session.close([at], committed=committed)
            standings = await self._session.look(topic.partitions)
            self._writer.opens_letters({at: each.sequence for at, each in standings.items()})
            self._open[name] = topic

    async def write(self, name: str, source: TopicPartition, letters: Sequence[Letters]) -> TopicPartition:
        """Writes letters of a source partition into the open transaction; returns the partition they went to.

        Raises:
            MirrorlakeError: not all are written; the transaction must not be committed.
        """
        topic = self._open[name]
        at = topic.partition_of(source)
        self._crash_point(Step.ADD_PARTITIONS)
        await self._session.add_all([at])
        for each in Letters.merged(letters):
            await self._writer.write_letters(at, each, batch_bytes_max=topic.batch_bytes_max)
        return at
