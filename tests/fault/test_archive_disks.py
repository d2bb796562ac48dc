"""An archive's disk that fills up, or becomes read-only, under a running service."""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.lifecycle.endings import EXIT_DONE, EXIT_PARKED
from support import obeying_permissions
from support.command import WITHOUT_SPARK
from support.command import without_spark as mirrorlake
from support.copies import archive_position, assert_equal_in_archive, wait_until
from support.mirrors import write_config
from support.places import small_disk
from support.records import simple_records
from support.service_process import ServiceProcess
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka

DISK_KIBIBYTES = 2_000
RECORDS = simple_records(60, size=5_000, timestamp=int(time.time() * 1000))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK_KIBIBYTES) as disk:
        if disk is None:
            pytest.skip("neither root nor sudo without a password may mount here")
        yield disk


@contextlib.contextmanager
def archiving(
    source: EmbeddedKafka, topic: str, folder: Path, lake: Path, *, through: Sequence[str] = ()
) -> Iterator[ServiceProcess]:
    config = write_config(
        folder / "mirror.yaml", source=source.bootstrap_servers, topic=topic, lake=lake, max_time="1s"
    )
    with ServiceProcess("run", "-c", str(config), folder=folder, through=through, without_spark=not through) as service:
        yield service


def end(service: ServiceProcess, *, code: int = EXIT_DONE) -> None:
    service.stop()
    assert service.exit_code() == code, service.said()
    service.assert_nothing_left()


@pytest.mark.slow
def test_a_disk_that_fills_up_while_running_is_waited_for_and_nothing_is_lost_or_left_behind(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, disk: Path
) -> None:
    servers, lake = source_kafka.bootstrap_servers, disk / "lake"
    make_topic(servers, topic_name, RECORDS[:20])
    with archiving(source_kafka, topic_name, tmp_path, lake) as service:
        wait_until(lambda: archive_position(lake, topic_name) == 20, "the first segment", log=service.said)
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(shutil.disk_usage(disk).free))
        append(servers, topic_name, 0, RECORDS[20:])
        service.await_words("No space left on device (ENOSPC)", times=3)
        assert "partition parked" not in service.said()
        assert archive_position(lake, topic_name) == 20
        ballast.unlink()
        wait_until(lambda: archive_position(lake, topic_name) == 60, "the rest", log=service.said)
        end(service)
    assert assert_equal_in_archive(servers, lake, topic_name) == 60
    assert [p.name for p in (lake / topic_name / "0").iterdir() if ".tmp." in p.name or p.name.startswith("_")] == []


def test_a_disk_that_becomes_read_only_stops_the_partition_and_a_restart_goes_on_once_it_is_mended(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, disk: Path
) -> None:
    servers, lake = source_kafka.bootstrap_servers, disk / "lake"
    make_topic(servers, topic_name, RECORDS[:20])
    with archiving(source_kafka, topic_name, tmp_path, lake) as service:
        wait_until(lambda: archive_position(lake, topic_name) == 20, "the first segment", log=service.said)
        remount(disk, "ro")
        append(servers, topic_name, 0, RECORDS[20:])
        service.await_words("partition parked")
        assert "Read-only file system (EROFS)" in service.said()
        assert "reason=store-unusable" in service.said()
        assert "mount it writable" in service.said()
        config = str(tmp_path / "mirror.yaml")
        refused = mirrorlake("plan", "-c", config, "--format", "json")
        looked_at = mirrorlake("status", "-c", config, "--format", "json")
        remount(disk, "rw")
        assert refused.code == 1
        row = refused.row(topic_name)
        assert (row["action"], row["reason"]) == ("refused", "store-unusable")
        assert row["error"].endswith("lake/" + topic_name + "/0: Read-only file system (EROFS) (mount it writable)")
        assert looked_at.row(topic_name)["state"] == "behind"
        assert mirrorlake("plan", "-c", config, "--format", "json").row(topic_name)["action"] == "copy"
        end(service, code=EXIT_PARKED)
    with archiving(source_kafka, topic_name, tmp_path, lake) as service:
        wait_until(lambda: archive_position(lake, topic_name) == 60, "the rest", log=service.said)
        end(service)
    assert assert_equal_in_archive(servers, lake, topic_name) == 60


@pytest.mark.slow
def test_a_folder_that_may_no_longer_be_written_stops_its_partition_and_the_other_goes_on(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    servers, lake = source_kafka.bootstrap_servers, tmp_path / "lake"
    make_topic(servers, topic_name, RECORDS[:20], RECORDS[:20])

    def positions() -> list[int]:
        return [archive_position(lake, topic_name, partition) for partition in (0, 1)]

    with archiving(
        source_kafka, topic_name, tmp_path, lake, through=[obeying_permissions.__file__, *WITHOUT_SPARK]
    ) as service:
        wait_until(lambda: positions() == [20, 20], "the first segments", log=service.said)
        folder = lake / topic_name / "0"
        folder.chmod(0o500)
        append(servers, topic_name, 0, RECORDS[20:])
        append(servers, topic_name, 1, RECORDS[20:])
        service.await_words("partition parked")
        assert "Permission denied (EACCES)" in service.said()
        assert "reason=store-unusable" in service.said()
        assert "give this user the right to read and write there" in service.said()
        wait_until(lambda: positions() == [20, 60], "the other partition", log=service.said)
        folder.chmod(0o700)
        end(service, code=EXIT_PARKED)
    assert len(list(folder.iterdir())) == 1
    with ServiceProcess(
        "run", "--once", "-c", str(tmp_path / "mirror.yaml"), folder=tmp_path, without_spark=True
    ) as service:
        assert service.exit_code() == 0, service.said()
    assert assert_equal_in_archive(servers, lake, topic_name, 2) == 120


def remount(disk: Path, mode: str) -> None:
    """Whoever was allowed to mount it may change it, too."""
    for prefix in ([], ["sudo", "-n"]):
        if subprocess.run([*prefix, "mount", "-o", f"remount,{mode}", str(disk)], check=False).returncode == 0:
            return
    raise AssertionError(f"{disk} cannot be mounted {mode}")
