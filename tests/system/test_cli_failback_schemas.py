"""Copies with schemas go back as `failback` says: ids of the one registry become those of the other, there and back."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from struct import unpack

import pytest
from aiokafka import AIOKafkaProducer

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import create_topic, source_end
from support.records import consume
from support.registry_model import RegistryModel, record
from support.schema_site import FIRST_ID_THERE, framed
from support.stub_registry import StubRegistry
from support.topics import delete_topic

pytestmark = pytest.mark.kafka

Values = Counter[tuple[str, bytes]]
"""How often a record is there: the text of its schema, by the registry beside the cluster, and what follows the id."""

PARTITIONS = 2


class Side:
    """A cluster and its registry."""

    def __init__(self, servers: str, registry: StubRegistry) -> None:
        self.servers = servers
        self.url = registry.url
        self._model = registry.model

    def versions(self, subject: str) -> list[str]:
        return [each.body["schema"] for each in self._model.subjects.get(subject, [])]

    def ids(self, subject: str) -> set[int]:
        return {each.id for each in self._model.subjects[subject]}

    def produce(self, topic: str, *fields: str, count: int, start: int) -> Values:
        """Registers a schema as a producer does, if it is not there, and sends records of it."""
        id_ = self._model.register(f"{topic}-value", {"schema": record(*fields)}).id
        bodies = [b"body %d" % number for number in range(start, start + count)]
        asyncio.run(_send(self.servers, topic, [framed(id_, body) for body in bodies]))
        return Counter((record(*fields), body) for body in bodies)

    def values(self, topic: str) -> Values:
        found: Values = Counter()
        for partition in range(PARTITIONS):
            for each in consume(self.servers, topic, partition).values():
                assert each.value is not None
                (id_,) = unpack(">i", each.value[1:5])
                found[self._model.by_id(id_).body["schema"], each.value[5:]] += 1
        return found


async def _send(servers: str, topic: str, values: list[bytes]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
    await producer.start()
    try:
        for number, value in enumerate(values):
            await producer.send_and_wait(topic, value, None, number % PARTITIONS)
    finally:
        await producer.stop()


def file_of(path: Path, east: Side, west: Side, mirror: str) -> Path:
    return write_yaml(
        path,
        f"""clusters: {{east: {{bootstrap-servers: "{east.servers}"}}, west: {{bootstrap-servers: "{west.servers}"}}}}
registries: {{here: {{url: "{east.url}"}}, there: {{url: "{west.url}"}}}}
mirrors:
{mirror}""",
    )


def copies_of(config: Path, verb: str, *more: str) -> list[dict[str, int | str]]:
    ended = mirrorlake("failover", verb, "-c", config, "--no-groups", "--format", "json", *more)
    assert ended.code == 0, ended.err + ended.out
    rows: list[dict[str, int | str]] = json.loads(ended.out)["copies"]
    return rows


@pytest.mark.parametrize(("mode", "template"), [("preserve", "{topic}"), ("map", "dr.{topic}")])
def test_records_with_schemas_of_either_side_go_there_and_back_once_with_the_ids_of_where_they_are(
    mode: str,
    template: str,
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
) -> None:
    topic, copy = topic_name, template.replace("{topic}", topic_name)
    here, there = RegistryModel(level="NONE"), RegistryModel(level="NONE", next_id=FIRST_ID_THERE)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = Side(source_kafka.bootstrap_servers, first), Side(destination_kafka.bootstrap_servers, second)
        forth = file_of(
            tmp_path / "forth.yaml",
            east,
            west,
            f"""  - name: m-{topic}
    source: {{cluster: east, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: west, topic: "{template}", offsets: {mode}}}]
    schemas: {{from: here, to: there}}
""",
        )
        create_topic(east.servers, topic, PARTITIONS)
        records = east.produce(topic, "a", count=10, start=0) + east.produce(topic, "a", "b", count=10, start=10)
        rows = copies_of(forth, "run", "--yes")
        assert west.values(copy) == records

        # Producers are there now, with schemas of before and one of their own; somebody registers others beside it.
        west.produce(f"{topic}-of-others", "x", count=0, start=0)
        records += west.produce(copy, "a", count=6, start=20) + west.produce(copy, "a", "b", "c", count=8, start=30)
        east._model.register(f"{topic}-of-yet-others-value", {"schema": record("y")})
        refused = mirrorlake("failback", "plan", "-c", forth)
        assert refused.code == 1
        assert "`schemas` with `from` and `to` exchanged" in refused.err
        if mode == "map":
            rows = copies_of(forth, "plan")
        start = {row["to_partition"]: row["to_end"] for row in rows}
        back = file_of(
            tmp_path / "back.yaml",
            east,
            west,
            f"""  - name: m-{topic}-way-back
    source: {{cluster: west, topics: [{copy}], start: {{offsets: {{{copy}: {start}}}}}}}
    destinations: [{{type: kafka, cluster: east, topic: {topic}, offsets: map}}]
    schemas: {{from: there, to: here}}
""",
        )
        for _ in range(2):
            ended = mirrorlake("run", "-c", back, "--once")
            assert ended.code == 0, ended.err
        assert east.values(topic) == records
        assert east.versions(f"{topic}-value") == west.versions(f"{copy}-value")
        assert len(east.versions(f"{topic}-value")) == 3
        assert not east.ids(f"{topic}-value") & west.ids(f"{copy}-value")

        if mode == "map":
            exported = mirrorlake("offsets", "export", "-c", forth)
            lines = [line.rpartition(",")[0] for line in exported.out.splitlines()]
            ends = [source_end(east.servers, topic, int(line.rpartition(",")[2])) for line in lines]
            moved = tmp_path / "moved.csv"
            moved.write_text("".join(f"{line},{end}\n" for line, end in zip(lines, ends, strict=True)))
            assert mirrorlake("offsets", "import", "-c", forth, "--file", str(moved), "--yes").code == 0
        else:
            delete_topic(west.servers, copy)
        records += east.produce(topic, "a", "b", "c", count=4, start=40)
        records += east.produce(topic, "a", "b", "c", "d", count=4, start=50)
        ended = mirrorlake("run", "-c", forth, "--once")
        assert ended.code == 0, ended.err
        assert west.values(copy) == records
        assert east.versions(f"{topic}-value") == west.versions(f"{copy}-value")
