"""``mirrorlake run`` under load, killed and killed again: the copies come out equal, and nothing stays behind."""

import contextlib
import os
import random
import time
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.lifecycle.endings import EXIT_SUPERSEDED
from support.copies import (
    Lake,
    archive_position,
    assert_equal_in_archive,
    assert_equal_in_kafka,
    create_topic,
    log_end,
    source_end,
    wait_until,
)
from support.load import Load
from support.mirrors import write_config
from support.records import simple_records
from support.service_process import ServiceProcess
from support.topics import append

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 2


class Scene:
    """A source topic, and a configuration that copies it to an archive, and to Kafka where there is a destination."""

    def __init__(
        self,
        source: EmbeddedKafka,
        destination: EmbeddedKafka | None,
        topic: str,
        folder: Path,
        *,
        lake: Lake | None = None,
        without_spark: bool = False,
        more_archive: str = "",
    ) -> None:
        self.source = source.bootstrap_servers
        self.destination = destination.bootstrap_servers if destination else ""
        self.topic, self.folder, self._without_spark = topic, folder, without_spark
        self.lake: Lake = lake or folder / "lake"
        self._more_archive = more_archive
        self.config = self.write_config("mirror", max_records=500)
        create_topic(self.source, topic, PARTITIONS)

    def write_config(
        self, name: str, *, max_records: int = 1_000_000, max_time: str = "1s", with_kafka: bool = True
    ) -> Path:
        return write_config(
            self.folder / f"{name}.yaml",
            source=self.source,
            topic=self.topic,
            destination=self.destination or None if with_kafka else None,
            lake=self.lake,
            max_records=max_records,
            max_time=max_time,
            more_archive=self._more_archive,
        )

    def load(self) -> Load:
        return Load(self.source, self.topic, partitions=PARTITIONS)

    def run(self, *more: str, config: Path | None = None) -> ServiceProcess:
        arguments = ("run", "-c", str(config or self.config), *more)
        return ServiceProcess(*arguments, folder=self.folder, without_spark=self._without_spark)

    def positions(self, *, with_kafka: bool) -> list[int]:
        """Sums over the partitions of what the archive and the Kafka destination hold."""
        in_archive = sum(archive_position(self.lake, self.topic, n) for n in range(PARTITIONS))
        if not (with_kafka and self.destination):
            return [in_archive]
        return [in_archive, sum(log_end(self.destination, self.topic, n) for n in range(PARTITIONS))]

    def await_progress(self, service: ServiceProcess, *, with_kafka: bool = True) -> None:
        """Waits until every destination has grown."""
        before = self.positions(with_kafka=with_kafka)

        def has_grown() -> bool:
            now = self.positions(with_kafka=with_kafka)
            return not service.is_running or all(new > old for new, old in zip(now, before, strict=True))

        wait_until(has_grown, "progress", log=service.said)
        assert service.is_running, service.said()

    def finish(self, service: ServiceProcess, *, with_kafka: bool = True) -> None:
        """A graceful stop, with nobody writing any more, leaves everything equal and nothing running.

        It flushes archives to the source's end. Leases that copy to Kafka end at once, wherever they are, so the copy
        is waited for.
        """
        if with_kafka and self.destination:
            wait_until(lambda: not service.is_running or self._is_copied_to_kafka(), "the copy", log=service.said)
        service.stop()
        assert service.exit_code() == 0, service.said()
        service.assert_nothing_left()
        assert "partition parked" not in service.said()
        self.assert_equal(with_kafka=with_kafka)

    def _is_copied_to_kafka(self) -> bool:
        return all(
            log_end(self.destination, self.topic, n) == source_end(self.source, self.topic, n)
            for n in range(PARTITIONS)
        )

    def complete(self) -> None:
        """A bounded run ends with everything equal: after a service that had no time to."""
        with self.run("--once") as service:
            assert service.exit_code() == 0, service.said()
        self.assert_equal()

    def assert_equal(self, *, with_kafka: bool = True) -> None:
        if with_kafka and self.destination:
            assert assert_equal_in_kafka(self.source, self.destination, self.topic, PARTITIONS) > 0
        assert assert_equal_in_archive(self.source, self.lake, self.topic, PARTITIONS) > 0


