"""A mirror that ends, killed on its way there, as it ends, and behind its end: no record is twice, lost or too late."""

import time
from functools import partial
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import write_yaml
from support.copies import (
    archive_position,
    archived_records,
    assert_same_records,
    create_topic,
    log_end,
    source_end,
    wait_until,
)
from support.load import Load
from support.records import Record, consume, simple_records
from support.service_process import ServiceProcess

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 2
UNTIL_MS = 1_700_000_100_000
UNTIL = "2023-11-14T22:15:00Z"
"""The same, in words."""

IN_TIME = 1204
"""Records of each partition that are not later: the first that is lies inside a batch of ten."""


def coming_to_the_end(count: int, start: int, _now_ms: int) -> list[Record]:
    return simple_records(count, start=start, timestamp=UNTIL_MS - IN_TIME + 1)


def test_a_mirror_that_is_killed_on_the_way_to_its_end_and_at_it_ends_where_it_would_have(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, topic = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name
    create_topic(east, topic, PARTITIONS)
    lake = tmp_path / "lake"
    lake.mkdir()
    archive = "{type: archive, store: lake, flush: {max-time: 1s, max-records: 300}}"
    source = f'{{cluster: east, topics: [{topic}], until: "{UNTIL}"}}'
    mapped = '{type: kafka, cluster: west, topic: "m.{topic}", offsets: map}'
    file = write_yaml(
        tmp_path / "mirror.yaml",
        f'clusters: {{east: {{bootstrap-servers: "{east}"}}, west: {{bootstrap-servers: "{west}"}}}}\n'
        f"stores: {{lake: {{type: filesystem, root: {lake}}}}}\nmirrors:\n"
        f"  - {{name: same-{topic}, source: {source}, destinations: [{{type: kafka, cluster: west}}, {archive}]}}\n"
        f"  - {{name: mapped-{topic}, source: {source}, destinations: [{mapped}]}}\n"
        "service: {metrics: off}\nengine: {lanes: 2, lease: 1s, memory: 512MiB, discovery: 1h}\n",
    )

    def run() -> ServiceProcess:
        return ServiceProcess("run", "-c", str(file), folder=tmp_path, without_spark=True)

    def copied() -> int:
        return sum(log_end(west, topic, n) + archive_position(lake, topic, n) for n in range(PARTITIONS))

    def has_grown(before: int) -> bool:
        return copied() > before

    with Load(east, topic, partitions=PARTITIONS, pause_seconds=0.005, make=coming_to_the_end):
        for life in range(2):
            with run() as service:
                service.await_words("starting mirror")
                before = copied()
                wait_until(partial(has_grown, before), "progress", log=service.said)
                time.sleep(0.3 * life)
                service.kill()
        for times in (1, 2):
            with run() as service:
                service.await_words("mirror has ended", times)
                service.kill()
    for n in range(PARTITIONS):
        assert source_end(east, topic, n) > IN_TIME
        expected = consume(east, topic, n, end=IN_TIME)
        assert list(expected) == list(range(IN_TIME))
        assert_same_records(expected, consume(west, topic, n))
        assert_same_records(expected, archived_records(lake, topic, n))
    everything = [record for n in range(PARTITIONS) for record in consume(west, f"m.{topic}", n).values()]
    wanted = [record for n in range(PARTITIONS) for record in consume(east, topic, n, end=IN_TIME).values()]
    assert sorted(everything, key=repr) == sorted(wanted, key=repr)
