"""The master of a standalone cluster dies and is started anew: it knows of no program then."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.copies import assert_equal_in_kafka, create_topic, log_end, wait_until
from support.records import simple_records
from support.service_process import ServiceProcess
from support.spark_cluster import SparkCluster
from support.topics import append

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

REGISTERED_SECONDS_MAX = 300.0
"""Until a worker has found the new master, for which it looks once a minute, and the service has found its worker."""


@pytest.fixture
def cluster(kafka_libs: Path) -> Iterator[SparkCluster]:
    with SparkCluster(workers=1, cores=2, is_isolated=False) as cluster:
        yield cluster


def test_a_service_that_a_new_master_does_not_know_starts_spark_again_and_copies_on(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    cluster: SparkCluster,
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    config = tmp_path / "mirror.yaml"
    tree = {
        "clusters": {"east": {"bootstrap-servers": source}, "west": {"bootstrap-servers": destination}},
        "mirrors": [
            {
                "name": topic_name,
                "source": {"cluster": "east", "topics": [topic_name]},
                "destinations": [{"type": "kafka", "cluster": "west"}],
            }
        ],
        "engine": {"lanes": 1, "lease": "2s", "master": cluster.master, "spark-conf": cluster.spark_conf()},
    }
    config.write_text(json.dumps(tree))
    create_topic(source, topic_name)
    append(source, topic_name, 0, simple_records(100))

    with ServiceProcess("run", "-c", str(config), folder=tmp_path) as service:
        service.await_words("caught up")
        cluster.kill_master()
        append(source, topic_name, 0, simple_records(100, start=100))
        wait_until(lambda: log_end(destination, topic_name) == 200, "a copy without a master", log=service.said)
        cluster.start_master()
        wait_until(
            lambda: "Spark's master no longer knows this program" in service.said() or not service.is_running,
            "the new master to be asked",
            log=service.said,
            patience_seconds=REGISTERED_SECONDS_MAX,
        )
        append(source, topic_name, 0, simple_records(100, start=200))
        wait_until(
            lambda: log_end(destination, topic_name) == 300 or not service.is_running,
            "the copy to continue",
            log=service.said,
            patience_seconds=REGISTERED_SECONDS_MAX,
        )
        service.stop()
        assert service.exit_code() == 0, service.said()
        service.assert_nothing_left()

    assert assert_equal_in_kafka(source, destination, topic_name) == 300
