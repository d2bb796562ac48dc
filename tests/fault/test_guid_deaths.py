"""A service killed between a schema's registration, or archiving, and the first record that names it by its GUID."""

import threading
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.archived_schemas import archived_versions
from support.copies import wait_until
from support.guid_site import SIDES, GuidSite
from support.records import Record
from support.registry_model import RegistryModel
from support.schema_site import FIRST_ID_THERE
from support.service_process import ServiceProcess
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka

PARTITIONS = (0, 1)
"""With GUIDs before payloads, and in headers."""


def finish(file: str, folder: Path) -> None:
    with ServiceProcess("run", "-c", file, "--once", folder=folder, without_spark=True) as once:
        assert once.exit_code() == 0


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("mode", "when"), [("preserve", "drop-after"), ("map", "drop-before")])
def test_a_service_killed_at_a_registration_leaves_no_guid_without_its_schema_and_the_next_has_every_record_once(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    mode: str,
    when: str,
    side: str,
) -> None:
    """The version is there, and no record with it; or it is not there yet, and its request never came."""
    here = RegistryModel(level="NONE", has_guids=True)
    there = RegistryModel(level="NONE", next_id=FIRST_ID_THERE, has_guids=True)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
        site = GuidSite(east, west, first, second, topic_name, tmp_path, side)
        site.make_base_with_other_numbers()
        one = site.register_guid("a")
        before = [site.by_guid([one, None] * 5, partition) for partition in PARTITIONS]
        make_topic(east, topic_name, *before)
        file = str(site.guid_file(mode))
        finish(file, tmp_path)
        two = site.register_guid("a", "b", base=2)
        behind = [site.by_guid([one, two, None] * 3, partition, start=10) for partition in PARTITIONS]
        for partition in PARTITIONS:
            append(east, topic_name, partition, behind[partition])
        killed = threading.Event()
        with ServiceProcess("run", "-c", file, folder=tmp_path, without_spark=True) as service:

            def kill(method: str, path: str) -> str | None:
                if method == "POST" and path.endswith(f"-{side}/versions") and not killed.is_set():
                    killed.set()
                    service.kill()
                    return when
                return None

            second.fault = kill
            assert killed.wait(120)
        versions = 2 if when == "drop-after" else 1
        wait_until(lambda: len(there.live(f"{topic_name}-{side}")) == versions, "what the registry does without it")
        for partition in PARTITIONS:
            assert len(site.copied_guids(partition)) <= 11, "no record is there before its schema"

        finish(file, tmp_path)
        assert two != site.guids_there()[two]
        assert one == site.guids_there()[one]
        for partition in PARTITIONS:
            assert site.copied_guids(partition) == site.copies_of([*before[partition], *behind[partition]])
        assert len(there.live(f"{topic_name}-{side}")) == 2


@pytest.mark.parametrize("side", SIDES)
def test_an_archive_killed_around_a_schema_has_no_guid_without_it_and_the_next_has_every_record_once(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, side: str
) -> None:
    here = RegistryModel(level="NONE", has_guids=True)
    lake = tmp_path / "lake"
    lake.mkdir()
    with StubRegistry(here) as first:
        east = source_kafka.bootstrap_servers
        site = GuidSite(east, east, first, first, topic_name, tmp_path, side)
        one = site.register_guid("a")
        before = [site.by_guid([one, None] * 5, partition) for partition in PARTITIONS]
        make_topic(east, topic_name, *before)
        file = str(site.guid_file("", store=str(lake)))
        finish(file, tmp_path)
        with ServiceProcess("run", "-c", file, folder=tmp_path, without_spark=True) as service:
            two = site.register_guid("a", "b")
            behind = [site.by_guid([one, two, None] * 3, partition, start=10) for partition in PARTITIONS]
            for partition in PARTITIONS:
                append(east, topic_name, partition, behind[partition])
            wait_until(lambda: str(two) in archived_guids(lake), "the schema")
            service.kill()
        for partition in PARTITIONS:
            named = {
                guid for each in archived(lake, topic_name, partition) if (guid := guid_in(each, side)) is not None
            }
            assert named <= archived_guids(lake), "no record without its schema"

        finish(file, tmp_path)
        assert archived_guids(lake) == {str(one), str(two)}
        for partition in PARTITIONS:
            expected = [*before[partition], *behind[partition]]
            assert archived(lake, topic_name, partition) == [Record(0, r.key, r.value, r.headers) for r in expected]


def archived_guids(lake: Path) -> set[str]:
    return {each["guid"] for each in archived_versions(lake).values()}


def archived(lake: Path, topic: str, partition: int) -> list[Record]:
    tables = [pq.read_table(path) for path in sorted((lake / topic / str(partition)).glob("*.parquet"))]
    return [
        Record(0, row["key"], row["value"], tuple((header["key"], header["value"]) for header in row["headers"]))
        for table in tables
        for row in table.to_pylist()
    ]


def guid_in(each: Record, side: str) -> str | None:
    payload = each.key if side == "key" else each.value
    held = dict(each.headers).get(f"__{side}_schema_id", payload)
    return str(UUID(bytes=held[1:17])) if payload is not None and held is not None and held[:1] == b"\1" else None
