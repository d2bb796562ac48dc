"""``mirrorlake run`` with `compaction: log`, killed under load: on a disk and in a bucket the views come out right."""

import os
import random
import time
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.compaction import create_compacted
from support.copies import Lake, source_end, wait_until
from support.load import Load
from support.mirrors import store_section
from support.object_servers import ObjectServer
from support.records import Record, consume
from support.service_process import ServiceProcess
from support.snapshots import latest, snapshots, view
from support.topics import append

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

KEYS = 50
TOMBSTONES_KEPT_MS = 10_000
"""Flushes while running are nearer to one another than half of it, those before and after a death often are not."""


def changes(count: int, start: int, timestamp: int) -> list[Record]:
    """Keys that come again and again; every fourth record is a tombstone."""
    return [
        Record(timestamp, b"key %d" % (n * n % KEYS), None if n % 4 == 3 else b"value %d" % n)
        for n in range(start, start + count)
    ]


class Scene:
    """A topic that is cleaned all the time, and a configuration that makes snapshots of it in two stores."""

    def __init__(self, source: EmbeddedKafka, server: ObjectServer, topic: str, folder: Path) -> None:
        self.source, self.topic, self.folder = source.bootstrap_servers, topic, folder
        self.lakes: list[Lake] = [folder / "lake", server.settings()]
        (folder / "lake").mkdir()
        create_compacted(self.source, topic, delete_retention_ms=str(TOMBSTONES_KEPT_MS))
        stores = "".join(f"  {name}: {store_section(lake, folder)}\n" for name, lake in self._named())
        archive = "type: archive, compaction: log, flush: {max-time: 1s, max-records: 300}"
        destinations = ", ".join(f"{{{archive}, store: {name}}}" for name, _ in self._named())
        self.config = folder / "mirror.yaml"
        self.config.write_text(
            f"clusters: {{east: {{bootstrap-servers: '{self.source}'}}}}\nstores:\n{stores}"
            f"mirrors:\n  - name: users\n    source: {{cluster: east, topics: [{topic}]}}\n"
            f"    destinations: [{destinations}]\n"
            "engine: {lanes: 2, lease: 2s, memory: 512MiB}\n"
        )

    def _named(self) -> list[tuple[str, Lake]]:
        return list(zip(("disk", "bucket"), self.lakes, strict=True))

    def load(self) -> Load:
        return Load(self.source, self.topic, make=changes)

    def run(self, *more: str) -> ServiceProcess:
        return ServiceProcess("run", "-c", str(self.config), *more, folder=self.folder)

    def positions(self) -> list[int]:
        return [snapshots(lake, self.topic).read_chain().position for lake in self.lakes]

    def await_progress(self, service: ServiceProcess) -> None:
        before = self.positions()
        wait_until(
            lambda: all(new > old for new, old in zip(self.positions(), before, strict=True)),
            "the next snapshots",
            log=service.said,
        )

    def assert_right(self) -> None:
        """A bounded run after one more record ends with what a consumer has who reads everything."""
        append(self.source, self.topic, 0, [Record(int(time.time() * 1000), b"the last", b"record")])
        with self.run("--once") as service:
            assert service.exit_code() == 0, service.said()
        end = source_end(self.source, self.topic)
        assert self.positions() == [end, end]
        expected = latest(consume(self.source, self.topic, 0).items())
        assert len(expected) > 1
        for lake in self.lakes:
            assert view(lake, self.topic) == expected


@pytest.fixture
def scene(source_kafka: EmbeddedKafka, versitygw: ObjectServer, topic_name: str, tmp_path: Path) -> Scene:
    return Scene(source_kafka, versitygw, topic_name, tmp_path)


def kill_a_worker(service: ServiceProcess) -> None:
    assert service.kill_python_workers()


def kill_the_jvm(service: ServiceProcess) -> None:
    words = "Spark's JVM died: starting again"
    before = service.said().count(words)
    service.jvm().kill()
    service.await_words(words, times=before + 1)


def test_views_are_right_after_a_worker_and_then_the_whole_service_were_killed_under_load(scene: Scene) -> None:
    with scene.load(), scene.run() as service:
        scene.await_progress(service)
        kill_a_worker(service)
        scene.await_progress(service)
        time.sleep(random.Random(7).uniform(0.0, 1.0))
        service.kill()
        service.assert_nothing_left()
        assert "partition parked" not in service.said()
    scene.assert_right()


@pytest.mark.soak
def test_views_are_right_however_often_workers_jvm_and_service_are_killed(scene: Scene) -> None:
    chance = random.Random(11)
    ends = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "300"))
    while time.monotonic() < ends:
        with scene.load(), scene.run() as service:
            scene.await_progress(service)
            for kill in chance.choices([kill_a_worker, kill_the_jvm], k=2):
                kill(service)
                scene.await_progress(service)
                time.sleep(chance.uniform(0.0, 1.5))
            if chance.random() < 0.5:
                service.kill()
                service.assert_nothing_left()
            else:
                service.stop()
                assert service.exit_code() == 0, service.said()
            assert "partition parked" not in service.said()
        scene.assert_right()
