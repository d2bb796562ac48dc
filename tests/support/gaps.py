"""Source partitions whose offsets have gaps, written by a transactional producer, and what a copy of one holds."""

import asyncio
from collections.abc import Sequence

from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.records.batches import walk
from mirrorlake.kafka.wire.fetch import READ_UNCOMMITTED
from mirrorlake.offsets import TopicPartition
from support.copies import log_end
from support.records import settings_of


def open_transactions(servers: str, topics: Sequence[str]) -> list[str]:
    """Every transaction that is open on a partition of the topics, as a sentence; none is what a test wants."""

    async def ask() -> list[str]:
        async with ClusterClient(settings_of(servers)) as client:
            metadata = await client.metadata(list(topics), refresh=True)
            where = [TopicPartition(t.name, p) for t in metadata.topics.values() for p in t.partitions]
            found = await client.describe_producers(where)
            return [
                f"{partition}: producer {producer.producer_id} since offset {producer.transaction_start_offset}"
                for partition, producers in found.items()
                if isinstance(producers, tuple)
                for producer in producers
                if producer.transaction_start_offset is not None
            ]

    return asyncio.run(ask())


def unseen_offsets(servers: str, topic: str, partition: int = 0) -> dict[int, str]:
    """What lies at offsets that no ``read_committed`` consumer is shown: ``marker`` or ``filler``, by offset."""
    where = TopicPartition(topic, partition)

    async def read() -> dict[int, str]:
        found: dict[int, str] = {}
        async with ClusterClient(settings_of(servers)) as client:
            end = log_end_now
            position = 0
            while position < end:
                frame, answer = await client.fetch_once(
                    where, position, max_bytes=1 << 20, isolation_level=READ_UNCOMMITTED
                )
                with frame:
                    batches = [batch.header for batch in walk(answer.records)]
                for header in batches:
                    if header.is_control or header.is_transactional:
                        kind = "marker" if header.is_control else "filler"
                        found |= dict.fromkeys(range(header.base_offset, header.next_offset), kind)
                if not batches:
                    break
                position = batches[-1].next_offset
        return found

    log_end_now = log_end(servers, topic, partition)
    return asyncio.run(read())
