"""The end of ``mirrorlake run`` as asked for, and the flush that belongs to it."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import NewKafka, RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.lifecycle.endings import EXIT_FAILED
from support.copies import (
    archive_position,
    archived_records,
    assert_equal_in_archive,
    assert_equal_in_kafka,
    create_topic,
    log_end,
    source_end,
    wait_until,
)
from support.mirrors import write_config
from support.records import in_batches, produce, simple_records
from support.service_process import ServiceProcess
from support.topics import make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


class Lake:
    """A source topic, and a service that archives it and has no reason to flush by itself."""

    def __init__(self, source: EmbeddedKafka, topic: str, folder: Path, run_async: RunAsync) -> None:
        self.source, self.topic, self.folder, self.root = source.bootstrap_servers, topic, folder, folder / "lake"
        self.written = 0
        self._run_async = run_async
        create_topic(self.source, topic)

    def write(self, count: int) -> None:
        records = simple_records(count, start=self.written, timestamp=int(time.time() * 1000))
        self._run_async(produce(self.source, self.topic, 0, list(in_batches(records, 50))))
        self.written += count

    def run(self, *, max_time: str = "1h", stop_timeout: str = "60s", without_spark: bool = False) -> ServiceProcess:
        config = write_config(
            self.folder / "mirror.yaml",
            source=self.source,
            topic=self.topic,
            lake=self.root,
            max_time=max_time,
            more_engine=f", stop-timeout: {stop_timeout}",
        )
        return ServiceProcess("run", "-c", str(config), folder=self.folder, without_spark=without_spark)

    def await_serving(self, service: ServiceProcess) -> None:
        """Waits until the first heartbeat: the engine is up, and the lanes ask for leases."""
        service.await_words("heartbeat")

    @property
    def position(self) -> int:
        return archive_position(self.root, self.topic)


@pytest.fixture
def lake(source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync) -> Lake:
    return Lake(source_kafka, topic_name, tmp_path, run_async)


def to_process(service: ServiceProcess, number: int) -> None:
    service.signal(number)


def to_group(service: ServiceProcess, number: int) -> None:
    service.signal_group(number)


def to_everyone(service: ServiceProcess, number: int) -> None:
    for process in service.processes():
        process.send_signal(number)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("number", "send", "without_spark"),
    [
        (signal.SIGTERM, to_process, True),
        (signal.SIGTERM, to_group, True),  # a terminal, or a shell that ends
        pytest.param(signal.SIGTERM, to_everyone, False, marks=pytest.mark.spark),  # systemd
        pytest.param(signal.SIGINT, to_group, False, marks=pytest.mark.spark),  # Ctrl-C
        pytest.param(signal.SIGHUP, to_group, False, marks=pytest.mark.spark),  # a terminal that closes
    ],
)
def test_a_graceful_stop_archives_everything_the_source_had_when_the_signal_came(
    lake: Lake, number: signal.Signals, send: Callable[[ServiceProcess, int], None], without_spark: bool
) -> None:
    lake.write(200)
    with lake.run(without_spark=without_spark) as service:
        lake.await_serving(service)
        assert lake.position == 0
        lake.write(150)  # the last of them a moment before the signal
        send(service, number)
        assert service.exit_code() == 0, service.said()
        service.assert_nothing_left()
    assert assert_equal_in_archive(lake.source, lake.root, lake.topic) == 350
    assert lake.position == source_end(lake.source, lake.topic) == 350


def test_a_graceful_stop_waits_for_every_partition_of_every_mirror(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, root = source_kafka.bootstrap_servers, tmp_path / "lake"
    topics = [f"{topic_name}-{letter}" for letter in "abc"]
    records = simple_records(40, timestamp=int(time.time() * 1000))
    for topic in topics:
        make_topic(source, topic, records[:10], records[:40], records[:25])
    archive = "destinations: [{type: archive, store: lake, flush: {max-time: 1h}}]"
    config = write_config(
        tmp_path / "mirror.yaml",
        source=source,
        topic=topics[0],
        destination=destination_kafka.bootstrap_servers,
        lake=root,
        more_mirrors="\n".join(
            f"  - {{name: {topic}, source: {{cluster: east, topics: [{topic}]}}, {archive}}}" for topic in topics[1:]
        ),
    )
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        service.await_words("heartbeat", times=2)
        service.stop()
        assert service.exit_code() == 0, service.said()
        service.assert_nothing_left()
    for topic in topics:
        assert assert_equal_in_archive(source, root, topic, 3) == 75
    assert service.said().count("trigger=explicit") == 9


@pytest.mark.spark
def test_a_second_signal_ends_the_service_at_once_and_leaves_nothing_running_and_nothing_broken(lake: Lake) -> None:
    lake.write(300)
    with lake.run() as service:
        lake.await_serving(service)
        service.stop()
        service.signal(signal.SIGTERM)
        # The graceful end may have been quicker than the second signal.
        assert service.exit_code() in (128 + signal.SIGTERM, 0), service.said()
        service.assert_nothing_left()
    position = lake.position
    assert sorted(archived_records(lake.root, lake.topic)) == list(range(position))


def test_a_graceful_stop_that_cannot_archive_everything_says_so_and_fails(
    new_kafka: NewKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    source = new_kafka()
    lake = Lake(source, topic_name, tmp_path, run_async)
    lake.write(40)
    with lake.run(without_spark=True) as service:
        lake.await_serving(service)
        service.await_words("lag=40")
        source.kill()
        service.stop()
        assert service.exit_code() == EXIT_FAILED, service.said()
        assert "the graceful stop could not archive everything" in service.said()
        assert f"{lake.topic}-0 to lake, offsets 0 to 39" in service.said()
        service.assert_nothing_left()
    assert lake.position == 0


@pytest.mark.spark
def test_a_graceful_stop_that_takes_too_long_gives_up_and_says_what_is_left(
    new_kafka: NewKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    source = new_kafka()
    lake = Lake(source, topic_name, tmp_path, run_async)
    lake.write(40)
    with lake.run(stop_timeout="1s") as service:
        lake.await_serving(service)
        service.await_words("lag=40")
        source.pause()  # connections stay, and nothing answers: leases wait for their own, longer time
        asked = time.monotonic()
        service.stop()
        assert service.exit_code() == EXIT_FAILED, service.said()
        assert time.monotonic() - asked < 30
        assert "graceful stop gave up" in service.said()
        assert f"{lake.topic}-0 to lake, offsets 0 to 39" in service.said()
        service.assert_nothing_left()
    source.resume()
    assert lake.position == 0


def test_an_idle_source_is_archived_by_time(lake: Lake) -> None:
    lake.write(30)
    with lake.run(max_time="2s", without_spark=True) as service:
        wait_until(lambda: lake.position == 30, "the first flush", log=service.said)
        lake.write(12)
        wait_until(lambda: lake.position == 42, "the second flush", log=service.said)
        service.stop()
        assert service.exit_code() == 0, service.said()
    assert assert_equal_in_archive(lake.source, lake.root, lake.topic) == 42


@pytest.mark.spark
def test_a_graceful_stop_does_not_wait_for_a_long_lease_to_run_its_time(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name)
    run_async(produce(source, topic_name, 0, in_batches(simple_records(200), 20)))
    # A stop that waited for the lease would give up after a minute, with exit code 1.
    config = write_config(
        tmp_path / "mirror.yaml", source=source, topic=topic_name, destination=destination, lease="10m"
    )
    with ServiceProcess("run", "-c", str(config), folder=tmp_path) as service:
        wait_until(lambda: log_end(destination, topic_name) == 200, "the copy")
        service.stop()
        assert service.exit_code() == 0, service.said()
        service.assert_nothing_left()
    assert assert_equal_in_kafka(source, destination, topic_name) == 200
    assert "trying again" not in service.said()
