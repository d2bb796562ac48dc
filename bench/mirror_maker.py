"""MirrorMaker 2 in its dedicated mode, set up as somebody who knows it would for throughput."""

from pathlib import Path

from bench.brokers import BenchKafka
from bench.contender import Kind
from bench.inputs import Input
from bench.watches import TopicWatch, Watch
from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.embedded.jars import KAFKA_VERSION, mirror_maker_libs
from mirrorlake.java import find_java

# Heap and collector of Kafka's own bin/connect-mirror-maker.sh and bin/kafka-run-class.sh.
_JVM_FLAGS = (
    *("-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)

THROUGHPUT_LINGER_MS = 20


class MirrorMaker:
    """At-least-once, its cheapest mode: the exactly-once one costs a tenth more.

    Args:
        linger_ms: how long its producer waits for more records; 0 for the shortest latency.
    """

    def __init__(self, *, linger_ms: int = THROUGHPUT_LINGER_MS) -> None:
        self._linger_ms = linger_ms
        self.name = f"MirrorMaker 2 {KAFKA_VERSION}"
        self.kind = Kind.KAFKA
        self._libs = mirror_maker_libs()
        self._process: GuardedProcess | None = None

    def start(self, source: BenchKafka, destination: BenchKafka, wanted: Input, folder: Path) -> int:
        """See `bench.contender.Contender`."""
        properties = folder / "mm2.properties"
        properties.write_text(_properties(source, destination, wanted, self._linger_ms), encoding="utf-8")
        command = [
            *(str(find_java().executable), *_JVM_FLAGS, f"-Djava.io.tmpdir={folder}"),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",  # it lists every setting of every client otherwise
            *("-cp", f"{self._libs}/*", "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)),
        ]
        self._process = GuardedProcess(command, log_path=folder / "mm2.log")
        return self._process.pid

    def stop(self) -> None:
        """See `bench.contender.Contender`."""
        if self._process is not None:
            self._process.stop(timeout_seconds=20.0)
            self._process = None

    def watch(self, destination: BenchKafka, wanted: Input, folder: Path) -> Watch:
        """See `bench.contender.Contender`."""
        del folder
        return TopicWatch(destination, wanted)


def _properties(source: BenchKafka, destination: BenchKafka, wanted: Input, linger_ms: int) -> str:
    values = {
        "clusters": "source, destination",
        "source.bootstrap.servers": source.mirror_servers,
        "destination.bootstrap.servers": destination.mirror_servers,
        "source->destination.enabled": "true",
        "source->destination.topics": wanted.name,
        "destination->source.enabled": "false",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "tasks.max": "2",
        # One broker on each side.
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        # Only the copying is compared.
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        "sync.topic.acls.enabled": "false",
        # Throughput.
        "source.consumer.max.partition.fetch.bytes": str(8 << 20),
        "source.consumer.fetch.max.bytes": str(64 << 20),
        "source.consumer.max.poll.records": "5000",
        "destination.producer.batch.size": str(128 << 10),
        "destination.producer.linger.ms": str(linger_ms),
        "destination.producer.compression.type": wanted.codec,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())
