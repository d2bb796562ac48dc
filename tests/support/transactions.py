"""Records written in transactions, by aiokafka's producer, and transactional ids that their coordinator forgets."""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer

from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from support.copies import source_end, wait_until
from support.records import Record, settings_of


def is_forgotten(servers: str, *transactional_ids: str) -> bool:
    """Tells whether all ids have expired: each stands for another producer from then on."""

    async def ask() -> bool:
        async with ClusterClient(settings_of(servers)) as client:
            found = (await client.describe_transactions(transactional_ids)).values()
            assert not any(isinstance(each, MirrorlakeError) for each in found), found
            return not any(found)

    return asyncio.run(ask())


def append_in_transaction(
    servers: str, topic: str, records: Sequence[Record], *, partition: int = 0, committed: bool = True
) -> None:
    """Appends the records in one transaction; its marker takes the offset after them, and is there on return."""
    marker_offset = asyncio.run(_append(servers, topic, partition, records, committed))
    # The coordinator says that a transaction is over before it writes the marker.
    wait_until(lambda: source_end(servers, topic, partition) > marker_offset, f"the marker at {topic} {marker_offset}")


async def _append(servers: str, topic: str, partition: int, records: Sequence[Record], committed: bool) -> int:
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"tx-{topic}-{partition}")
    await producer.start()
    try:
        await producer.begin_transaction()
        for record in records:
            sent = await producer.send_and_wait(
                topic, record.value, record.key, partition, record.timestamp, list(record.headers)
            )
        if committed:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
        return int(sent.offset) + 1
    finally:
        await producer.stop()
