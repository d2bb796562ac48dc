"""A live topic read as a DataFrame: by ``format("mirrorlake")`` and by Spark's own connector, into a sink of nothing.

Both read the same columns.

As a module, ``python -m bench.frames READER SERVERS TOPIC`` is a session that reads the topic some times: the first
read compiles, in the JVM or as kernels; of the others the one counts that took the least CPU.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from bench.process_tree import ProcessTree, used

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The newest that is published: for Spark 4.3 there is none yet, and it runs there."""
READERS = ("mirrorlake", "kafka")
COLUMNS = "key,value,topic,partition,offset,timestamp,timestamp_type"
"""Those that the connector has by itself: it leaves headers out, for which `mirrorlake` would make an array a row."""
_READS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRead:
    """The cheapest of three reads of a topic by a session that is warm, of all processes of it: JVM and Python."""

    reader: str
    input: str
    records: int
    read_seconds: float
    read_cpu_seconds: float

    @property
    def records_per_cpu_second(self) -> float:
        """Records per CPU-second."""
        return self.records / self.read_cpu_seconds


def measure_frames(servers: str, topic: str, records: int) -> list[FrameRead]:
    """Reads a topic by both, each by a session of its own.

    Raises:
        RuntimeError: a session failed.
    """
    return [_run(reader, servers, topic, records) for reader in READERS]


def _run(reader: str, servers: str, topic: str, records: int) -> FrameRead:
    command = [sys.executable, "-m", "bench.frames", reader, servers, topic]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        # Spark looks for a `python3` by itself where a source is written in Python.
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    if done.returncode:
        raise RuntimeError(f"{reader}: {done.stderr[-4000:]}")
    return FrameRead(reader=reader, input=topic, records=records, **json.loads(done.stdout.splitlines()[-1]))


def _session(reader: str, folder: str) -> Any:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    if reader == "kafka":
        builder = builder.config("spark.jars.packages", CONNECTOR).config("spark.jars.ivy", folder)
    return builder.getOrCreate()


def _reads(reader: str, spark: Any, servers: str, topic: str) -> Callable[[], None]:
    if reader == "mirrorlake":
        from mirrorlake.spark import register

        register(spark)
    options = {"mirrorlake": {"topics": topic, "columns": COLUMNS}, "kafka": {"subscribe": topic}}[reader]

    def read() -> None:
        frame = spark.read.format(reader).option("kafka.bootstrap.servers", servers).options(**options).load()
        frame.write.format("noop").mode("overwrite").save()

    return read


def main() -> None:
    """Reads a topic, and prints what the cheapest read took, as JSON."""
    reader, servers, topic = sys.argv[1:]
    tree = ProcessTree(os.getpid())
    with tempfile.TemporaryDirectory(prefix="mirrorlake-bench-") as folder:
        spark = _session(reader, folder)
        read = _reads(reader, spark, servers, topic)
        read()
        found = []
        for _read in range(_READS):
            before = tree.moment()
            read()
            found.append(used("read", before, tree.moment()))
        spark.stop()
    print(json.dumps(min(found, key=itemgetter("read_cpu_seconds"))))


if __name__ == "__main__":
    main()
