"""Destination topics kept in step while the service runs, where their destination says how often."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import NewKafka, RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from support.admin import alter_topic
from support.command import write_yaml
from support.copies import create_topic, wait_until
from support.records import settings_of, simple_records
from support.running_service import RunningService
from support.topics import append, make_topic, topics_of

pytestmark = pytest.mark.kafka


@dataclass
class Site:
    east: str
    west: str
    topic: str
    folder: Path
    run_async: RunAsync

    def file(self, sync: str) -> Path:
        return write_yaml(
            self.folder / "mirror.yaml",
            f'clusters: {{east: {{bootstrap-servers: "{self.east}"}}, west: {{bootstrap-servers: "{self.west}"}}}}\n'
            f'mirrors: [{{name: "{self.topic}", source: {{cluster: east, topics: ["/{self.topic}.*/"]}}, '
            f'destinations: [{{type: kafka, cluster: west, topic: "copy.{{topic}}", sync: {sync}}}]}}]\n'
            "service: {metrics: off}\n"
            "engine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
        )

    def settings(self, topic: str) -> Mapping[str, str | None]:
        async def ask() -> Mapping[str, str | None]:
            async with ClusterClient(settings_of(self.west)) as client:
                found = (await client.topics.configs([topic]))[topic]
                assert not isinstance(found, Exception)
                return {name: each.value for name, each in found.items()}

        return self.run_async(ask())


@pytest.fixture
def site(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    run_async: RunAsync,
) -> Site:
    return Site(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name, tmp_path, run_async)


@pytest.mark.slow
def test_what_changes_at_the_source_while_it_runs_is_changed_at_the_destination(site: Site) -> None:
    copy = f"copy.{site.topic}"
    make_topic(site.east, site.topic, simple_records(5), retention_ms="7200000")
    with RunningService(site.file("{configs: apply, partitions: apply, interval: 1s}")) as running:
        running.await_states("caught-up", partitions=1)
        assert site.settings(copy)["retention.ms"] == "7200000"
        alter_topic(site.east, site.topic, **{"retention.ms": "3600000"})
        wait_until(lambda: site.settings(copy)["retention.ms"] == "3600000", "the setting to come over")
        append(site.east, site.topic, 0, simple_records(5, start=5))
        wait_until(lambda: [row["dest_next"] for row in running.rows()] == [10], "copying to go on")


@pytest.mark.slow
def test_a_difference_that_is_only_reported_is_left_and_one_made_at_the_destination_is_said_once(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = f"copy.{site.topic}"
    make_topic(site.east, site.topic, simple_records(5))
    with RunningService(site.file("{interval: 1s}")) as running:
        running.await_states("caught-up", partitions=1)
        alter_topic(site.west, copy, **{"retention.ms": "1000000"})
        wait_until(lambda: "is left so" in capsys.readouterr().out, "the difference to be said")
        append(site.east, site.topic, 0, simple_records(5, start=5))
        wait_until(lambda: [row["dest_next"] for row in running.rows()] == [10], "copying to go on")
        assert site.settings(copy)["retention.ms"] == "1000000"
    assert "is left so" not in capsys.readouterr().out


def test_a_topic_that_is_deleted_at_the_destination_is_not_made_again(site: Site, run_async: RunAsync) -> None:
    copy = f"copy.{site.topic}"
    make_topic(site.east, site.topic, simple_records(5))
    make_topic(site.east, f"{site.topic}-b", simple_records(5), retention_ms="7200000")
    with RunningService(site.file("{configs: apply, interval: 1s}")) as running:
        running.await_states("caught-up", partitions=2)

        async def delete() -> None:
            async with ClusterClient(settings_of(site.west)) as client:
                await client.topics.delete(copy)

        run_async(delete())
        alter_topic(site.east, f"{site.topic}-b", **{"retention.ms": "3600000"})
        wait_until(lambda: site.settings(f"{copy}-b")["retention.ms"] == "3600000", "a look after the deletion")
        assert copy not in topics_of(site.west)


@pytest.mark.slow
def test_a_destination_that_does_not_answer_is_looked_at_again_when_it_does(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    west = new_kafka()
    site = Site(source_kafka.bootstrap_servers, west.bootstrap_servers, topic_name, tmp_path, run_async)
    create_topic(site.east, site.topic, 1, retention_ms="7200000")
    with RunningService(site.file("{configs: apply, interval: 1s}")) as running:
        running.await_states("caught-up", partitions=1)
        west.pause()
        time.sleep(3)  # a look comes upon it
        alter_topic(site.east, site.topic, **{"retention.ms": "3600000"})
        west.resume()
        wait_until(lambda: site.settings(f"copy.{site.topic}")["retention.ms"] == "3600000", "the setting to come over")
