"""What takes part in the comparison, and how each is measured: the same rule for all.

Start-up is everything until the copying has begun at the destination, the copying is the rest, until all of it is
there. CPU is that of the contender's processes alone; that of the brokers is noted beside it.
"""

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from bench.brokers import BenchKafka
from bench.inputs import Filled, Input
from bench.process_tree import ProcessTree
from bench.watches import Watch

_START_LOOK_SECONDS = 0.05
_COPY_LOOK_SECONDS = 0.1  # a look takes some 8 ms of the two cores from whoever copies
_MEMORY_LOOK_SECONDS = 1.0  # adding up PSS costs the measured processes a little time
_PATIENCE_SECONDS = 600.0


class Kind(StrEnum):
    """Where the copy goes. Only contenders of one kind are compared."""

    KAFKA = "kafka"
    KAFKA_MAPPED = "kafka, offsets mapped"
    KAFKA_TLS = "kafka over TLS"
    PARQUET = "parquet"
    PARQUET_S3 = "parquet in S3"
    PARQUET_S3_CRC = "parquet in S3, content-check: crc64"
    PARQUET_S3_TLS = "parquet in S3 over TLS"
    NDJSON = "ndjson"
    LOG = "log"
    RESTORED_LOG = "kafka, restored from log"
    RESTORED_PARQUET = "kafka, restored from parquet"


KAFKA_KINDS = frozenset(kind for kind in Kind if kind.startswith("kafka"))


class Contender(Protocol):
    """A mirror that can be started as a process."""

    name: str
    kind: Kind

    def start(self, source: BenchKafka, destination: BenchKafka, wanted: Input, folder: Path) -> int:
        """Starts copying the input's topic under its own name, and returns the process id to measure.

        ``folder`` is empty and the contender's to write to.
        """
        ...

    def watch(self, destination: BenchKafka, wanted: Input, folder: Path) -> Watch:
        """Returns what sees the copy grow."""
        ...

    def stop(self) -> None:
        """Ends every process of it. Idempotent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run. Seconds and bytes; the ``start_`` figures end when the copying has begun.

    ``copied_records`` and ``copied_bytes`` (on the wire, at the source) are those of the copying alone: what was
    there at the first look belongs to the start-up, as its CPU does.
    """

    contender: str
    kind: Kind
    input: str
    records: int
    wire_bytes: int
    copied_records: int
    copied_bytes: int
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
        return self.copied_bytes / 1e6 / self.copy_cpu_seconds

    @property
    def megabytes_per_cpu_second_overall(self) -> float:
        """The same with the start-up."""
        return self.wire_bytes / 1e6 / (self.start_cpu_seconds + self.copy_cpu_seconds)

    @property
    def megabytes_per_second(self) -> float:
        """10⁶ bytes on the wire per second of the copying."""
        return self.copied_bytes / 1e6 / self.copy_wall_seconds

    @property
    def records_per_cpu_second(self) -> float:
        """Records per CPU-second of the copying, start-up left out."""
        return self.copied_records / self.copy_cpu_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    wall_seconds: float
    cpu_seconds: float
    copied: int


async def measure(
    contender: Contender,
    *,
    source: BenchKafka,
    destination: BenchKafka,
    wanted: Input,
    filled: Filled,
    folder: Path,
) -> Measured:
    """Starts the contender, watches it copy all of ``filled``, and stops it.

    Raises:
        TimeoutError: it was not through after ten minutes.
        RuntimeError: its process ended before.
    """
    source_tree, destination_tree = ProcessTree(source.pid), ProcessTree(destination.pid)
    brokers_before = source_tree.use().cpu_seconds, destination_tree.use().cpu_seconds
    async with contender.watch(destination, wanted, folder) as watch:
        began = time.perf_counter()
        tree = ProcessTree(contender.start(source, destination, wanted, folder))
        try:
            first, last, memory_bytes_max = await _observe(tree, watch, filled.records, began=began)
        except (RuntimeError, TimeoutError) as error:
            raise type(error)(f"{contender.name}: {error}; see {folder}") from error
        finally:
            contender.stop()
    return Measured(
        contender=contender.name,
        kind=contender.kind,
        input=wanted.name,
        records=filled.records,
        wire_bytes=filled.wire_bytes,
        copied_records=filled.records - first.copied,
        copied_bytes=round(filled.wire_bytes * (filled.records - first.copied) / filled.records),
        start_wall_seconds=first.wall_seconds,
        start_cpu_seconds=first.cpu_seconds,
        copy_wall_seconds=last.wall_seconds - first.wall_seconds,
        copy_cpu_seconds=last.cpu_seconds - first.cpu_seconds,
        source_cpu_seconds=source_tree.use().cpu_seconds - brokers_before[0],
        destination_cpu_seconds=destination_tree.use().cpu_seconds - brokers_before[1],
        memory_bytes_max=memory_bytes_max,
    )


async def _observe(tree: ProcessTree, watch: Watch, records: int, *, began: float) -> tuple[_Look, _Look, int]:
    """Returns the look at which the copying had begun, the one at which it was over, and the most memory seen."""
    first: _Look | None = None
    memory_bytes_max, memory_looked = 0, began
    while True:
        use, copied = tree.use(), await watch.copied()
        look = _Look(wall_seconds=time.perf_counter() - began, cpu_seconds=use.cpu_seconds, copied=copied)
        if first is None and watch.has_begun(copied):
            first = look
        if copied >= records:
            assert first is not None
            return first, look, max(memory_bytes_max, tree.memory_bytes())
        if not use.is_running:
            raise RuntimeError("ended before it was through")
        if look.wall_seconds > _PATIENCE_SECONDS:
            raise TimeoutError(f"copied {copied} of {records} records")
        if began + look.wall_seconds - memory_looked > _MEMORY_LOOK_SECONDS:
            memory_bytes_max = max(memory_bytes_max, tree.memory_bytes())
            memory_looked = began + look.wall_seconds
        await asyncio.sleep(_START_LOOK_SECONDS if first is None else _COPY_LOOK_SECONDS)
