"""A service killed while it archives a schema, and between a schema and the segment that needs it."""

import threading
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.archived_schemas import archived_ids, archived_values, archived_versions
from support.command import write_yaml
from support.copies import wait_until
from support.registry_model import RegistryModel
from support.schema_site import SchemaSite, numbered
from support.service_process import ServiceProcess
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("when", ["while-it-is-read", "once-it-is-there"])
def test_a_service_killed_around_a_schema_leaves_no_record_without_it_and_the_next_has_every_record_once(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, when: str
) -> None:
    here = RegistryModel(level="BACKWARD")
    lake = tmp_path / "lake"
    lake.mkdir()
    with StubRegistry(here) as first:
        east = source_kafka.bootstrap_servers
        site = SchemaSite(east, east, first, first, topic_name, tmp_path)
        one = site.register("a")
        make_topic(east, topic_name, numbered([one] * 30), numbered([one] * 10))
        file = str(
            write_yaml(
                tmp_path / "archive.yaml",
                f'clusters: {{east: {{bootstrap-servers: "{east}"}}}}\n'
                f'stores: {{lake: {{type: filesystem, root: "{lake}"}}}}\n'
                f'registries: {{here: {{url: "{first.url}"}}}}\n'
                f"mirrors: [{{name: m, source: {{cluster: east, topics: [{topic_name}]}}, "
                "destinations: [{type: archive, store: lake, flush: {max-time: 1s}}], schemas: {from: here}}]\n"
                "service: {metrics: off}\n"
                "engine: {lanes: 1, lease: 1s, memory: 512MiB}\n",
            )
        )
        with ServiceProcess("run", "-c", file, "--once", folder=tmp_path, without_spark=True) as once:
            assert once.exit_code() == 0
        killed = threading.Event()
        with ServiceProcess("run", "-c", file, folder=tmp_path, without_spark=True) as service:

            def kill(method: str, path: str) -> str | None:
                if when == "while-it-is-read" and path.endswith("/versions/2") and not killed.is_set():
                    killed.set()
                    service.kill()
                    return "drop-before"
                return None

            first.fault = kill
            two = site.register("a", "b?")
            append(east, topic_name, 0, numbered([one, two, None] * 5, start=30))
            if when == "once-it-is-there":
                wait_until(lambda: two in archived_versions(lake), "the schema")
                service.kill()
                killed.set()
            assert killed.wait(60)
        assert archived_ids(lake, topic_name) <= archived_versions(lake).keys(), "no record without its schema"

        with ServiceProcess("run", "-c", file, "--once", folder=tmp_path, without_spark=True) as once:
            assert once.exit_code() == 0
        values = archived_values(lake, topic_name)
        assert values == [
            *(each.value for each in numbered([one] * 30)),
            *(each.value for each in numbered([one, two, None] * 5, start=30)),
            *(each.value for each in numbered([one] * 10)),
        ]
        assert archived_versions(lake).keys() == {one, two}
        assert not [*lake.rglob("*.tmp.*")]
