"""Heartbeats that a running service writes to the source of a mirror, and copies."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import NewKafka, RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.service.lifecycle.endings import EXIT_DONE, EXIT_SUPERSEDED
from mirrorlake.service.selection import Selection
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import archive_position, assert_equal_in_kafka, log_end, wait_until
from support.records import consume, settings_of, simple_records
from support.running_service import RunningService
from support.topics import append, make_topic, topics_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

STANDS_SECONDS = 3.0
"""Longer than a heartbeat's interval: one that is written all the same would be there."""


@dataclass
class Site:
    east: str
    west: str
    topic: str
    folder: Path
    run_async: RunAsync

    @property
    def beats(self) -> str:
        """Where the heartbeats of a mirror go that is called like the topic."""
        return f"mirrorlake.heartbeats.{self.topic}"

    def file(self, *mirrors: str) -> Path:
        return write_yaml(
            self.folder / "mirror.yaml",
            f'clusters: {{east: {{bootstrap-servers: "{self.east}"}}, west: {{bootstrap-servers: "{self.west}"}}}}\n'
            f'stores: {{lake: {{type: filesystem, root: "{self.folder}"}}}}\n'
            f"mirrors: [{', '.join(mirrors)}]\n"
            "service: {metrics: off}\n"
            "engine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
        )

    def one(self, heartbeats: str = ", heartbeats: {interval: 1s}") -> str:
        return (
            f'{{name: "{self.topic}", source: {{cluster: east, topics: ["{self.topic}"]}}, '
            f"destinations: [{{type: kafka, cluster: west}}]{heartbeats}}}"
        )

    def settings(self, servers: str, topic: str) -> Mapping[str, str | None]:
        async def ask() -> Mapping[str, str | None]:
            async with ClusterClient(settings_of(servers)) as client:
                found = (await client.topics.configs([topic]))[topic]
                assert not isinstance(found, Exception)
                return {name: each.value for name, each in found.items()}

        return self.run_async(ask())

    def heartbeats(self, servers: str, topic: str) -> list[tuple[Any, Any]]:
        """Keys and values of the heartbeats in a topic, as a stock consumer reads them."""
        if topic not in topics_of(servers):
            return []
        return [(json.loads(r.key or b""), json.loads(r.value or b"")) for r in consume(servers, topic, 0).values()]

    def await_heartbeats(self, servers: str, topic: str, *, more_than: int = 1) -> None:
        wait_until(lambda: log_end(servers, topic) > more_than, f"heartbeats in {topic}")


@pytest.fixture
def site(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    run_async: RunAsync,
) -> Site:
    return Site(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name, tmp_path, run_async)


@pytest.mark.quick
def test_heartbeats_arrive_at_the_destination_at_their_own_offsets_and_a_bounded_run_copies_what_is_left(
    site: Site,
) -> None:
    make_topic(site.east, site.topic, simple_records(5))
    began_ms = int(time.time() * 1000)
    with RunningService(site.file(site.one())) as running:
        site.await_heartbeats(site.west, site.beats, more_than=2)
        assert site.settings(site.east, site.beats)["retention.ms"] == "604800000"
        running.service.stop()
        assert running.exit_code() == EXIT_DONE
    written = log_end(site.east, site.beats)
    assert mirrorlake("run", "-c", site.folder / "mirror.yaml", "--once").code == EXIT_DONE
    assert (log_end(site.east, site.beats), log_end(site.west, site.beats)) == (written, written)
    assert assert_equal_in_kafka(site.east, site.west, site.beats) >= 3
    found = site.heartbeats(site.west, site.beats)
    assert {json.dumps(key) for key, _ in found} == {f'{{"mirror": "{site.topic}", "source": "east"}}'}
    _, value = found[0]
    assert (value["mirror"], value["source"], value["destinations"]) == (site.topic, "east", ["west"])
    assert value["interval_seconds"] == 1
    assert value["time"].endswith("Z")
    first = next(iter(consume(site.west, site.beats, 0).values()))
    assert first.timestamp >= began_ms


