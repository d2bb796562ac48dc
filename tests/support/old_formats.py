"""Topics of message formats v0 and v1, as brokers before 3.0 keep them."""

import asyncio

from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.records.batches import walk
from mirrorlake.offsets import TopicPartition
from support.records import GZIP, LZ4, NONE, SNAPPY, settings_of

FORMATS = {0: "0.9.0", 1: "0.10.2"}
"""By magic, what `message.format.version` of a topic is."""

CODECS = [NONE, GZIP, SNAPPY, LZ4]  # zstd needs v2


def magics(servers: str, topic: str) -> set[int]:
    """The formats of what a fetch answer holds."""

    async def read() -> set[int]:
        async with ClusterClient(settings_of(servers)) as client:
            frame, answer = await client.fetch_once(TopicPartition(topic, 0), 0, max_bytes=1 << 20)
            with frame:
                return {batch.header.magic for batch in walk(answer.records)}

    return asyncio.run(read())