@pytest.fixture
def scene(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Scene:
    return Scene(source_kafka, destination_kafka, topic_name, tmp_path)


@pytest.fixture
def scene_without_spark(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> Scene:
    return Scene(source_kafka, destination_kafka, topic_name, tmp_path, without_spark=True)


def kill_again_and_again(scene: Scene, *, lives: int, chance: random.Random) -> None:
    with scene.load():
        for _ in range(lives):
            with scene.run() as service:
                scene.await_progress(service)
                time.sleep(chance.uniform(0.0, 1.5))
                service.kill()
                service.assert_nothing_left()
    scene.complete()


@pytest.mark.spark
def test_a_service_killed_again_and_again_under_load_leaves_nothing_running_and_no_record_twice_or_lost(
    scene: Scene,
) -> None:
    kill_again_and_again(scene, lives=2, chance=random.Random(2))


def test_whatever_a_killed_service_itself_was_at_no_record_is_there_twice_or_lost(scene_without_spark: Scene) -> None:
    """With Spark a worker may come to the end of its write; here it dies in the middle."""
    kill_again_and_again(scene_without_spark, lives=3, chance=random.Random(3))


@pytest.mark.spark
@pytest.mark.soak
def test_a_service_killed_again_and_again_for_a_long_time(scene: Scene) -> None:
    chance = random.Random(int(os.environ.get("SOAK_SEED", "2")))
    give_up_at = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "300"))
    while time.monotonic() < give_up_at:
        kill_again_and_again(scene, lives=10, chance=chance)


def race(scene: Scene, *, seconds: float, with_kafka: bool) -> None:
    """Two processes with different flush settings serve the same destinations for so long under load."""
    small = scene.write_config("small", max_records=70, max_time="1s", with_kafka=with_kafka)
    large = scene.write_config("large", max_records=333, max_time="3s", with_kafka=with_kafka)
    with scene.run(config=small) as first, contextlib.ExitStack() as loading:
        loading.enter_context(scene.load())
        scene.await_progress(first, with_kafka=with_kafka)
        with scene.run(config=large) as second:
            second.await_words("heartbeat")
            scene.await_progress(second, with_kafka=with_kafka)
            if with_kafka:
                # A Kafka destination has one owner: the older process finds that the newer has taken it over.
                assert first.exit_code() == EXIT_SUPERSEDED, first.said()
                assert "mirror exited with error" in first.said()
                assert "mirror task terminated gracefully" not in first.said()
                scene.await_progress(second)
            else:
                time.sleep(seconds)
                first.stop()
                assert first.exit_code() == 0, first.said()
            first.assert_nothing_left()
            assert "partition parked" not in first.said()
            loading.close()
            scene.finish(second, with_kafka=with_kafka)


@pytest.mark.quick
@pytest.mark.parametrize("with_kafka", [False, True], ids=["archive", "kafka-and-archive"])
def test_two_services_on_the_same_destinations_make_one_copy(scene_without_spark: Scene, with_kafka: bool) -> None:
    race(scene_without_spark, seconds=4.0, with_kafka=with_kafka)


@pytest.mark.spark
@pytest.mark.soak
def test_two_services_on_the_same_destinations_for_a_long_time(scene: Scene) -> None:
    race(scene, seconds=float(os.environ.get("SOAK_SECONDS", "300")), with_kafka=False)


@pytest.mark.spark
def test_a_killed_python_worker_is_replaced_and_its_lease_is_done_again(scene: Scene) -> None:
    with scene.run() as service:
        with scene.load():
            scene.await_progress(service)
            for _ in range(3):
                assert service.kill_python_workers()
                scene.await_progress(service)
        scene.finish(service)


@pytest.mark.spark
def test_a_killed_jvm_makes_the_service_start_again_by_itself(scene: Scene) -> None:
    with scene.run() as service:
        with scene.load():
            scene.await_progress(service)
            jvm = service.jvm()
            jvm.kill()
            service.await_words("Spark's JVM died: starting again")
            scene.await_progress(service)
            assert service.jvm().pid != jvm.pid
        scene.finish(service)


@pytest.mark.spark
def test_copies_that_one_lane_serves_are_spread_again_when_its_worker_is_killed(scene: Scene) -> None:
    for partition in range(PARTITIONS):
        append(scene.source, scene.topic, partition, simple_records(20))
    with scene.run() as service:
        service.await_words("one lane serves all copies, as none is behind")
        time.sleep(5.0)  # leases of before have ended
        with scene.load():
            scene.await_progress(service)
            spread_again = "copies are spread over all lanes again"
            while service.is_running and spread_again not in service.said():
                # Over and over, as a worker that dies between two leases takes none with it.
                service.kill_python_workers()
                scene.await_progress(service)
            scene.await_progress(service)
        scene.finish(service)
        assert service.said().count("one lane serves all copies") == 1
