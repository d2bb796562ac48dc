"""``schemas check`` as a process: records on a real broker, registries with Confluent's rules."""

from collections.abc import Iterator
from pathlib import Path
from struct import pack
from uuid import UUID

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake
from support.records import Record
from support.registry_model import RegistryModel, guid_of, record
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka

TIME = 1_700_000_000_000


def framed(schema_id: int) -> bytes:
    return b"\0" + pack(">i", schema_id) + b"body"


def value(payload: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Record:
    return Record(TIME, b"plain key", payload, headers)


@pytest.fixture
def source() -> Iterator[StubRegistry]:
    with StubRegistry(RegistryModel(level="NONE")) as stub:
        yield stub


@pytest.fixture
def destination() -> Iterator[StubRegistry]:
    with StubRegistry(RegistryModel(level="NONE")) as stub:
        stub.model.register("anothers", {"schema": record("another")})  # so that ids differ
        yield stub


class Site:
    def __init__(
        self, kafka: EmbeddedKafka, source: StubRegistry, destination: StubRegistry, topic: str, folder: Path
    ) -> None:
        self.kafka, self.topic = kafka, topic
        self.ids = [source.model.register(f"{topic}-value", {"schema": record(name)}).id for name in "ab"]
        self.config = write_yaml(
            folder / "mirror.yaml",
            f'clusters: {{here: {{bootstrap-servers: "{kafka.bootstrap_servers}"}}}}\n'
            f'registries: {{east: {{url: "{source.url}"}}, west: {{url: "{destination.url}"}}}}\n'
            "mirrors:\n"
            f"  - name: m\n    source: {{cluster: here, topics: [{topic}]}}\n"
            '    destinations: [{type: kafka, cluster: here, topic: "copy-of-{topic}"}]\n'
            "    schemas: {from: east, to: west}\n",
        )

    def schemas(self, *words: str) -> Ended:
        return mirrorlake("schemas", *words[:1], "-c", self.config, *words[1:])

    def check(self) -> tuple[int, dict[str, list[dict[str, object]]]]:
        ended = self.schemas("check", "--format", "json")
        keys = {"records": "side", "ids": "id", "failures": "error"}
        return ended.code, {name: [row for row in ended.rows() if key in row] for name, key in keys.items()}


@pytest.fixture
def site(
    source_kafka: EmbeddedKafka, source: StubRegistry, destination: StubRegistry, topic_name: str, tmp_path: Path
) -> Site:
    return Site(source_kafka, source, destination, topic_name, tmp_path)


def test_ids_are_missing_at_the_destination_until_their_subjects_are_brought_there(site: Site) -> None:
    records = [value(framed(id_)) for id_ in (*site.ids, site.ids[0])]
    make_topic(site.kafka.bootstrap_servers, site.topic, [*records, value(None)], [value(framed(site.ids[1]))])

    before = site.check()
    assert site.schemas("apply", "--yes").code == 0
    after = site.check()

    assert (before[0], after[0]) == (1, 0)
    assert [(row["id"], row["destination_id"], row["state"]) for row in before[1]["ids"]] == [
        (site.ids[0], None, "missing"),
        (site.ids[1], None, "missing"),
    ]
    assert [(row["id"], row["subjects"], row["state"]) for row in after[1]["ids"]] == [
        (site.ids[0], f"{site.topic}-value:1", "known"),
        (site.ids[1], f"{site.topic}-value:2", "known"),
    ]
    assert all(row["destination_id"] not in (None, row["id"]) for row in after[1]["ids"])
    (counted,) = after[1]["records"]
    assert (counted["side"], counted["known"], counted["null"], counted["unreadable_offset"]) == ("value", 4, 1, None)


def test_what_names_no_schema_is_counted_and_the_first_one_named(site: Site, source: StubRegistry) -> None:
    make_topic(site.kafka.bootstrap_servers, site.topic, [value(framed(site.ids[0]))])
    assert site.schemas("apply", "--yes").code == 0
    assert site.check()[0] == 0

    # The source's registry gives GUIDs, and the destination's does not.
    source.model.has_guids = True
    guid = UUID(guid_of({"schema": record("a")}))
    by_guid = (("__value_schema_id", b"\1" + guid.bytes),)
    rest = [value(b"{}"), value(b"\0\0"), value(framed(4242)), value(b"avro alone", by_guid)]
    rest.append(value(b"\1" + bytes(16)))
    append(site.kafka.bootstrap_servers, site.topic, 0, rest)
    code, found = site.check()

    (counted,) = found["records"]
    assert code == 1
    assert [counted[name] for name in ("known", "not-framed", "short", "absent", "guid")] == [1, 1, 1, 2, 1]
    assert (counted["unreadable_partition"], counted["unreadable_offset"]) == (0, 1)
    assert [(row["id"], row["state"]) for row in found["ids"]] == [
        (site.ids[0], "known"),
        (4242, "unknown"),
        (str(UUID(int=0)), "unknown"),
        (str(guid), "guid"),
    ]
    assert "4242" in site.schemas("check").out


def test_a_registry_that_does_not_answer_is_a_failure_and_no_verdict(site: Site, source: StubRegistry) -> None:
    make_topic(site.kafka.bootstrap_servers, site.topic, [value(framed(site.ids[0]))])
    source.fault = lambda _method, path: (500, {}) if "/schemas/ids/" in path else None

    code, found = site.check()

    assert (code, found["ids"], found["records"]) == (1, [], [])
    assert "east" in str(found["failures"][0]["error"])