def test_a_paused_mirror_has_none_until_it_is_resumed(site: Site) -> None:
    make_topic(site.east, site.topic, simple_records(5))
    with RunningService(site.file(site.one())) as running:
        site.await_heartbeats(site.west, site.beats)
        running.service.pause(Selection(mirror=site.topic))
        time.sleep(1)  # for the one that was on its way
        paused_at = log_end(site.east, site.beats)
        time.sleep(STANDS_SECONDS)
        assert log_end(site.east, site.beats) == paused_at
        running.service.resume(Selection(mirror=site.topic))
        site.await_heartbeats(site.west, site.beats, more_than=paused_at)


def test_a_plan_tells_of_them_and_a_bounded_run_writes_none_and_misses_no_topic_for_them(site: Site) -> None:
    make_topic(site.east, site.topic, simple_records(5))
    file = site.file(site.one())
    planned = mirrorlake("plan", "-c", file, "--format", "json")
    assert [row["warnings"] for row in json.loads(planned.out)] == [
        [
            f"mirror {site.topic}: `run` writes a heartbeat every 1 s to topic {site.beats} of cluster east, which is "
            "its source, and makes that topic where it is not there"
        ]
    ]
    assert mirrorlake("run", "-c", file, "--once").code == EXIT_DONE
    assert site.beats not in topics_of(site.east) | topics_of(site.west)
    assert log_end(site.west, site.topic) == 5


