"""`run` and `verify` of mirrors whose records are to say where they came from, as processes."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import assert_same_records, create_topic
from support.map_copies import held_through_map
from support.records import Record, consume, every_kind, in_batches, produce, settings_of, simple_records

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

GZIP = 1


def cluster_id_of(servers: str) -> str:
    async def ask() -> str:
        async with ClusterClient(settings_of(servers)) as client:
            return (await client.metadata([])).cluster_id or ""

    return asyncio.run(ask())


def stamped(record: Record, cluster_id: str, topic: str, partition: int, offset: int) -> Record:
    place = (("cluster.id", cluster_id), ("topic", topic), ("partition", str(partition)), ("offset", str(offset)))
    return replace(
        record, headers=(*record.headers, *((f"__mirrorlake.source.{key}", value.encode()) for key, value in place))
    )


def configuration(folder: Path, east: str, west: str, topic: str, *, is_on: bool) -> Path:
    return write_yaml(
        folder / "mirror.yaml",
        f"""
clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
mirrors:
  - name: {topic}
    source: {{cluster: east, topics: [{topic}]}}
    destinations:
      - {{type: kafka, cluster: west, offsets: map, provenance-headers: {str(is_on).lower()}}}
engine: {{lanes: 1, lease: 2s, memory: 512MiB}}
""",
    )


def test_records_say_where_they_came_from_while_that_is_asked_for_and_verify_calls_all_of_them_equal(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    cluster_id = cluster_id_of(east)
    assert cluster_id
    create_topic(east, topic_name, 2)
    expected: dict[int, dict[int, Record]] = {0: {}, 1: {}}
    for number, is_on in enumerate((True, False, True)):
        for partition, held in expected.items():
            records = every_kind(number) + simple_records(50)
            asyncio.run(produce(east, topic_name, partition, list(in_batches(records, 7, GZIP * partition))))
            new = {o: r for o, r in consume(east, topic_name, partition).items() if o not in held}
            where = (cluster_id, topic_name, partition)
            held |= {o: stamped(record, *where, o) if is_on else record for o, record in new.items()}
        config = configuration(tmp_path, east, west, topic_name, is_on=is_on)
        ended = mirrorlake("run", "--once", "-c", config)
        assert ended.code == 0, ended.err

    for partition, held in expected.items():
        assert_same_records(held, held_through_map(west, TopicPartition(topic_name, partition)))
    for is_on in (True, False):
        config = configuration(tmp_path, east, west, topic_name, is_on=is_on)
        found = mirrorlake("verify", "-c", config, "--format", "json")
        assert found.code == 0, found.out + found.err
        results = {(row["result"], row["records"]) for row in json.loads(found.out)}
        assert results == {("equal", len(held)) for held in expected.values()}
