"""What mirrorlake costs while nothing happens, and how soon it copies the first record: ``--part idle``."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.brokers import BenchKafka
from bench.mirrorlake_contender import kafka_configuration, start_mirrorlake
from bench.process_tree import ProcessTree

PARTITIONS_PER_TOPIC = 10
TOPICS = tuple(f"idle-{number:02}" for number in range(20))
QUIET_ENDS = dict.fromkeys(
    (TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS_PER_TOPIC)), 1
)
"""Where all quiet partitions end once their one record is there."""

FIRST_TOPIC = "first"
_SETTLE_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_START_SECONDS_MAX = 120.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """One run: 200 partitions of one mirror without a new record.

    ``cpu_percent`` is of one core, all processes together, over ``seconds``. ``memory_bytes`` is their PSS at the end,
    ``memory_by_process`` the same by process, the largest first. ``first_record_seconds`` are from the start of the
    command until the destination had the one record that waited at the source, start by start.
    """

    partitions: int
    seconds: float
    cpu_percent: float
    memory_bytes: int
    memory_by_process: tuple[tuple[str, int], ...]
    first_record_seconds: tuple[float, ...]


def configuration(source: BenchKafka, destination: BenchKafka) -> str:
    """Returns one mirror of all the quiet topics."""
    return kafka_configuration(source, destination, ", ".join(TOPICS))


async def measure_idle(
    *, source: BenchKafka, destination: BenchKafka, folder: Path, seconds: float, starts: int
) -> Idle:
    """Measures the first record ``starts`` times, then the quiet partitions. All topics exist on both sides.

    Raises:
        TimeoutError: a record was not copied within two minutes.
    """
    await send_one_to_each(source)
    first_record_seconds = [
        await _first_record(source, destination, folder / f"first-{number}", number) for number in range(starts)
    ]
    idle_folder = folder / "idle"
    idle_folder.mkdir()
    async with AsyncExitStack() as stack:
        process = start_mirrorlake(configuration(source, destination), idle_folder)
        stack.callback(process.stop, timeout_seconds=_STOP_SECONDS)
        tree = ProcessTree(process.pid)
        ends = await consumer_of(destination, stack)
        await await_ends(ends, QUIET_ENDS)
        await sleep_beside([tree], _SETTLE_SECONDS)
        before, began = tree.use().cpu_seconds, time.perf_counter()
        await sleep_beside([tree], seconds)
        took = time.perf_counter() - began
        cpu_seconds = tree.use().cpu_seconds - before
        by_process = _memory_by_process(process.pid)
    return Idle(
        partitions=len(QUIET_ENDS),
        seconds=took,
        cpu_percent=100 * cpu_seconds / took,
        memory_bytes=sum(size for _, size in by_process),
        memory_by_process=by_process,
        first_record_seconds=tuple(first_record_seconds),
    )


async def _first_record(source: BenchKafka, destination: BenchKafka, folder: Path, number: int) -> float:
    folder.mkdir()
    async with AsyncExitStack() as stack:
        producer = AIOKafkaProducer(bootstrap_servers=source.bootstrap_servers)
        await producer.start()
        stack.push_async_callback(producer.stop)
        await producer.send_and_wait(FIRST_TOPIC, b"waits", partition=0)
        ends = await consumer_of(destination, stack)
        began = time.perf_counter()
        process = start_mirrorlake(kafka_configuration(source, destination, FIRST_TOPIC), folder)
        stack.callback(process.stop, timeout_seconds=_STOP_SECONDS)
        await await_ends(ends, {TopicPartition(FIRST_TOPIC, 0): number + 1})
        return time.perf_counter() - began


async def send_one_to_each(source: BenchKafka) -> None:
    """A partition without any record would have nothing to be idle about."""
    producer = AIOKafkaProducer(bootstrap_servers=source.bootstrap_servers)
    await producer.start()
    try:
        for topic in TOPICS:
            for partition in range(PARTITIONS_PER_TOPIC):
                await producer.send(topic, b"quiet", partition=partition)
        await producer.flush()
    finally:
        await producer.stop()


async def consumer_of(server: BenchKafka, stack: AsyncExitStack) -> AIOKafkaConsumer:
    """Returns a consumer that reads nothing, to be asked for log ends; the stack ends it."""
    consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap_servers)
    await consumer.start()
    stack.push_async_callback(consumer.stop)
    return consumer


async def await_ends(ends: AIOKafkaConsumer, wanted: dict[TopicPartition, int]) -> None:
    """Waits until logs end where they should, or later.

    Raises:
        TimeoutError: some did not within two minutes.
    """
    give_up_at = time.perf_counter() + _START_SECONDS_MAX
    while True:
        seen = await ends.end_offsets(list(wanted))
        if all(seen[partition] >= end for partition, end in wanted.items()):
            return
        if time.perf_counter() > give_up_at:
            missing = [partition for partition, end in wanted.items() if seen[partition] < end]
            raise TimeoutError(f"not copied after two minutes: {missing[:5]}")
        await asyncio.sleep(_LOOK_SECONDS)


async def sleep_beside(trees: Iterable[ProcessTree], seconds: float) -> None:
    """Sleeps, and looks at the processes often enough to know those that come and go."""
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        await asyncio.sleep(min(1.0, left))
        for tree in trees:
            tree.use()


def _memory_by_process(pid: int) -> tuple[tuple[str, int], ...]:
    root = psutil.Process(pid)
    found = []
    for process in (root, *root.children(recursive=True)):
        try:
            memory = process.memory_full_info()
            found.append((process.name(), getattr(memory, "pss", memory.rss)))
        except psutil.NoSuchProcess:
            continue
    return tuple(sorted(found, key=lambda each: -each[1]))
