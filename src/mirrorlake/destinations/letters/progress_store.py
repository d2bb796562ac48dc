"""The topic of a mirror's letter progress: making it, and reading it back."""

from mirrorlake.destinations.letters.progress import (
    NO_OFFSETS,
    Lettered,
    LetterKey,
    Offsets,
    decode_key,
    decode_lettered,
)
from mirrorlake.destinations.letters.settings import LetterSettings, letter_progress_topic
from mirrorlake.destinations.transactions.compacted_topics import check_compacted_topics, make_compacted_topic
from mirrorlake.errors import LostProgressError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.offsets import OffsetRange, TopicPartition


async def ensure_letter_progress(client: ClusterClient, mirror: str, shards: int) -> None:
    """Makes the topic where it is missing, and checks that it keeps what it is given.

    Raises:
        UnsupportedError: it has fewer partitions than the mirror has shards, or would delete records.
        MirrorlakeError: it can be neither described nor made.
    """
    name = letter_progress_topic(mirror)
    if name not in (await client.metadata([name], refresh=True)).topics:
        await make_compacted_topic(client, name, shards)
    await check_compacted_topics(client, [name], partitions=shards, mirror=mirror)


async def read_letter_progress(
    client: ClusterClient, partition: TopicPartition, *, end_offset: int | None = None
) -> dict[LetterKey, Lettered]:
    """Returns which source offsets have a dead letter by the newest committed record of every key in a partition.

    Args:
        client: of the destination cluster.
        partition: of a topic of letter progress.
        end_offset: read up to there, waiting for open transactions before it to end; None reads what is committed
            now, which is not enough for a writer.

    Raises:
        DestinationForeignError: the topic holds what is not ours.
        LostProgressError: records of it were deleted.
        BrokerNotReadyError: an open transaction does not end.
        MirrorlakeError: the topic could not be read.
    """
    start = await client.offset_at(partition, EARLIEST)
    if start > 0:
        raise LostProgressError(
            f"the log of {partition} starts at offset {start}: records of it were deleted, so it is not known which "
            "records have a dead letter already",
            hint=f"delete {partition.topic}, and it begins anew: a record whose letter was written and whose offset "
            "was not passed yet then gets a second one, and a copy with letters among its last records has to be made "
            "anew",
            log_start=start,
        )
    end = await client.offset_at(partition, LATEST) if end_offset is None else end_offset
    newest: dict[bytes, bytes] = {}
    offsets = OffsetRange(start_offset=start, end_offset=max(start, end))
    async for columns in read_range(client, partition, offsets, whose="destination"):
        newest.update(zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True))
    return {decode_key(key): decode_lettered(value) for key, value in newest.items() if value is not None}


async def committed_letters(client: ClusterClient, settings: LetterSettings) -> Offsets:
    """Returns which source offsets of a partition have a dead letter by what is committed now; for who only looks.

    Nothing where no lease has written any yet.

    Raises:
        MirrorlakeError: see ``read_letter_progress``.
    """
    progress = settings.progress_partition
    there = (await client.metadata([settings.destination_topic, progress.topic], refresh=True)).topics
    copy = there.get(settings.destination_topic)
    if copy is None or progress.topic not in there:
        return NO_OFFSETS
    found = (await read_letter_progress(client, progress)).get(settings.key(copy.topic_id))
    return NO_OFFSETS if found is None else found.offsets
