"""The same program on a standalone cluster of two workers, each with namespaces of its own where that can be had."""

import asyncio
import contextlib
import json
import logging
import os
import random
import re
import socket
import sys
import tarfile
import threading
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pyarrow.parquet as pq
import pytest
import structlog.testing
from pyspark.errors import PySparkException

import mirrorlake
from integration.pipeline.cluster_archives import (
    ERASED,
    SEGMENTS,
    ArchiveScene,
    KillingProxy,
    Records,
    Verb,
    assert_equal,
    erase,
    merge,
    query,
    restore,
    retain,
    snapshot,
)
from integration.pipeline.engine_process import HERE
from mirrorlake.archive.root_marker import ROOT_MARKER
from mirrorlake.cli.archive_erase import WAITS_CODE
from mirrorlake.config.spark.settings import SHARED_SECRET
from mirrorlake.demo.data import FULL, Shop, scaled
from mirrorlake.demo.loading import Prepared, create_topics, end_offsets, load, prepare
from mirrorlake.demo.story import configuration
from mirrorlake.embedded.kafka_server import free_port
from mirrorlake.errors import OutcomeUnknownError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.pipeline.batch_jobs import BatchJobs, BatchResult, BatchTask, all_slots
from mirrorlake.pipeline.cluster import looks as looks_module
from mirrorlake.pipeline.cluster import watch as watch_module
from mirrorlake.pipeline.cluster.executors import Executor, ExecutorUnusableError, living
from mirrorlake.pipeline.cluster.looks import check_executor, check_executors
from mirrorlake.pipeline.cluster.needs import Needs, RootSeen
from mirrorlake.pipeline.cluster.watch import LOOK_SECONDS_MAX
from mirrorlake.pipeline.lease_job import run_lease
from mirrorlake.pipeline.overdue import LOOK_SECONDS
from mirrorlake.pipeline.session import EngineSession
from mirrorlake.pipeline.session_start import build_session
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.secret import Secret
from mirrorlake.service.lifecycle.endings import EXIT_SUPERSEDED
from mirrorlake.spark import register
from mirrorlake.stores.settings import FilesystemSettings
from support.archives import mark_archive, write_segment
from support.copies import (
    archive_position,
    assert_equal_in_archive,
    assert_equal_in_kafka,
    assert_same_records,
    create_topic,
    log_end,
    wait_until,
)
from support.load import Load
from support.map_copies import held_through_map
from support.object_servers import ObjectServer
from support.records import Record, consume, settings_of, simple_records
from support.service_process import ServiceProcess
from support.spark_cluster import Cable, ReachableKafka, SparkCluster, SparkWorker, why_not_isolated
from support.topics import append

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

PARTITIONS = 3
LANES = 2


class Place:
    """A cluster, a broker that its workers reach, and folders that all of them share."""

    def __init__(self, cluster: SparkCluster, source: ReachableKafka, destination: ReachableKafka) -> None:
        self.cluster, self.source, self.destination = cluster, source, destination


@pytest.fixture(scope="module")
def place(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if why := why_not_isolated():
        logging.getLogger(__name__).warning("workers share this machine's namespaces: %s", why)
    cluster = SparkCluster(workers=2, cores=2)
    brokers = [
        ReachableKafka(
            tmp_path_factory.mktemp(name),
            libs=kafka_libs,
            host=cluster.broker_host,
            properties={"log.cleaner.backoff.ms": "500"},
        )
        for name in ("source", "destination")
    ]
    try:
        cluster.start()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda broker: broker.start(), brokers))
        yield Place(cluster, *brokers)
    finally:
        for broker in brokers:
            broker.kill()
        cluster.stop()


class Scene:
    """One topic, mirrored to Kafka with its own offsets, with others, and to an archive."""

    def __init__(self, place: Place, topic: str, folder: Path) -> None:
        self.place, self.topic, self.folder = place, topic, folder
        self.source, self.destination = place.source.bootstrap_servers, place.destination.bootstrap_servers
        self.mapped = f"{topic}.mapped"
        self.shared = place.cluster.folder / topic
        self.lake = self.shared / "lake"
        self.lake.mkdir(parents=True)
        self.config = folder / "mirror.yaml"
        self.write()
        create_topic(self.source, topic, PARTITIONS)

    def write(self, **engine: object) -> None:
        tree = {
            "clusters": {
                "east": {"bootstrap-servers": self.place.source.reachable_servers},
                "west": {"bootstrap-servers": self.place.destination.reachable_servers},
            },
            "stores": {"lake": {"type": "filesystem", "root": str(self.lake)}},
            "mirrors": [
                {
                    "name": self.topic,
                    "source": {"cluster": "east", "topics": [self.topic]},
                    "destinations": [
                        {"type": "kafka", "cluster": "west"},
                        {"type": "kafka", "cluster": "west", "offsets": "map", "topic": self.mapped},
                        {"type": "archive", "store": "lake", "flush": {"max-time": "1s", "max-records": 500}},
                    ],
                }
            ],
            "service": {"heartbeat": "1s"},
            "engine": {
                "lanes": LANES,
                "lease": "2s",
                "memory": "512MiB",
                "master": self.place.cluster.master,
                "spark-conf": self.place.cluster.spark_conf(),
                **engine,
            },
        }
        self.config.write_text(json.dumps(tree))

    def run(self, *more: str) -> ServiceProcess:
        return ServiceProcess("run", "-c", str(self.config), *more, folder=self.folder)

    def load(self) -> Load:
        return Load(self.source, self.topic, partitions=PARTITIONS)

    def positions(self) -> list[int]:
        return [
            sum(archive_position(self.lake, self.topic, n) for n in range(PARTITIONS)),
            sum(log_end(self.destination, self.topic, n) for n in range(PARTITIONS)),
            sum(log_end(self.destination, self.mapped, n) for n in range(PARTITIONS)),
        ]

    def await_progress(self, service: ServiceProcess) -> None:
        before = self.positions()

        def has_grown() -> bool:
            now = self.positions()
            return not service.is_running or all(new > old for new, old in zip(now, before, strict=True))

        wait_until(has_grown, "progress", log=service.said)
        assert service.is_running, service.said()

    def end_caught_up(self, service: ServiceProcess) -> None:
        """Waits until a service to whose source nothing is added has copied all of it, and ends it."""
        heartbeats = service.said().count("heartbeat ")

        def is_caught_up() -> bool:
            lines = [line for line in service.said().splitlines() if " heartbeat " in line][heartbeats:]
            # The first one or two may speak of source ends from before.
            return len(lines) > 2 and " lag=0 " in lines[-1] and "lag_unknown" not in lines[-1]

        wait_until(is_caught_up, "the rest to be copied", log=service.said)
        service.stop()
        assert service.exit_code() == 0, service.said()
        service.assert_nothing_left()
        assert "partition parked" not in service.said()

    def assert_equal(self) -> None:
        count = assert_equal_in_kafka(self.source, self.destination, self.topic, PARTITIONS)
        assert count > 0
        assert assert_equal_in_archive(self.source, self.lake, self.topic, PARTITIONS) == count
        for number in range(PARTITIONS):
            where = TopicPartition(self.topic, number)
            held = held_through_map(self.destination, where, topic=self.mapped, mirror=self.topic, shards=LANES)
            assert_same_records(consume(self.source, self.topic, number), held)
            assert len(consume(self.destination, self.mapped, number)) == len(held), "something is there twice"


