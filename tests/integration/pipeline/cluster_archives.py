"""An archive in a bucket that a cluster reaches through a proxy, which kills the worker that asks for a certain thing.

What a worker asks for tells what it is at: so it dies in the midst of just that work, however slow the machine.
"""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from mirrorlake.archive.reading import read_archived_range
from mirrorlake.cli.archive import Where
from mirrorlake.cli.archive_keeping import places_of
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import load_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.pipeline.batch_jobs import BatchJobs, all_slots
from mirrorlake.pipeline.session import EngineSession
from mirrorlake.service.archives import retention
from mirrorlake.service.archives.erasing import EraseRun
from mirrorlake.service.archives.merging import MergeRun, plan_places
from mirrorlake.service.archives.places import ArchivePlace
from mirrorlake.service.archives.snapshot_options import SnapshotOptions
from mirrorlake.service.lifecycle.parts import RunOptions
from mirrorlake.service.service import Service
from mirrorlake.spark_source.sql import prepare, run_query
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.topics.restoring import RestoreOptions, restore_configuration
from support.archived_source import archive, held_records
from support.copies import Lake, archived, archived_records, assert_same_records, store_of
from support.mirrors import store_section
from support.records import Record, build_batch, consume, simple_records
from support.segments import records_of
from support.spark_cluster import Cable, SparkCluster, SparkWorker
from support.store_proxy import Fault, StoreProxy, StoreRequest
from support.taken_snapshots import latest_below, take, taken

PARTITIONS = 2
BATCH_RECORDS = 10
BATCH_OFFSETS = 13
"""Behind each batch lie offsets without a record."""
SEGMENT_BATCHES = 5
SEGMENTS = 6
KEYS = 7
ERASED = b"key-3"
LANES = 2

Records = dict[int, dict[int, Record]]
"""By partition, by offset."""


class KillingProxy:
    """Stands before a bucket, and kills the worker that is the first to ask for what it was told.

    The cluster gets another worker at once. Use as a context manager.
    """

    def __init__(self, cluster: SparkCluster, store_port: int) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._kind, self._after, self._is_done = "", 0, False
        self._proxy = StoreProxy(store_port, self._spoil, host=cluster.broker_host)
        self.killed: list[SparkWorker] = []

    @property
    def endpoint(self) -> str:
        return self._proxy.endpoint

    def arm(self, kind: str, *, after: int = 0, is_done: bool = False) -> None:
        """Kills the worker that next asks for something of this kind, once ``after`` such requests have passed.

        With ``is_done`` the store does what that request says, and nobody hears of it; else it never comes there.
        """
        with self._lock:
            self._kind, self._after, self._is_done = kind, after, is_done

    def disarm(self) -> None:
        self.arm("")

    def _spoil(self, request: StoreRequest) -> Fault | None:
        with self._lock:
            if request.kind != self._kind or (worker := self._asking(request)) is None:
                return None
            if self._after > 0:
                self._after -= 1
                return None
            self._kind = ""
            worker.kill()
            self.killed.append(worker)
            self._cluster.add_worker()
            return Fault(cuts_after=self._is_done, cuts_before=not self._is_done)

    def _asking(self, request: StoreRequest) -> SparkWorker | None:
        """The worker that a request came from; None where it was this machine."""
        running = self._cluster.running()
        if self._cluster.is_isolated:
            address = request.client[0]
            return next((each for each in running if self._cluster.address_of(each, Cable.BROKERS) == address), None)
        for each in running:
            for process in each.python_workers():
                with_port = (connection.laddr for connection in process.net_connections("tcp"))
                if any(where and where.port == request.client[1] for where in with_port):
                    return each
        return None

    def __enter__(self) -> "KillingProxy":
        self._proxy.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._proxy.__exit__(None, None, None)


