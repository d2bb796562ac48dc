"""What the fault tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.cleanliness import assert_clean
from support.lease_processes import LeaseProcesses
from support.lossy import Lossy
from support.proxy import Proxy


@pytest.fixture(scope="session")
def _lease_processes() -> Iterator[LeaseProcesses]:
    processes = LeaseProcesses()
    yield processes
    processes.end()


@pytest.fixture
def lease_processes(_lease_processes: LeaseProcesses) -> Iterator[LeaseProcesses]:
    """Starts leases in processes of their own; none outlives the test."""
    yield _lease_processes
    _lease_processes.end()


@pytest.fixture(scope="session")
def _proxied(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy() as proxy:
        properties = {
            "advertised.listeners": f"PLAINTEXT://{proxy.address}",
            # A producer whose last record is a day old is forgotten at the next check: ten minutes by default.
            "producer.id.expiration.check.interval.ms": "200",
        }
        with EmbeddedKafka(tmp_path_factory.mktemp("proxied-kafka"), libs=kafka_libs, properties=properties) as broker:
            proxy.target_port = broker.port
            yield proxy


@pytest.fixture
def proxy(_proxied: Proxy) -> Iterator[Proxy]:
    """In front of a broker that all fault tests share; it does no harm before and after the test."""
    yield _proxied
    _proxied.forgive()


@pytest.fixture
def lossy(proxy: Proxy, source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> Iterator[Lossy]:
    """A copy to the broker behind the proxy; no transaction may be open there in the end."""
    made = Lossy(source_kafka, proxy, topic_name, run_async)
    yield made
    made.worker.close()
    proxy.forgive()
    assert_clean(proxy.address, [topic_name])
