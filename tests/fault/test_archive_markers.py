"""A run marks what it archives; `run`, `plan` and `archive check` tell what is gone later from what never was."""

import json
import shutil
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended
from support.command import without_spark as mirrorlake
from support.copies import archive_position, create_topic, wait_until
from support.mirrors import write_config
from support.records import in_batches, produce, simple_records
from support.service_process import ServiceProcess

pytestmark = pytest.mark.kafka


def checked(lake: Path) -> Ended:
    return mirrorlake("archive", "check", "--root", lake, "--format", "json")


def test_a_partition_that_is_gone_is_refused_by_plan_and_run_and_told_by_check_until_somebody_says_it_is_meant(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers, lake = source_kafka.bootstrap_servers, tmp_path / "lake"
    create_topic(servers, topic_name, 3)
    for partition in (0, 1):
        run_async(produce(servers, topic_name, partition, list(in_batches(simple_records(20), 10))))
    config = write_config(tmp_path / "mirror.yaml", source=servers, topic=topic_name, lake=lake, max_time="1s")
    assert mirrorlake("run", "--once", "-c", config).code == 0
    marker = json.loads((lake / "_mirrorlake.json").read_text())
    newest = max((lake / topic_name).glob("_topic*.json"), key=lambda path: path.stat().st_mtime_ns)
    record = json.loads(newest.read_text())
    assert marker["format_version"] == 1
    assert (record["topic"], record["partitions"], record["reached"]) == (topic_name, 3, {"0": 20, "1": 20})
    assert record["configs"]["cleanup.policy"] == "delete"
    assert (checked(lake).code, checked(lake).said) == (0, "")

    shutil.rmtree(lake / topic_name / "1")
    assert checked(lake).code == 1
    (row,) = [r for r in mirrorlake("plan", "-c", config, "--format", "json").rows() if r["partition"] == 1]
    assert "had reached offset 20" in json.dumps(row)
    refused = mirrorlake("run", "--once", "-c", config)
    assert refused.code == 3
    assert "reason=chain-broken" in refused.err
    assert not (lake / topic_name / "1").exists()

    for path in (lake / topic_name).glob("_topic*.json"):
        path.unlink()
    assert mirrorlake("run", "--once", "-c", config).code == 0
    assert archive_position(lake, topic_name, 1) == 20
    assert json.loads((lake / "_mirrorlake.json").read_text()) == marker
    assert checked(lake).code == 0


def test_a_topic_that_is_gone_is_refused_by_plan_until_somebody_says_it_is_meant(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers, lake = source_kafka.bootstrap_servers, tmp_path / "lake"
    create_topic(servers, topic_name, 2)
    run_async(produce(servers, topic_name, 0, list(in_batches(simple_records(20), 10))))
    config = write_config(tmp_path / "mirror.yaml", source=servers, topic=topic_name, lake=lake, max_time="1s")
    assert mirrorlake("run", "--once", "-c", config).code == 0

    shutil.rmtree(lake / topic_name)
    refused = mirrorlake("plan", "-c", config, "--format", "json")
    assert refused.code == 1
    assert [row["reason"] for row in refused.rows()] == ["chain-broken"] * 2
    assert f"_mirrorlake/topics/{topic_name}" in json.dumps(refused.rows())

    (lake / "_mirrorlake" / "topics" / topic_name).unlink()
    assert mirrorlake("plan", "-c", config).code == 0


def test_a_root_that_is_unmounted_under_a_running_service_gets_nothing_written_and_stops_what_is_archived_there(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    servers, lake = source_kafka.bootstrap_servers, tmp_path / "lake"
    create_topic(servers, topic_name, 2)
    run_async(produce(servers, topic_name, 0, list(in_batches(simple_records(20), 10))))
    config = write_config(
        tmp_path / "mirror.yaml",
        source=servers,
        topic=topic_name,
        lake=lake,
        max_time="1s",
        more_engine=", tail-check: 1s",
    )
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        wait_until(lambda: archive_position(lake, topic_name, 0) == 20, "the first segment", log=service.said)
        lake.rename(tmp_path / "unmounted")
        lake.mkdir()
        service.await_words("partition parked", times=2)
        run_async(produce(servers, topic_name, 1, list(in_batches(simple_records(20), 10))))
        assert "_mirrorlake.json is gone" in service.said()
        service.stop()
        assert service.exit_code() is not None
    assert list(lake.rglob("*.parquet")) == []
    assert not (lake / "_mirrorlake.json").exists()


def test_nothing_is_published_below_a_mount_point_from_the_moment_it_is_bare(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    """Long before the drift watch looks: partition 0 has a segment to follow, partition 1 none yet."""
    servers, lake = source_kafka.bootstrap_servers, tmp_path / "lake"
    create_topic(servers, topic_name, 2)
    run_async(produce(servers, topic_name, 0, list(in_batches(simple_records(20), 10))))
    config = write_config(
        tmp_path / "mirror.yaml",
        source=servers,
        topic=topic_name,
        lake=lake,
        max_time="1s",
        more_engine=", tail-check: 1h",
    )
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        wait_until(lambda: archive_position(lake, topic_name, 0) == 20, "the first segment", log=service.said)
        lake.rename(tmp_path / "unmounted")
        lake.mkdir()
        for partition, start in ((0, 20), (1, 0)):
            more = list(in_batches(simple_records(20, start=start), 10))
            run_async(produce(servers, topic_name, partition, more))
        service.await_words("partition parked", times=2)
        parked = [line for line in service.said().splitlines() if "partition parked" in line]
        assert sum("is gone, and it was the last segment" in line for line in parked) == 1
        assert sum("_mirrorlake.json is gone" in line for line in parked) == 1
        service.stop()
        assert service.exit_code() is not None
    assert list(lake.rglob("*.parquet")) == []
