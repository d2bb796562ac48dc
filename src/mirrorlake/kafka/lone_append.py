"""A batch that is appended by itself, with nothing before or behind it on the way."""

from mirrorlake.kafka.apis import PRODUCE_VERSION, Api
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.kafka.produce import ProducedPartition, decode_produce, encode_produce
from mirrorlake.offsets import TopicPartition


async def append_alone(
    client: ClusterClient, partition: TopicPartition, batch: bytearray, *, transactional_id: str | None = None
) -> ProducedPartition:
    """Sends a batch to its partition's leader and returns the answer, which may be a refusal.

    Raises:
        OutcomeUnknownError: it was sent, and the answer was lost.
        MirrorlakeError: there is no leader, or it cannot be reached.
    """
    led = (await client.metadata([partition.topic])).partition(partition)
    connection = await client.connection(led.leader if led else -1)
    timeout = client.settings.request_timeout_seconds
    body = encode_produce(
        [(partition.topic, partition.partition, batch)],
        timeout_ms=int(timeout * 1000),
        transactional_id=transactional_id,
    )
    with await connection.request(Api.PRODUCE, PRODUCE_VERSION, body, timeout_seconds=timeout) as frame:
        (answer,) = decode_produce(frame.view)
    return answer
