"""How a transaction ended that is open on some of its partitions, as the others tell it.

Data, progress and pages are one transaction. Where its marker was left out of one of them (see
``transactions.session``), the others, where markers came, say whether it was committed.
"""

from collections.abc import Mapping

from mirrorlake.destinations.map.dead_letters import origin_of
from mirrorlake.destinations.map.progress import (
    KeyAndValue,
    MapProgress,
    ProgressKey,
    decode_page,
    decode_page_key,
    decode_progress,
    decode_progress_key,
)
from mirrorlake.destinations.map.settings import letters_topic
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.destinations.transactions.written_records import read_columns_of, read_marker_behind, read_written_by
from mirrorlake.errors import SourceTruncatedError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.holes import check_empty
from mirrorlake.kafka.records.aborted import AbortedTransactions, ControlType
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.schema_ids.unreadable import headers_of
from mirrorlake.kafka.wire.fetch import READ_COMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition

_READ_BYTES = 1 << 20


async def was_progress_committed(
    client: ClusterClient,
    session: TransactionSession,
    progress: TopicPartition,
    open_from: int,
    *,
    letters_template: str = "",
) -> bool:
    """Tells how a transaction ended whose marker never came to its progress, by its data, where markers came.

    Or by its dead letters, which the template says where to look for: it may have had no data at all.

    Where nothing of it can be found decided, nobody has seen it committed, and nobody will: False is right.

    Raises:
        BrokerNotReadyError: not all of it is replicated yet.
        MirrorlakeError: a partition could not be read.
    """
    for key, value in await _written_from(client, session, progress, open_from):
        written = decode_progress(value or b"")
        if written.destination_offset is not None:
            where = TopicPartition(decode_progress_key(key).destination_topic, written.destination_partition)
            if await _is_committed(client, session, where, written.destination_offset):
                return True
        name = letters_topic(letters_template, decode_progress_key(key).source.topic)
        if name and await _has_letters(client, session, name, decode_progress_key(key), written):
            return True
    return False


async def _has_letters(
    client: ClusterClient, session: TransactionSession, name: str, key: ProgressKey, written: MapProgress
) -> bool:
    """Tells whether dead letters of a range of progress are committed. Reads all of ours: it is hardly ever asked.

    Raises:
        MirrorlakeError: a partition could not be read.
    """
    there = (await client.metadata([name], refresh=True)).topics.get(name)
    for number in sorted(there.partitions) if there is not None else ():
        where = TopicPartition(name, number)
        start = await client.offset_at(where, EARLIEST)
        end = (await session.look([where]))[where].end_offset
        offsets = OffsetRange(start_offset=start, end_offset=max(start, end))
        async for columns in read_columns_of(client, where, session.identity.producer_id, offsets):
            for offset, headers in zip(columns.offsets.tolist(), headers_of(columns), strict=True):
                origin = origin_of(headers)
                if (
                    origin is not None
                    and ProgressKey(destination_topic=origin.destination_topic, source=origin.source) == key
                    and written.offsets.start_offset <= origin.offset < written.offsets.end_offset
                    and await _is_committed(client, session, where, offset)
                ):
                    return True
    return False


async def were_pages_committed(
    client: ClusterClient,
    session: TransactionSession,
    known: Mapping[ProgressKey, MapProgress],
    pages: TopicPartition,
    open_from: int,
) -> bool:
    """Tells whether the committed progress has left the pages behind that are open from ``open_from`` on.

    Raises:
        BrokerNotReadyError: not all of them are replicated yet.
        MirrorlakeError: the partition could not be read.
    """
    for key_bytes, value in await _written_from(client, session, pages, open_from):
        key = decode_page_key(key_bytes)
        progress = known.get(key.progress)
        if progress is None:
            continue
        if key.source_topic_id and progress.source_topic_id not in ("", key.source_topic_id):
            was_committed = True  # of the topic before, left behind by the first progress of this one
        elif value is None:  # forgotten by a progress that went back to before it
            was_committed = progress.page.start_offset <= key.start_offset
        else:
            was_committed = progress.page.start_offset >= decode_page(key, value).page.offsets.end_offset
        if was_committed:
            return True
    return False


