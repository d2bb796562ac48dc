"""One fetch of one partition, and what it means that a leader calls an offset out of range."""

from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, SourceTruncatedError
from mirrorlake.kafka.control.brokers import CONTROL, Brokers
from mirrorlake.kafka.control.control_requests import EARLIEST, Refused
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.kafka.control.leaders import Epochs, ask_leaders, ask_log_ends, ask_offsets
from mirrorlake.kafka.wire.apis import FETCH_VERSION, Api
from mirrorlake.kafka.wire.error_codes import BROKER_NOT_AVAILABLE, NONE, OFFSET_OUT_OF_RANGE
from mirrorlake.kafka.wire.fetch import READ_COMMITTED, FetchedPartition, FetchPartition, decode_fetch, encode_fetch
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition


async def fetch_once(
    brokers: Brokers,
    settings: ClusterSettings,
    partition: TopicPartition,
    offset: int,
    *,
    max_bytes: int,
    isolation_level: int,
) -> tuple[Frame, FetchedPartition]:
    """See `ClusterClient.fetch_once`."""

    async def ask(broker_id: int, epochs: Epochs) -> dict[TopicPartition, Refused | tuple[Frame, FetchedPartition]]:
        connection = await brokers.connection(broker_id, CONTROL)
        asked = FetchPartition(
            topic=partition.topic,
            partition=partition.partition,
            fetch_offset=offset,
            partition_bytes_max=max_bytes,
            leader_epoch=epochs[partition],
        )
        body = encode_fetch([asked], max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, isolation_level=isolation_level)
        frame = await connection.request(
            Api.FETCH, FETCH_VERSION, (body,), timeout_seconds=settings.request_timeout_seconds
        )
        return {partition: _only_partition(frame)}

    result = (await ask_leaders(brokers, (partition,), ask, what="Fetch"))[partition]
    if isinstance(result, SourceTruncatedError):
        raise await _why_refused(brokers, settings, partition, offset, result) from result
    if isinstance(result, MirrorlakeError):
        raise result
    return result


async def _why_refused(
    brokers: Brokers,
    settings: ClusterSettings,
    partition: TopicPartition,
    offset: int,
    refusal: SourceTruncatedError,
) -> MirrorlakeError:
    """Returns what it means that a leader called an offset out of range."""
    starts = await ask_offsets(brokers, [partition], timestamp=EARLIEST, isolation_level=READ_COMMITTED)
    start = starts[partition]
    end = (await ask_log_ends(brokers, [partition]))[partition]
    if not isinstance(start, int) or not isinstance(end, LogEnd):
        return refusal
    if start <= offset <= end.end_offset:
        return BrokerNotReadyError(
            f"the leader of {partition} in cluster {settings.name!r} refuses offset {offset}, and its log "
            f"holds {start} up to {end.end_offset}",
            hint="it is read again",
            code=OFFSET_OUT_OF_RANGE,
            position=offset,
        )
    return SourceTruncatedError(
        f"offset {offset} of {partition} in cluster {settings.name!r} is not there, "
        f"its log holds {start} up to {end.end_offset}",
        hint="records were deleted while they were read, or the topic was cut or recreated; run it again",
        position=offset,
        log_start=start,
        log_end=end.end_offset,
    )


def _only_partition(frame: Frame) -> Refused | tuple[Frame, FetchedPartition]:
    """Returns the frame with its only partition, or releases it."""
    try:
        fetched = decode_fetch(frame.view)
    except MirrorlakeError:
        frame.release()
        raise
    if len(fetched) != 1:
        frame.release()
        # Not that it is unknown: who has used up a quota of bytes is answered with nothing at all.
        return Refused(BROKER_NOT_AVAILABLE, "the broker left it out of its answer, as where a quota is used up")
    if fetched[0].error_code != NONE:
        frame.release()
        return Refused(fetched[0].error_code)
    return frame, fetched[0]
