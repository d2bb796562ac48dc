"""A batch that is appended by itself, with nothing before or behind it on the way."""

from mirrorlake.errors import BrokerNotReadyError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.wire.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.wire.produce import ProducedPartition, decode_produce, encode_produce
from mirrorlake.offsets import TopicPartition


async def append_alone(
    client: ClusterClient, partition: TopicPartition, batch: bytearray, *, transactional_id: str | None = None
) -> ProducedPartition:
    """Sends a batch to its partition's leader and returns the answer, which may be a refusal.

    Raises:
        BrokerNotReadyError: the partition has no leader at the moment; nothing was sent.
        MirrorlakeError: the leader could not be reached, or its answer was lost: the batch may be there.
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
    with await connection.request(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=timeout) as frame:
        (answer,) = decode_produce(frame.view)
    return answer
