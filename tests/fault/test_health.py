"""What ``/healthz`` and ``/readyz`` say of a running service: nothing but what is so."""

import json
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.copies import create_topic, wait_until
from support.mirrors import write_config
from support.proxy import Proxy
from support.records import simple_records
from support.service_process import ServiceProcess
from support.topics import append

pytestmark = pytest.mark.kafka

OK: tuple[int, list[str]] = (200, [])


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Asked:
    """A service's endpoint, as a kubelet and Prometheus ask it."""

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def environ(self) -> dict[str, str]:
        return {"MIRRORLAKE_METRICS": f"127.0.0.1:{self._port}"}

    def get(self, path: str) -> tuple[int, str]:
        """Status, and body; 0 where nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def verdict(self, path: str) -> tuple[int, list[str]]:
        """Status, and the reasons that are given."""
        status, body = self.get(path)
        return status, json.loads(body)["reasons"] if body else []

    def series(self, name: str) -> dict[str, str]:
        """Values of a series by its labels, as text."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.split("{")[0].split(" ")[0] == name]
        return {line.rsplit(" ", 1)[0][len(name) :]: line.rsplit(" ", 1)[1] for line in lines}

    def await_verdict(self, path: str, status: int, words: str, service: ServiceProcess) -> None:
        def is_so() -> bool:
            found, reasons = self.verdict(path)
            return found == status and words in " ".join(reasons)

        wait_until(is_so, f"{path} to say {status} {words!r}", log=lambda: f"{self.get(path)}\n{service.said()}")


@pytest.fixture
def asked() -> Asked:
    return Asked(free_port())


@pytest.mark.slow
@pytest.mark.spark
def test_a_service_is_well_until_its_jvm_is_frozen_and_ready_until_its_source_is_away(
    proxy: Proxy, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, asked: Asked
) -> None:
    create_topic(proxy.address, topic_name, 1)
    append(proxy.address, topic_name, 0, simple_records(5))
    config = write_config(
        tmp_path / "mirror.yaml",
        source=proxy.address,
        topic=topic_name,
        destination=destination_kafka.bootstrap_servers,
    )
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, environ=asked.environ) as service:
        asked.await_verdict("/readyz", 200, "", service)
        assert asked.verdict("/healthz") == OK
        assert [asked.get(path)[0] for path in ("/metrics", "/", "/health", "/metrics/x")] == [200, 404, 404, 404]
        wait_until(lambda: list(asked.series("mirrorlake_lag_seconds").values()) == ["0.0"], "the copy to be complete")

        proxy.refuses = True
        proxy.reset_connections()
        asked.await_verdict("/readyz", 503, "source east has not answered", service)
        assert asked.series("mirrorlake_lag_seconds") == {}, "how far behind nobody knows"
        assert asked.series("mirrorlake_lag_records") == {}
        assert asked.verdict("/healthz") == OK, "a source that is away is no reason to be killed"
        service.await_words("lag=unknown")
        proxy.refuses = False
        asked.await_verdict("/readyz", 200, "", service)

        service.jvm().suspend()
        service.await_words("Spark's JVM does not answer")
        asked.await_verdict("/healthz", 503, "Spark has not answered", service)
        service.jvm().resume()
        service.await_words("Spark's JVM answers again")
        asked.await_verdict("/healthz", 200, "", service)
        service.stop()
        assert service.exit_code() == 0, service.said()


def test_a_service_that_has_not_seen_its_source_yet_shows_no_number_and_is_not_ready(
    destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, asked: Asked
) -> None:
    config = write_config(
        tmp_path / "mirror.yaml",
        source=f"127.0.0.1:{free_port()}",
        topic=topic_name,
        destination=destination_kafka.bootstrap_servers,
    )
    with ServiceProcess(
        "run", "-c", str(config), folder=tmp_path, environ=asked.environ, without_spark=True
    ) as service:
        asked.await_verdict("/readyz", 503, f"{topic_name}: {topic_name} → west", service)
        service.await_words("heartbeat")
        assert "lag=unknown" in service.said()
        assert "lag=0" not in service.said()
        assert asked.verdict("/healthz") == OK
        for name in ("mirrorlake_lag_seconds", "mirrorlake_lag_records", "mirrorlake_source_end_offset"):
            assert asked.series(name) == {}


def test_a_service_whose_partitions_all_stand_parked_is_not_ready_and_says_what_parked_them(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, asked: Asked
) -> None:
    config = write_config(
        tmp_path / "mirror.yaml",
        source=source_kafka.bootstrap_servers,
        topic=topic_name,
        destination=destination_kafka.bootstrap_servers,
    )
    with ServiceProcess(
        "run", "-c", str(config), folder=tmp_path, environ=asked.environ, without_spark=True
    ) as service:
        asked.await_verdict("/readyz", 503, "all 1 partitions are parked: missing (1)", service)
        assert asked.verdict("/healthz") == OK
        assert asked.series("mirrorlake_parked_partitions") == {"": "1.0"}
        # Series of the whole process, and none that a form that is not used would have.
        names = {line.split("{")[0].split(" ")[0] for line in asked.get("/metrics")[1].splitlines() if line[0] != "#"}
        assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"} <= names
        assert not [name for name in names if name.startswith("mirror_v3_") or name.endswith("_created")]
