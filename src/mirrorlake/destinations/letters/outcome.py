"""How a transaction with dead letters ended, where its marker never came to one of its partitions, as they tell it."""

from collections.abc import AsyncIterator, Callable

from mirrorlake.destinations.letters.dead_letters import LetterOrigin, origin_of
from mirrorlake.destinations.transactions.outcome import is_committed
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.destinations.transactions.written_records import read_columns_of
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.schema_ids.unreadable import headers_of
from mirrorlake.offsets import OffsetRange, TopicPartition


async def has_committed_letter(
    client: ClusterClient, session: TransactionSession, name: str, is_wanted: Callable[[LetterOrigin], bool]
) -> bool:
    """Tells whether a dead letter is committed, by its origin. Reads all of ours: it is hardly ever asked.

    Raises:
        MirrorlakeError: a partition could not be read.
    """
    there = (await client.metadata([name], refresh=True)).topics.get(name)
    for number in sorted(there.partitions) if there is not None else ():
        where = TopicPartition(name, number)
        start = await client.offset_at(where, EARLIEST)
        async for offset, origin in _letters_from(client, session, where, start):
            if is_wanted(origin) and await is_committed(client, session, where, offset):
                return True
    return False


async def origins_from(
    client: ClusterClient, session: TransactionSession, partition: TopicPartition, open_from: int
) -> AsyncIterator[LetterOrigin]:
    """Yields whose the letters are that we wrote to a partition from an offset on, committed or not.

    Raises:
        BrokerNotReadyError: not all of them are replicated yet.
        MirrorlakeError: the partition could not be read.
    """
    async for _, origin in _letters_from(client, session, partition, open_from):
        yield origin


async def _letters_from(
    client: ClusterClient, session: TransactionSession, partition: TopicPartition, start: int
) -> AsyncIterator[tuple[int, LetterOrigin]]:
    end = (await session.look([partition]))[partition].end_offset
    offsets = OffsetRange(start_offset=start, end_offset=max(start, end))
    async for columns in read_columns_of(client, partition, session.identity.producer_id, offsets):
        for offset, headers in zip(columns.offsets.tolist(), headers_of(columns), strict=True):
            if (origin := origin_of(headers)) is not None:
                yield offset, origin
