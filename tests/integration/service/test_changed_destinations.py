"""Destination topics that somebody changes under a running service: what it says of them, and for how long."""

import asyncio
import time
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from support.admin import alter_topic
from support.copies import create_topic, wait_until
from support.records import settings_of, simple_records
from support.running_service import Row, RunningService
from support.topics import append

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LOOKS_SECONDS = 4.0
"""Of several looks: one begins every half second."""


def row_of(running: RunningService, topic: str) -> Row:
    (row,) = [row for row in running.rows() if row["topic"] == topic]
    return row


def test_partitions_that_a_destination_gained_stop_its_topic_and_wrong_times_stay_the_reason_while_it_is_set_back(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    grown, times, whole = (f"{topic_name}-{name}" for name in ("grown", "times", "whole"))
    for topic in (grown, times, whole):
        create_topic(source, topic)
        create_topic(destination, topic)
        append(source, topic, 0, simple_records(10, timestamp=int(time.time() * 1000)))
    config = tmp_path / "mirror.yaml"
    config.write_text(
        f"""
clusters: {{east: {{bootstrap-servers: "{source}"}}, west: {{bootstrap-servers: "{destination}"}}}}
mirrors:
  - {{name: "{topic_name}", source: {{cluster: east, topics: [{grown}, {times}, {whole}]}},
     destinations: [{{type: kafka, cluster: west}}]}}
engine: {{lanes: 1, lease: 1s, discovery: 500ms, memory: 512MiB}}
"""
    )

    async def grow(servers: str) -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.topics.grow(grown, partitions=2)

    with RunningService(config) as running:
        running.await_states("caught-up", partitions=3)
        asyncio.run(grow(destination))
        wait_until(lambda: row_of(running, grown)["state"] == "parked", f"{grown} to stop")
        assert row_of(running, grown)["reason"] == "partition-count"

        alter_topic(destination, times, message_timestamp_type="LogAppendTime")
        append(source, times, 0, simple_records(5, start=10, timestamp=int(time.time() * 1000) - 60_000))
        wait_until(lambda: row_of(running, times)["state"] == "parked", f"{times} to stop")
        time.sleep(LOOKS_SECONDS)
        assert row_of(running, times)["reason"] == "wrong-timestamps"
        alter_topic(destination, times, message_timestamp_type="CreateTime")
        time.sleep(LOOKS_SECONDS)
        assert row_of(running, times)["reason"] == "wrong-timestamps"
        assert "or was" in str(row_of(running, times)["error"])

        assert row_of(running, whole)["state"] == "caught-up"
        asyncio.run(grow(source))
        running.await_states("caught-up", "parked", partitions=4)
        wait_until(
            lambda: {r["state"] for r in running.rows() if r["topic"] == grown} == {"caught-up"},
            f"both partitions of {grown} to be copied again",
            log=lambda: str(running.rows()),
        )
