"""A mirror with a limit whose worker, JVM and driver are killed: it reads one answer more at most, and stands again."""

from pathlib import Path

import pytest

from fault.test_health import Asked, free_port
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import write_yaml
from support.copies import assert_equal_in_kafka, log_end, wait_until
from support.records import simple_records
from support.service_process import ServiceProcess
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

RECORD_BYTES = 1000
LIMIT = ", limit: {bytes-per-second: 1}"
"""One record is paid for in a quarter of an hour: longer than the test takes, on however busy a machine."""


class Limited:
    """A service of one partition with a limit."""

    def __init__(self, east: str, west: str, topic: str, folder: Path) -> None:
        self.east, self.west, self.topic, self.folder = east, west, topic, folder
        self.asked = Asked(free_port())
        self.appended = 0

    def config(self, limit: str = LIMIT) -> Path:
        return write_yaml(
            self.folder / "mirror.yaml",
            f'clusters: {{east: {{bootstrap-servers: "{self.east}"}}, west: {{bootstrap-servers: "{self.west}"}}}}\n'
            f"mirrors: [{{name: {self.topic}, source: {{cluster: east, topics: [{self.topic}]}}, "
            f"destinations: [{{type: kafka, cluster: west}}]{limit}}}]\n"
            f"service: {{metrics: '{self.asked.environ['MIRRORLAKE_METRICS']}', heartbeat: 1s}}\n"
            "engine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
        )

    def run(self, *more: str, limit: str = LIMIT, without_spark: bool = False) -> ServiceProcess:
        arguments = ("run", "-c", str(self.config(limit)), *more)
        return ServiceProcess(*arguments, folder=self.folder, without_spark=without_spark)

    def append(self, count: int) -> None:
        append(self.east, self.topic, 0, simple_records(count, start=self.appended, size=RECORD_BYTES))
        self.appended += count

    @property
    def leases(self) -> float:
        """How many have ended, as far as this process knows; 0 while it does not answer."""
        return sum(float(value) for value in self.asked.series("mirrorlake_lease_seconds_count").values())

    def await_leases(self, count: int, service: ServiceProcess) -> None:
        """Waits until so many more have ended."""
        wanted = self.leases + count
        wait_until(lambda: self.leases >= wanted, f"{count} leases to end", log=service.said)

    def await_stands(self, above: int, service: ServiceProcess) -> int:
        """Waits until something was read, and the lease that did it has ended; returns where the copy ends."""
        wait_until(lambda: log_end(self.west, self.topic) > above, "an answer to be read", log=service.said)
        self.await_leases(2, service)
        return log_end(self.west, self.topic)

    def assert_stands(self, at: int, service: ServiceProcess) -> None:
        """Whole leases begin and end in which records wait and none is read."""
        self.append(7)
        self.await_leases(2, service)
        assert log_end(self.west, self.topic) == at, service.said()


def test_whatever_is_killed_a_limit_holds_again_after_one_answer_and_no_record_is_twice_or_lost(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    limited = Limited(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name, tmp_path)
    make_topic(limited.east, topic_name, [])
    limited.append(20)
    with limited.run() as service:
        at = limited.await_stands(0, service)
        assert service.kill_python_workers()
        limited.assert_stands(at, service)  # the driver knows what was owed

        service.jvm().kill()
        service.await_words("Spark's JVM died: starting again")
        at = limited.await_stands(at, service)  # a process that starts owes nothing
        limited.assert_stands(at, service)
        service.kill()
        service.assert_nothing_left()
    with limited.run(without_spark=True) as service:
        at = limited.await_stands(at, service)
        limited.assert_stands(at, service)
        service.stop()
        assert service.exit_code() == 0, service.said()
    with limited.run("--once", limit="", without_spark=True) as service:
        assert service.exit_code() == 0, service.said()
    assert assert_equal_in_kafka(limited.east, limited.west, topic_name) == limited.appended