@pytest.fixture
def scene(place: Place, topic_name: str, tmp_path: Path) -> Scene:
    return Scene(place, topic_name, tmp_path)


def archive_with_python(folder: Path) -> Path:
    """An archive for Spark to bring to executors, as of a packed environment, whose Python is this one."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(script, "bin/python")
    return archive


def listening_on(port: int) -> list[str]:
    """The addresses at which a TCP port of this machine listens."""
    found = [c.laddr for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.laddr]
    return [str(where[0]).removeprefix("::ffff:") for where in found if where[1] == port]


def files_with(folder: Path, content: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and content.encode() in path.read_bytes()]


def test_a_bounded_run_over_two_workers_leaves_equal_copies_and_no_secret_where_spark_shows_things(
    scene: Scene,
) -> None:
    for number in range(PARTITIONS):
        append(scene.source, scene.topic, number, simple_records(3000))
    port, log = free_port(), scene.folder / "events"
    log.mkdir()
    conf = {
        **scene.place.cluster.spark_conf(),
        "spark.eventLog.compress": False,
        "spark.archives": f"{archive_with_python(scene.folder)}#environment",
        "spark.pyspark.python": "./environment/bin/python",
    }
    scene.write(ui=port, **{"event-log": str(log), "spark-conf": conf})
    secret = scene.place.cluster.secret

    with scene.run() as service:
        service.await_words("executors ready")
        wait_until(lambda: all(end >= 9000 for end in scene.positions()[:2]), "the copies", log=service.said)
        pages = {
            page: urlopen(f"http://127.0.0.1:{port}/{page}").read().decode()
            for page in ("jobs/", "environment/", "executors/", "api/v1/applications")
        }
        application = json.loads(pages["api/v1/applications"])[0]["id"]
        jobs = json.loads(urlopen(f"http://127.0.0.1:{port}/api/v1/applications/{application}/jobs").read())
        pages["environment"] = (
            urlopen(f"http://127.0.0.1:{port}/api/v1/applications/{application}/environment").read().decode()
        )
        listening = listening_on(port)
        commands = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
        service.stop()
        assert service.exit_code() == 0, service.said()
        said = service.said()
        service.assert_nothing_left()

    scene.assert_equal()
    assert listening == ["127.0.0.1"]
    assert "spark.authenticate.secret" in pages["environment"]
    assert not [page for page, text in pages.items() if secret in text]
    assert files_with(log, "spark.authenticate.secret"), "the event log says which settings there are"
    assert files_with(log, secret) == []
    assert secret not in said
    assert not [command for command in commands if secret in command]
    leases = [job for job in jobs if job.get("jobGroup", "").startswith("lane-")]
    assert {job["jobGroup"] for job in leases} <= {f"lane-{n}" for n in range(LANES)}
    assert leases
    for job in leases:
        assert f"lane {job['jobGroup'].removeprefix('lane-')}, " in job["description"]
        assert f"{scene.topic}: {scene.topic}" in job["description"]


def kill_executor(worker: SparkWorker) -> None:
    wait_until(worker.executors, "an executor")
    worker.executors()[0].kill()


def test_an_executor_a_worker_and_the_driver_are_killed_and_the_copies_come_out_equal(scene: Scene) -> None:
    first, second = scene.place.cluster.running()[:2]
    with scene.load():
        with scene.run() as service:
            scene.await_progress(service)
            kill_executor(first)
            scene.await_progress(service)
            second.kill()
            scene.place.cluster.add_worker()
            scene.await_progress(service)
            service.kill()
            service.assert_nothing_left()
        assert "executor lost" in service.said()
        assert "partition parked" not in service.said()
    with scene.run("--once") as last:
        assert last.exit_code() == 0, last.said()
        last.assert_nothing_left()
    scene.assert_equal()


# A silent host is given up long before a lease on it ends: what runs there is a zombie for the rest of it. And there is
# a free slot elsewhere, so that the next lease of its shard begins at once.
SOON_GIVEN_UP = {
    "spark.network.timeout": "6s",
    "spark.network.timeoutInterval": "1s",
    "spark.executor.heartbeatInterval": "1s",
}
LONG_LEASE_SECONDS = 15.0
LONG_LEASES = {"lease": f"{LONG_LEASE_SECONDS:.0f}s", "batch-slots": 2}
CUTS_MAX = 4
MUCH = 10_000  # bytes; a lease that only asks for what is new sends some hundred a second


@pytest.fixture
def mended(place: Place) -> Iterator[SparkCluster]:
    """The cluster; whatever a test cuts or freezes is whole again afterwards."""
    cluster = place.cluster
    yield cluster
    for worker in cluster.running():
        if cluster.is_isolated:
            cluster.mend(worker)
        worker.wake()
    while len(cluster.running()) < 2:
        cluster.add_worker()


def busiest(cluster: SparkCluster) -> SparkWorker:
    """The worker that sends most to the brokers: leases run there."""
    workers = cluster.running()
    if not cluster.is_isolated:
        return max(workers, key=lambda worker: len(worker.python_workers()))
    before = {worker.number: cluster.bytes_sent(worker, Cable.BROKERS) for worker in workers}
    time.sleep(1.0)
    return max(workers, key=lambda worker: cluster.bytes_sent(worker, Cable.BROKERS) - before[worker.number])


def leases_begun(worker: SparkWorker) -> int:
    """How many tasks its executors were given, by the logs that Spark keeps of them."""
    logs = worker.folder.glob("work/*/*/stderr")
    return sum(log.read_text(errors="replace").count("Running task") for log in logs)


def host_of_a_new_lease(cluster: SparkCluster) -> SparkWorker:
    """Waits until a lease begins, and returns the worker it does on."""
    before = {worker.number: leases_begun(worker) for worker in cluster.running()}

    def found() -> list[SparkWorker]:
        return [worker for worker in cluster.running() if leases_begun(worker) > before[worker.number]]

    wait_until(found, "a lease")
    return found()[0]


def writes_on_after_it_is_given_up(scene: Scene, cluster: SparkCluster, service: ServiceProcess) -> bool:
    """Cuts a host off from Spark, and tells whether its lease wrote to the brokers after the driver had given it up.

    The copies go on behind it; then the host is whole again.
    """

    def times_lost() -> int:
        return sum(
            "executor lost" in line and f"host={cut.host} " in f"{line} " for line in service.said().splitlines()
        )

    cut = host_of_a_new_lease(cluster)
    lost = times_lost()
    leases = {process.pid for process in cut.python_workers()}
    cluster.cut(cut, Cable.SPARK)
    wait_until(lambda: times_lost() > lost or not service.is_running, "a host to be given up", log=service.said)
    sent, give_up_at = cluster.bytes_sent(cut, Cable.BROKERS), time.monotonic() + LONG_LEASE_SECONDS
    while cluster.bytes_sent(cut, Cable.BROKERS) < sent + MUCH and time.monotonic() < give_up_at:
        time.sleep(0.1)
    has_written = cluster.bytes_sent(cut, Cable.BROKERS) >= sent + MUCH
    is_the_same = bool(leases & {process.pid for process in cut.python_workers()})
    scene.await_progress(service)
    cluster.mend(cut)
    return has_written and is_the_same


@pytest.mark.soak
def test_a_host_cut_off_from_spark_alone_goes_on_writing_when_it_is_given_up_and_copies_come_out_equal(
    scene: Scene, mended: SparkCluster
) -> None:
    if not mended.is_isolated:
        pytest.skip(f"a worker cannot be cut off: {why_not_isolated()}")
    scene.write(**LONG_LEASES, **{"spark-conf": {**mended.spark_conf(), **SOON_GIVEN_UP}})
    with scene.run() as service:
        with scene.load():
            scene.await_progress(service)
            # Where the machine stood still a lease may have ended by itself before its host was given up.
            for _ in range(CUTS_MAX):
                ready = service.said().count("executor ready")
                if writes_on_after_it_is_given_up(scene, mended, service):
                    break
                service.await_words("executor ready", times=ready + 1)
            else:
                raise AssertionError(f"no lease wrote on: {service.said()}")
        scene.end_caught_up(service)
    scene.assert_equal()


@pytest.mark.soak
def test_leases_of_a_frozen_host_that_wake_up_after_it_was_given_up_change_nothing(
    scene: Scene, mended: SparkCluster
) -> None:
    scene.write(**LONG_LEASES, **{"spark-conf": {**mended.spark_conf(), **SOON_GIVEN_UP}})
    with scene.run() as service:
        with scene.load():
            scene.await_progress(service)
            frozen = busiest(mended)
            zombies = {process.pid for process in frozen.python_workers()}
            frozen.freeze()
            service.await_words("executor lost")
            scene.await_progress(service)
            # Before the JVM above them, which would end them as soon as it sees that its driver has given it up.
            woken = {process.pid for process in frozen.python_workers()}
            frozen.wake(leases_first_seconds=5.0)
            assert zombies & woken
            scene.await_progress(service)
        scene.end_caught_up(service)
    scene.assert_equal()


def test_a_start_without_executors_is_bounded_and_a_signal_ends_it_at_any_time(scene: Scene) -> None:
    too_large = {**scene.place.cluster.spark_conf(), "spark.executor.memory": "64g"}
    scene.write(**{"spark-conf": too_large, "start-timeout": "25s"})
    with scene.run("--once") as bounded:
        assert bounded.exit_code() == 1
        assert f"no executors from {scene.place.cluster.master} after 25 s" in bounded.said()
        assert "spark.executor.memory" in bounded.said()
        bounded.assert_nothing_left()

    scene.write(**{"spark-conf": too_large, "start-timeout": "1h"})
    registered = scene.place.cluster.master_said().count("Registered app")
    with scene.run() as patient:
        cluster = scene.place.cluster
        wait_until(lambda: cluster.master_said().count("Registered app") > registered, "Spark", log=patient.said)
        patient.stop()
        assert patient.exit_code() == 0, patient.said()
        assert "stopped before anything was begun" in patient.said()
        patient.assert_nothing_left()


def one_fault(cluster: SparkCluster, chance: random.Random) -> str:
    """Does something to a worker from which the service must recover by itself; returns what."""
    worker = chance.choice(cluster.running())
    kinds = [
        "python",
        "executor",
        "worker",
        "frozen",
        *(["cut off", "cut off from Spark"] if cluster.is_isolated else []),
    ]
    kind, seconds = chance.choice(kinds), chance.uniform(1.0, 20.0)
    with contextlib.suppress(psutil.NoSuchProcess, IndexError):
        match kind:
            case "python":
                chance.choice(worker.python_workers()).kill()
            case "executor":
                chance.choice(worker.executors()).kill()
            case "worker":
                worker.kill()
                cluster.add_worker()
            case "frozen":
                worker.freeze()
                time.sleep(seconds)
                worker.wake(leases_first_seconds=chance.choice((0.0, 3.0)))
            case _:
                # Its leases go on behind the cut, and are zombies when it is mended.
                cluster.cut(worker, *(Cable if kind == "cut off" else (Cable.SPARK,)))
                time.sleep(seconds)
                cluster.mend(worker)
    return f"{kind} {seconds:.0f}"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_whatever_becomes_of_workers_no_record_is_there_twice_or_lost(
    scene: Scene, mended: SparkCluster, seed: int
) -> None:
    chance = random.Random(seed)
    scene.write(**LONG_LEASES, **{"spark-conf": {**mended.spark_conf(), **SOON_GIVEN_UP}})
    with scene.run() as service:
        with scene.load():
            for _ in range(8):
                scene.await_progress(service)
                print(f"seed {seed}: {one_fault(mended, chance)}")
            scene.await_progress(service)
        scene.end_caught_up(service)
    scene.assert_equal()


@pytest.mark.soak
def test_the_demos_mirror_runs_unchanged_on_two_workers_of_which_one_is_killed(
    place: Place, mended: SparkCluster, tmp_path: Path
) -> None:
    servers, lake = place.source.bootstrap_servers, place.cluster.folder / "demo-lake"
    lake.mkdir()
    # More than the demo has: that much is copied by a quiet machine before anybody has looked how far it is.
    amounts = scaled(FULL, 5.0)
    content = prepare(Shop(now_ms=int(time.time() * 1000)), amounts, old_customers=30_000, recent_customers=10_000)
    ends = asyncio.run(loaded(servers, content))
    engine = {"master": mended.master, "lanes": LANES, "spark-conf": mended.spark_conf()}
    text = configuration(east=place.source.reachable_servers, west=place.destination.reachable_servers, lake=lake)
    config = tmp_path / "demo.yaml"
    config.write_text(f"{text}engine: {json.dumps(engine)}\n")

    to_west = [where for where in ends if where.topic in WEST]

    def copied() -> int:
        at_west = (log_end(place.destination.bootstrap_servers, where.topic, where.partition) for where in to_west)
        return sum(at_west) + sum(archive_position(lake, where.topic, where.partition) for where in ends)

    wanted = sum(ends.values()) + sum(ends[where] for where in to_west)
    with ServiceProcess("run", "-c", str(config), "--once", folder=tmp_path) as run:
        wait_until(lambda: copied() > wanted / 20, "some of it to be copied", log=run.said)
        busiest(mended).kill()
        assert 0 < (at_kill := copied()) < wanted, at_kill
        assert run.exit_code() == 0, run.said()
        run.assert_nothing_left()
        assert "executor lost" in run.said()
    with ServiceProcess("verify", "-c", str(config), "--level", "records", folder=tmp_path) as verification:
        assert verification.exit_code() == 0, verification.said()
    for where in ends:
        expected = consume(servers, where.topic, where.partition)
        assert_same_records(expected, read_plainly(lake / where.topic / str(where.partition)))
        if where.topic in WEST:
            assert_same_records(expected, consume(place.destination.bootstrap_servers, where.topic, where.partition))


WEST = ("orders", "payments")


async def loaded(servers: str, content: Prepared) -> dict[TopicPartition, int]:
    async with ClusterClient(settings_of(servers)) as client:
        await create_topics(client)
        await load(client, content)
        return await end_offsets(client)


def read_plainly(folder: Path) -> dict[int, Record]:
    """What another reader of Parquet sees of an archived partition."""
    found: dict[int, Record] = {}
    for file in sorted(folder.glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            assert row["offset"] not in found, "it is there twice"
            headers = tuple((each["key"], each["value"]) for each in row["headers"])
            found[row["offset"]] = Record(row["timestamp_ms"], row["key"], row["value"], headers)
    return found


@pytest.fixture(scope="module")
def session(place: Place) -> Iterator[EngineSession]:
    """A session of this process, on all executors; leave it as you found it."""
    plain = {name: str(value).lower() for name, value in place.cluster.spark_conf().items() if name != SHARED_SECRET}
    plain["spark.executorEnv.PYTHONPATH"] = str(HERE)
    settings = SessionSettings(
        lanes=LANES,
        batch_slots=1,
        master=place.cluster.master,
        preload=("fractions",),
        spark_conf=plain,
        spark_secrets={SHARED_SECRET: Secret(file=place.cluster.secret_file)},
    )
    with build_session(settings) as built:
        yield built


def look(session: EngineSession, needs: Needs, seconds_max: float = 60.0) -> None:
    executors = living(session.jobs)
    check_executors(session.jobs, executors, needs, python="python", is_stopping=bool, seconds_max=seconds_max)


def looked_at(session: EngineSession, needs: Needs, seconds_max: float = 60.0) -> list[str]:
    """What is wrong with the executors, a line each."""
    with pytest.raises(ExecutorUnusableError) as caught:
        look(session, needs, seconds_max)
    return caught.value.message.splitlines()


def process_of(place: Place, executor: Executor) -> psutil.Process:
    """The JVM of an executor."""

    def has_its_id(process: psutil.Process) -> bool:
        command = process.cmdline()
        return command[command.index("--executor-id") + 1] == executor.id

    return next(each for worker in place.cluster.running() for each in worker.executors() if has_its_id(each))


def hosts(place: Place) -> set[str]:
    running = [worker for worker in place.cluster.workers if worker.is_running]
    if not place.cluster.is_isolated:
        return {socket.gethostname()}
    return {worker.name for worker in running}


def test_what_an_executor_lacks_is_said_of_each_with_its_host(
    place: Place, session: EngineSession, tmp_path: Path
) -> None:
    wanted = Needs(version="9.9", files=("/no/such/ca.pem",), variables=("NO_SUCH_VARIABLE",))
    lines = looked_at(session, wanted)
    assert len(lines) == len(living(session.jobs)) == 2
    for line in lines:
        assert f"it has mirrorlake {mirrorlake.__version__}, the driver has 9.9" in line
        assert "there is no file /no/such/ca.pem" in line
        assert "the environment variable NO_SUCH_VARIABLE is not set" in line
    assert {line.removeprefix("the executor on ").split(" ")[0] for line in lines} <= hosts(place) | {"127.0.0.1"}
    if place.cluster.is_isolated:
        lines = looked_at(session, Needs(roots=(RootSeen.look(str(tmp_path)),)))
        assert all(f"there is no folder {tmp_path}, the root of an archive" in line for line in lines)
    shared = Needs(roots=(RootSeen.look(str(place.cluster.folder)),), files=(str(place.cluster.secret_file),))
    look(session, shared)


def test_an_executor_that_dies_while_it_is_looked_at_is_left_out_of_the_start_alone(
    place: Place, session: EngineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before the tests whose looks fail by a Python: Spark remembers these of an executor.
    await_all_executors(session)
    killed: list[Executor] = []
    is_killed = threading.Lock()

    def kill_one_and_look(spark: Any, executor: Executor, *arguments: Any, **more: Any) -> Any:
        with is_killed:
            if not killed:
                killed.append(executor)
                process_of(place, executor).kill()
        return check_executor(spark, executor, *arguments, **more)

    monkeypatch.setattr(looks_module, "check_executor", kill_one_and_look)
    executors = living(session.jobs)
    found = check_executors(session.jobs, executors, Needs(), python="py", is_stopping=bool, seconds_max=60.0)
    assert [each.executor for each in found] == [each for each in executors if each not in killed]
    assert len(found) == len(executors) - 1 > 0
    watch, (lost,) = session.executors, killed
    assert watch is not None
    wait_until(lambda: lost.id not in watch.checked and session.slots == LANES + 1, "its successor")


def test_a_python_that_is_not_there_is_said_with_its_host(
    place: Place, session: EngineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.jobs.sparkContext, "pythonExec", "/no/such/python")
    for line in looked_at(session, Needs()):
        assert "cannot run leases with python" in line
        assert "/no/such/python" in line, line


def test_a_python_without_the_package_is_said_with_its_host_and_what_to_do(
    place: Place, session: EngineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = place.cluster.folder / "bare"
    venv.create(bare, symlinks=True)
    monkeypatch.setattr(session.jobs.sparkContext, "pythonExec", str(bare / "bin" / "python"))
    lines = looked_at(session, Needs())
    assert {line.removeprefix("the executor on ").split(" ")[0] for line in lines} == {
        each.address for each in living(session.jobs)
    }
    for line in lines:
        assert "cannot run leases with python" in line
        assert "No module named 'mirrorlake'); install what the driver has into that Python" in line, line


def test_an_executor_that_is_taken_off_and_those_lost_after_it_are_replaced(
    place: Place, session: EngineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = session.executors
    assert watch is not None
    hanging = place.cluster.folder / "hanging"
    hanging.mkdir()
    os.mkfifo(hanging / ROOT_MARKER)  # whoever reads it waits, as for a network filesystem that is stalled
    monkeypatch.setattr(watch, "_replace_seconds", 1.0)

    def lose_one_and_refuse_its_successor(needs: Needs, why: str, look_seconds_max: float) -> None:
        """Its successor's successor is fit again."""
        await_all_executors(session)
        with structlog.testing.capture_logs() as said, monkeypatch.context() as unfit:
            unfit.setattr(watch, "_needs", needs)
            unfit.setattr(watch, "_look_seconds_max", look_seconds_max)
            kill_executor(next(worker for worker in place.cluster.running() if worker.executors()))
            wait_until(lambda: [each for each in said if each["event"] == "executor taken off"], why)
        (line, *_) = [each for each in said if each["event"] == "executor taken off"]
        assert why in line["error"]

    # A look that loads what leases need takes more than five seconds on a busy machine.
    lacking = Needs(variables=("NO_SUCH_VARIABLE",))
    lose_one_and_refuse_its_successor(lacking, "NO_SUCH_VARIABLE is not set", LOOK_SECONDS_MAX)
    stalled = Needs(roots=(RootSeen(str(hanging), (1, 1), b"marker"),))
    lose_one_and_refuse_its_successor(stalled, "has begun to look at its host and not ended", 5.0)
    await_all_executors(session)


