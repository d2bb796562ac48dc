"""What is written to the source while all else breaks: dense, transactional and compacted, now fast, now slow."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from mirrorlake.errors import MirrorlakeError
from support.records import build_batch, produce, simple_records

PACES_SECONDS = (0.1, 0.1, 0.3, 0.3, 1.0, 3.0)
"""Pauses between two batches, one of which holds for some seconds."""

PACES_OF_TRANSACTIONS_SECONDS = (0.3, 0.3, 1.0, 3.0)
"""Slower, as each marker is a gap, and a gap takes a transaction, which crosses two proxies six times."""

COMPACTED_KEYS = 40


class Loads:
    """Threads that write until stopped; each has a generator of its own, so that one seed gives one course.

    Args:
        servers: of the source, past the faults.
        seed: of the course.
    """

    def __init__(self, servers: str, seed: int) -> None:
        self._servers = servers
        self._seed = seed
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.written = 0

    def dense(self, topic: str, partitions: int, sizes: Sequence[int] = (20, 200)) -> None:
        """Batches without a producer, offsets without a hole; values of these sizes in bytes."""

        def write(chance: random.Random) -> None:
            count = chance.choice((1, 10, 100))
            records = simple_records(count, start=self.written, size=chance.choice(sizes), timestamp=_now_ms())
            partition = chance.randrange(partitions)
            asyncio.run(produce(self._servers, topic, partition, [build_batch(records, chance.randrange(5))]))
            self.written += count

        self._begin(topic, write)

    def compacted(self, topic: str) -> None:
        """Few keys, again and again, some of them deleted."""

        def write(chance: random.Random) -> None:
            keyed = []
            for record in simple_records(chance.choice((1, 5, 15)), start=self.written, timestamp=_now_ms()):
                key = b"key-%d" % chance.randrange(COMPACTED_KEYS)
                value = None if chance.random() < 0.1 else record.value
                keyed.append(type(record)(record.timestamp, key, value))
            asyncio.run(produce(self._servers, topic, 0, [build_batch(keyed)]))
            self.written += len(keyed)
            self._stop.wait(1.0)  # most of it will be gaps

        self._begin(topic, write)

    def transactional(self, topic: str, partitions: int) -> None:
        """Transactions of a few records, one in three aborted, some held open for a while."""

        def write(chance: random.Random) -> None:
            asyncio.run(self._transactions(topic, partitions, chance))

        self._begin(topic, write)

    def stop(self) -> None:
        """Ends each with what it is at. Idempotent."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    async def _transactions(self, topic: str, partitions: int, chance: random.Random) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self._servers, transactional_id=f"load-{topic}")
        try:
            await producer.start()
            for _ in range(20):
                if self._stop.is_set():
                    return
                await producer.begin_transaction()
                for record in simple_records(chance.choice((1, 3, 10)), start=self.written, timestamp=_now_ms()):
                    partition = chance.randrange(partitions)
                    await producer.send_and_wait(topic, record.value, record.key, partition, record.timestamp)
                    self.written += 1
                await asyncio.sleep(chance.choice((0.0, 0.0, 0.5)))
                if chance.random() < 1 / 3:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
                await asyncio.sleep(chance.choice(PACES_OF_TRANSACTIONS_SECONDS))
        finally:
            await producer.stop()

    def _begin(self, topic: str, write: Callable[[random.Random], None]) -> None:
        chance = random.Random(f"{self._seed}-{topic}")

        def work() -> None:
            pace, changes_at = 0.05, 0.0
            while not self._stop.is_set():
                if time.monotonic() > changes_at:
                    pace, changes_at = chance.choice(PACES_SECONDS), time.monotonic() + chance.uniform(2.0, 8.0)
                try:
                    write(chance)
                except (MirrorlakeError, KafkaError, AssertionError, OSError):
                    time.sleep(0.5)  # the broker is away: the source's log, not this thread, is the truth
                self._stop.wait(pace)

        thread = threading.Thread(target=work, name=f"load-{topic}", daemon=True)
        self._threads.append(thread)
        thread.start()


def _now_ms() -> int:
    return int(time.time() * 1000)
