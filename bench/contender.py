"""What takes part in the comparison, and how each is measured: the same rule for all.

Start-up is everything until the first record is at the destination, the copying is the rest, until the
destination's end offsets are the source's. CPU is that of the contender's processes alone; that of the brokers
is noted beside it.
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition

from bench.inputs import Filled, Input
from bench.process_tree import ProcessTree
from mirrorlake.embedded.kafka_server import EmbeddedKafka

_LOOK_SECONDS = 0.05
_MEMORY_LOOK_SECONDS = 1.0  # adding up PSS costs the measured processes a little time
_PATIENCE_SECONDS = 600.0


class Contender(Protocol):
    """A mirror that can be started as a process."""

    name: str

    def start(self, source: EmbeddedKafka, destination: EmbeddedKafka, wanted: Input, folder: Path) -> int:
        """Starts copying the input's topic under its own name, and returns the process id to measure.

        ``folder`` is empty and the contender's to write to.
        """
        ...

    def stop(self) -> None:
        """Ends every process of it. Idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run. Seconds and bytes; the two ``start_`` figures end when the first record has arrived."""

    contender: str
    input: str
    records: int
    wire_bytes: int
    start_wall_seconds: float
    start_cpu_seconds: float
    copy_wall_seconds: float
    copy_cpu_seconds: float
    source_cpu_seconds: float
    destination_cpu_seconds: float
    memory_bytes_max: int

    @property
    def megabytes_per_cpu_second(self) -> float:
        """10⁶ bytes on the wire per CPU-second of the copying, start-up left out."""
        return self.wire_bytes / 1e6 / self.copy_cpu_seconds


async def measure(
    contender: Contender,
    *,
    source: EmbeddedKafka,
    destination: EmbeddedKafka,
    wanted: Input,
    filled: Filled,
    folder: Path,
) -> Measured:
    """Starts the contender, watches it copy all of ``filled``, and stops it.

    Raises:
        TimeoutError: it was not through after ten minutes.
        RuntimeError: its process ended before.
    """
    partitions = {TopicPartition(wanted.name, number): end for number, end in filled.end_offsets.items()}
    source_tree, destination_tree = ProcessTree(source.pid), ProcessTree(destination.pid)
    brokers_before = source_tree.use().cpu_seconds, destination_tree.use().cpu_seconds
    watcher = AIOKafkaConsumer(bootstrap_servers=destination.bootstrap_servers)
    await watcher.start()
    began = time.perf_counter()
    tree = ProcessTree(contender.start(source, destination, wanted, folder))
    first: tuple[float, float] | None = None
    memory_bytes_max, memory_looked = 0, began
    try:
        while True:
            use, now = tree.use(), time.perf_counter()
            if not use.is_running:
                raise RuntimeError(f"{contender.name} ended before it was through; see {folder}")
            copied = sum((await watcher.end_offsets(list(partitions))).values())
            if first is None and copied > 0:
                first = (now - began, use.cpu_seconds)
            if copied >= sum(partitions.values()):
                break
            if now - began > _PATIENCE_SECONDS:
                raise TimeoutError(f"{contender.name} copied {copied} of {filled.records} records; see {folder}")
            if now - memory_looked > _MEMORY_LOOK_SECONDS:
                memory_bytes_max, memory_looked = max(memory_bytes_max, tree.memory_bytes()), now
            await asyncio.sleep(_LOOK_SECONDS)
        end_wall_seconds, end_cpu_seconds = time.perf_counter() - began, tree.use().cpu_seconds
        memory_bytes_max = max(memory_bytes_max, tree.memory_bytes())
    finally:
        contender.stop()
        await watcher.stop()
    assert first is not None
    return Measured(
        contender=contender.name,
        input=wanted.name,
        records=filled.records,
        wire_bytes=filled.wire_bytes,
        start_wall_seconds=first[0],
        start_cpu_seconds=first[1],
        copy_wall_seconds=end_wall_seconds - first[0],
        copy_cpu_seconds=end_cpu_seconds - first[1],
        source_cpu_seconds=source_tree.use().cpu_seconds - brokers_before[0],
        destination_cpu_seconds=destination_tree.use().cpu_seconds - brokers_before[1],
        memory_bytes_max=memory_bytes_max,
    )
