"""How many bytes of small Parquet segments a core merges in a second: ``mirrorlake archive merge``, as a user runs it.

The merging begins when the first file appears that was not there, and ends with the process: what comes before is the
start of Python and Spark.
"""

import asyncio
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.process_tree import ProcessTree
from bench.segments import TOPIC, write_segment
from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.stores.filesystem import FilesystemStore

PARTITIONS = 2
SEGMENTS_PER_PARTITION = 40
_LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 900.0
_WORDS = [f"{word}-{number}" for word in ("order", "customer", "street", "amount", "paid") for number in range(400)]
_TEXT = " ".join(random.Random(0).choices(_WORDS, k=800_000)).encode()
"""Some 8 MB: far more than a compressor's window, so that a record is not found again in the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What segments hold: so many records each of about so many bytes; text is compressible, else it is random."""

    name: str
    records_per_segment: int
    record_bytes: int
    is_text: bool


INPUTS = (
    Records(name="1 KiB, random", records_per_segment=8_000, record_bytes=1024, is_text=False),
    Records(name="1 KiB, text", records_per_segment=24_000, record_bytes=1024, is_text=True),
    Records(name="100 B, random", records_per_segment=40_000, record_bytes=100, is_text=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One merge of all segments but the newest ones. Bytes of Parquet, as the inputs lie in the folder."""

    records: str
    segments: int
    input_bytes: int
    record_bytes: int
    start_cpu_seconds: float
    merge_seconds: float
    merge_cpu_seconds: float

    @property
    def megabytes_per_cpu_second(self) -> float:
        """10⁶ bytes of input per CPU-second of all our processes."""
        return self.input_bytes / 1e6 / self.merge_cpu_seconds


def measure_merges() -> list[Merge]:
    """Merges the segments of each kind of records.

    Raises:
        RuntimeError: the command failed.
        TimeoutError: it was not through after fifteen minutes.
    """
    return [asyncio.run(_measure(each)) for each in INPUTS]


async def _measure(wanted: Records) -> Merge:
    with tempfile.TemporaryDirectory(prefix="mirrorlake-bench-") as name:
        folder = Path(name)
        store = FilesystemStore(folder / "lake")
        store.root.mkdir()
        record_bytes = sum(_write_partition(store, partition, wanted) for partition in range(PARTITIONS))
        return await _merge(folder, wanted, record_bytes)


async def _merge(folder: Path, wanted: Records, record_bytes: int) -> Merge:
    lake = folder / "lake"
    inputs = {file: file.stat().st_size for file in lake.rglob("*.parquet")}
    newest = sorted(inputs)[SEGMENTS_PER_PARTITION - 1 :: SEGMENTS_PER_PARTITION]
    command = (sys.executable, "-m", "mirrorlake", "archive", "merge", "-c", str(_configuration(folder, lake)))
    process = GuardedProcess(command, log_path=folder / "merge.log")
    began = time.perf_counter()
    tree = ProcessTree(process.pid)
    first: tuple[float, float] | None = None
    try:
        while (use := tree.use()).is_running:
            moment = time.perf_counter(), use.cpu_seconds
            if first is None and _has_begun(lake, inputs):
                first = moment
            if moment[0] - began > _PATIENCE_SECONDS:
                raise TimeoutError("a merge was not through after fifteen minutes")
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        process.stop(timeout_seconds=5.0)
    left = {*lake.rglob("*.parquet")}
    if first is None or left & inputs.keys() != {*newest}:
        raise RuntimeError(f"not all was merged: {(folder / 'merge.log').read_text(encoding='utf-8')[-4000:]}")
    return Merge(
        records=wanted.name,
        segments=len(inputs) - len(newest),
        input_bytes=sum(inputs.values()) - sum(inputs[file] for file in newest),
        record_bytes=record_bytes * (SEGMENTS_PER_PARTITION - 1) // SEGMENTS_PER_PARTITION,
        start_cpu_seconds=first[1],
        merge_seconds=moment[0] - first[0],
        merge_cpu_seconds=moment[1] - first[1],
    )


def _has_begun(lake: Path, inputs: dict[Path, int]) -> bool:
    """Whether a file is being made that holds something."""
    files = (Path(folder) / file for folder, _, names in os.walk(lake) for file in names)
    return any(
        file.name.endswith(".parquet") is False and _size(file) > 1 << 16 for file in files if file not in inputs
    )


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _configuration(folder: Path, lake: Path) -> Path:
    config = folder / "mirror.yaml"
    config.write_text(
        "clusters: {east: {bootstrap-servers: '127.0.0.1:1'}}\n"
        f"stores: {{lake: {{type: filesystem, root: {lake}}}}}\n"
        f"mirrors: [{{name: orders, source: {{cluster: east, topics: [{TOPIC}]}}, destinations: "
        "[{type: archive, store: lake, merge: {steps: [{min-age: 0s, max-bytes: 1GiB}]}}]}]\n",
        encoding="utf-8",
    )
    return config


def _write_partition(store: FilesystemStore, partition: int, wanted: Records) -> int:
    """Writes the segments of a partition, and returns the bytes of their records' values."""
    source = random.Random(partition)
    written = 0
    for number in range(SEGMENTS_PER_PARTITION):
        values = [_value(source, wanted) for _ in range(wanted.records_per_segment)]
        written += sum(map(len, values))
        write_segment(store, partition, number * wanted.records_per_segment, values)
    return written


def _value(source: random.Random, wanted: Records) -> bytes:
    if not wanted.is_text:
        return source.randbytes(wanted.record_bytes)
    start = source.randrange(len(_TEXT) - wanted.record_bytes)
    return _TEXT[start : start + wanted.record_bytes]
