"""A copy that stays behind is said to be stale by the running service, once, and no longer when it is whole."""

import time
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import write_yaml
from support.copies import wait_until
from support.records import simple_records
from support.running_service import RunningService
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka


def test_a_copy_held_back_becomes_stale_and_is_not_when_its_limit_is_gone(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(east, topic_name, simple_records(100, size=1000))

    def file(limit: str) -> Path:
        return write_yaml(
            tmp_path / "mirror.yaml",
            f'clusters: {{east: {{bootstrap-servers: "{east}"}}, west: {{bootstrap-servers: "{west}"}}}}\n'
            f'mirrors: [{{name: "{topic_name}", source: {{cluster: east, topics: [{topic_name}]}}, '
            f"destinations: [{{type: kafka, cluster: west}}], stale-after: 1s{limit}}}]\n"
            "service: {metrics: off}\nengine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
        )

    said: list[str] = []

    def has_said(words: str) -> bool:
        said.append(capsys.readouterr().out)
        return words in "".join(said)

    with RunningService(file(", limit: {bytes-per-second: 1000}")) as running:
        wait_until(lambda: [row["dest_next"] for row in running.rows()] == [100], "the first answer, taken whole")
        append(east, topic_name, 0, simple_records(5, start=100, timestamp=int(time.time() * 1000)))
        wait_until(lambda: has_said("copy is stale"), "the alarm")
        (row,) = running.rows()
        assert str(row["stale"]).startswith("behind its source for ")
        assert running.service.health().is_good
        file("")
        running.service.reload()
        wait_until(lambda: has_said("copy is no longer stale"), "its end")
        wait_until(lambda: "stale" not in running.rows()[0], "no word of it")
    said.append(capsys.readouterr().out)
    assert "".join(said).count("copy is stale") == 1
