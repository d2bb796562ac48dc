"""Mirrors with a limit: they stand while what was read is not paid for, in every form, and lose nothing by it."""

import time
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.service.lifecycle.endings import EXIT_DONE
from support.command import without_spark as mirrorlake
from support.copies import archived_records, create_topic, log_end, wait_until
from support.records import simple_records
from support.running_service import RunningService
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka

FORMS = {
    "preserve": "{type: kafka, cluster: west}",
    "map": '{type: kafka, cluster: west, topic: "mapped.{topic}", offsets: map}',
    "parquet": '{type: archive, store: lake, name: "parquet.{topic}", flush: {max-time: 1s}}',
    "snapshots": '{type: archive, store: lake, name: "view.{topic}", compaction: log, flush: {max-time: 1s}}',
}
FIRST = 200
RECORD_BYTES = 1000
LIMIT = 4000
"""Bytes a second: what is appended first is paid for in 50 seconds, longer than the test looks."""

STANDS_SECONDS = 3.0
"""Longer than a lease and the time until an archive is due."""


def configuration(
    file: Path, east: str, west: str, lake: Path, topic: str, limit: str = "", *, of_cluster: str = ""
) -> None:
    mirrors = [
        f'- {{name: "{form}-{topic}", source: {{cluster: east, topics: [{topic}]}}, '
        f"destinations: [{destination}]{limit}}}"
        for form, destination in FORMS.items()
    ]
    file.write_text(
        "\n".join(
            [
                "clusters:",
                f'  east: {{bootstrap-servers: "{east}"{of_cluster}}}',
                f'  west: {{bootstrap-servers: "{west}"}}',
                f'stores: {{lake: {{type: filesystem, root: "{lake}"}}}}',
                "mirrors:",
                *mirrors,
                "service: {metrics: off, heartbeat: 1s}",
                "engine: {lanes: 2, lease: 1s, memory: 512MiB, tail-check: 1h, discovery: 1h}",
            ]
        )
    )


def made(east: str, west: str, topic: str, folder: Path, *records: int) -> tuple[Path, Path]:
    """Makes the topic with so many records in each partition and what the forms need; returns lake and file."""
    lake = folder / "lake"
    lake.mkdir()
    make_topic(east, topic, *(simple_records(count, size=RECORD_BYTES) for count in records))
    create_topic(west, f"mapped.{topic}", len(records))
    return lake, folder / "mirror.yaml"


