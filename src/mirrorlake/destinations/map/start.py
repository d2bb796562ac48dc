"""Where a partition without progress begins; asked of the source once, then written down."""

from mirrorlake.destinations.map.settings import MapStart
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.offsets import StartKind, TopicPartition


async def find_start(client: ClusterClient, source: TopicPartition, start: MapStart) -> int:
    """Returns the first source offset to copy.

    ``latest`` is the last stable offset: what was not decided then is still copied. A timestamp gives the first record
    of that time or later, and the last stable offset where there is none. An offset is taken as it is, whatever the log
    holds; a partition without one begins at the log start.

    Args:
        client: of the source cluster.
        source: the partition.
        start: what the configuration says.

    Raises:
        MirrorlakeError: the source could not be asked.
    """
    if start.kind is StartKind.OFFSETS and start.offset is not None:
        return start.offset
    if start.kind is StartKind.LATEST:
        return await client.offset_at(source, LATEST)
    if start.kind is StartKind.TIMESTAMP and start.timestamp_ms is not None:
        found = await client.offset_at(source, start.timestamp_ms)
        return found if found >= 0 else await client.offset_at(source, LATEST)
    return await client.offset_at(source, EARLIEST)
