"""Schemas archived for records that name them by GUIDs, and restored into registries that give others, or none."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.archived_schemas import archived_versions
from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.guid_site import GuidSite
from support.records import Record, consume
from support.registry_model import RegistryModel
from support.schema_site import FIRST_ID_THERE, letter_headers, letters_in
from support.stub_registry import StubRegistry
from support.topics import make_topic

pytestmark = pytest.mark.kafka

PARTITIONS = (0, 1)
"""With GUIDs before payloads, and in headers."""


@dataclass
class ArchivedGuids(GuidSite):
    """The topic goes to an archive, and from there to the second cluster and registry."""

    def archive(self) -> None:
        lake = self.folder / "lake"
        lake.mkdir()
        done = mirrorlake("run", "-c", self.guid_file("", store=str(lake)), "--once")
        assert done.code == 0, done.err
        # The source's registry is gone: all that follows knows the archive alone.
        self.here.fault = lambda _method, _path: (503, {})

    def back(self, more: str = "", offsets: str = "preserve") -> Path:
        return write_yaml(
            self.folder / "back.yaml",
            f'clusters: {{west: {{bootstrap-servers: "{self.west}"}}}}\n'
            f'stores: {{lake: {{type: filesystem, root: "{self.folder / "lake"}"}}}}\n'
            f'registries: {{kept: {{store: lake, registry: here}}, there: {{url: "{self.there.url}"}}}}\n'
            f"mirrors: [{{name: 'back-{self.topic}', source: {{store: lake, topics: [{self.topic}]}}, "
            f"destinations: [{{type: kafka, cluster: west, offsets: {offsets}}}], "
            f"schemas: {{from: kept, to: there{more}}}}}]\n"
            "service: {metrics: off}\n"
            "engine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
        )


@pytest.fixture
def site(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> Iterator[ArchivedGuids]:
    here = RegistryModel(level="NONE", has_guids=True)
    there = RegistryModel(level="NONE", next_id=FIRST_ID_THERE, has_guids=True)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
        yield ArchivedGuids(east, west, first, second, topic_name, tmp_path)


def odd(site: GuidSite, one: UUID, two: UUID) -> list[Record]:
    """Both forms at once, headers twice, of which the last counts, and one of null, which does not."""
    held, other = b"\1" + one.bytes, b"\1" + two.bytes
    name = "__value_schema_id"
    (plain,) = site.by_guid([two], 0)
    return [
        replace(plain, headers=((name, held), (name, other))),
        replace(plain, headers=((name, other), (name, None))),
        replace(plain, value=b"\0\0\0\0\1body", headers=((name, other),)),
        replace(plain, value=None, headers=((name, other),)),
        replace(plain, headers=(("__key_schema_id", other),)),
    ]


@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_records_are_restored_with_the_guids_their_schemas_have_there(site: ArchivedGuids, offsets: str) -> None:
    site.make_base_with_other_numbers()
    one, two = site.register_guid("a"), site.register_guid("a", "b", base=2)
    written = [site.by_guid([one, two, None] * 4, partition) for partition in PARTITIONS]
    make_topic(site.east, site.topic, [*written[0], *odd(site, one, two)], written[1])
    site.archive()
    kept = archived_versions(site.folder / "lake")
    assert {str(one), str(two)} <= {each["guid"] for each in kept.values()}

    done = mirrorlake("run", "-c", site.back(offsets=offsets), "--once")
    assert done.code == 0, done.err

    there = site.guids_there()
    assert (there[one] == one, there[two] == two) == (True, False)
    changed = b"\1" + there[two].bytes
    found = site.copied_guids(0)
    assert found[:12] == site.copies_of(written[0])
    assert site.copied_guids(1) == site.copies_of(written[1])
    name = "__value_schema_id"
    before = consume(site.east, site.topic, 0)
    twice, nulled, both, tombstone, of_key = (before[offset] for offset in range(12, 17))
    wanted = [
        replace(twice, headers=((name, b"\1" + one.bytes), (name, changed))),
        replace(nulled, value=changed + (nulled.value or b"")[17:]),
        replace(both, headers=((name, changed),)),
        tombstone,
        replace(of_key, value=changed + (of_key.value or b"")[17:]),
    ]
    assert found[12:] == [replace(each, timestamp=0) for each in wanted]
    verified = mirrorlake("verify", "-c", site.back(offsets=offsets), "--level", "records", "--format", "json")
    assert [row["result"] for row in verified.rows()] == ["equal"] * 2, verified


@pytest.mark.slow
def test_where_the_other_registry_gives_no_guids_restored_records_park_or_become_letters(site: ArchivedGuids) -> None:
    site.there.model.has_guids = False
    one = site.register_guid("a")
    header = ("__value_schema_id", b"\1" + one.bytes[:15])
    short = replace(site.by_guid([one], 0)[0], value=b"plain", headers=(header,))
    make_topic(site.east, site.topic, [*site.by_guid([None, one], 0), short], site.by_guid([one], 1))
    site.archive()
    letters = f', on-unreadable: dead-letter, dead-letters: {{topic: "{site.letters}"}}'
    done = mirrorlake("run", "-c", site.back(letters, "map"), "--once")
    assert done.code == 0, done.err
    reasons = [[letter_headers(each)["reason"] for each in letters_in(site.west, site.letters, p)] for p in PARTITIONS]
    assert reasons == [["guid", "short"], ["guid"]]
    assert [len(site.copied_guids(partition)) for partition in PARTITIONS] == [1, 0]
