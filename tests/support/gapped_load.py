"""A producer of gaps that never stops, in a thread: transactions, every other one aborted."""

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Iterator

from aiokafka import AIOKafkaProducer

from support.records import simple_records

RECORDS = (1, 3, 2, 8)
"""Of one transaction after another. An aborted one is a gap of its records and its marker, a committed one of one."""


@contextlib.contextmanager
def gapped_load(servers: str, topic: str, *, pause_seconds: float) -> Iterator[None]:
    """Appends transactions to partition 0 of a topic that exists, until the block ends."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(_write(servers, topic, stop, pause_seconds))
        except BaseException as error:  # noqa: BLE001 - a load that ended early would make a test that shows nothing
            failures.append(error)

    thread = threading.Thread(target=work, name=f"gapped-{topic}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures


async def _write(servers: str, topic: str, stop: threading.Event, pause_seconds: float) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"gapped-{topic}")
    await producer.start()
    try:
        written = 0
        for number in itertools.count():
            if stop.is_set():
                return
            await producer.begin_transaction()
            count = RECORDS[number % len(RECORDS)]
            for record in simple_records(count, start=written, timestamp=int(time.time() * 1000)):
                await producer.send(topic, record.value, record.key, 0, record.timestamp)
            written += count
            # Neither the same kind for each length, nor each length once: 1, 3, 2, 8, and the other way round.
            is_aborted = (number + number // len(RECORDS)) % 2 == 0
            await (producer.abort_transaction() if is_aborted else producer.commit_transaction())
            await asyncio.sleep(pause_seconds)
    finally:
        await producer.stop()
