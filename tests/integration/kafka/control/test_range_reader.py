"""Reading a range on a real broker: what is not there, or not readable yet, is said with its numbers."""

import pytest
from aiokafka import AIOKafkaProducer

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, SourceTruncatedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import TransactionState
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.offsets import OffsetRange, TopicPartition
from support.records import build_batch, produce, settings_of, simple_records

pytestmark = pytest.mark.kafka


async def offsets_in(client: ClusterClient, where: TopicPartition, start: int, end: int) -> list[int]:
    found: list[int] = []
    async for columns in read_range(client, where, OffsetRange(start_offset=start, end_offset=end)):
        found += columns.offsets.tolist()
    return found


def test_an_offset_that_is_gone_is_named_with_the_ends_of_the_log(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    servers, where = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)

    async def story() -> tuple[list[int], MirrorlakeError]:
        async with ClusterClient(settings_of(servers)) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
            await produce(servers, topic_name, 0, [build_batch(simple_records(10))])
            await client.delete_records({where: 4})
            rest = await offsets_in(client, where, 4, 10)
            with pytest.raises(SourceTruncatedError) as caught:
                await offsets_in(client, where, 3, 10)
            return rest, caught.value

    rest, error = run_async(story())
    assert rest == [4, 5, 6, 7, 8, 9]
    assert f"offset 3 of {topic_name}-0" in error.message
    assert "holds 4 up to 10" in error.message
    assert (error.facts["position"], error.facts["log_start"], error.facts["log_end"]) == (3, 4, 10)


def test_what_an_open_transaction_holds_back_is_named_with_its_producer(
    source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync
) -> None:
    servers, where = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)

    async def story() -> tuple[MirrorlakeError, object, list[int]]:
        async with ClusterClient(settings_of(servers)) as client:
            await client.topics.create(topic_name, partitions=1, replication_factor=1)
            await produce(servers, topic_name, 0, [build_batch(simple_records(2))])
            writer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic_name)
            await writer.start()
            try:
                async with writer.transaction():
                    await writer.send_and_wait(topic_name, b"undecided", partition=0)
                    found = (await client.describe_transactions([topic_name]))[topic_name]
                    with pytest.raises(BrokerNotReadyError) as caught:
                        await offsets_in(client, where, 0, 3)
            finally:
                await writer.stop()
            return caught.value, found, await offsets_in(client, where, 0, 3)

    error, found, after = run_async(story())
    assert isinstance(found, TransactionState)
    held = f"producer id {found.producer_id}, epoch {found.producer_epoch}, has a transaction open since offset 2"
    assert error.message == f"partition {where} gives nothing at offset 2, the range ends at 3: {held}"
    assert f"abort --topic {topic_name} --partition 0 --start-offset 2" in error.hint
    assert after == [0, 1, 2]