@pytest.mark.slow
def test_a_mirror_of_any_form_stands_until_its_limit_is_taken_away_and_a_stop_flushes_its_archives(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    lake, file = made(east, west, topic_name, tmp_path, FIRST)
    configuration(file, east, west, lake, topic_name, f", limit: {{bytes-per-second: {LIMIT}}}")
    with RunningService(file) as running:

        def positions() -> dict[str, int]:
            return {row["name"].removesuffix(f"-{topic_name}"): row["dest_next"] for row in running.rows()}

        def await_all(position: int) -> None:
            wanted = dict.fromkeys(FORMS, position)
            wait_until(lambda: positions() == wanted, f"all at {position}", log=lambda: str(running.rows()))

        await_all(FIRST)  # read in one answer, which is taken whole
        append(east, topic_name, 0, simple_records(5, start=FIRST, size=RECORD_BYTES))
        time.sleep(STANDS_SECONDS)
        assert positions() == dict.fromkeys(FORMS, FIRST)
        assert running.service.health().is_good

        configuration(file, east, west, lake, topic_name, "")
        assert sorted(running.service.reload()) == sorted(f"mirrors.{form}-{topic_name}.limit" for form in FORMS)
        await_all(FIRST + 5)

        configuration(file, east, west, lake, topic_name, f", limit: {{bytes-per-second: {LIMIT}}}")
        running.service.reload()
        append(east, topic_name, 0, simple_records(FIRST, start=FIRST + 5, size=RECORD_BYTES))
        await_all(2 * FIRST + 5)
        append(east, topic_name, 0, simple_records(7, start=2 * FIRST + 5, size=RECORD_BYTES))
        time.sleep(STANDS_SECONDS)
        running.service.stop()
        assert running.exit_code() == EXIT_DONE
        found = positions()
        assert {form: found[form] for form in ("parquet", "snapshots")} == {
            "parquet": 2 * FIRST + 12,
            "snapshots": 2 * FIRST + 12,
        }
    configuration(file, east, west, lake, topic_name, "")
    assert mirrorlake("run", "-c", file, "--once").code == 0
    verified = mirrorlake("verify", "-c", file, "--format", "json")
    assert verified.code == 0, verified.out + verified.err


@pytest.mark.slow
def test_mirrors_stand_together_at_the_limit_of_their_cluster_until_it_is_taken_away(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    lake, file = made(east, west, topic_name, tmp_path, FIRST)
    together = f", limit: {{bytes-per-second: {LIMIT * len(FORMS)}}}"
    configuration(file, east, west, lake, topic_name, of_cluster=together)
    with RunningService(file) as running:

        def positions() -> set[int]:
            return {row["dest_next"] for row in running.rows()}

        wait_until(lambda: positions() == {FIRST}, "all have read one answer", log=lambda: str(running.rows()))
        append(east, topic_name, 0, simple_records(5, start=FIRST, size=RECORD_BYTES))
        time.sleep(STANDS_SECONDS)
        assert positions() == {FIRST}

        configuration(file, east, west, lake, topic_name)
        assert running.service.reload() == ["clusters.east.limit"]
        wait_until(lambda: positions() == {FIRST + 5}, "all have the rest", log=lambda: str(running.rows()))


def test_a_bounded_run_with_a_limit_takes_its_time_and_copies_all(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    lake, file = made(east, west, topic_name, tmp_path, FIRST, 5)
    configuration(file, east, west, lake, topic_name, ", limit: {bytes-per-second: 100kB}")

    ended = mirrorlake("run", "-c", file, "--once")

    assert ended.code == 0, ended.err
    verified = mirrorlake("verify", "-c", file, "--format", "json")
    assert verified.code == 0, verified.out + verified.err


APPENDED_SECONDS = 12.0


@pytest.mark.soak  # it counts bytes by the clock, which a busy machine decides; the rule is tested in test_pacing.py
def test_a_copy_and_an_archive_of_one_mirror_keep_to_its_limit_together(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, lake = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, tmp_path / "lake"
    lake.mkdir()
    make_topic(east, topic_name, [])
    limit = 20 * RECORD_BYTES
    file = tmp_path / "mirror.yaml"
    file.write_text(
        f"""clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
stores: {{lake: {{type: filesystem, root: "{lake}"}}}}
mirrors:
  - name: both-{topic_name}
    source: {{cluster: east, topics: [{topic_name}]}}
    limit: {{bytes-per-second: {limit}}}
    destinations:
      - {{type: kafka, cluster: west}}
      - {{type: archive, store: lake, flush: {{max-time: 1s}}}}
service: {{metrics: off, heartbeat: 1s}}
engine: {{lanes: 2, lease: 1s, memory: 512MiB, tail-check: 1h, discovery: 1h}}
"""
    )
    with RunningService(file) as running:
        wait_until(lambda: {row["lag"] for row in running.rows()} == {0}, "both to begin")
        began, appended = time.monotonic(), 0
        while time.monotonic() < began + APPENDED_SECONDS:  # as much as the limit allows for one of both
            due = int((time.monotonic() - began) * limit / RECORD_BYTES) - appended
            append(east, topic_name, 0, simple_records(due, start=appended, size=RECORD_BYTES))
            appended += due
            time.sleep(0.3)
        seconds = time.monotonic() - began
        copied, archived = log_end(west, topic_name), len(archived_records(lake, topic_name, 0))

        # What is read in one go lies in one of them: what came while the other was paid for.
        allowed = limit * seconds + 5 * limit
        assert RECORD_BYTES * (copied + archived) < allowed, (copied, archived, seconds)
        assert min(copied, archived) > appended / 8, (copied, archived)
