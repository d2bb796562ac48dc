"""A thousand topics of two partitions, twenty of them busy: what they cost, and how long questions about all take.

``--part scale``. Latency is from before the send until the record was consumed at the destination, as in
`bench.latency`, with the mirror and both brokers on the same cores.
"""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.brokers import BenchKafka, create_topics
from bench.latency import percentile
from bench.mirrorlake_contender import start_mirrorlake
from bench.process_tree import ProcessTree
from mirrorlake.kafka.control.cluster import LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import CommittedOffset
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition as Partition

PARTITIONS_PER_TOPIC = 2
TOPICS = tuple(f"scale-{number:04}" for number in range(1000))
BUSY = TOPICS[:20]
RECORDS_PER_SECOND = 200
GROUPS = 1000
PARTITIONS_OF_A_GROUP = 50
_NEW_TOPIC = "scale-new"
_VALUE_BYTES = 100
_SETTLE_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 300.0
_STOP_SECONDS = 120.0
_GROUPS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyTopics:
    """One run of one mirror with equal offsets.

    ``idle_cpu_percent`` and ``busy_cpu_percent`` are of one core, all processes together; ``memory_bytes`` is their PSS
    with the busy ones running. ``start_seconds`` are from the start of the command until each partition had its one
    record at the destination, ``new_topic_seconds`` from a topic's creation until its first record was there,
    ``stop_seconds`` from SIGTERM to the end. The commands' seconds are of whole processes.
    """

    topics: int
    partitions: int
    start_seconds: float
    idle_cpu_percent: float
    busy_records_per_second: float
    busy_cpu_percent: float
    memory_bytes: int
    p50_ms: float
    p99_ms: float
    new_topic_seconds: float
    stop_seconds: float
    plan_seconds: float
    topics_plan_seconds: float
    groups: int
    group_partitions: int
    group_sync_seconds: float


def configuration(source: BenchKafka, destination: BenchKafka) -> str:
    """Returns one mirror of all the topics, and of those that come."""
    return (
        f'clusters: {{east: {{bootstrap-servers: "{source.mirror_servers}"}}, '
        f'west: {{bootstrap-servers: "{destination.mirror_servers}"}}}}\n'
        "mirrors:\n"
        "  - name: scale\n"
        "    source: {cluster: east, topics: ['/scale-.*/']}\n"
        "    destinations: [{type: kafka, cluster: west, offsets: preserve}]\n"
        "service: {metrics: off}\n"
    )


async def measure_many_topics(
    *, source: BenchKafka, destination: BenchKafka, folder: Path, seconds: float
) -> ManyTopics:
    """Measures start-up, then idle and busy for ``seconds`` each, a new topic, a stop, and the questions.

    Raises:
        TimeoutError: not everything was copied within five minutes.
        RuntimeError: a command failed.
    """
    everything = [Partition(topic, number) for topic in TOPICS for number in range(PARTITIONS_PER_TOPIC)]
    await _send_one_to_each(source, everything)
    config = folder / "mirror.yaml"
    config.write_text(configuration(source, destination))
    async with AsyncExitStack() as stack:
        ends = await stack.enter_async_context(ClusterClient(_settings(destination)))
        producer = await stack.enter_async_context(_producer(source))
        began = time.perf_counter()
        process = start_mirrorlake(configuration(source, destination), folder)
        stack.callback(process.stop, timeout_seconds=_STOP_SECONDS)
        tree = ProcessTree(process.pid)
        await _await_ends(ends, everything)
        start_seconds = time.perf_counter() - began
        await _watch(tree, _SETTLE_SECONDS)
        idle_cpu_percent = await _watch(tree, seconds)
        listener = await stack.enter_async_context(_listener(destination))
        (busy_cpu_percent, memory_bytes), sent = await _busy(producer, tree, seconds)
        await _until_heard(listener, sent)
        new_topic_seconds = await _new_topic(source, producer, ends)
        began = time.perf_counter()
        await asyncio.to_thread(process.stop, timeout_seconds=_STOP_SECONDS)
        stop_seconds = time.perf_counter() - began
    plan_seconds = await asyncio.to_thread(_command, "plan", config)
    topics_plan_seconds = await asyncio.to_thread(_command, "topics", "plan", config)
    await _commit(source)
    return ManyTopics(
        topics=len(TOPICS),
        partitions=len(everything),
        start_seconds=start_seconds,
        idle_cpu_percent=idle_cpu_percent,
        busy_records_per_second=sent / seconds,
        busy_cpu_percent=busy_cpu_percent,
        memory_bytes=memory_bytes,
        p50_ms=percentile(listener, 50),
        p99_ms=percentile(listener, 99),
        new_topic_seconds=new_topic_seconds,
        stop_seconds=stop_seconds,
        plan_seconds=plan_seconds,
        topics_plan_seconds=topics_plan_seconds,
        groups=GROUPS,
        group_partitions=PARTITIONS_OF_A_GROUP,
        group_sync_seconds=await asyncio.to_thread(_command, "groups", "sync", config, "--yes"),
    )


@contextlib.asynccontextmanager
async def _consumer(server: BenchKafka) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap_servers, request_timeout_ms=60_000)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


