"""The same program on a standalone cluster of two workers, each with namespaces of its own where that can be had."""

import json
import logging
import re
import signal
import socket
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

import mirrorlake
from mirrorlake.config.spark_settings import SHARED_SECRET
from mirrorlake.embedded.kafka_server import free_port
from mirrorlake.offsets import TopicPartition
from mirrorlake.pipeline.cluster import executors as executors_module
from mirrorlake.pipeline.cluster.executors import ExecutorUnusableError, check_executors, living
from mirrorlake.pipeline.cluster.needs import Needs, RootSeen
from mirrorlake.pipeline.session import EngineSession, build_session
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.secret import Secret
from mirrorlake.service.lifecycle.endings import EXIT_SUPERSEDED
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
from support.records import consume, simple_records
from support.service_process import ServiceProcess
from support.spark_cluster import ReachableKafka, SparkCluster, SparkWorker, why_not_isolated
from support.topics import append

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

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
        ReachableKafka(tmp_path_factory.mktemp(name), libs=kafka_libs, host=cluster.host)
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
        service.signal(signal.SIGTERM)
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


def test_a_start_without_executors_is_bounded_and_a_signal_ends_it_at_any_time(scene: Scene) -> None:
    too_large = {**scene.place.cluster.spark_conf(), "spark.executor.memory": "64g"}
    scene.write(**{"spark-conf": too_large, "start-timeout": "15s"})
    with scene.run("--once") as bounded:
        assert bounded.exit_code() == 1
        assert f"no executors from {scene.place.cluster.master} after 15 s" in bounded.said()
        assert "spark.executor.memory" in bounded.said()
        bounded.assert_nothing_left()

    scene.write(**{"spark-conf": too_large, "start-timeout": "1h"})
    registered = scene.place.cluster.master_said().count("Registered app")
    with scene.run() as patient:
        cluster = scene.place.cluster
        wait_until(lambda: cluster.master_said().count("Registered app") > registered, "Spark", log=patient.said)
        patient.signal(signal.SIGTERM)
        assert patient.exit_code() == 0, patient.said()
        assert "stopped before anything was begun" in patient.said()
        patient.assert_nothing_left()


@pytest.fixture(scope="module")
def session(place: Place) -> Iterator[EngineSession]:
    """A session of this process, on all executors; leave it as you found it."""
    plain = {name: str(value).lower() for name, value in place.cluster.spark_conf().items() if name != SHARED_SECRET}
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


def looked_at(session: EngineSession, needs: Needs) -> list[str]:
    """What is wrong with the executors, a line each."""
    with pytest.raises(ExecutorUnusableError) as caught:
        check_executors(session.spark, living(session.spark), needs, python="python", is_stopping=bool)
    return caught.value.message.splitlines()


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
    assert len(lines) == len(living(session.spark)) == 2
    for line in lines:
        assert f"it has mirrorlake {mirrorlake.__version__}, the driver has 9.9" in line
        assert "there is no file /no/such/ca.pem" in line
        assert "the environment variable NO_SUCH_VARIABLE is not set" in line
    assert {line.removeprefix("the executor on ").split(" ")[0] for line in lines} <= hosts(place) | {"127.0.0.1"}
    if place.cluster.is_isolated:
        lines = looked_at(session, Needs(roots=(RootSeen.look(str(tmp_path)),)))
        assert all(f"there is no folder {tmp_path}, the root of an archive" in line for line in lines)
    shared = Needs(roots=(RootSeen.look(str(place.cluster.folder)),), files=(str(place.cluster.secret_file),))
    check_executors(session.spark, living(session.spark), shared, python="python", is_stopping=bool)


def test_a_python_that_is_not_there_is_said_with_its_host(
    place: Place, session: EngineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.spark.sparkContext, "pythonExec", "/no/such/python")
    for line in looked_at(session, Needs()):
        assert "cannot run leases with python" in line
        assert "/no/such/python" in line, line


def test_clocks_are_compared_and_one_that_is_wrong_is_refused(
    session: EngineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session.clock_offsets.keys() == {each.id for each in living(session.spark)}
    assert all(abs(offset) < 1.0 for offset in session.clock_offsets.values())

    there = executors_module._now_of
    monkeypatch.setattr(executors_module, "_now_of", lambda row: there(row) - 30.0)
    for line in looked_at(session, Needs()):
        assert re.fullmatch(r"the clock on .+ is (29|30)\.\d s behind the driver's; 1 s are allowed", line)


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
            successor.signal(signal.SIGTERM)
            assert successor.exit_code() == 0, successor.said()
            successor.assert_nothing_left()
    scene.assert_equal()
