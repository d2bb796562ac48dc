"""`spark-submit` starts the program, gives it master and settings, and its end is the program's."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.find_spark_home import _find_spark_home

import mirrorlake.cli.submit
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.copies import (
    archive_position,
    assert_equal_in_archive,
    assert_equal_in_kafka,
    create_topic,
    log_end,
    wait_until,
)
from support.packed_environment import packed_environment
from support.records import simple_records
from support.service_process import ServiceProcess
from support.spark_cluster import SparkCluster
from support.topics import append

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

RECORDS = 500


class Submitted:
    """One topic that is copied to another broker, and archived when somebody says stop."""

    def __init__(self, source: EmbeddedKafka, destination: EmbeddedKafka, topic: str, folder: Path) -> None:
        self.topic, self.folder = topic, folder
        self.source, self.destination = source.bootstrap_servers, destination.bootstrap_servers
        self.lake = folder / "lake"
        self.lake.mkdir()
        self.config = folder / "mirror.yaml"
        self.write()
        create_topic(self.source, topic)
        append(self.source, topic, 0, simple_records(RECORDS))

    def write(self, **engine: object) -> None:
        tree = {
            "clusters": {
                "east": {"bootstrap-servers": self.source},
                "west": {"bootstrap-servers": self.destination},
            },
            "stores": {"lake": {"type": "filesystem", "root": str(self.lake)}},
            "mirrors": [
                {
                    "name": self.topic,
                    "source": {"cluster": "east", "topics": [self.topic]},
                    "destinations": [
                        {"type": "kafka", "cluster": "west"},
                        {"type": "archive", "store": "lake", "flush": {"max-time": "1h"}},
                    ],
                }
            ],
            "engine": {"lanes": 1, "lease": "2s", "memory": "512MiB", **engine},
        }
        self.config.write_text(json.dumps(tree))

    def submit(self, options: list[str], *command: str) -> ServiceProcess:
        return ServiceProcess(
            *command,
            "-c",
            str(self.config),
            folder=self.folder,
            environ={"PYSPARK_PYTHON": sys.executable},
            program=[f"{_find_spark_home()}/bin/spark-submit", *options, mirrorlake.cli.submit.__file__],
        )

    def assert_equal(self) -> None:
        assert assert_equal_in_kafka(self.source, self.destination, self.topic) == RECORDS
        assert assert_equal_in_archive(self.source, self.lake, self.topic) == RECORDS


@pytest.fixture
def submitted(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> Submitted:
    return Submitted(source_kafka, destination_kafka, topic_name, tmp_path)


@pytest.fixture(scope="module")
def cluster(kafka_libs: Path) -> Iterator[SparkCluster]:
    with SparkCluster(workers=1, cores=2, is_isolated=False) as cluster:
        yield cluster


def of_cluster(cluster: SparkCluster, folder: Path) -> list[str]:
    """What `spark-submit` is told of a cluster: all that a file would say in `engine`."""
    conf = {
        name: str(value).lower() if isinstance(value, bool) else value for name, value in cluster.spark_conf().items()
    }
    conf["spark.authenticate.secret"] = cluster.secret
    properties = folder / "submit.conf"
    properties.touch(0o600)
    properties.write_text("".join(f"{name} {value}\n" for name, value in conf.items()))
    return ["--master", cluster.master, "--properties-file", str(properties)]


def commands() -> list[str]:
    """The command lines of all processes of this machine."""
    return [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]


def wait_for_command(begin: str, process: ServiceProcess) -> bool:
    """Whether a command that begins so runs at some time while a process does."""
    seen = False

    def is_seen() -> bool:
        nonlocal seen
        seen = any(each.startswith(begin) for each in commands())
        return seen or not process.is_running

    wait_until(is_seen, f"{begin!r} to run", log=process.said, patience_seconds=600.0)
    return seen


def test_master_and_settings_of_spark_submit_are_those_of_the_session(
    submitted: Submitted, cluster: SparkCluster
) -> None:
    with submitted.submit(of_cluster(cluster, submitted.folder), "run", "--once") as once:
        wait_until(lambda: cluster.workers[0].executors() or not once.is_running, "an executor", log=once.said)
        running = commands()
        assert once.exit_code() == 0, once.said()
        once.assert_nothing_left()

    submitted.assert_equal()
    assert "executors ready" in once.said()
    assert cluster.secret not in once.said()
    assert not [command for command in running if cluster.secret in command]


def test_executors_take_all_they_need_from_a_packed_environment(submitted: Submitted, cluster: SparkCluster) -> None:
    submitted.write(**{"start-timeout": "10m"})  # Spark brings 270 MB
    archive, packed = packed_environment(submitted.folder), "./environment/bin/python -m mirrorlake.pipeline.daemon"
    options = [
        *of_cluster(cluster, submitted.folder),
        *("--archives", f"{archive}#environment"),
        *("--conf", "spark.pyspark.driver.python=" + sys.executable),
        *("--conf", "spark.pyspark.python=./environment/bin/python"),
    ]
    with submitted.submit(options, "run", "--once") as once:
        seen = wait_for_command(packed, once)
        once.await_words("executors ready")
        assert once.exit_code() == 0, once.said()
        once.assert_nothing_left()

    submitted.assert_equal()
    assert seen, once.said()


@pytest.mark.parametrize(
    ("is_group", "number", "code"),
    [(False, signal.SIGTERM, 143), (True, signal.SIGTERM, 143), (True, signal.SIGINT, 130)],
    ids=["SIGTERM to spark-submit", "SIGTERM to all, as systemd's", "Ctrl-C"],
)
def test_a_signal_to_spark_submit_ends_the_service_in_order(
    submitted: Submitted, is_group: bool, number: int, code: int
) -> None:
    with submitted.submit(["--master", "local[4]"], "run") as service:
        service.await_words("heartbeat")
        assert archive_position(submitted.lake, submitted.topic) == 0
        if is_group:
            service.signal_group(number)
        else:
            service.signal(number)
        assert service.exit_code() == code, service.said()
        # It had waited for the program, which had flushed.
        submitted.assert_equal()
        service.assert_nothing_left()
    assert "Traceback" not in service.said()


def test_the_program_ends_in_order_where_spark_submit_is_killed(submitted: Submitted) -> None:
    with submitted.submit([], "run") as service:
        service.await_words("heartbeat")
        service.kill()
        service.assert_nothing_left()
    submitted.assert_equal()


def test_spark_starts_again_below_spark_submit_when_its_jvm_has_died(submitted: Submitted) -> None:
    with submitted.submit([], "run") as service:
        service.await_words("caught up")
        (jvm,) = [each for each in psutil.Process(service.pid).children(recursive=True) if each.name() == "java"]
        jvm.kill()
        service.await_words("starting again")
        append(submitted.source, submitted.topic, 0, simple_records(100, start=RECORDS))
        wait_until(
            lambda: log_end(submitted.destination, submitted.topic) == RECORDS + 100, "the rest", log=service.said
        )
        service.signal(signal.SIGTERM)
        assert service.exit_code() == 143, service.said()
        service.assert_nothing_left()


def test_what_the_engine_decides_is_refused_of_spark_submit_too(submitted: Submitted) -> None:
    # `--total-executor-cores` is the first of them, where the master is a standalone one; the memory is the launcher's.
    options = ["--conf", "spark.cores.max=9", "--conf", "spark.ui.enabled=true", "--driver-memory", "600m"]
    with submitted.submit(options, "validate") as refused:
        assert refused.exit_code() == 1
    lines = [line for line in refused.said().splitlines() if line.startswith("spark-submit: ")]
    assert [line.partition(" (")[0] for line in lines] == [
        "spark-submit: spark.cores.max: cannot be set",
        "spark-submit: spark.ui.enabled: cannot be set",
    ]


def test_without_spark_submit_its_program_says_what_it_is_for(tmp_path: Path) -> None:
    program = mirrorlake.cli.submit.__file__
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, env=kept, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: this is the program for spark-submit, which has not started it",
        f"hint: spark-submit [its options] {program} run -c FILE; without spark-submit: mirrorlake run -c FILE",
    ]
