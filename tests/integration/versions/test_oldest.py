"""The oldest Kafka whose versions of the APIs carry what is needed; its jars are fetched by ``make soak`` only."""

from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded import jars
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import read_plan
from support.copies import assert_equal_in_archive, assert_equal_in_kafka, create_topic
from support.leases import archive_work, kafka_work, lease_plan, run_lease
from support.mirrors import write_config
from support.records import simple_records
from support.topics import make_topic
from support.zookeeper_kafka import ZooKeeperKafka

pytestmark = [pytest.mark.kafka, pytest.mark.soak]


def test_kafka_2_4_is_archived_and_copied_and_refused_as_destination(
    destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    west = destination_kafka.bootstrap_servers
    with ZooKeeperKafka(tmp_path / "kafka", libs=jars.kafka_libs("2.4.1"), heap_mb=256) as oldest:
        east = oldest.bootstrap_servers
        make_topic(east, topic_name, simple_records(100))
        create_topic(west, topic_name)
        where = TopicPartition(topic_name, 0)
        lake = tmp_path / "lake"
        lake.mkdir()
        works: list[DestinationWork] = [archive_work(lake, where, end=100), kafka_work(west, where)]
        rows = run_lease(lease_plan(east, [(where, works)], end=100))
        backwards = write_config(tmp_path / "mirror.yaml", source=west, topic=topic_name, destination=east)
        (row,) = run_async(read_plan(parse_configuration(backwards.read_bytes(), file="mirror.yaml", environ={})))

        assert {label: each.error for label, each in rows.items()} == dict.fromkeys(rows)
        assert assert_equal_in_archive(east, lake, topic_name) == 100
        assert assert_equal_in_kafka(east, west, topic_name) == 100
    assert row.error is not None
    assert f"DescribeProducers version 0 is needed, and the broker at {east} does not know it" in row.error.message
    assert "only an archive destination remains" in row.error.hint
