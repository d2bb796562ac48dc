"""Copies that `failback` refuses, brought back by what it says is to be written; records counted there and back."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import create_topic, source_end
from support.records import Record, consume, simple_records
from support.routed_copies import KINDS, record, route, topics_of
from support.topics import delete_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


async def _send(servers: str, topic: str, records: list[Record], partitions: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    await producer.start()
    try:
        for number, each in enumerate(records):
            await producer.send_and_wait(topic, each.value, each.key, number % partitions)
    finally:
        await producer.stop()


def send(servers: str, topic: str, records: list[Record], partitions: int = 2) -> list[bytes | None]:
    asyncio.run(_send(servers, topic, records, partitions))
    return [each.value for each in records]


def values(servers: str, topics: Iterable[str]) -> Counter[bytes | None]:
    return Counter(each.value for topic in topics for n in range(2) for each in consume(servers, topic, n).values())


def clusters(east: str, west: str) -> str:
    return f'clusters: {{east: {{bootstrap-servers: "{east}"}}, west: {{bootstrap-servers: "{west}"}}}}\n'


def way_back(topic: str, ends: Mapping[str, Mapping[int, int]]) -> str:
    """The mirror in the other direction, from each copy's end on, as `failback` says it is to be written."""
    start = {copy: dict(of) for copy, of in ends.items()}
    return f"""mirrors:
  - name: m-{topic}-back
    source: {{cluster: west, topics: {json.dumps(list(ends))}, start: {{offsets: {start}}}}}
    destinations: [{{type: kafka, cluster: east, topic: {topic}, offsets: map}}]
"""


def move_past(there: Path, east: str, topic: str, folder: Path) -> None:
    """Moves the mirror itself past what came back."""
    exported = mirrorlake("offsets", "export", "-c", there)
    lines = [line.rpartition(",")[0] for line in exported.out.splitlines()]
    moved = folder / "moved.csv"
    moved.write_text("".join(f"{line},{source_end(east, topic, int(line.rpartition(',')[2]))}\n" for line in lines))
    imported = mirrorlake("offsets", "import", "-c", there, "--file", str(moved), "--yes")
    assert imported.code == 0, imported.err


@pytest.mark.parametrize("mode", ["map", "preserve"])
def test_a_renamed_copy_goes_back_as_it_is_said_and_nothing_is_missed_or_doubled(
    mode: str, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west, copy = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, f"dr.{topic_name}"
    there, back = tmp_path / "there.yaml", tmp_path / "back.yaml"
    create_topic(east, topic_name, 2)
    write_yaml(
        there,
        f"""{clusters(east, west)}mirrors:
  - name: m-{topic_name}
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west, topic: "dr.{{topic}}", offsets: {mode}}}]
""",
    )
    records = Counter(send(east, topic_name, simple_records(20)))
    ended = mirrorlake("failover", "run", "-c", there, "--yes", "--no-groups", "--format", "json")
    assert ended.code == 0, ended.err
    rows = json.loads(ended.out)["copies"]
    records += Counter(send(west, copy, simple_records(10, start=100)))
    refused = mirrorlake("failback", "plan", "-c", there)
    assert refused.code == 1
    verb = "plan" if mode == "map" else "run"
    assert "`to_end`" in refused.err
    assert f"`mirrorlake failover {verb}`" in refused.err
    assert "`offsets: map`" in refused.err
    if mode == "map":
        rows = json.loads(mirrorlake("failover", "plan", "-c", there, "--no-groups", "--format", "json").out)["copies"]
    else:
        records += Counter(send(east, topic_name, simple_records(4, start=50)))  # by one that was not stopped in time
    ends = {copy: {row["partition"]: row["to_end"] for row in rows}}
    write_yaml(back, f"{clusters(east, west)}{way_back(topic_name, ends)}")
    for _ in range(2):
        ended = mirrorlake("run", "-c", back, "--once")
        assert ended.code == 0, ended.err
    assert values(east, [topic_name]) == records

    if mode == "map":
        move_past(there, east, topic_name, tmp_path)
    else:
        delete_topic(west, copy)
    records += Counter(send(east, topic_name, simple_records(6, start=200)))
    forth = mirrorlake("run", "-c", there, "--once")
    assert forth.code == 0, forth.err
    assert values(west, [copy]) == records


def test_routed_copies_go_back_as_it_is_said_and_nothing_is_missed_or_doubled(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    there, back, copies = tmp_path / "there.yaml", tmp_path / "back.yaml", topics_of(topic_name)
    create_topic(east, topic_name, 2)
    write_yaml(
        there,
        f"""{clusters(east, west)}mirrors:
  - name: m-{topic_name}
    source: {{cluster: east, topics: [{topic_name}]}}
    destinations: [{{type: kafka, cluster: west, offsets: map, {route(topic_name)}}}]
""",
    )
    records = Counter(send(east, topic_name, [record(n, KINDS[n % 2]) for n in range(20)]))
    assert mirrorlake("failover", "run", "-c", there, "--yes", "--no-groups").code == 0
    for number, kind in enumerate(KINDS):
        records += Counter(send(west, copies[kind], [record(100 + 10 * number + n, kind) for n in range(5)]))
    rows = json.loads(mirrorlake("failover", "plan", "-c", there, "--no-groups", "--format", "json").out)["copies"]
    ends: dict[str, dict[int, int]] = {}
    for row in rows:
        of = ends.setdefault(row["to"], {})
        of[row["to_partition"]] = max(of.get(row["to_partition"], 0), row["to_end"])
    write_yaml(back, f"{clusters(east, west)}{way_back(topic_name, ends)}")
    for _ in range(2):
        ended = mirrorlake("run", "-c", back, "--once")
        assert ended.code == 0, ended.err
    assert values(east, [topic_name]) == records

    move_past(there, east, topic_name, tmp_path)
    records += Counter(send(east, topic_name, [record(n, KINDS[n % 3]) for n in range(200, 209)]))
    forth = mirrorlake("run", "-c", there, "--once")
    assert forth.code == 0, forth.err
    assert values(west, copies.values()) == records
