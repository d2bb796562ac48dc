"""Brokers of older versions, one of each for the whole session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.embedded import jars
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import MirrorlakeError
from support.zookeeper_kafka import ZooKeeperKafka

HEAP_MB = 256


@pytest.fixture(scope="session")
def kafka_3_9(kafka_libs: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker of Kafka 3.9 without ZooKeeper: leave it running and as you found it."""
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka-3.9"), libs=_libs("3.9.1"), heap_mb=HEAP_MB) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_2_8(kafka_libs: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker of Kafka 2.8 with its ZooKeeper: leave it running and as you found it."""
    with ZooKeeperKafka(tmp_path_factory.mktemp("kafka-2.8"), libs=_libs("2.8.2"), heap_mb=HEAP_MB) as server:
        yield server


def _libs(version: str) -> Path:
    try:
        return jars.kafka_libs(version)
    except MirrorlakeError as error:
        pytest.skip(str(error))
