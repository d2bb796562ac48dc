"""The topics that a shard writes dead letters to, within its transactions."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from mirrorlake.destinations.map.dead_letters import Letters
from mirrorlake.destinations.map.progress import MapProgress, ProgressKey
from mirrorlake.destinations.map.progress_writer import ProgressWriter
from mirrorlake.destinations.map.settings import Step
from mirrorlake.destinations.map.transaction_outcome import were_letters_committed
from mirrorlake.destinations.size_limit import read_batch_bytes_max
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.errors import TopicMissingError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.stores.crash_points import CrashPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterTopic:
    """A topic for dead letters, and the largest batch it takes."""

    partitions: tuple[TopicPartition, ...]
    batch_bytes_max: int

    def partition_of(self, source: TopicPartition) -> TopicPartition:
        """Returns where the dead letters of a source partition go, in their order."""
        return self.partitions[source.partition % len(self.partitions)]


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
            there = (await self._client.metadata([name], refresh=True)).topics.get(name)
            if there is None:
                raise TopicMissingError(f"topic {name}, for dead letters, does not exist", topic=name)
            partitions = tuple(TopicPartition(name, number) for number in sorted(there.partitions))
            limit = await read_batch_bytes_max(self._client, name)
            for at, standing in (await self._session.look(partitions)).items():
                if standing.open_from is not None:
                    async with turn:
                        committed = await were_letters_committed(
                            self._client, self._session, known, at, standing.open_from
                        )
                        await self._session.close([at], committed=committed)
            standings = await self._session.look(partitions)
            self._writer.opens_letters({at: each.sequence for at, each in standings.items()})
            self._open[name] = LetterTopic(partitions=partitions, batch_bytes_max=limit)

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