class Lent:
    """A session that belongs to somebody else: who is done with it leaves it as it is."""

    def __init__(self, session: EngineSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def stop(self) -> None:
        pass

    abandon = stop


class ArchiveScene:
    """An archive of two partitions in small segments, and the configuration of its mirror.

    Args:
        cluster: which works on it.
        topic: archived, and the mirror's name.
        place: where the archive lies, as this process reaches it.
        seen_at: the same as the cluster does.
        east: of the brokers that the topic would come from.
        west: of those to which it can be restored.
    """

    def __init__(
        self,
        cluster: SparkCluster,
        topic: str,
        *,
        place: StoreSettings,
        seen_at: Lake,
        east: str,
        west: str,
        segments: int = SEGMENTS,
    ) -> None:
        self.topic, self.place, self.west = topic, place, west
        self.folder = cluster.folder / topic
        self.folder.mkdir(exist_ok=True)
        self.config = self.folder / "mirror.yaml"
        self.newest_start = (segments - 1) * SEGMENT_BATCHES * BATCH_OFFSETS
        self.records = {partition: some_records(partition, segments) for partition in range(PARTITIONS)}
        self._write(cluster, seen_at, east=east, west=west)
        ends = [number * SEGMENT_BATCHES * BATCH_OFFSETS for number in range(1, segments + 1)]
        for partition, records in self.records.items():
            batches = [
                (base, build_batch([records[base + n] for n in range(BATCH_RECORDS)]))
                for base in range(0, ends[-1], BATCH_OFFSETS)
            ]
            archive(place, TopicPartition(topic, partition), held_records(batches), ends, form="parquet")

    def _write(self, cluster: SparkCluster, seen_at: Lake, *, east: str, west: str) -> None:
        merge = {"steps": [{"min-age": "0s", "max-bytes": "64MiB"}], "min-files": 2, "min-bytes": 0}
        kept = {"type": "archive", "store": "lake", "merge": merge, "retain": {"max-bytes": 1}}
        tree = {
            "clusters": {"east": {"bootstrap-servers": east}, "west": {"bootstrap-servers": west}},
            "stores": {"lake": yaml.safe_load(store_section(seen_at, self.folder))},
            "mirrors": [
                {
                    "name": self.topic,
                    "source": {"cluster": "east", "topics": [self.topic]},
                    "destinations": [kept],
                }
            ],
            "engine": {
                "lanes": LANES,
                "lease": "2s",
                "memory": "512MiB",
                "master": cluster.master,
                "spark-conf": cluster.spark_conf(),
            },
        }
        self.config.write_text(json.dumps(tree))

    def configuration(self) -> Configuration:
        return load_configuration(self.config)

    def places(self) -> list[ArchivePlace]:
        return places_of(Where(config=self.config, root=None, topics=[self.topic]))

    def held(self) -> Records:
        """What is archived; fails where something is there twice, or is not what its file says."""
        return {partition: archived_records(self.place, self.topic, partition) for partition in self.records}

    def assert_snapshots(self) -> None:
        """Of each partition there is the latest record of every key, and nothing else."""
        for partition, records in self.records.items():
            assert taken(self.place, f"{self.topic}.snapshot", partition) == latest_below(records)

    def assert_restored(self, topic: str) -> None:
        """Every record is there again, at its own offset."""
        assert_equal(self.records, {each: consume(self.west, topic, each) for each in self.records})

    def without_erased(self) -> Records:
        """What there is once the key is erased where that can be: not in the newest segment."""
        return {
            partition: {
                offset: record
                for offset, record in records.items()
                if record.key != ERASED or offset >= self.newest_start
            }
            for partition, records in self.records.items()
        }


def some_records(partition: int, segments: int) -> dict[int, Record]:
    """Of few keys, at the offsets they have in the archive."""
    count = segments * SEGMENT_BATCHES * BATCH_RECORDS
    plain = simple_records(count, start=partition * 100_000, size=100)
    return {
        number // BATCH_RECORDS * BATCH_OFFSETS + number % BATCH_RECORDS: Record(
            each.timestamp, b"key-%d" % (number % KEYS), each.value, (("n", b"%d" % number), ("null", None))
        )
        for number, each in enumerate(plain)
    }


