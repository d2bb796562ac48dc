"""Consumers with another cluster and another registry read a copy with nothing but Confluent's own deserializer.

Written by its serializer too: neither shares code with mirrorlake.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient, record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.apicurio import Apicurio
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import create_topic, log_end
from support.registry_model import RegistryModel
from support.stub_registry import StubRegistry

pytestmark = pytest.mark.kafka

RECORDS = 120
PARTITIONS = 2

Read = list[tuple[int, int, object, object]]
"""Partition, offset, key and value of each record, decoded, in order."""


def schema(name: str, *fields: str) -> str:
    made = [{"name": each, "type": "string", "default": ""} for each in fields]
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": made})


@dataclass
class Sites:
    east: str
    west: str
    here: str
    there: str
    topic: str
    file: Path

    def write(self, *versions: tuple[str, ...], by_record: bool) -> None:
        """Records of several versions of a schema in turn, with tombstones between; keys have schemas too."""
        with SchemaRegistryClient({"url": self.here}) as registry:
            self._write(registry, versions, by_record=by_record)

    def _write(self, registry: SchemaRegistryClient, versions: Sequence[tuple[str, ...]], *, by_record: bool) -> None:
        told: dict[str, Any] = {"subject.name.strategy": record_subject_name_strategy} if by_record else {}
        keys = AvroSerializer(registry, schema(f"Key{self.topic[-8:]}", "id"), conf=told)
        values = [AvroSerializer(registry, schema(f"Order{self.topic[-8:]}", *each), conf=told) for each in versions]
        producer = Producer({"bootstrap.servers": self.east, "compression.type": "zstd"})
        for number in range(RECORDS):
            record = {field: f"{field}-{number}" for field in versions[number % len(versions)]}
            value = values[number % len(versions)](record, SerializationContext(self.topic, MessageField.VALUE))
            producer.produce(
                self.topic,
                key=keys({"id": str(number)}, SerializationContext(self.topic, MessageField.KEY)),
                value=None if number % 20 == 7 else value,
                partition=number % PARTITIONS,
            )
        producer.flush()

    def read(self, servers: str, registry: str, topic: str) -> Read:
        with SchemaRegistryClient({"url": registry}) as client:
            return self._read(servers, AvroDeserializer(client), topic)

    def _read(self, servers: str, decode: AvroDeserializer, topic: str) -> Read:
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
        ends = {number: log_end(self.east, self.topic, number) for number in range(PARTITIONS)}
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        found: Read = []
        while len(found) < sum(ends.values()):
            message = consumer.poll(30)
            assert message is not None, f"{len(found)} of {ends}"
            assert message.error() is None, message.error()
            key = decode(message.key(), SerializationContext(topic, MessageField.KEY))
            value = decode(message.value(), SerializationContext(topic, MessageField.VALUE))
            found.append((message.partition() or 0, message.offset() or 0, key, value))
        consumer.close()
        return sorted(found, key=lambda each: each[:2])

    def copy(self) -> None:
        ended = mirrorlake("run", "-c", self.file, "--once")
        assert ended.code == 0, ended.err


@pytest.fixture
def sites_of(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, apicurio: Apicurio, topic_name: str, tmp_path: Path
) -> Iterator[Callable[[str, str], Sites]]:
    # Ids of the source are far from those that a registry of its own would give.
    with StubRegistry(RegistryModel(level="NONE", next_id=70_000)) as stub:

        def made(mode: str, strategy: str) -> Sites:
            east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
            create_topic(east, topic_name, PARTITIONS)
            file = write_yaml(
                tmp_path / "mirror.yaml",
                f'clusters: {{east: {{bootstrap-servers: "{east}"}}, west: {{bootstrap-servers: "{west}"}}}}\n'
                f'registries: {{here: {{url: "{stub.url}"}}, there: {{url: "{apicurio.url}"}}}}\n'
                f'mirrors: [{{name: "{topic_name}", source: {{cluster: east, topics: [{topic_name}]}}, '
                f'destinations: [{{type: kafka, cluster: west, offsets: {mode}, topic: "far.{{topic}}"}}], '
                f"schemas: {{from: here, to: there, key: {strategy}, value: {strategy}}}}}]\n"
                "service: {metrics: off}\nengine: {lanes: 1, lease: 1s, memory: 512MiB}\n",
            )
            return Sites(east, west, stub.url, apicurio.url, topic_name, file)

        yield made


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "strategy"), [("preserve", "topic-name"), ("map", "record-name")])
def test_every_record_is_read_at_the_other_registry_as_it_was_written(
    sites_of: Callable[[str, str], Sites], mode: str, strategy: str
) -> None:
    sites = sites_of(mode, strategy)
    by_record = strategy == "record-name"
    sites.write(("id",), ("id", "total"), by_record=by_record)
    sites.copy()
    sites.write(("id", "total", "currency"), ("id",), by_record=by_record)
    sites.copy()

    written = sites.read(sites.east, sites.here, sites.topic)
    copied = sites.read(sites.west, sites.there, f"far.{sites.topic}")

    assert len(written) == 2 * RECORDS
    places = 2 if mode == "preserve" else 1  # partition and offset; with mapped offsets the order within a partition
    assert [(each[:places], each[2:]) for each in copied] == [(each[:places], each[2:]) for each in written]


def test_every_record_is_read_from_an_archive_restored_to_another_registry_when_its_own_is_gone(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, apicurio: Apicurio, topic_name: str, tmp_path: Path
) -> None:
    east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    create_topic(east, topic_name, PARTITIONS)
    lake = tmp_path / "lake"
    lake.mkdir()
    common = (
        f'stores: {{lake: {{type: filesystem, root: "{lake}"}}}}\n'
        "service: {metrics: off}\nengine: {lanes: 1, lease: 1s, memory: 512MiB}\n"
    )
    with StubRegistry(RegistryModel(level="NONE", next_id=90_000)) as stub:
        file = write_yaml(
            tmp_path / "archive.yaml",
            f'{common}clusters: {{east: {{bootstrap-servers: "{east}"}}}}\n'
            f'registries: {{here: {{url: "{stub.url}"}}}}\n'
            f"mirrors: [{{name: 'out-{topic_name}', source: {{cluster: east, topics: [{topic_name}]}}, "
            "destinations: [{type: archive, store: lake}], "
            "schemas: {from: here, key: topic-name, value: topic-name}}]\n",
        )
        sites = Sites(east, west, stub.url, apicurio.url, topic_name, file)
        for versions in ((("id",), ("id", "total")), (("id", "total", "currency"), ("id",))):
            sites.write(*versions, by_record=False)
            sites.copy()
        written = sites.read(east, stub.url, topic_name)
    sites.file = write_yaml(
        tmp_path / "restore.yaml",
        f'{common}clusters: {{west: {{bootstrap-servers: "{west}"}}}}\n'
        f'registries: {{here: {{store: lake}}, there: {{url: "{apicurio.url}"}}}}\n'
        f"mirrors: [{{name: 'back-{topic_name}', source: {{store: lake, topics: [{topic_name}]}}, "
        'destinations: [{type: kafka, cluster: west, topic: "back.{topic}"}], '
        "schemas: {from: here, to: there, key: topic-name, value: topic-name}}]\n",
    )
    sites.copy()

    assert len(written) == 2 * RECORDS
    assert sites.read(west, apicurio.url, f"back.{topic_name}") == written
