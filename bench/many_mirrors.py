"""Two hundred mirrors of one partition each, in the mirror-v3 form, in one process: do all move, how far behind?

Lag is what an operator would see: the source's end offset less the destination's, partition by partition, looked at
every half second while records trickle in everywhere.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.brokers import BenchKafka
from bench.mirrorlake_contender import start_mirrorlake
from bench.process_tree import ProcessTree

TOPICS = tuple(f"many-{number:02}" for number in range(20))
PARTITIONS_PER_TOPIC = 10
RECORDS_PER_SECOND = 2_000
_VALUE = bytes(100)
_LOOK_SECONDS = 0.5
_CAUGHT_UP_RECORDS = 10  # a second's worth
_START_SECONDS_MAX = 180.0
_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyMirrors:
    """One run. ``lags_records``: of the partition that was furthest behind, look by look, after the start-up.

    ``late_mirrors`` never had any of the records of the steady time at the destination.
    """

    mirrors: int
    seconds: float
    records_per_second: float
    start_seconds: float
    late_mirrors: int
    lags_records: tuple[int, ...]
    cpu_seconds_per_second: float
    memory_bytes_max: int

    @property
    def lag_records_max(self) -> int:
        """The largest lag of any look."""
        return max(self.lags_records)

    @property
    def lag_seconds_max(self) -> float:
        """The largest lag as time, at the rate of one partition."""
        return self.lag_records_max / (self.records_per_second / self.mirrors)


def partitions() -> list[TopicPartition]:
    """Returns the partitions, one for each mirror."""
    return [TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS_PER_TOPIC)]


def configuration(source: BenchKafka, destination: BenchKafka) -> str:
    """Returns the mirrors in the mirror-v3 form; the metrics port is not ours to take."""
    head = (
        f'destination: {{type: kafka, bootstrap-servers: ["{destination.bootstrap_servers}"]}}\n'
        "service: {metrics: off}\n"
        "mirrors:\n"
    )
    return head + "".join(
        f"  - name: {p.topic}-{p.partition}\n"
        f'    source: {{bootstrap-servers: ["{source.bootstrap_servers}"]}}\n'
        f"    topic: {p.topic}\n"
        f"    partition: {p.partition}\n"
        for p in partitions()
    )


async def measure_many_mirrors(
    *, source: BenchKafka, destination: BenchKafka, folder: Path, seconds: float
) -> ManyMirrors:
    """Runs all mirrors for ``seconds`` after every one of them has caught up once. The topics exist on both sides.

    Raises:
        TimeoutError: not every mirror had after three minutes.
        RuntimeError: the process ended.
    """
    async with AsyncExitStack() as stack:
        ends = [await _ends_of(server, stack) for server in (source, destination)]
        producer = AIOKafkaProducer(bootstrap_servers=source.bootstrap_servers, acks=1, linger_ms=20)
        await producer.start()
        stack.push_async_callback(producer.stop)
        trickle = asyncio.create_task(_trickle(producer))
        stack.callback(trickle.cancel)
        began = time.perf_counter()
        process = start_mirrorlake(configuration(source, destination), folder)
        stack.callback(process.stop, timeout_seconds=_STOP_SECONDS)
        tree = ProcessTree(process.pid)
        run = _Run(tree, *ends)
        # What waited for the first leases is start-up, not lag.
        while not (all((await run.look()).values()) and run.lags[-1] <= _CAUGHT_UP_RECORDS):
            if time.perf_counter() - began > _START_SECONDS_MAX:
                still = sum(not end for end in run.copied.values())
                raise TimeoutError(f"{still} mirrors have not moved, lag {run.lags[-1]}; see {folder}")
            await asyncio.sleep(_LOOK_SECONDS)
        start_seconds, before = time.perf_counter() - began, dict(run.copied)
        run.lags.clear()
        cpu_before, steady_began = tree.use().cpu_seconds, time.perf_counter()
        memory_bytes_max = 0
        while time.perf_counter() - steady_began < seconds:
            await asyncio.sleep(_LOOK_SECONDS)
            await run.look()
            memory_bytes_max = max(memory_bytes_max, tree.memory_bytes())
        took = time.perf_counter() - steady_began
        cpu_seconds = tree.use().cpu_seconds - cpu_before
    return ManyMirrors(
        mirrors=len(before),
        seconds=took,
        records_per_second=(sum(run.copied.values()) - sum(before.values())) / took,
        start_seconds=start_seconds,
        late_mirrors=sum(run.copied[p] <= before[p] for p in before),
        lags_records=tuple(run.lags),
        cpu_seconds_per_second=cpu_seconds / took,
        memory_bytes_max=memory_bytes_max,
    )


class _Run:
    """Looks at both sides; ``lags`` is the largest lag of each look."""

    def __init__(self, tree: ProcessTree, source: AIOKafkaConsumer, destination: AIOKafkaConsumer) -> None:
        self.copied: dict[TopicPartition, int] = {}
        self.lags: list[int] = []
        self._tree = tree
        self._source = source
        self._destination = destination

    async def look(self) -> dict[TopicPartition, int]:
        """Returns the destination's end offsets.

        Raises:
            RuntimeError: the process ended.
        """
        if not self._tree.use().is_running:
            raise RuntimeError("the mirrors' process ended")
        # The source first: the other way round a lag could come out below nothing.
        ends = await self._source.end_offsets(partitions())
        self.copied = await self._destination.end_offsets(partitions())
        self.lags.append(max(0, *(ends[p] - self.copied[p] for p in ends)))
        return self.copied


async def _ends_of(server: BenchKafka, stack: AsyncExitStack) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap_servers)
    await consumer.start()
    stack.push_async_callback(consumer.stop)
    return consumer


async def _trickle(producer: AIOKafkaProducer) -> None:
    """Sends one record to every partition in turn, until cancelled; never a burst to make up for a late round."""
    while True:
        began = time.perf_counter()
        for partition in partitions():
            await producer.send(partition.topic, _VALUE, partition=partition.partition)
        await asyncio.sleep(max(0.0, began + len(partitions()) / RECORDS_PER_SECOND - time.perf_counter()))
