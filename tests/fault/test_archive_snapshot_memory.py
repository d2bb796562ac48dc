"""`archive snapshot` of far more than memory holds, killed half-way and run again: Spark, its workers and all."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.envelope import SegmentEnvelope
from mirrorlake.archive.formats.registry import record_writer
from mirrorlake.archive.names import SegmentName
from mirrorlake.errors import JavaUnusableError
from mirrorlake.java import find_java
from mirrorlake.kafka.records.columns import RecordColumns, no_headers
from mirrorlake.stores.filesystem import FilesystemStore
from support.command import mirrorlake, write_yaml
from support.copies import wait_until

pytestmark = pytest.mark.slow

DATA_BYTES_MAX = 640 << 20
"""What each process may have: heap, stack and all it maps to write to (RLIMIT_DATA)."""

HEAP = "480m"  # Spark refuses less than 450 MiB of heap that is not set aside
VALUE_BYTES = 64 << 10
SEGMENT_RECORDS = 2048
SEGMENTS = 12
RECORDS = SEGMENTS * SEGMENT_RECORDS
"""1.5 GiB of records: more than twice what a process may have, three times Spark's heap."""

KEYS = RECORDS * 3 // 4  # the last quarter overwrites the first, so that 1.1 GiB of them are the view
TIMEOUT_SECONDS = 300.0


def write_segment(store: FilesystemStore, start: int) -> None:
    offsets = np.arange(start, start + SEGMENT_RECORDS, dtype=np.int64)
    filler = b"x" * VALUE_BYTES
    columns = RecordColumns.of(
        offsets=offsets,
        timestamps=offsets + 1_700_000_000_000,
        timestamp_types=np.zeros(len(offsets), np.int8),
        keys=pa.array([b"%012d" % (offset * 7919 % KEYS) for offset in offsets.tolist()], pa.large_binary()),
        values=pa.array([b"%d" % offset + filler for offset in offsets.tolist()], pa.large_binary()),
        headers=no_headers(len(offsets)),
    )
    envelope = SegmentEnvelope(
        cluster_id="c", topic_id="t", topic="orders", partition=0, start_offset=start, writer="test", created_at="now"
    )
    staged = store.stage("orders/0", "test")
    writer = record_writer("parquet", staged.file, envelope, compression="zstd-1")
    writer.write(columns)
    writer.close(end_offset=start + SEGMENT_RECORDS)
    name = SegmentName(from_offset=start, to_offset=start + SEGMENT_RECORDS - 1, extension="parquet")
    staged.publish(f"orders/0/{name}")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    try:
        find_java()
    except JavaUnusableError as error:
        pytest.skip(str(error))
    root = tmp_path / "lake"
    root.mkdir()
    store = FilesystemStore(root)
    for number in range(SEGMENTS):
        write_segment(store, number * SEGMENT_RECORDS)
    return root


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES_MAX, DATA_BYTES_MAX))


def start(config: Path, log: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "mirrorlake", "archive", "snapshot", "-c", str(config), "--format", "json"]
    with log.open("wb") as file:
        return subprocess.Popen(
            command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, preexec_fn=limited, start_new_session=True
        )


def test_more_than_memory_holds_is_reduced_and_a_kill_half_way_is_made_up_for(lake: Path, tmp_path: Path) -> None:
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {{type: filesystem, root: {lake}}}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: [orders]}}
    destinations: [{{type: archive, store: lake}}]
engine: {{lanes: 2, spark-conf: {{spark.driver.memory: {HEAP}}}}}
""",
    )
    made = lake / "orders.snapshot"
    log = tmp_path / "log"
    first = start(config, log)
    started = psutil.Process(first.pid)
    try:
        wait_until(
            lambda: any(file.stat().st_size for file in made.rglob("*.tmp.*")) or first.poll() is not None,
            "the snapshot to be written",
            patience_seconds=TIMEOUT_SECONDS,
            log=log.read_text,
        )
        assert first.poll() is None, log.read_text()
        others = started.children(recursive=True)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    _, alive = psutil.wait_procs(others, timeout=60.0)
    assert not alive, "all that it started ends with it"
    assert not list(made.rglob("*.parquet")), "nothing is published by halves"

    second = start(config, log)
    assert second.wait(TIMEOUT_SECONDS) == 0, log.read_text()
    (file,) = made.rglob("*.parquet")
    table = pq.read_table(file, columns=["key", "offset"])
    # By a dictionary, as ever: of every key the last offset.
    latest = {b"%012d" % (offset * 7919 % KEYS): offset for offset in range(RECORDS)}
    assert table["key"].to_pylist() == sorted(latest)
    assert table["offset"].to_pylist() == [latest[key] for key in sorted(latest)]
    assert mirrorlake("archive", "check", "-c", config, "--level", "checksums").code == 0
