"""Reading a log at an offset that it held a moment ago."""

from mirrorlake.errors import BrokerNotReadyError, SourceTruncatedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.wire.fetch import READ_COMMITTED, FetchedPartition
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.offsets import TopicPartition


async def fetch_known(
    client: ClusterClient,
    partition: TopicPartition,
    offset: int,
    *,
    max_bytes: int,
    isolation_level: int = READ_COMMITTED,
) -> tuple[Frame, FetchedPartition]:
    """Does what `ClusterClient.fetch_once` does, for who has just read that the log holds ``offset``.

    That it is gone by now says nothing against anybody: retention came, or another owner deleted.

    Raises:
        BrokerNotReadyError: the offset is refused; the ends of the log are to be read again.
        MirrorlakeError: the partition could not be read.
    """
    try:
        return await client.fetch_once(partition, offset, max_bytes=max_bytes, isolation_level=isolation_level)
    except SourceTruncatedError as error:
        raise BrokerNotReadyError(
            f"records were deleted while they were read: {error.message}",
            hint="it is tried again, from the log's new start",
            position=offset,
        ) from error
