"""Records of somebody else at the destination, under the very names the service is told to copy to."""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer

from mirrorlake.offsets import TopicPartition
from soak.mirrors import Served
from support.copies import create_topic, log_end
from support.records import Record, consume, in_batches, produce, simple_records

RECORDS = 300
TRANSACTION_RECORDS = 50


class UnknownProducers:
    """Makes the topics and fills them: partition 0 in committed transactions, the others without a producer id.

    Args:
        servers: of the destination, past the faults.
        taken: the topics.
    """

    def __init__(self, servers: str, taken: Sequence[Served]) -> None:
        self._servers = servers
        self._partitions = [TopicPartition(each.topic, number) for each in taken for number in range(each.partitions)]
        for each in taken:
            create_topic(servers, each.topic, each.partitions)
        for where in self._partitions:
            records = simple_records(RECORDS, start=1_000_000)
            if where.partition == 0:
                asyncio.run(_in_transactions(servers, where, records))
            else:
                asyncio.run(produce(servers, where.topic, where.partition, in_batches(records, 25)))
        self._before = {where: self._held(where) for where in self._partitions}

    def touched(self) -> int:
        """How many of their offsets hold something else now than at first, or came to be since."""
        count = 0
        for where, before in self._before.items():
            end, records = self._held(where)
            count += sum(records.get(offset) != record for offset, record in before[1].items())
            count += abs(end - before[0])
        return count

    def _held(self, where: TopicPartition) -> tuple[int, dict[int, Record]]:
        end = log_end(self._servers, where.topic, where.partition)
        return end, consume(self._servers, where.topic, where.partition, isolation_level="read_uncommitted")


async def _in_transactions(servers: str, where: TopicPartition, records: Sequence[Record]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"unknown-producer-{where}")
    await producer.start()
    try:
        for start in range(0, len(records), TRANSACTION_RECORDS):
            await producer.begin_transaction()
            for record in records[start : start + TRANSACTION_RECORDS]:
                await producer.send(where.topic, record.value, record.key, where.partition, record.timestamp)
            await producer.commit_transaction()
    finally:
        await producer.stop()
