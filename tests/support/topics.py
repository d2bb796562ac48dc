"""Topics with records in them, and what topics a cluster has."""

import asyncio
from collections.abc import Sequence

from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic
from support.records import Record, in_batches, produce, settings_of


def make_topic(
    servers: str, topic: str, *partitions: Sequence[Record], batch_records: int = 10, **configs: str
) -> None:
    """Creates a topic with a partition for each list of records, and writes them."""
    create_topic(servers, topic, len(partitions), **configs)
    for partition, records in enumerate(partitions):
        append(servers, topic, partition, records, batch_records=batch_records)


def append(servers: str, topic: str, partition: int, records: Sequence[Record], *, batch_records: int = 10) -> None:
    """Writes records, so many to a batch."""
    asyncio.run(produce(servers, topic, partition, list(in_batches(records, batch_records))))


def delete_before(servers: str, topic: str, offset: int, partition: int = 0) -> None:
    """Deletes the records below an offset, as ``kafka-delete-records.sh`` does."""

    async def delete() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.delete_records({TopicPartition(topic, partition): offset})

    asyncio.run(delete())


def delete_topic(servers: str, topic: str) -> None:
    """Deletes a topic; returns when the cluster has none of this name."""

    async def delete() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.topics.delete(topic)
            while topic in (await client.metadata([topic], refresh=True)).topics:
                await asyncio.sleep(0.1)

    asyncio.run(delete())


def topics_of(servers: str) -> set[str]:
    """Every topic of a cluster, internal ones left out."""

    async def ask() -> set[str]:
        async with ClusterClient(settings_of(servers)) as client:
            topics = (await client.metadata(refresh=True)).topics
            return {name for name, topic in topics.items() if not topic.is_internal}

    return asyncio.run(ask())
