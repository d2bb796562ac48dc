"""How a transaction ended that is open on some of its partitions, as the others tell it.

Data, progress and pages are one transaction. Where its marker was left out of one of them (see
``transactions.session``), the others, where markers came, say whether it was committed.
"""

from collections.abc import Mapping
from functools import partial

from mirrorlake.destinations.letters.dead_letters import LetterOrigin
from mirrorlake.destinations.letters.outcome import has_committed_letter, origins_from
from mirrorlake.destinations.letters.topics import letters_topic
from mirrorlake.destinations.map.progress import (
    MapProgress,
    ProgressKey,
    decode_page,
    decode_page_key,
    decode_progress,
    decode_progress_key,
)
from mirrorlake.destinations.transactions.outcome import is_committed
from mirrorlake.destinations.transactions.own_records import KeyAndValue
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.destinations.transactions.written_records import read_written_by
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import OffsetRange, TopicPartition


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
            if await is_committed(client, session, where, written.destination_offset):
                return True
        whose = decode_progress_key(key)
        name = letters_topic(letters_template, whose.source.topic)
        if name and await has_committed_letter(client, session, name, partial(_is_within, whose, written.offsets)):
            return True
    return False


def _is_within(key: ProgressKey, offsets: OffsetRange, origin: LetterOrigin) -> bool:
    """Tells whether a dead letter is of a range of progress."""
    is_of = ProgressKey(destination_topic=origin.destination_topic, source=origin.source) == key
    return is_of and offsets.start_offset <= origin.offset < offsets.end_offset


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
    async for origin in origins_from(client, session, partition, open_from):
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