def was_data_committed(known: Mapping[ProgressKey, MapProgress], destination: TopicPartition, open_from: int) -> bool:
    """Tells whether committed progress reaches past the first open offset of a destination partition. Pure.

    An open transaction of ours is always the last one that wrote there: none is begun before the one before is seen to
    be closed everywhere. So if it was committed, the progress of one of its sources ends behind it.
    """
    return any(
        TopicPartition(key.destination_topic, each.destination_partition) == destination
        and each.destination_end > open_from
        for key, each in known.items()
    )


async def were_letters_committed(
    client: ClusterClient,
    session: TransactionSession,
    known: Mapping[ProgressKey, MapProgress],
    partition: TopicPartition,
    open_from: int,
) -> bool:
    """Tells whether committed progress has passed the dead letters that are open from ``open_from`` on.

    No position has moved since: they are of the last transaction, and whoever copies their source partitions closes
    them first.

    Raises:
        BrokerNotReadyError: not all of them are replicated yet.
        MirrorlakeError: the partition could not be read.
    """
    end = (await session.look([partition]))[partition].end_offset
    offsets = OffsetRange(start_offset=open_from, end_offset=max(open_from, end))
    async for columns in read_columns_of(client, partition, session.identity.producer_id, offsets):
        for origin in filter(None, map(origin_of, headers_of(columns))):
            progress = known.get(ProgressKey(destination_topic=origin.destination_topic, source=origin.source))
            if progress is None or progress.source_topic_id not in ("", origin.topic_id):
                continue  # of a topic that was made anew: the progress is still that of the one before
            if progress.position > origin.offset:
                return True
    return False


async def _written_from(
    client: ClusterClient, session: TransactionSession, partition: TopicPartition, start: int
) -> list[KeyAndValue]:
    end = (await session.look([partition]))[partition].end_offset
    offsets = OffsetRange(start_offset=start, end_offset=max(start, end))
    return await read_written_by(client, partition, session.identity.producer_id, offsets)


async def _is_committed(
    client: ClusterClient, session: TransactionSession, partition: TopicPartition, offset: int
) -> bool:
    """Tells whether a reader of committed data sees our record at an offset, or will, for all it knows.

    Raises:
        MirrorlakeError: the partition could not be read; an answer that hides what it holds is none.
    """
    if offset >= await client.offset_at(partition, LATEST):
        return await _will_be_seen(client, session, partition, offset)
    try:
        frame, answer = await client.fetch_once(
            partition, offset, max_bytes=_READ_BYTES, isolation_level=READ_COMMITTED
        )
    except SourceTruncatedError:
        return False
    with frame:
        aborted = AbortedTransactions(answer.aborted)
        for batch in walk(answer.records):
            is_aborted = aborted.is_aborted(batch)
            if batch.header.last_offset >= offset:
                return batch.header.base_offset <= offset and not is_aborted
    await check_empty(client, partition, offset, readable_end=answer.last_stable_offset)
    return False


async def _will_be_seen(
    client: ClusterClient, session: TransactionSession, partition: TopicPartition, offset: int
) -> bool:
    """Tells whether our record at an offset is committed though readers of committed data do not get there yet.

    The transaction of somebody else may hold them back, who writes to the partition too: ours is decided all the same,
    and its marker says how.
    """
    standing = (await session.look([partition]))[partition]
    if standing.open_from is not None and standing.open_from <= offset:
        return False  # not decided here either
    offsets = OffsetRange(start_offset=offset, end_offset=max(offset, standing.end_offset))
    marker = await read_marker_behind(client, partition, session.identity.producer_id, offsets)
    return marker == ControlType.COMMIT
