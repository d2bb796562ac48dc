"""Mirrors that share a destination topic by partitions: a killed process of them is gone on with by the next one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.copies import assert_equal_in_kafka, create_topic, log_end, source_end, wait_until
from support.load import Load
from support.records import simple_records
from support.service_process import ServiceProcess
from support.topics import append

pytestmark = pytest.mark.kafka

PARTITIONS = 2
ENVIRON = {"MIRROR_V3_METRICS_PORT": "0"}


def mirror_v3_form(source: str, destination: str, topic: str) -> str:
    """One mirror per partition, which is the only way mirror-v3 knows."""
    mirrors = "".join(
        f"  - {{name: {topic}-{n}, source: {{bootstrap-servers: '{source}'}}, topic: {topic}, partition: {n}}}\n"
        for n in range(PARTITIONS)
    )
    return f"destination: {{type: kafka, bootstrap-servers: '{destination}'}}\nmirrors:\n{mirrors}"


def native_form(source: str, destination: str, topic: str) -> str:
    mirrors = "".join(
        f"  - {{name: {topic}-{n}, source: {{cluster: east, topics: [{topic}], partitions: [{n}]}}, "
        "destinations: [{type: kafka, cluster: west}]}\n"
        for n in range(PARTITIONS)
    )
    return (
        f"clusters: {{east: {{bootstrap-servers: '{source}'}}, west: {{bootstrap-servers: '{destination}'}}}}\n"
        f"engine: {{lanes: 2, lease: 2s, memory: 512MiB}}\non-park: exit\nmirrors:\n{mirrors}"
    )


@pytest.mark.parametrize("form", [mirror_v3_form, native_form])
def test_a_killed_service_of_one_mirror_per_partition_is_gone_on_with_by_the_next(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    form: Callable[[str, str, str], str],
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    for servers in (source, destination):
        create_topic(servers, topic_name, PARTITIONS)
    config = tmp_path / "mirrors.yaml"
    config.write_text(form(source, destination, topic_name))

    def ends() -> list[int]:
        return [log_end(destination, topic_name, n) for n in range(PARTITIONS)]

    def run() -> ServiceProcess:
        return ServiceProcess("run", "-c", str(config), folder=tmp_path, environ=ENVIRON, without_spark=True)

    with Load(source, topic_name, partitions=PARTITIONS), run() as service:
        wait_until(lambda: min(ends()) > 0 or not service.is_running, "a first copy", log=service.said)
        assert service.is_running, service.said()
        service.kill()
        service.assert_nothing_left()
    with run() as service:
        # Else all may have been there when the first one was killed, and this one is stopped before it has begun.
        for number in range(PARTITIONS):
            append(source, topic_name, number, simple_records(10))
        wanted = [source_end(source, topic_name, n) for n in range(PARTITIONS)]
        wait_until(lambda: ends() == wanted or not service.is_running, "the rest", log=service.said)
        service.stop()
        assert service.exit_code() == 0, service.said()
    assert "other-mirror" not in service.said()
    assert assert_equal_in_kafka(source, destination, topic_name, PARTITIONS) > 0
