"""``status`` beside a service that runs, and after it has ended: what is parked, what is behind, what nobody knows."""

import socket
from dataclasses import dataclass

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.copies import create_topic, wait_until
from support.records import Record, simple_records
from support.service_process import ServiceProcess
from support.topics import make_topic

pytestmark = pytest.mark.kafka

IDLE = "/nothing-is-called-so-.*/"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass(frozen=True)
class Seen:
    """What was seen of a service that parks one mirror, while it ran and after it had ended."""

    topic: str
    plan: Ended
    beside: Ended
    beside_table: Ended
    after: Ended
    after_table: Ended
    log: str


@pytest.fixture(scope="module")
def seen(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Seen:
    folder = tmp_path_factory.mktemp("status")
    topic, large = f"live-{folder.name}", f"large-{folder.name}"
    make_topic(source_kafka.bootstrap_servers, topic, simple_records(5))
    # Only its destination's broker knows that a record is too large: nothing shows it before it is appended.
    make_topic(source_kafka.bootstrap_servers, large, [Record(1_700_000_000_000, None, bytes(5000))])
    create_topic(destination_kafka.bootstrap_servers, large, max_message_bytes="1000")
    config = write_yaml(
        folder / "mirror.yaml",
        f"""
clusters:
  east: {{bootstrap-servers: "{source_kafka.bootstrap_servers}"}}
  west: {{bootstrap-servers: "{destination_kafka.bootstrap_servers}"}}
mirrors:
  - name: small
    source: {{cluster: east, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: west}}]
  - name: large
    source: {{cluster: east, topics: [{large}]}}
    destinations: [{{type: kafka, cluster: west}}]
  - name: idle
    source: {{cluster: east, topics: ["{IDLE}"]}}
    destinations: [{{type: kafka, cluster: west}}]
service: {{metrics: "127.0.0.1:{free_port()}", heartbeat: 1s}}
""",
    )
    plan = mirrorlake("plan", "-c", config)

    def status(*more: str) -> Ended:
        return mirrorlake("status", "-c", config, *more)

    with ServiceProcess("run", "-c", str(config), folder=folder, without_spark=True) as service:
        service.await_words("partition parked")
        wait_until(lambda: status("--format", "json").row("small")["service"] == "caught-up", "small to be copied")
        beside, beside_table = status("--format", "json"), status()
        service.stop()
        service.exit_code()
        log = service.said()
    return Seen(topic, plan, beside, beside_table, status("--format", "json"), status(), log)


def test_what_a_running_service_has_parked_is_shown_with_its_reason_and_error(seen: Seen) -> None:
    row = seen.beside.row("large")

    assert (row["state"], row["service"], row["reason"]) == ("parked", "parked", "too-large")
    assert "max.message.bytes" in row["error"]
    assert seen.beside.code == 1
    assert "parked: too-large" in seen.beside_table.out


def test_what_the_service_copies_is_shown_with_how_far_behind_it_is_in_seconds(seen: Seen) -> None:
    row = seen.beside.row("small")

    assert (row["state"], row["service"], row["lag"], row["lag_seconds"]) == ("caught-up", "caught-up", 0, 0.0)


def test_without_a_service_what_is_behind_is_said_to_be_behind_and_what_is_parked_to_be_unknown(seen: Seen) -> None:
    row = seen.after.row("large")

    assert (row["state"], row["service"], row["lag"], row["lag_seconds"]) == ("behind", "unknown", 1, None)
    assert "error" not in row
    assert seen.after.code == 0
    assert (
        "what only a running service knows is unknown, such as partitions it parked: none answers at 127.0.0.1:"
        in seen.after_table.out
    )
    assert "unknown: none answers" not in seen.beside_table.out


def test_a_mirror_that_selects_nothing_is_said_by_plan_status_and_run(seen: Seen) -> None:
    said = f"mirror idle: {IDLE} selects no topic of cluster east"

    for ended in (seen.plan, seen.after_table):
        assert f"warning {said}" in ended.out
    assert said in seen.log
    assert seen.log.count("mirror selects nothing") == 1
    row = seen.after.row("idle", None)
    assert (row["topic"], row["state"], row["note"]) == (IDLE, "unknown", "selects no topic")