@contextlib.asynccontextmanager
async def _producer(server: BenchKafka) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=server.bootstrap_servers, acks=1, linger_ms=0)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@contextlib.asynccontextmanager
async def _listener(server: BenchKafka) -> AsyncIterator[list[float]]:
    """Consumes what comes to the busy topics; the list grows by how old each record is, in milliseconds."""
    latencies_ms: list[float] = []
    async with _consumer(server) as consumer:
        consumer.assign([TopicPartition(topic, number) for topic in BUSY for number in range(PARTITIONS_PER_TOPIC)])
        await consumer.seek_to_end()

        async def listen() -> None:
            async for record in consumer:
                latencies_ms.append((time.perf_counter_ns() - int.from_bytes(record.value[:8], "big")) / 1e6)

        task = asyncio.create_task(listen())
        try:
            yield latencies_ms
        finally:
            task.cancel()


async def _send_one_to_each(source: BenchKafka, partitions: Sequence[Partition]) -> None:
    async with _producer(source) as producer:
        for each in partitions:
            await producer.send(each.topic, b"quiet", partition=each.partition)
        await producer.flush()


async def _await_ends(ends: ClusterClient, partitions: Iterable[Partition]) -> None:
    """Waits until each partition holds a record.

    Raises:
        TimeoutError: one did not for five minutes.
    """
    give_up_at = time.perf_counter() + _PATIENCE_SECONDS
    missing = list(partitions)
    while missing:
        # A partition that is not there yet has an error in place of its end.
        seen = await ends.list_offsets(missing, timestamp=LATEST)
        missing = [each for each, end in seen.items() if not (isinstance(end, int) and end >= 1)]
        if time.perf_counter() > give_up_at:
            raise TimeoutError(f"{len(missing)} partitions were not copied: {missing[:5]}")
        await asyncio.sleep(_LOOK_SECONDS)


async def _watch(tree: ProcessTree, seconds: float) -> float:
    """Waits; returns the CPU of that time, in percent of one core.

    Raises:
        RuntimeError: the process ended.
    """
    began, before = tree.moment()
    while (left := began + seconds - time.perf_counter()) > 0:
        await asyncio.sleep(min(1.0, left))
        if not tree.use().is_running:
            raise RuntimeError("the mirror's process ended")
    now, after = tree.moment()
    return 100 * (after - before) / (now - began)


async def _busy(producer: AIOKafkaProducer, tree: ProcessTree, seconds: float) -> tuple[tuple[float, int], int]:
    """Sends at the fixed rate, round the busy partitions; returns CPU and memory, and how many it sent."""
    watching = asyncio.create_task(_watch(tree, seconds))
    began, sent = time.perf_counter(), 0
    while not watching.done():
        stamp = time.perf_counter_ns().to_bytes(8, "big")
        topic, partition = BUSY[sent % len(BUSY)], sent // len(BUSY) % PARTITIONS_PER_TOPIC
        await producer.send(topic, stamp + bytes(_VALUE_BYTES - 8), partition=partition)
        sent += 1
        await asyncio.sleep(max(0.0, began + sent / RECORDS_PER_SECOND - time.perf_counter()))
    return (await watching, tree.memory_bytes()), sent


async def _until_heard(latencies_ms: Sequence[float], records: int) -> None:
    give_up_at = time.perf_counter() + _PATIENCE_SECONDS
    while len(latencies_ms) < records:
        if time.perf_counter() > give_up_at:
            raise TimeoutError(f"{len(latencies_ms)} of {records} records came through")
        await asyncio.sleep(_LOOK_SECONDS)


async def _new_topic(source: BenchKafka, producer: AIOKafkaProducer, ends: ClusterClient) -> float:
    began = time.perf_counter()
    await create_topics(source, {_NEW_TOPIC: 1})
    await producer.send_and_wait(_NEW_TOPIC, b"first", partition=0)
    await _await_ends(ends, [Partition(_NEW_TOPIC, 0)])
    return time.perf_counter() - began


def _settings(server: BenchKafka) -> ClusterSettings:
    return ClusterSettings(name="bench", bootstrap_servers=(server.bootstrap_servers,), request_timeout_seconds=30.0)


async def _commit(source: BenchKafka) -> None:
    """Commits the one record of fifty partitions for each group."""
    async with ClusterClient(_settings(source)) as client:
        slots = asyncio.Semaphore(_GROUPS_AT_ONCE)

        async def one(number: int) -> None:
            topics = [TOPICS[(number + step) % len(TOPICS)] for step in range(PARTITIONS_OF_A_GROUP // 2)]
            offsets = {
                Partition(topic, partition): CommittedOffset(offset=1)
                for topic in topics
                for partition in range(PARTITIONS_PER_TOPIC)
            }
            async with slots:
                await client.groups.commit(f"group-{number:04}", offsets)

        await asyncio.gather(*(one(number) for number in range(GROUPS)))


def _command(*words: str | Path) -> float:
    """Runs a command of mirrorlake on a configuration; returns how long it took.

    Raises:
        RuntimeError: it ended with another exit code than 0.
    """
    config = next(each for each in words if isinstance(each, Path))
    line = [str(each) for each in words if each != config]
    began = time.perf_counter()
    command = [sys.executable, "-m", "mirrorlake", *line, "-c", str(config), "--format", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if ended.returncode:
        raise RuntimeError(f"{' '.join(line)} ended with {ended.returncode}: {ended.stderr[-500:]}")
    return took
