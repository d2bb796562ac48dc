"""How long a record takes from the producer at the source to a consumer at the destination.

The producer stamps each record with its own clock just before it sends it, and the consumer reads the same clock:
both run in this process. What producer and consumer themselves take is measured too, by consuming at the source.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.brokers import BenchKafka
from bench.contender import Contender
from bench.inputs import Input

RECORDS_PER_SECOND = 200
_VALUE_BYTES = 100
_PATIENCE_SECONDS = 120.0
_TAIL_SECONDS = 30.0

LATENCY_INPUT = Input(name="latency", records=0, record_bytes=_VALUE_BYTES, codec="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Milliseconds from before the send until the record was consumed. ``floor_``: without any mirror."""

    contender: str
    records: int
    seconds: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    floor_p50_ms: float
    floor_p99_ms: float


def percentile(values: Sequence[float], percent: float) -> float:
    """Returns the smallest value that at least ``percent`` of the values do not exceed; ``values`` is not empty."""
    ranked = sorted(values)
    return ranked[max(1, math.ceil(len(ranked) * percent / 100)) - 1]


async def measure_latency(
    contender: Contender, *, source: BenchKafka, destination: BenchKafka, folder: Path, seconds: float
) -> Latency:
    """Starts the contender, waits until records come through, then measures for ``seconds``.

    Raises:
        TimeoutError: records did not come through within two minutes, or not all of them afterwards.
    """
    partitions = [TopicPartition(LATENCY_INPUT.name, number) for number in range(LATENCY_INPUT.partitions)]
    async with AsyncExitStack() as stack:
        producer = AIOKafkaProducer(bootstrap_servers=source.bootstrap_servers, acks=1, linger_ms=0)
        await producer.start()
        stack.push_async_callback(producer.stop)
        here = await _Listener.start(source, partitions, stack)
        there = await _Listener.start(destination, partitions, stack)
        contender.start(source, destination, LATENCY_INPUT, folder)
        try:
            # Start-up is over when everything sent before has come through.
            sent = await _produce_until(producer, lambda: bool(there.latencies_ms))
            await _until_heard(there, sent)
            here.latencies_ms.clear()
            there.latencies_ms.clear()
            wanted = round(seconds * RECORDS_PER_SECOND)
            await _produce(producer, wanted)
            await _until_heard(there, wanted)
            await _until_heard(here, wanted)
        finally:
            contender.stop()
    return Latency(
        contender=contender.name,
        records=wanted,
        seconds=seconds,
        p50_ms=percentile(there.latencies_ms, 50),
        p99_ms=percentile(there.latencies_ms, 99),
        max_ms=max(there.latencies_ms),
        floor_p50_ms=percentile(here.latencies_ms, 50),
        floor_p99_ms=percentile(here.latencies_ms, 99),
    )


class _Listener:
    """Consumes everything of some partitions and notes how old each record is."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self.latencies_ms: list[float] = []
        self._consumer = consumer

    @classmethod
    async def start(
        cls, server: BenchKafka, partitions: Sequence[TopicPartition], stack: AsyncExitStack
    ) -> "_Listener":
        consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest")
        await consumer.start()
        stack.push_async_callback(consumer.stop)
        consumer.assign(list(partitions))
        listener = cls(consumer)
        task = asyncio.create_task(listener._listen())
        stack.callback(task.cancel)
        return listener

    async def _listen(self) -> None:
        async for record in self._consumer:
            self.latencies_ms.append((time.perf_counter_ns() - int.from_bytes(record.value[:8], "big")) / 1e6)


async def _produce(producer: AIOKafkaProducer, records: int) -> None:
    """Sends ``records`` at the fixed rate, one after the other, round the partitions."""
    began = time.perf_counter()
    for number in range(records):
        await asyncio.sleep(max(0.0, began + number / RECORDS_PER_SECOND - time.perf_counter()))
        stamp = time.perf_counter_ns().to_bytes(8, "big")
        await producer.send(
            LATENCY_INPUT.name, stamp + bytes(_VALUE_BYTES - 8), partition=number % LATENCY_INPUT.partitions
        )


async def _produce_until(producer: AIOKafkaProducer, came_through: Callable[[], bool]) -> int:
    """Sends records until one came through; returns how many."""
    sent, give_up_at = 0, time.perf_counter() + _PATIENCE_SECONDS
    while not came_through():
        if time.perf_counter() > give_up_at:
            raise TimeoutError("no record came through")
        await _produce(producer, LATENCY_INPUT.partitions)
        sent += LATENCY_INPUT.partitions
    return sent


async def _until_heard(listener: _Listener, records: int) -> None:
    give_up_at = time.perf_counter() + _TAIL_SECONDS
    while len(listener.latencies_ms) < records:
        if time.perf_counter() > give_up_at:
            raise TimeoutError(f"{len(listener.latencies_ms)} of {records} records came through")
        await asyncio.sleep(0.05)
