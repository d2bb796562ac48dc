"""Commands of a running service against real brokers: nothing moves while paused, and the copies are equal after it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.lifecycle.endings import EXIT_DONE
from mirrorlake.service.selection import Selection
from support.command import without_spark as mirrorlake
from support.copies import create_topic, wait_until
from support.records import simple_records
from support.running_service import RunningService
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

FORMS = {
    "preserve": "{type: kafka, cluster: west}",
    "map": '{type: kafka, cluster: west, topic: "mapped.{topic}", offsets: map}',
    "parquet": '{type: archive, store: lake, name: "parquet.{topic}", flush: {max-time: 1s}}',
    "ndjson": '{type: archive, store: lake, name: "ndjson.{topic}", format: ndjson, flush: {max-time: 1s}}',
    "log": '{type: archive, store: lake, name: "log.{topic}", format: log, flush: {max-time: 1s}}',
    "snapshots": '{type: archive, store: lake, name: "view.{topic}", compaction: log, flush: {max-time: 1s}}',
}
"""Every form of destination, each of a mirror of its own."""

STANDS_SECONDS = 3.0
"""Longer than a lease and the time until an archive is due: what is not held back moves meanwhile."""

PARTITIONS = 2


@dataclass
class Site:
    """A source topic, its mirrors, and the service that runs them."""

    config: Path
    servers: str
    topic: str
    running: RunningService
    written: int = 0

    def append(self, count: int) -> None:
        for partition in range(PARTITIONS):
            append(self.servers, self.topic, partition, simple_records(count, start=self.written))
        self.written += count

    def positions(self, mirror: str) -> dict[int, int]:
        return {row["partition"]: row["dest_next"] for row in self.running.rows(mirror)}

    def await_lag(self, mirror: str, lag: int) -> None:
        wait_until(
            lambda: all(row["lag"] == lag for row in self.running.rows(mirror)),
            f"the lag of {mirror} to be {lag}",
            log=lambda: str(self.running.rows(mirror)),
        )

    def await_end(self, mirror: str, partitions: tuple[int, ...] = tuple(range(PARTITIONS))) -> None:
        wait_until(
            lambda: all(self.positions(mirror).get(number) == self.written for number in partitions),
            f"{mirror} to reach {self.written}",
            log=lambda: str(self.running.rows(mirror)),
        )

    def end_and_verify(self) -> None:
        self.running.service.stop()
        assert self.running.exit_code() == EXIT_DONE
        verified = mirrorlake("verify", "-c", self.config, "--format", "json")
        assert verified.code == 0, verified.out + verified.err


@pytest.fixture
def site(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> Iterator[Site]:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    lake, config = tmp_path / "lake", tmp_path / "mirror.yaml"
    lake.mkdir()
    make_topic(east, topic_name, *([] for _ in range(PARTITIONS)))
    create_topic(west, f"mapped.{topic_name}", PARTITIONS)
    mirrors = [
        f'- {{name: "{mirror_of(form, topic_name)}", source: {{cluster: east, topics: [{topic_name}]}}, '
        f"destinations: [{destination}]}}"
        for form, destination in FORMS.items()
    ]
    config.write_text(
        "\n".join(
            [
                f'clusters: {{east: {{bootstrap-servers: "{east}"}}, west: {{bootstrap-servers: "{west}"}}}}',
                f'stores: {{lake: {{type: filesystem, root: "{lake}"}}}}',
                "mirrors:",
                *mirrors,
                "service: {metrics: off, heartbeat: 1s}",
                "engine: {lanes: 2, lease: 1s, memory: 512MiB, tail-check: 1h, discovery: 1h}",
            ]
        )
    )
    with RunningService(config) as running:
        site = Site(config, east, topic_name, running)
        site.append(50)
        for form in FORMS:
            site.await_end(mirror_of(form, topic_name))
        yield site


def mirror_of(form: str, topic: str) -> str:
    return f"{form}-{topic}"


def test_a_paused_copy_of_any_form_stands_while_its_lag_grows_and_is_equal_once_it_was_resumed(site: Site) -> None:
    mirrors = [mirror_of(form, site.topic) for form in FORMS]
    service = site.running.service
    for mirror in mirrors:
        assert len(service.pause(Selection(mirror=mirror)).changed) == PARTITIONS
        again = service.pause(Selection(mirror=mirror))
        assert (len(again.changed), len(again.unchanged)) == (0, PARTITIONS)
    wait_until(lambda: not any(service.pause(Selection(mirror=mirror)).ending for mirror in mirrors), "leases to end")
    before = site.written
    for grown in (100, 200):
        site.append(100)
        for mirror in mirrors:
            site.await_lag(mirror, grown)
    time.sleep(STANDS_SECONDS)
    for mirror in mirrors:
        assert site.positions(mirror) == dict.fromkeys(range(PARTITIONS), before)
    assert site.running.states() == {"paused"}
    assert service.health().is_good
    assert service.readiness().is_good

    for mirror in mirrors:
        assert len(service.resume(Selection(mirror=mirror)).changed) == PARTITIONS
        assert service.resume(Selection(mirror=mirror)).changed == ()
    for mirror in mirrors:
        site.await_end(mirror)
    site.end_and_verify()


@pytest.mark.parametrize("form", ["preserve", "map", "parquet"])
def test_one_partition_that_is_paused_holds_up_no_other_and_is_left_by_a_stop_as_it_is(site: Site, form: str) -> None:
    mirror, service = mirror_of(form, site.topic), site.running.service
    before = site.written
    done = service.pause(Selection(mirror=mirror, topic=site.topic, partition=1))
    assert [name.partition for name in done.changed] == [1]
    wait_until(
        lambda: not service.pause(Selection(mirror=mirror, topic=site.topic, partition=1)).ending, "a lease to end"
    )
    for _ in range(3):
        site.append(30)
        site.await_end(mirror, partitions=(0,))
    for other in FORMS:
        site.await_end(mirror_of(other, site.topic), partitions=(0,))
    assert site.positions(mirror) == {0: site.written, 1: before}
    states = {row["partition"]: row["state"] for row in site.running.rows(mirror)}
    assert states == {0: "caught-up", 1: "paused"}

    service.stop()
    assert site.running.exit_code() == EXIT_DONE, "what is paused is no failure"
    assert site.positions(mirror)[1] == before
    # A pause ends with its process: the next one copies what was left.
    assert mirrorlake("run", "--once", "-c", site.config).code == 0
    verified = mirrorlake("verify", "-c", site.config, "--format", "json")
    assert verified.code == 0, verified.out + verified.err


def test_an_archive_that_was_mended_begins_anew_at_a_command(site: Site) -> None:
    mirror, service = mirror_of("parquet", site.topic), site.running.service
    folder = site.config.parent / "lake" / f"parquet.{site.topic}" / "0"
    newest = max(folder.glob("*.parquet"))
    aside = newest.rename(site.config.parent / newest.name)
    service.look_now()
    wait_until(lambda: "parked" in site.running.states(mirror), "the look to find that a segment is gone")
    site.append(10)
    site.await_end(mirror, partitions=(1,))
    aside.rename(newest)
    service.look_now()
    time.sleep(STANDS_SECONDS)
    states = {row["partition"]: row["state"] for row in site.running.rows(mirror)}
    assert states[0] == "parked", "what an archive holds is believed again when somebody says so"

    done = service.restart(Selection(mirror=mirror))
    assert [name.partition for name in done.changed] == [0]
    assert [name.partition for name in done.unchanged] == [1]
    site.await_end(mirror)
    site.end_and_verify()
