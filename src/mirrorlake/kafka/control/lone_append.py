"""A batch that is appended by itself, with nothing before or behind it on the way."""

from mirrorlake.errors import (
    BrokerNotReadyError,
    BrokerUnreachableError,
    CorruptBatchError,
    OutcomeUnknownError,
    RequestTimeoutError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.connection import Connection
from mirrorlake.kafka.control.coordinators import BeforeSend, at_any_time
from mirrorlake.kafka.wire.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.produce import ProducedPartition, decode_produce, encode_produce
from mirrorlake.offsets import TopicPartition


async def append_alone(
    client: ClusterClient,
    partition: TopicPartition,
    batch: bytearray,
    *,
    transactional_id: str | None = None,
    before_send: BeforeSend = at_any_time,
) -> ProducedPartition:
    """Sends a batch to its partition's leader and returns the answer, which may be a refusal.

    Args:
        client: of the cluster.
        partition: to which.
        batch: as it is to lie there, but for its offsets.
        transactional_id: of the transaction it belongs to, None for none.
        before_send: called with the connection at hand, when nothing is waited for any more; nothing is sent where it
            raises.

    Raises:
        BrokerNotReadyError: the partition has no leader at the moment; nothing was sent.
        OutcomeUnknownError: the answer was lost, or cannot be read: the batch may be there.
        MirrorlakeError: the leader could not be reached; nothing was sent.
    """
    led = (await client.metadata([partition.topic])).partition(partition)
    if led is None or led.leader < 0:
        raise BrokerNotReadyError(f"{partition} has no leader at the moment")
    connection = await client.connection(led.leader)
    timeout = client.settings.request_timeout_seconds
    body = encode_produce(
        [(partition.topic, partition.partition, batch)],
        timeout_ms=int(timeout * 1000),
        transactional_id=transactional_id,
    )
    before_send()
    sent = connection.send(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=timeout)
    try:
        frame = await sent
    except (BrokerUnreachableError, RequestTimeoutError) as error:
        raise OutcomeUnknownError(f"the answer to an append to {partition} was lost: {error.message}") from error
    with frame:
        return _only_answer(frame, partition, connection)


def _only_answer(frame: Frame, partition: TopicPartition, connection: Connection) -> ProducedPartition:
    """Returns what is said of the partition; whoever says anything else is not believed, nor asked again."""
    try:
        answers = decode_produce(frame.view)
    except CorruptBatchError as error:
        connection.close(str(error))
        raise OutcomeUnknownError(f"the answer to an append to {partition} was garbled") from error
    if [(each.topic, each.partition) for each in answers] != [(partition.topic, partition.partition)]:
        connection.close("it answered an append that it was not asked for")
        raise OutcomeUnknownError(f"the answer to an append to {partition} does not speak of it")
    return answers[0]