def test_a_lease_that_comes_to_an_executor_before_it_was_looked_at_does_nothing(
    place: Place, session: EngineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = session.executors
    assert watch is not None
    may_look = threading.Event()

    def look_when_told(*arguments: Any, **more: Any) -> Any:
        assert may_look.wait(120.0)
        return check_executor(*arguments, **more)

    def joined() -> list[Executor]:
        return [each for each in living(session.jobs) if each.id not in before]

    def lease(executor: Executor) -> list[Any]:
        at = f"executor_{executor.address}_{executor.id}"
        ids = watch.checked
        rows = run_lease(session.jobs, "builtins:list", b"", description="lease", place=at, executors=ids)
        return [(row["kind"], row["attempt"]) for row in rows]

    await_all_executors(session)
    before = set(watch.checked)
    monkeypatch.setattr(watch_module, "check_executor", look_when_told)
    # One slot has one successor. For two the master starts an executor on each worker, where each has a free core: then
    # a second one joins, of which this test would not know, and which nobody has looked at yet at its end.
    process_of(place, next(each for each in living(session.jobs) if each.slots == 1)).kill()
    wait_until(joined, "another executor")
    (new,) = joined()
    assert lease(new) == [("unchecked", 0)]
    # Few tasks: an executor on which four of a shuffle fail gets nothing for two minutes.
    works, orders = ("shuffle_works:where_read", "shuffle_works:where_merged"), [b"0", b"1"]
    (row,) = session.run_shuffle(*works, orders, plans=[b""], description="shuffle")
    assert isinstance(row["read"], list)
    assert len(row["read"]) == len(orders)
    assert {*row["read"], row["merged"]} <= set(watch.checked)
    may_look.set()
    wait_until(lambda: new.id in watch.checked, "the look at it")
    assert lease(new) == []
    assert session.slots == sum(each.slots for each in living(session.jobs))


def test_batch_tasks_of_an_executor_that_is_killed_begin_again_elsewhere(place: Place, session: EngineSession) -> None:
    folder = place.cluster.folder / "batch"
    folder.mkdir()
    names, until = [f"task-{number}" for number in range(5)], folder / "until"
    tasks = [
        BatchTask(
            work="engine_works:note_pid_and_sleep",
            plan=json.dumps({"note": str(folder / name), "seconds": 300.0, "until": str(until)}).encode(),
            description=name,
            seconds_max=600.0,
        )
        for name in names
    ]
    await_all_executors(session)
    found: list[BatchResult] = []
    reader = threading.Thread(target=lambda: found.extend(BatchJobs(session, slots=all_slots(session)).results(tasks)))
    reader.start()
    wait_until(lambda: len([*folder.iterdir()]) == LANES + 1, "a task in every slot")
    kill_executor(next(worker for worker in place.cluster.running() if worker.executors()))
    until.touch()
    reader.join(120.0)
    assert sorted(result.task.description for result in found) == names
    for result in found:
        assert isinstance(result.outcome, list), result
        assert [row["note"] for row in result.outcome] == [str(folder / result.task.description)]


def end_the_time_of_what_runs(session: EngineSession, said: Sequence[Mapping[str, Any]]) -> None:
    """Has each job that runs be as late as if all of its time had passed; attempts that begin later have their own."""
    times = [(job, job.patience_seconds) for job in list(session._overdue._watched.values())]
    assert times
    for job, _ in times:
        job.patience_seconds, job.give_up_at = 0.0, time.monotonic()
    session._overdue.every(0.2)
    session._overdue.look_now()
    wait_until(lambda: [each for each in said if each["event"] == "executor taken off"], "an executor to be taken off")
    for job, patience_seconds in times:
        job.patience_seconds = patience_seconds
    session._overdue.every(LOOK_SECONDS)


def freeze_noted(cluster: SparkCluster, note: str) -> None:
    """Freezes the Python worker that wrote a note, and none of another executor on its host: nobody would end that."""
    pid = int(note.split(" ")[1])
    workers = worker_noted(cluster, note).python_workers()
    (noted,) = [each for each in workers if (pid_inside(each) if cluster.is_isolated else each.pid) == pid]
    noted.suspend()


def pid_inside(process: psutil.Process) -> int:
    """The pid by which a process of another namespace knows itself."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])


def waiting_task(folder: Path, seconds_max: float) -> BatchTask:
    """Notes in a folder where it runs, and ends when there is a file `until` in it."""
    work = "engine_works:wait_in"
    return BatchTask(work=work, plan=str(folder).encode(), description=folder.name, seconds_max=seconds_max)


def test_a_batch_task_whose_worker_is_frozen_is_done_on_another_executor_and_its_own_is_replaced(
    place: Place, session: EngineSession
) -> None:
    folder = place.cluster.folder / "frozen-task"
    folder.mkdir()
    await_both_workers(place, session)
    with ThreadPoolExecutor(1) as pool, structlog.testing.capture_logs() as said:
        done = pool.submit(BatchJobs(session, slots=all_slots(session)).run, waiting_task(folder, 600.0))
        wait_until(lambda: any(folder.iterdir()), "the task")
        freeze_noted(place.cluster, next(folder.iterdir()).name)
        (folder / "until").touch()
        end_the_time_of_what_runs(session, said)
        assert [row["kind"] for row in done.result(180.0)] == ["ok"]
    (lost, *_) = [line for line in said if line["event"] == "batch task lost"]
    assert "it hangs on the executor on " in lost["why"]
    await_all_executors(session)


def test_a_shuffle_whose_worker_is_frozen_is_done_on_another_executor(place: Place, session: EngineSession) -> None:
    folder = place.cluster.folder / "frozen-shuffle"
    folder.mkdir()
    await_both_workers(place, session)
    works, orders = ("shuffle_works:waits", "shuffle_works:where_merged"), [str(folder).encode()]
    with ThreadPoolExecutor(1) as pool, structlog.testing.capture_logs() as said:
        done = pool.submit(session.run_shuffle, *works, orders, plans=[b""], description="frozen")
        wait_until(lambda: any(folder.iterdir()), "the task")
        freeze_noted(place.cluster, next(folder.iterdir()).name)
        (folder / "until").touch()
        end_the_time_of_what_runs(session, said)
        assert [row["read"] for row in done.result(180.0)] == [["done"]]


def test_a_batch_task_that_hangs_wherever_it_runs_ends_with_an_error_that_names_an_executor(
    place: Place, session: EngineSession
) -> None:
    await_all_executors(session)
    hosts = {each.address for each in living(session.jobs)}
    task = BatchTask(work="engine_works:sleep_for_ever", plan=b"", description="hanging", seconds_max=1.0)
    with pytest.raises(OutcomeUnknownError, match=r"lost 3 times: .* on the executor on .*, after more") as caught:
        BatchJobs(session, slots=all_slots(session)).run(task)
    assert any(host in caught.value.message for host in hosts)
    assert "take it out of the cluster" in caught.value.hint


@pytest.mark.soak
def test_a_batch_task_on_a_host_that_is_frozen_is_done_on_another_one(
    place: Place, session: EngineSession, mended: SparkCluster
) -> None:
    folder = place.cluster.folder / "frozen-host"
    folder.mkdir()
    await_both_workers(place, session)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(BatchJobs(session, slots=all_slots(session)).run, waiting_task(folder, 600.0))
        wait_until(lambda: any(folder.iterdir()), "the task")
        host = worker_noted(mended, next(folder.iterdir()).name)
        host.freeze()
        (folder / "until").touch()
        assert [row["kind"] for row in done.result(300.0)] == ["ok"]
    host.kill()


def test_clocks_are_compared_and_one_that_is_wrong_is_refused(
    session: EngineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await_all_executors(session)
    assert all(abs(offset) < 1.0 for offset in session.clock_offsets.values())

    there = looks_module._now_of
    monkeypatch.setattr(looks_module, "_now_of", lambda row: there(row) - 30.0)
    wrong = re.compile(r"the clock on .+ is (29|30)\.\d s behind the driver's; 1 s are allowed")

    def are_refused() -> bool:
        # Of an executor that is about to end there may be no answer.
        lines = looked_at(session, Needs())
        return bool(lines) and all(wrong.fullmatch(line) for line in lines)

    wait_until(are_refused, "every executor to be refused for their clocks", patience_seconds=400.0)


def await_all_executors(session: EngineSession) -> None:
    """Waits until the session has all its slots, and Spark knows of no executor besides, to be looked at or ended."""

    def are_all() -> bool:
        there = living(session.jobs)
        are_checked = session.clock_offsets.keys() == {each.id for each in there}
        return are_checked and session.slots == sum(each.slots for each in there) == LANES + 1

    wait_until(are_all, "all executors")


def await_both_workers(place: Place, session: EngineSession) -> None:
    """Waits until the session has all its slots, and an executor on each of two workers."""

    def is_whole() -> bool:
        running = place.cluster.running()
        there = {each.address for each in living(session.jobs)}
        known = {worker.host for worker in running} | {worker.name for worker in running}
        is_each = all(worker.executors() for worker in running) and len(running) == 2
        return is_each and session.slots == LANES + 1 and (there <= known or not place.cluster.is_isolated)

    wait_until(is_whole, "an executor on each worker", log=place.cluster.master_said)


@pytest.fixture
def archive_proxy(place: Place, versitygw: ObjectServer) -> Iterator[KillingProxy]:
    with KillingProxy(place.cluster, versitygw.port) as proxy:
        yield proxy


def archive_scene(
    place: Place, server: ObjectServer, proxy: KillingProxy, topic: str, *, segments: int = SEGMENTS
) -> ArchiveScene:
    """An archive in a bucket, which the cluster reaches through the proxy and this process without it."""
    lake = server.settings()
    seen_at = replace(lake, endpoint=proxy.endpoint)
    east, west = place.source.reachable_servers, place.destination.reachable_servers
    return ArchiveScene(place.cluster, topic, place=lake, seen_at=seen_at, east=east, west=west, segments=segments)


def archive_scene_in_a_folder(place: Place, topic: str, *, segments: int) -> ArchiveScene:
    """An archive in a folder that all workers share."""
    root = place.cluster.folder / f"lake-{topic}"
    root.mkdir()
    lake = FilesystemSettings(root=root)
    east, west = place.source.reachable_servers, place.destination.reachable_servers
    return ArchiveScene(place.cluster, topic, place=lake, seen_at=root, east=east, west=west, segments=segments)


@dataclass(frozen=True)
class Moment:
    """When a worker dies: at its ``after``-th request of a kind, which the store has done by then or never hears of."""

    kind: str
    after: int = 0
    is_done: bool = False


@pytest.mark.parametrize(
    ("verb", "moment"),
    [
        (restore, Moment("read segment", after=2)),
        (query, Moment("read segment", after=2)),
        (snapshot, Moment("create segment")),  # with it go the blocks of the shuffle that lay there
        (merge, Moment("create segment", is_done=True)),
        (erase, Moment("create segment")),
    ],
)
def test_what_is_done_with_an_archive_comes_out_right_though_the_worker_that_does_it_is_killed(
    place: Place,
    session: EngineSession,
    versitygw: ObjectServer,
    archive_proxy: KillingProxy,
    topic_name: str,
    verb: Verb,
    moment: Moment,
) -> None:
    scene = archive_scene(place, versitygw, archive_proxy, topic_name)
    await_both_workers(place, session)
    archive_proxy.arm(moment.kind, after=moment.after, is_done=moment.is_done)
    verb(scene, session)
    assert len(archive_proxy.killed) == 1
    if verb is merge:
        retain(scene)


def holding(folder: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Returns what stops each task in the middle of its rows; it travels whole, being local to a function."""

    def hold(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import socket
        import time
        from pathlib import Path

        for number, batch in enumerate(batches):
            yield batch
            if number == 0:
                Path(folder, f"{socket.gethostname()} {os.getpid()}").touch()
                while not Path(folder, "until").exists():
                    time.sleep(0.05)

    return hold


def worker_noted(cluster: SparkCluster, note: str) -> SparkWorker:
    host, pid = note.split(" ")
    for worker in cluster.running():
        if worker.name == host if cluster.is_isolated else int(pid) in {each.pid for each in worker.python_workers()}:
            return worker
    raise AssertionError(f"no worker has task {note}")


@pytest.mark.parametrize("what", ["archive", "live topic"])
def test_rows_of_a_dataframe_are_there_once_though_a_worker_that_reads_them_is_killed(
    place: Place,
    session: EngineSession,
    versitygw: ObjectServer,
    archive_proxy: KillingProxy,
    topic_name: str,
    what: str,
) -> None:
    register(session.spark)
    read = session.spark.read.format("mirrorlake").option("topics", topic_name).option("minPartitions", LANES + 1)
    if what == "archive":
        scene = archive_scene(place, versitygw, archive_proxy, topic_name)
        frame, expected = read.option("config", str(scene.config)).option("store", "lake").load(), scene.records
    else:
        create_topic(place.source.bootstrap_servers, topic_name, LANES + 1)
        for number in range(LANES + 1):
            append(place.source.bootstrap_servers, topic_name, number, simple_records(500, start=1000 * number))
        frame = read.option("kafka.bootstrap.servers", place.source.reachable_servers).load()
        expected = {n: consume(place.source.bootstrap_servers, topic_name, n) for n in range(LANES + 1)}
    folder = place.cluster.folder / f"held-{topic_name}"
    folder.mkdir()
    await_both_workers(place, session)
    held = frame.mapInArrow(holding(str(folder)), frame.schema)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(held.collect)
        wait_until(lambda: len([*folder.iterdir()]) == LANES + 1 or reading.done(), "a task in every slot")
        worker_noted(place.cluster, next(folder.iterdir()).name).kill()
        place.cluster.add_worker()
        (folder / "until").touch()
        rows = reading.result(120.0)
    found: Records = {}
    for row in rows:
        headers = tuple((each.key, each.value and bytes(each.value)) for each in row.headers)
        time_ms = round(row.timestamp.timestamp() * 1000)
        found.setdefault(row.partition, {})[row.offset] = Record(time_ms, bytes(row.key), bytes(row.value), headers)
    assert_equal(expected, found)
    assert len(rows) == sum(len(records) for records in found.values()), "something is there twice"


def test_rows_are_read_where_the_archive_is_and_a_host_without_it_is_named(
    place: Place, session: EngineSession, tmp_path: Path
) -> None:
    if not place.cluster.is_isolated:
        pytest.skip(f"all workers have the same folders: {why_not_isolated()}")
    shared, here = place.cluster.folder / f"lake-{tmp_path.name}", tmp_path / "lake"
    shared.mkdir()
    write_segment(shared, "orders", 0, 0, 20)
    mark_archive(shared, {"orders": {0: 20}})
    here.symlink_to(shared)
    await_both_workers(place, session)
    register(session.spark)
    orders = session.spark.read.format("mirrorlake").option("store", here.as_uri()).option("topics", "orders")

    with pytest.raises(PySparkException, match=rf"the executor on worker-\d+ cannot read this: .*no folder {here}"):
        orders.load().collect()

    (fit, *_) = living(session.jobs)
    at = f"executor_{fit.address}_{fit.id}"
    link = json.dumps({"link": str(here), "to": str(shared)}).encode()
    assert run_lease(session.jobs, "engine_works:make_link", link, description="link", place=at) == []
    assert [row.offset for row in orders.load().collect()] == [n for n in range(20) if n % 10 != 7]


class Killer:
    """Kills workers of a cluster at random, one after the other, until left; each gets a successor at once."""

    def __init__(self, cluster: SparkCluster, chance: random.Random, *, kills_max: int) -> None:
        self._cluster, self._chance, self._kills_max = cluster, chance, kills_max
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._kill_on)
        self.kills = 0

    def _kill_on(self) -> None:
        while self.kills < self._kills_max and not self._is_over.wait(self._chance.uniform(0.2, 6.0)):
            self._chance.choice(self._cluster.running()).kill()
            self._cluster.add_worker()
            self.kills += 1

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.mark.soak
@pytest.mark.parametrize("store", ["bucket", "folder"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_workers_are_killed_under_them_the_commands_for_archives_end_well(
    place: Place,
    mended: SparkCluster,
    versitygw: ObjectServer,
    archive_proxy: KillingProxy,
    topic_name: str,
    tmp_path: Path,
    store: str,
    seed: int,
) -> None:
    chance = random.Random(seed)
    if store == "bucket":
        scene = archive_scene(place, versitygw, archive_proxy, topic_name, segments=40)
    else:
        scene = archive_scene_in_a_folder(place, topic_name, segments=40)
    rows, kills = scene.folder / "rows.json", 0

    def run(*arguments: str, code: int = 0) -> None:
        nonlocal kills
        with ServiceProcess(*arguments, folder=tmp_path) as process:
            process.await_words("executors ready")
            with Killer(mended, chance, kills_max=2) as killer:
                assert process.exit_code() == code, process.said()
            kills += killer.kills
        wait_until(lambda: all(worker.is_running for worker in mended.running()[-2:]), "two workers")

    given = ("-c", str(scene.config), "--topic", topic_name)
    query_text = f"select partition, offset, key, value from lake.`{topic_name}`"
    run("sql", "-c", str(scene.config), query_text, "--format", "json", "--output", str(rows))
    found = sorted((row["partition"], row["offset"]) for row in map(json.loads, rows.read_text().splitlines()))
    assert found == [(partition, offset) for partition, records in scene.records.items() for offset in records]
    run("archive", "snapshot", *given)
    scene.assert_snapshots()
    back = f"{topic_name}.back"
    asked = ("--store", "lake", "--topics", topic_name, "--to", "west", "--rename", back, "--name", back, "--yes")
    run("restore", "-c", str(scene.config), *asked)
    scene.assert_restored(back)
    run("archive", "merge", *given)
    assert_equal(scene.records, scene.held())
    run("archive", "erase", *given, "--key", ERASED.decode(), code=WAITS_CODE)
    assert_equal(scene.without_erased(), scene.held())
    assert kills > 0
    print(f"seed {seed}, {store}: {kills} workers killed")


@pytest.mark.soak
def test_a_second_driver_is_refused_or_takes_over_as_on_one_machine(scene: Scene) -> None:
    for number in range(PARTITIONS):
        append(scene.source, scene.topic, number, simple_records(100))
    with scene.run() as service:
        scene.await_progress(service)
        with scene.run("--once") as stray:
            assert stray.exit_code() == EXIT_SUPERSEDED, stray.said()
            assert "another process serves the mirror" in stray.said()
        # What slots the service leaves are enough for it.
        with ServiceProcess("verify", "-c", str(scene.config), folder=scene.folder) as verification:
            assert verification.exit_code() == 0, verification.said()
            verification.assert_nothing_left()
        with scene.run() as successor:
            assert service.exit_code() == EXIT_SUPERSEDED, service.said()
            append(scene.source, scene.topic, 0, simple_records(100, start=100))
            wait_until(lambda: log_end(scene.destination, scene.topic) == 200, "the copy", log=successor.said)
            successor.stop()
            assert successor.exit_code() == 0, successor.said()
            successor.assert_nothing_left()
    scene.assert_equal()
