"""A service killed between a change of the destination's registry and the records that need it."""

import threading
from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.registry_model import RegistryModel
from support.schema_site import FIRST_ID_THERE, SchemaSite, numbered
from support.service_process import ServiceProcess
from support.stub_registry import StubRegistry
from support.topics import append, make_topic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize(("mode", "when"), [("preserve", "drop-before"), ("map", "drop-after")])
def test_a_service_killed_at_a_registration_is_finished_by_the_next_and_every_record_is_there_once(
    source_kafka: EmbeddedKafka,
    destination_kafka: EmbeddedKafka,
    topic_name: str,
    tmp_path: Path,
    mode: str,
    when: str,
) -> None:
    """The version is not there when the process dies, or is there and its answer never came."""
    here, there = RegistryModel(level="BACKWARD"), RegistryModel(next_id=FIRST_ID_THERE)
    with StubRegistry(here) as first, StubRegistry(there) as second:
        east, west = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
        site = SchemaSite(east, west, first, second, topic_name, tmp_path)
        one = site.register("a")
        make_topic(east, topic_name, numbered([one] * 30), numbered([one] * 10))
        file = str(site.file(mode))
        with ServiceProcess("run", "-c", file, "--once", folder=tmp_path, without_spark=True) as once:
            assert once.exit_code() == 0
        two = site.register("a", "b?")
        append(east, topic_name, 0, numbered([one, two, None] * 5, start=30))
        killed = threading.Event()

        with ServiceProcess("run", "-c", file, folder=tmp_path, without_spark=True) as service:

            def kill(method: str, path: str) -> str | None:
                if method == "POST" and path.endswith("/versions") and not killed.is_set():
                    killed.set()
                    service.kill()
                    return when
                return None

            second.fault = kill
            assert killed.wait(60)
        assert len(site.copied(0)) <= 31, "no record is there before its schema"

        with ServiceProcess("run", "-c", file, "--once", folder=tmp_path, without_spark=True) as once:
            assert once.exit_code() == 0
        site.assert_equal()
        assert len(there.live(site.subject)) == 2
        assert there.levels[site.subject] == "BACKWARD"
