"""An archive under a short flush stays small by itself for ever: few files, bounded bytes, whole, and read meanwhile.

One service archives and keeps the archive by its schedules, another brings it back into Kafka as it grows. Time is
compressed: segments are cut, merged and retired every second.
"""

import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark, write_yaml
from support.copies import (
    archive_position,
    archived,
    assert_same_records,
    create_topic,
    log_end,
    source_end,
    store_of,
    wait_until,
)
from support.load import Load
from support.mirrors import write_config
from support.records import Record, consume
from support.service_process import ServiceProcess

# Its quick sibling is `test_scheduled_merges.py`: the same without retention, and without who reads meanwhile.
pytestmark = [pytest.mark.kafka, pytest.mark.soak]

RECORD_BYTES = 1_000
RETAINED_BYTES = 3_000_000
"""More than a reader lags behind: some 3 000 records, of which a few hundred come a second."""

FILES_MAX = 60
"""Of the partition: what was cut since the last merge, and what doubling leaves of those before."""

KEPT = (
    ", merge: {every: 1s, steps: [{min-age: 0s, max-bytes: 1MiB}], min-files: 2, min-bytes: 0}"
    f", retain: {{every: 1s, max-bytes: {RETAINED_BYTES}}}"
)


def incompressible(count: int, start: int, timestamp: int) -> list[Record]:
    chance = random.Random(start)
    return [
        Record(timestamp, b"k%d" % number, b"%d-" % number + chance.randbytes(RECORD_BYTES))
        for number in range(start, start + count)
    ]


@dataclass
class Watch:
    """Looks at a folder several times a second: the most files and bytes that lay in it, and how far down they came."""

    lake: Path
    topic: str

    def __post_init__(self) -> None:
        self.files: list[int] = []
        self.sizes: list[int] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        while not self._is_over.wait(0.25):
            segments = [each for each in store_of(self.lake).list(f"{self.topic}/0") if not each.name.startswith("_")]
            self.files.append(len(segments))
            self.sizes.append(sum(each.size_bytes for each in segments))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()


def keep_for_ever(source: str, destination: str, topic: str, folder: Path, *, flushes: int) -> None:
    lake = folder / "lake"
    config = write_config(
        folder / "mirror.yaml", source=source, topic=topic, lake=lake, max_records=20, max_time="1s", more_archive=KEPT
    )
    back = write_yaml(
        folder / "back.yaml",
        f"""clusters:
  west: {{bootstrap-servers: "{destination}"}}
stores:
  lake: {{type: filesystem, root: {lake}}}
mirrors:
  - name: back-{topic}
    source: {{store: lake, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: west}}]
service: {{metrics: "off"}}
engine: {{lanes: 1, lease: 1s, discovery: 1s, memory: 512MiB}}
""",
    )
    create_topic(source, topic)
    load = Load(source, topic, pause_seconds=0.05, make=incompressible)
    with ServiceProcess("run", "-c", str(config), folder=folder, without_spark=True) as service:
        with load, Watch(lake, topic) as watch:
            service.await_words("flushed batch")
            with ServiceProcess("run", "-c", str(back), folder=folder, without_spark=True) as reading:
                await_flushes(service, reading, flushes)
                load.stop()
                time.sleep(1.5)  # the last flush, by its age
                catch_up(reading, source, destination, topic, lake)
        service.stop()
        assert service.exit_code() == 0, service.said()
        said = service.said()
    assert "partition parked" not in said
    assert "merging failed" not in said
    assert "retention failed" not in said
    assert said.count("flushed batch") >= flushes
    assert max(watch.files) < FILES_MAX, "files"
    assert max(watch.sizes) < 3 * RETAINED_BYTES, "inputs lie beside outputs for moments, and what comes meanwhile"
    assert_bounded_and_whole(config, lake, topic)


def await_flushes(service: ServiceProcess, reading: ServiceProcess, flushes: int) -> None:
    deadline = time.monotonic() + 120 + flushes
    while service.said().count("flushed batch") < flushes or service.said().count("segments retired") < 2:
        assert service.is_running, service.said()
        assert reading.is_running, reading.said()
        assert time.monotonic() < deadline, service.said()
        time.sleep(0.5)


def catch_up(reading: ServiceProcess, source: str, destination: str, topic: str, lake: Path) -> None:
    """Waits until what reads the archive is where it ends: every record is there, also those retired meanwhile."""
    wait_until(
        lambda: log_end(destination, topic) == archive_position(lake, topic) == source_end(source, topic),
        "the end of what reads the archive",
        log=reading.said,
    )
    assert "partition parked" not in reading.said(), reading.said()
    reading.stop()
    assert reading.exit_code() == 0, reading.said()
    assert_same_records(consume(source, topic, 0), consume(destination, topic, 0))


def assert_bounded_and_whole(config: Path, lake: Path, topic: str) -> None:
    """At rest: what retention keeps and no more, sound, equal to its source, and nothing left to do."""
    for verb in ("merge", "retain", "merge", "retain"):
        assert without_spark("archive", verb, "-c", config).code == 0
    segments = archived(lake, topic).read_chain()
    assert segments.start_offset > 0, "retention took the old end"
    (row,) = without_spark("archive", "check", "-c", config, "--level", "checksums", "--format", "json").rows()
    assert (row["result"], row["covered"], row["claims"]) == ("sound", 0, 0)
    assert row["segments"] < FILES_MAX
    assert row["bytes"] < RETAINED_BYTES + (1 << 21)
    left = [info.name for info in store_of(lake).list(f"{topic}/0") if info.name.startswith("_")]
    assert left == [f"_floor-{segments.start_offset:020}"], "no more than its floor is left of all of them"
    verified = without_spark("verify", "-c", config, "--format", "json")
    assert verified.code == 0, verified.err


@pytest.mark.parametrize("flushes", [150, 3_000])
def test_an_archive_under_a_short_flush_stays_small_and_whole_while_it_is_read(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, flushes: int
) -> None:
    keep_for_ever(
        source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name, tmp_path, flushes=flushes
    )
