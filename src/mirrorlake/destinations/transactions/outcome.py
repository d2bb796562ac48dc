"""Whether one record of ours is committed, as the log of its partition tells it."""

from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.destinations.transactions.written_records import read_marker_behind
from mirrorlake.errors import SourceTruncatedError
from mirrorlake.kafka.control.cluster import LATEST, ClusterClient
from mirrorlake.kafka.control.holes import check_empty
from mirrorlake.kafka.records.aborted import AbortedTransactions, ControlType
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.wire.fetch import READ_COMMITTED
from mirrorlake.offsets import OffsetRange, TopicPartition

_READ_BYTES = 1 << 20


async def is_committed(
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