def test_a_topic_that_cannot_be_made_is_said_once_and_copying_goes_on(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirrorlake.service.heartbeats.writing.RETRY_SECONDS", 0.5)
    make_topic(site.east, site.topic, simple_records(5))
    said: list[str] = []

    def has_said(words: str) -> bool:
        said.append(capsys.readouterr().out)
        return words in "".join(said)

    # One broker keeps no three replicas.
    with RunningService(site.file(site.one(", heartbeats: {interval: 1s, replication-factor: 3}"))) as running:
        wait_until(lambda: has_said("heartbeat could not be written"), "the warning")
        time.sleep(STANDS_SECONDS)
        append(site.east, site.topic, 0, simple_records(5, start=5))
        wait_until(lambda: [row["dest_next"] for row in running.rows()] == [10], "copying to go on")
        assert running.service.health().is_good
    said.append(capsys.readouterr().out)
    assert "".join(said).count("heartbeat could not be written") == 1
    assert site.beats not in topics_of(site.east)


def test_two_way_mirrors_have_their_own_and_none_goes_back_to_where_it_came_from(site: Site) -> None:
    make_topic(site.east, f"{site.topic}-e", simple_records(5))
    make_topic(site.west, f"{site.topic}-w", simple_records(5))
    mirrors = [
        f'{{name: "{source}-{site.topic}", source: {{cluster: {source}, topics: ["/.*{site.topic}.*/"]}}, '
        f'destinations: [{{type: kafka, cluster: {destination}, topic: "{{cluster}}.{{topic}}"}}], '
        f'heartbeats: {{topic: "{site.topic}.beats", interval: 1s}}}}'
        for source, destination in (("east", "west"), ("west", "east"))
    ]
    with RunningService(site.file(*mirrors)) as running:
        site.await_heartbeats(site.west, f"east.{site.topic}.beats", more_than=2)
        site.await_heartbeats(site.east, f"west.{site.topic}.beats", more_than=2)
        running.service.look_now()
        wait_until(
            lambda: (
                {(r["topic"], r.get("reason")) for r in running.rows() if r["state"] == "parked"}
                >= {(f"east.{site.topic}.beats", "loop"), (f"west.{site.topic}.beats", "loop")}
            ),
            "the copies to be refused as sources",
            log=lambda: str(running.rows()),
        )
    own = {name for name in topics_of(site.east) if site.topic in name}
    assert own == {f"{site.topic}-e", f"{site.topic}.beats", f"west.{site.topic}-w", f"west.{site.topic}.beats"}
    assert {value["source"] for _, value in site.heartbeats(site.west, f"east.{site.topic}.beats")} == {"east"}
    assert {value["source"] for _, value in site.heartbeats(site.east, f"west.{site.topic}.beats")} == {"west"}


def test_a_process_that_takes_a_mirror_over_writes_its_heartbeats_from_then_on(site: Site) -> None:
    make_topic(site.east, site.topic, simple_records(5))
    file = site.file(site.one())
    with RunningService(file) as first:
        site.await_heartbeats(site.west, site.beats)
        with RunningService(file) as second:
            assert first.exit_code() == EXIT_SUPERSEDED
            site.await_heartbeats(site.west, site.beats, more_than=log_end(site.east, site.beats) + 1)
            assert {row["state"] for row in second.rows()} <= {"running", "caught-up"}


def test_none_are_written_while_the_destination_was_not_reached_yet(
    source_kafka: EmbeddedKafka, new_kafka: NewKafka, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    west = new_kafka()
    site = Site(source_kafka.bootstrap_servers, west.bootstrap_servers, topic_name, tmp_path, run_async)
    make_topic(site.east, site.topic, simple_records(5))
    west.pause()
    with RunningService(site.file(site.one())):
        time.sleep(STANDS_SECONDS)
        assert site.beats not in topics_of(site.east)
        west.resume()
        site.await_heartbeats(site.west, site.beats)


def test_a_reload_turns_them_on_and_off(site: Site) -> None:
    make_topic(site.east, site.topic, simple_records(5))
    with RunningService(site.file(site.one(""))) as running:
        running.await_states("caught-up", partitions=1)
        assert site.beats not in topics_of(site.east)
        site.file(site.one())
        assert running.service.reload() == [f"mirrors.{site.topic}.heartbeats"]
        site.await_heartbeats(site.west, site.beats)
        site.file(site.one(""))
        assert running.service.reload() == [f"mirrors.{site.topic}.heartbeats"]
        time.sleep(1)  # for the one that was on its way
        stopped_at = log_end(site.east, site.beats)
        time.sleep(STANDS_SECONDS)
        assert log_end(site.east, site.beats) == stopped_at
        append(site.east, site.topic, 0, simple_records(5, start=5))
        wait_until(lambda: log_end(site.west, site.topic) == 10, "copying to go on")


def test_nothing_is_written_to_a_topic_that_another_mirror_copies_to(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic(site.east, site.topic, simple_records(5))
    make_topic(site.west, f"{site.topic}-w", simple_records(5))
    assert mirrorlake("run", "-c", site.file(site.one("")), "--once").code == EXIT_DONE
    back = (
        f'{{name: "{site.topic}-w", source: {{cluster: west, topics: ["{site.topic}-w"]}}, destinations: '
        f'[{{type: kafka, cluster: east, topic: "b.{{topic}}"}}], heartbeats: {{topic: "{site.topic}", interval: 1s}}}}'
    )
    said: list[str] = []

    def has_said(words: str) -> bool:
        said.append(capsys.readouterr().out)
        return words in "".join(said)

    with RunningService(site.file(back)) as running:
        wait_until(lambda: has_said("writes no heartbeats there"), "the warning")
        wait_until(lambda: log_end(site.east, f"b.{site.topic}-w") == 5, "copying", log=lambda: str(running.rows()))
    assert log_end(site.west, site.topic) == 5


def test_a_filter_of_records_lets_them_through_and_archives_have_them_too(site: Site) -> None:
    make_topic(site.east, site.topic, simple_records(5))
    mirror = (
        f'{{name: "{site.topic}", source: {{cluster: east, topics: ["{site.topic}"]}}, '
        'filter: {where: "offset = 2"}, destinations: [{type: kafka, cluster: west, topic: "m.{topic}", offsets: map}, '
        "{type: archive, store: lake, flush: {max-time: 1s}}], heartbeats: {interval: 1s}}"
    )
    with RunningService(site.file(mirror)) as running:
        wait_until(
            lambda: len(site.heartbeats(site.west, f"m.{site.beats}")) > 1,
            "heartbeats at the destination",
            log=lambda: str(running.rows()),
        )
    assert [r.key for r in consume(site.west, f"m.{site.topic}", 0).values()] == [b"k2"]
    # A stop flushes archives, and begins no heartbeat behind what they are flushed up to.
    assert archive_position(site.folder, site.beats) == log_end(site.east, site.beats)
