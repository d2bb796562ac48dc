"""A merge on Spark dies between the publication of its output and the deletion of its inputs, at just that moment.

The proxy before the bucket holds the request that would delete an input: whoever sent it, or its driver, or Spark's
JVM, dies while output and inputs are all there, or some inputs are gone.
"""

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from mirrorlake.errors import JavaUnusableError
from mirrorlake.java import find_java
from mirrorlake.offsets import TopicPartition
from support.archived_source import archive, held_records
from support.command import Ended, without_spark, write_yaml
from support.copies import archived_records, assert_same_records, store_of, wait_until
from support.mirrors import store_section
from support.object_servers import ObjectServer
from support.records import Record, build_batch, simple_records
from support.service_process import ServiceProcess
from support.store_proxy import Fault, StoreProxy, StoreRequest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCH_RECORDS, BATCH_OFFSETS, SEGMENT_BATCHES, SEGMENTS = 10, 13, 5, 6
INPUTS = SEGMENTS - 1
"""The newest is not merged."""


class HeldDelete:
    """Holds the first deletion of a segment once some have passed, until it is decided what becomes of it."""

    def __init__(self, *, after: int) -> None:
        self._left = after
        self._lock = threading.Lock()
        self._decided = threading.Event()
        self.held: StoreRequest | None = None

    def __call__(self, request: StoreRequest) -> Fault | None:
        with self._lock:
            if request.kind != "delete segment" or self.held is not None:
                return None
            if self._left > 0:
                self._left -= 1
                return None
            self.held = request
        self._decided.wait()
        return Fault(cuts_before=True)

    def lose(self) -> None:
        self._decided.set()


class Scene:
    """An archive of one partition in small segments, which commands reach through a proxy."""

    def __init__(self, server: ObjectServer, proxy: StoreProxy, topic: str, folder: Path) -> None:
        self.topic, self.folder = topic, folder
        self.lake = server.settings()
        seen_at = server.settings(endpoint=proxy.endpoint, prefix=self.lake.prefix)
        self.config = write_yaml(
            folder / "mirror.yaml",
            f"""clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}}}
stores: {{lake: {store_section(seen_at, folder)}}}
mirrors:
  - name: {topic}
    source: {{cluster: east, topics: [{topic}]}}
    destinations:
      - type: archive
        store: lake
        merge: {{steps: [{{min-age: 0s, max-bytes: 64MiB}}], min-files: 2, min-bytes: 0}}
engine: {{lanes: 1, lease: 2s, memory: 512MiB}}
""",
        )
        plain = simple_records(SEGMENTS * SEGMENT_BATCHES * BATCH_RECORDS, size=100)
        self.records: dict[int, Record] = {
            number // BATCH_RECORDS * BATCH_OFFSETS + number % BATCH_RECORDS: each for number, each in enumerate(plain)
        }
        ends = [number * SEGMENT_BATCHES * BATCH_OFFSETS for number in range(1, SEGMENTS + 1)]
        batches = [
            (base, build_batch([self.records[base + n] for n in range(BATCH_RECORDS)]))
            for base in range(0, ends[-1], BATCH_OFFSETS)
        ]
        archive(self.lake, TopicPartition(topic, 0), held_records(batches), ends, form="parquet")

    def names(self) -> list[str]:
        return [info.name for info in store_of(self.lake).list(f"{self.topic}/0")]

    def merge_on_spark(self) -> ServiceProcess:
        return ServiceProcess("archive", "merge", "-c", str(self.config), "--format", "json", folder=self.folder)

    def merge(self) -> Ended:
        return without_spark("archive", "merge", "-c", self.config, "--format", "json")

    def assert_every_offset_once(self) -> None:
        assert_same_records(self.records, archived_records(self.lake, self.topic))

    def assert_finished(self, segments: Sequence[str]) -> None:
        """One file for all inputs, the newest, and nothing else; to readers that know nothing of mirrorlake too."""
        self.assert_every_offset_once()
        names = self.names()
        assert len(names) == 2, names
        assert names[-1] == segments[-1]
        store = store_of(self.lake)
        tables = [pq.read_table(io.BytesIO(store.read(f"{self.topic}/0/{name}")), columns=["offset"]) for name in names]
        assert [offset for table in tables for offset in table["offset"].to_pylist()] == sorted(self.records)


def sender_of(request: StoreRequest, merging: ServiceProcess) -> psutil.Process:
    """The process whose connection a request came by."""
    for process in merging.processes():
        if any(each.laddr and each.laddr.port == request.client[1] for each in process.net_connections("tcp")):
            return process
    raise AssertionError(f"nobody has port {request.client[1]}: {merging.said()}")


def kill_worker(request: StoreRequest, merging: ServiceProcess) -> None:
    sender = sender_of(request, merging)
    assert sender.pid in {each.pid for each in merging.python_workers()}, "Spark's worker deletes what it has merged"
    sender.kill()


def kill_jvm(request: StoreRequest, merging: ServiceProcess) -> None:
    merging.jvm().kill()


def kill_driver(request: StoreRequest, merging: ServiceProcess) -> None:
    merging.kill()


@pytest.fixture
def proxy(versitygw: ObjectServer) -> Iterator[StoreProxy]:
    with StoreProxy(versitygw.port) as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("kill", "deleted"), [(kill_worker, 0), (kill_worker, 2), (kill_driver, 0), (kill_driver, 2), (kill_jvm, 0)]
)
def test_a_merge_killed_between_its_output_and_the_end_of_its_inputs_leaves_each_offset_once_and_is_finished(
    versitygw: ObjectServer,
    proxy: StoreProxy,
    topic_name: str,
    tmp_path: Path,
    kill: Callable[[StoreRequest, ServiceProcess], None],
    deleted: int,
) -> None:
    try:
        find_java()
    except JavaUnusableError as error:
        pytest.skip(str(error))
    scene = Scene(versitygw, proxy, topic_name, tmp_path)
    segments = scene.names()
    proxy.spoil = holding = HeldDelete(after=deleted)
    with scene.merge_on_spark() as merging:
        wait_until(lambda: holding.held or not merging.is_running, "the first deletion", log=merging.said)
        assert holding.held is not None, merging.said()
        there = [name for name in scene.names() if not name.startswith("_")]
        assert len(there) == 1 + SEGMENTS - deleted, "the output, the newest, and the inputs that are not deleted yet"
        assert len(set(there) - set(segments)) == 1
        scene.assert_every_offset_once()

        kill(holding.held, merging)
        if kill is kill_worker:
            holding.lose()
        code = merging.exit_code()
        merging.assert_nothing_left()
        holding.lose()  # a worker that had outlived its driver would have sent it again
    scene.assert_every_offset_once()
    if kill is kill_worker:
        assert code == 0, "another worker does it again: " + merging.said()
    else:
        assert code != 0
        left = [name for name in scene.names() if name in segments]
        assert len(left) == SEGMENTS - deleted, "nobody went on with it"

    proxy.spoil = lambda request: None
    for _ in range(2):  # the second has nothing to do
        ended = scene.merge()
        assert ended.code == 0, ended.err + ended.out
        scene.assert_finished(segments)
    assert {row["result"] for row in ended.rows()} == {"nothing"}
