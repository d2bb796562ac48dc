"""A bounded run beside a service: a living owner is left alone unless told otherwise, a dead one costs nothing."""

import signal
import socket
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.lifecycle.endings import EXIT_SUPERSEDED
from support.command import without_spark as mirrorlake
from support.copies import assert_equal_in_kafka, log_end, wait_until
from support.mirrors import write_config
from support.records import simple_records
from support.service_process import ServiceProcess
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_bounded_run_with_the_configuration_of_a_service_finds_its_owner_and_not_its_port_only(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(source, topic_name, simple_records(20))
    config = write_config(tmp_path / "mirror.yaml", source=source, topic=topic_name, destination=destination)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environ = {"MIRRORLAKE_METRICS": address}
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, environ=environ, without_spark=True) as service:
        wait_until(lambda: log_end(destination, topic_name) == 20, "the copy", log=service.said)
        stray = mirrorlake("run", "-c", config, "--once", environ=environ)
        assert stray.code == EXIT_SUPERSEDED, stray.err
        assert f"the metrics endpoint cannot listen on {address}: Address already in use" in stray.err
        assert "another process serves the mirror" in stray.err


def test_a_bounded_run_leaves_a_living_owner_alone_unless_told_otherwise_and_goes_on_where_one_died(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(source, topic_name, simple_records(20))
    config = write_config(tmp_path / "mirror.yaml", source=source, topic=topic_name, destination=destination)
    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        wait_until(lambda: log_end(destination, topic_name) == 20, "the copy", log=service.said)
        owner = mirrorlake("status", "-c", config, "--format", "json").row(topic_name)["owner"]
        stray = mirrorlake("run", "-c", config, "--once")
        assert stray.code == EXIT_SUPERSEDED, stray.err
        (line,) = [line for line in stray.err.splitlines() if "another process serves the mirror" in line]
        assert f"owner={owner} " in line
        assert "--take-over" in line

        append(source, topic_name, 0, simple_records(5, start=20))
        wait_until(lambda: log_end(destination, topic_name) == 25, "the service to go on", log=service.said)
        told = mirrorlake("run", "-c", config, "--once", "--take-over")
        assert told.code == 0, told.err
        (line,) = [line for line in told.err.splitlines() if "has not let go" in line]
        assert f"owner_before={owner} " in line
        assert service.exit_code() == EXIT_SUPERSEDED, service.said()

    with ServiceProcess("run", "-c", str(config), folder=tmp_path, without_spark=True) as service:
        service.await_words("mirror taken over")
        service.signal(signal.SIGKILL)
        service.assert_nothing_left()
    append(source, topic_name, 0, simple_records(5, start=25))
    after = mirrorlake("run", "-c", config, "--once")
    assert after.code == 0, after.err
    assert "has not let go" in after.err
    assert assert_equal_in_kafka(source, destination, topic_name) == 30
