"""How ``run`` ends where it could not do everything: its exit code, and a last word that names what is left."""

from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.lifecycle.endings import EXIT_FAILED, EXIT_PARKED
from support.command import without_spark as mirrorlake
from support.copies import create_topic, log_end, wait_until
from support.mirrors import write_config
from support.proxy import Proxy
from support.records import Record, simple_records
from support.service_process import ServiceProcess
from support.topics import append

pytestmark = pytest.mark.kafka

PARTITIONS = 6


def test_a_graceful_stop_while_a_partition_stands_parked_says_so_with_its_exit_code(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(source, topic_name, 2)
    create_topic(destination, topic_name, 2)
    append(destination, topic_name, 0, [Record(1, b"somebody", b"else's")])
    for partition in range(2):
        append(source, topic_name, partition, simple_records(20))
    config = write_config(tmp_path / "mirror.yaml", source=source, topic=topic_name, destination=destination)
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        service.await_words("partition parked")
        wait_until(lambda: log_end(destination, topic_name, 1) == 20, "the other partition", log=service.said)
        service.stop()
        assert service.exit_code() == EXIT_PARKED, service.said()
    said = service.said()
    (last,) = [line for line in said.splitlines() if "ended while partitions are parked" in line]
    assert "[error" in last
    assert f"{topic_name}-0" in last
    assert f"{topic_name}-1" not in last
    (mirror,) = [line for line in said.splitlines() if "mirror totals" in line]
    for fact in ("partitions=2", "records=20", "parked=1"):
        assert fact in mirror, mirror
    assert "start_offset=None" not in said
    assert "hint= " not in said


def test_a_bounded_run_that_gives_up_ends_with_an_error_that_names_what_is_left(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, proxy: Proxy
) -> None:
    source = source_kafka.bootstrap_servers
    create_topic(source, topic_name, PARTITIONS)
    for partition in range(PARTITIONS):
        append(source, topic_name, partition, simple_records(5))
    create_topic(destination_kafka.bootstrap_servers, topic_name, PARTITIONS)
    proxy.refuses = True
    config = write_config(tmp_path / "mirror.yaml", source=source, topic=topic_name, destination=proxy.address)
    ended = mirrorlake("run", "--once", "-c", config)
    assert ended.code == EXIT_FAILED
    *_, last = [line for line in ended.err.splitlines() if "[error" in line]
    assert "gave up before everything was copied" in last
    assert topic_name in last
    waiting = [line for line in ended.err.splitlines() if "trying again" in line and f"mirror={topic_name}" in line]
    assert len(waiting) <= 3, "a line for each try, not for each partition"
