"""An archive under a second's flush stays small by itself, beside its leases, through kills and other mergers."""

import io
import random
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fault.test_service_kills import PARTITIONS, Scene
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.copies import source_end, store_of, wait_until
from support.object_servers import ObjectServer
from support.service_process import ServiceProcess

pytestmark = pytest.mark.kafka

MERGES = ", merge: {every: 1s, steps: [{min-age: 0s, max-bytes: 64MiB}], min-files: 2, min-bytes: 0}"

FILES_MAX = 20
"""Of one partition: what came since the last merge, and what doubling leaves. It comes back to that again and again."""


def names(scene: Scene, partition: int) -> list[str]:
    listed = store_of(scene.lake).list(f"{scene.topic}/{partition}")
    return [info.name for info in listed if info.name.endswith(".parquet")]


def await_few_files(scene: Scene, service: ServiceProcess) -> None:
    wait_until(
        lambda: all(len(names(scene, partition)) < FILES_MAX for partition in range(PARTITIONS)),
        f"fewer than {FILES_MAX} files of each partition",
        log=service.said,
    )
    assert service.is_running, service.said()


def come_to_rest(scene: Scene) -> None:
    """What a killed merge left is finished by whoever is next; then there is nothing to do any more."""
    for _ in range(8):
        with ServiceProcess(
            *("archive", "merge", "-c", str(scene.config)), folder=scene.folder, without_spark=True
        ) as merging:
            assert merging.exit_code() == 0, merging.said()


def assert_a_plain_reader_sees_every_offset_once(scene: Scene) -> None:
    """With nothing of ours: every file of each folder, as pyarrow has it."""
    store = store_of(scene.lake)
    for partition in range(PARTITIONS):
        found: list[int] = []
        for name in names(scene, partition):
            data = store.read(f"{scene.topic}/{partition}/{name}")
            found += pq.read_table(io.BytesIO(data))["offset"].to_pylist()
        assert found == list(range(source_end(scene.source, scene.topic, partition)))


def finish(scene: Scene) -> None:
    scene.complete()
    come_to_rest(scene)
    assert_a_plain_reader_sees_every_offset_once(scene)
    for partition in range(PARTITIONS):
        assert len(names(scene, partition)) < FILES_MAX
    left = [
        info.name
        for partition in range(PARTITIONS)
        for info in store_of(scene.lake).list(f"{scene.topic}/{partition}")
        if info.name.startswith("_merge-")
    ]
    assert not left, "what a dead merger announced is finished by the next"


@pytest.fixture(params=["filesystem", "bucket"])
def scene(request: pytest.FixtureRequest, source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Scene:
    server: ObjectServer | None = request.getfixturevalue("versitygw") if request.param == "bucket" else None
    lake = server.settings() if server is not None else None
    return Scene(source_kafka, None, topic_name, tmp_path, lake=lake, without_spark=True, more_archive=MERGES)


def keep_small(scene: Scene, *, flushes: int) -> None:
    """While records arrive the number of files comes down again and again, whatever number was published."""
    scene.config = scene.write_config("mirror", max_records=40)
    with scene.run() as service:
        with scene.load():
            for merges in range(1, 4):
                service.await_words("flushed batch", merges * flushes // 3)
                service.await_words("segments merged", merges)
                await_few_files(scene, service)
        assert "merging failed" not in service.said(), service.said()
        began = time.monotonic()
        scene.finish(service)
        assert time.monotonic() - began < 60.0
    finish(scene)


@pytest.mark.slow
def test_an_archive_under_a_seconds_flush_stays_small_while_records_arrive(scene: Scene) -> None:
    keep_small(scene, flushes=120)


@pytest.mark.slow
@pytest.mark.spark
def test_an_archive_stays_small_with_merges_in_sparks_batch_slots(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    keep_small(Scene(source_kafka, None, topic_name, tmp_path, more_archive=MERGES), flushes=60)


@pytest.mark.slow
def test_a_service_killed_in_the_midst_of_its_merges_goes_on_and_nothing_is_twice_or_lost(scene: Scene) -> None:
    chance = random.Random(4)
    scene.config = scene.write_config("mirror", max_records=40)
    with scene.load():
        for _ in range(3):
            with scene.run() as service:
                service.await_words("segments merged")
                time.sleep(chance.uniform(0.0, 1.2))
                service.kill()
                service.assert_nothing_left()
    finish(scene)


def test_the_command_beside_the_schedule_of_a_service_makes_one_archive(scene: Scene) -> None:
    scene.config = scene.write_config("mirror", max_records=40)
    with scene.run() as service:
        with scene.load():
            service.await_words("segments merged")
            for _ in range(4):
                with ServiceProcess(
                    *("archive", "merge", "-c", str(scene.config)), folder=scene.folder, without_spark=True
                ) as merging:
                    assert merging.exit_code() == 0, merging.said()
            await_few_files(scene, service)
        service.stop()
        assert service.exit_code() == 0, service.said()
        assert "partition parked" not in service.said()
        assert "merging failed" not in service.said()
    finish(scene)
