"""A broker with a remote tier (KIP-405) that is as slow as a test wants it."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.java import find_java
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import TopicPartition
from support.copies import create_topic, wait_until
from support.records import Record, settings_of
from support.topics import append

SOURCE_FILE = Path(__file__).with_name("FolderTier.java")
COMPILE_SECONDS_MAX = 120.0

TIERED = {"remote_storage_enable": "true", "local_retention_ms": "1000", "segment_bytes": str(1 << 20)}
"""Segments of 1 MiB, the smallest there are, move to the tier, and leave the local log a second later."""


class NoCompilerError(Exception):
    """There is a Java to run, and none to compile with."""


def compile_tier(classes: Path, libs: Path) -> None:
    """Compiles the tier into a folder.

    Raises:
        NoCompilerError: the Java here is a runtime only.
    """
    beside = find_java().executable.resolve().with_name("javac")
    javac = str(beside) if beside.exists() else shutil.which("javac")
    if javac is None:
        raise NoCompilerError(f"no javac beside {find_java().executable}: a JDK is needed, a runtime is not enough")
    command = [javac, "-cp", f"{libs}/*", "-d", str(classes), str(SOURCE_FILE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stderr


class FolderTier:
    """A remote tier for the brokers of one cluster: a folder, read as slowly as it is told to be.

    Args:
        folder: of the tier and its classes; made where it is missing.
        libs: Kafka's jars.

    Raises:
        NoCompilerError: the tier cannot be compiled here.
    """

    def __init__(self, folder: Path, *, libs: Path) -> None:
        self._classes, self._tier = folder / "classes", folder / "tier"
        self._classes.mkdir(parents=True)
        self._tier.mkdir()
        self.answers_after(0.0)
        compile_tier(self._classes, libs)

    def properties(self, *, listener: str) -> dict[str, str]:
        """What a broker must be told; its metadata goes over ``listener``."""
        return {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": "FolderTier",
            "remote.log.storage.manager.class.path": str(self._classes),
            "remote.log.metadata.manager.listener.name": listener,
            "rsm.config.folder": str(self._tier),
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
            "rlmm.config.remote.log.metadata.initialization.retry.interval.ms": "300",
            "remote.log.manager.task.interval.ms": "300",
            "log.retention.check.interval.ms": "300",
            "log.segment.delete.delay.ms": "100",
        }

    def answers_after(self, seconds: float) -> None:
        """Lets every later reading from the tier take so long."""
        written = self._tier / "delay.new"
        written.write_text(str(int(seconds * 1000)))
        written.rename(self._tier / "delay")


class TieredKafka:
    """A broker whose topics may have a remote tier.

    Args:
        folder: of the broker, the tier and its classes; made where it is missing.
        libs: Kafka's jars.

    Raises:
        NoCompilerError: the tier cannot be compiled here.
    """

    def __init__(self, folder: Path, *, libs: Path) -> None:
        self.tier = FolderTier(folder, libs=libs)
        self.answers_after = self.tier.answers_after
        properties = {**self.tier.properties(listener="PLAINTEXT"), "log.cleaner.backoff.ms": "250"}
        self.server = EmbeddedKafka(folder / "broker", libs=libs, properties=properties)

    @property
    def bootstrap_servers(self) -> str:
        return self.server.bootstrap_servers

    def local_start(self, partition: TopicPartition) -> int:
        """The first offset that lies on the broker's own disk."""

        async def ask() -> int:
            async with ClusterClient(settings_of(self.bootstrap_servers)) as client:
                found = (await client.local_starts([partition]))[partition]
                assert isinstance(found, int), found
                return found

        return asyncio.run(ask())

    def make_topic(self, topic: str, records: list[Record], *, local_from: int, batch_records: int = 10) -> None:
        """Creates a topic of one partition, writes records, and waits until those below an offset are remote only."""
        create_topic(self.bootstrap_servers, topic, 1, **TIERED)
        append(self.bootstrap_servers, topic, 0, records, batch_records=batch_records)
        where = TopicPartition(topic, 0)
        wait_until(lambda: self.local_start(where) >= local_from, f"the local log of {topic} to begin at {local_from}")

    def __enter__(self) -> Self:
        self.server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.server.stop()