def assert_equal(expected: Records, found: Mapping[int, Mapping[int, Record]]) -> None:
    assert expected.keys() == found.keys()
    for partition, records in expected.items():
        assert_same_records(records, dict(found[partition]))


Verb = Callable[[ArchiveScene, EngineSession], None]
"""Does something with an archive to its end, and compares what came of it."""


def merge(scene: ArchiveScene, session: EngineSession) -> None:
    def merged() -> set[str]:
        jobs = BatchJobs(session, slots=all_slots(session))
        rows = MergeRun(plan_places(scene.places(), clock=SystemClock()), jobs=jobs, clock=SystemClock()).run()
        assert not [row.error for row in rows if row.error is not None]
        assert_equal(scene.records, scene.held())
        return {row.result for row in rows}

    merged()
    assert merged() <= {"nothing", "deleted"}, "one run does all there is to do, or all but what a dead one left"
    for partition in scene.records:
        names = [info.name for info in store_of(scene.place).list(f"{scene.topic}/{partition}")]
        assert len(names) == 2, names


def erase(scene: ArchiveScene, session: EngineSession) -> None:
    def erased() -> set[str]:
        jobs = BatchJobs(session, slots=all_slots(session))
        erasing = EraseRun(scene.places(), {ERASED}, jobs=jobs, clock=SystemClock(), is_dry=False)
        erasing.look()
        rows = erasing.run()
        assert not [row.error for row in rows if row.error is not None]
        assert_equal(scene.without_erased(), scene.held())
        return {row.result for row in rows}

    erased()
    assert erased() == {"waits"}, "the newest segments wait, and nothing else is left"


def snapshot(scene: ArchiveScene, session: EngineSession) -> None:
    rows = take(*scene.places(), engine=session, options=SnapshotOptions(writer="test"))
    ended = [(row.result, row.error) for row in rows]
    assert ended == [("made", None)] * PARTITIONS, ended
    scene.assert_snapshots()
    assert {row.result for row in take(*scene.places(), engine=session)} == {"nothing"}


def retain(scene: ArchiveScene) -> None:
    """No executor has a part in it: it asks for names, and deletes, from the program itself."""
    rows = retention.retain(scene.places(), clock=SystemClock(), is_dry=False)
    assert [(row.result, row.end) for row in rows] == [("deleted", scene.newest_start)] * PARTITIONS
    for partition, records in scene.records.items():
        left = archived(scene.place, scene.topic, partition)
        offsets = OffsetRange(start_offset=scene.newest_start, end_offset=left.read_chain().position)
        found = {o: r for columns in read_archived_range(left, offsets) for o, r in records_of(columns).items()}
        assert_same_records({o: r for o, r in records.items() if o >= scene.newest_start}, found)


def restore(scene: ArchiveScene, session: EngineSession) -> None:
    topic = f"{scene.topic}.back"
    options = RestoreOptions(store="lake", topics=scene.topic, to="west", rename=topic, name=f"back-{scene.topic}")
    config = restore_configuration(scene.configuration(), options)
    assert Service(config, RunOptions(once=True, engine=lambda _: Lent(session))).run() == 0
    scene.assert_restored(topic)


def query(scene: ArchiveScene, session: EngineSession) -> None:
    config = scene.configuration()
    asked = prepare(config, f"select partition, offset, key, value from lake.`{scene.topic}`")
    rows = run_query(session.spark, config, asked).collect()
    expected = [
        (partition, offset, record.key, record.value)
        for partition, records in scene.records.items()
        for offset, record in records.items()
    ]
    assert sorted((row.partition, row.offset, bytes(row.key), bytes(row.value)) for row in rows) == expected
