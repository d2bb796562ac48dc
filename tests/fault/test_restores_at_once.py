"""Restores of one name, started at once: one of them does it, and the other ends and says who does; or both did it."""

import time
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.lifecycle.endings import EXIT_SUPERSEDED
from mirrorlake.stores.opening import open_store
from support.archived_source import held_records, mark, settings_at, write_segment
from support.command import write_yaml
from support.copies import assert_same_records
from support.records import Record, build_batch, consume, simple_records
from support.service_process import ServiceProcess

pytestmark = pytest.mark.kafka

BATCHES, BATCH_RECORDS, BATCH_OFFSETS = 60, 10, 13
PARTITIONS = 2
SECONDS_MAX = 90.0


def write_lake(root: Path, topic: str, partitions: int) -> dict[int, Record]:
    """Batches with gaps between them, one segment for every ten; what a copy of a partition holds."""
    root.mkdir()
    records = simple_records(BATCHES * BATCH_RECORDS, size=200)
    store = open_store(settings_at(root))
    content = held_records(
        (number * BATCH_OFFSETS, build_batch(records[number * BATCH_RECORDS : (number + 1) * BATCH_RECORDS]))
        for number in range(BATCHES)
    )
    for partition in range(partitions):
        where = TopicPartition(topic, partition)
        for start in range(0, BATCHES, 10):
            write_segment(store, where, content, start * BATCH_OFFSETS, (start + 10) * BATCH_OFFSETS, form="log")
        mark(store, where, BATCHES * BATCH_OFFSETS, form="log")
    return {
        number // BATCH_RECORDS * BATCH_OFFSETS + number % BATCH_RECORDS: each for number, each in enumerate(records)
    }


def end_of(restores: list[ServiceProcess]) -> list[int | None]:
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline and any(each.is_running for each in restores):
        time.sleep(0.1)
    return [None if each.is_running else each.exit_code() for each in restores]


@pytest.mark.parametrize("mode", ["preserve", "map"])
@pytest.mark.parametrize("apart_seconds", [0.0, 0.6])
def test_of_two_restores_of_one_name_at_once_one_does_it_and_the_other_gives_way_or_both_did(
    destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, mode: str, apart_seconds: float
) -> None:
    servers = destination_kafka.bootstrap_servers
    expected = write_lake(tmp_path / "lake", topic_name, PARTITIONS)
    config = write_yaml(
        tmp_path / "restore.yaml",
        f"""clusters:
  west: {{bootstrap-servers: "{servers}"}}
stores:
  lake: {{type: filesystem, root: {tmp_path / "lake"}}}
  other: {{type: filesystem, root: {tmp_path}}}
mirrors:
  - name: other-{topic_name}
    source: {{store: lake, topics: [other]}}
    destinations: [{{type: archive, store: other}}]
engine: {{lanes: 1, lease: 1s, memory: 512MiB}}
""",
    )
    given = ("restore", "-c", str(config), "--store", "lake", "--topics", topic_name, "--to", "west", "--yes")
    named = ("--offsets", mode, "--name", f"{topic_name}-{mode}")
    with ServiceProcess(*given, *named, folder=tmp_path, without_spark=True) as one:
        time.sleep(apart_seconds)
        with ServiceProcess(*given, *named, folder=tmp_path, without_spark=True) as other:
            codes = end_of([one, other])
            told = [one.said(), other.said()]
    said = f"{codes}\n--- one\n{told[0]}\n--- other\n{told[1]}"
    assert 0 in codes, said
    assert set(codes) <= {0, EXIT_SUPERSEDED}, said
    for text, code in zip(told, codes, strict=True):
        if code == EXIT_SUPERSEDED:
            assert "another process serves the mirror" in text or "mirrorlake.state names the owner" in text, said
    for partition in range(PARTITIONS):
        copied = consume(servers, topic_name, partition)
        if mode == "preserve":
            assert_same_records(expected, copied)
        else:
            assert [*copied.values()] == [*expected.values()], said
