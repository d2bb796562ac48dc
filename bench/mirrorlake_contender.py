"""mirrorlake itself, as a user runs it: ``mirrorlake run`` with a configuration and nothing else set."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.brokers import BenchKafka
from bench.contender import Kind
from bench.inputs import Input
from bench.s3_gateway import S3Gateway
from bench.watches import ArchiveWatch, PublishedWatch, TopicWatch, Watch
from mirrorlake import __version__
from mirrorlake.embedded.guarded_process import GuardedProcess

_STOP_SECONDS = 30.0


class Mirrorlake:
    """Kafka to Kafka with equal offsets, exactly once, until stopped.

    Args:
        package_folder: where the package is taken from; None takes the installed one.
    """

    def __init__(self, *, package_folder: Path | None = None) -> None:
        self.name = f"mirrorlake {__version__}"
        self.kind = Kind.KAFKA
        self._package_folder = package_folder
        self._process: GuardedProcess | None = None

    def start(self, source: BenchKafka, destination: BenchKafka, wanted: Input, folder: Path) -> int:
        """See `bench.contender.Contender`."""
        text = self._configuration(source, destination, wanted.name)
        self._process = start_mirrorlake(text, folder, package_folder=self._package_folder)
        return self._process.pid

    def _configuration(self, source: BenchKafka, destination: BenchKafka, topic: str) -> str:
        return kafka_configuration(source, destination, topic)

    def stop(self) -> None:
        """See `bench.contender.Contender`."""
        if self._process is not None:
            self._process.stop(timeout_seconds=_STOP_SECONDS)
            self._process = None

    def watch(self, destination: BenchKafka, wanted: Input, folder: Path) -> Watch:
        """See `bench.contender.Contender`."""
        del folder
        return TopicWatch(destination, wanted)


class MirrorlakeMap(Mirrorlake):
    """Kafka to Kafka with offsets mapped, every batch in a transaction with its progress and map."""

    def __init__(self, *, package_folder: Path | None = None) -> None:
        super().__init__(package_folder=package_folder)
        self.name = f"mirrorlake {__version__}, offsets mapped"
        self.kind = Kind.KAFKA_MAPPED

    def _configuration(self, source: BenchKafka, destination: BenchKafka, topic: str) -> str:
        return kafka_configuration(source, destination, topic, offsets="map")


class MirrorlakeTls(Mirrorlake):
    """Kafka to Kafka with equal offsets, encrypted on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.name = f"mirrorlake {__version__} over TLS"
        self.kind = Kind.KAFKA_TLS

    def _configuration(self, source: BenchKafka, destination: BenchKafka, topic: str) -> str:
        return tls_configuration(source, destination, topic)


class MirrorlakeArchive:
    """Kafka to an archive of one format, else with all defaults; ends by itself when all is archived.

    Args:
        kind: the format.
    """

    def __init__(self, kind: Kind = Kind.PARQUET) -> None:
        self.name = f"mirrorlake {__version__} to {kind}"
        self.kind = kind
        self._format = kind.value if kind in (Kind.NDJSON, Kind.LOG) else Kind.PARQUET.value
        self._process: GuardedProcess | None = None

    def start(self, source: BenchKafka, destination: BenchKafka, wanted: Input, folder: Path) -> int:
        """Starts archiving the input's topic below ``folder / "lake"``; the other broker only stands by."""
        del destination
        (folder / "lake").mkdir()
        store = f"{{type: filesystem, root: {folder / 'lake'}}}"
        self._process = start_mirrorlake(self._configuration(source, wanted.name, store), folder, "--once")
        return self._process.pid

    def _configuration(self, source: BenchKafka, topic: str, store: str) -> str:
        return archive_configuration(source, topic, store, format_name=self._format)

    def stop(self) -> None:
        """See `bench.contender.Contender`."""
        if self._process is not None:
            self._process.stop(timeout_seconds=_STOP_SECONDS)
            self._process = None

    def watch(self, destination: BenchKafka, wanted: Input, folder: Path) -> Watch:
        """See `bench.contender.Contender`."""
        del destination
        return ArchiveWatch(folder / "lake" / wanted.name)


class MirrorlakeFolder(MirrorlakeArchive):
    """The same as Parquet, timed as copies into a bucket are."""

    def watch(self, destination: BenchKafka, wanted: Input, folder: Path) -> Watch:
        """See `bench.contender.Contender`."""
        del destination
        return PublishedWatch(folder / "lake" / wanted.name)


class MirrorlakeS3(MirrorlakeFolder):
    """The same into a bucket, of a gateway on this machine whose own CPU time is not counted.

    Args:
        kind: how it is reached.
    """

    def __init__(self, kind: Kind = Kind.PARQUET_S3) -> None:
        super().__init__(kind)
        self._gateway: S3Gateway | None = None

    def start(self, source: BenchKafka, destination: BenchKafka, wanted: Input, folder: Path) -> int:
        """Starts archiving into a bucket that the gateway keeps as ``folder / "lake"``."""
        del destination
        self._gateway = S3Gateway(folder, is_encrypted=self.kind is Kind.PARQUET_S3_TLS).start()
        more = ", content-check: crc64" if self.kind is Kind.PARQUET_S3_CRC else ""
        text = archive_configuration(source, wanted.name, self._gateway.store(more), format_name=self._format)
        self._process = start_mirrorlake(text, folder, "--once")
        return self._process.pid

    def stop(self) -> None:
        """See `bench.contender.Contender`."""
        super().stop()
        if self._gateway is not None:
            self._gateway.stop()
            self._gateway = None


def start_mirrorlake(
    configuration: str, folder: Path, *options: str, package_folder: Path | None = None
) -> GuardedProcess:
    """Starts ``mirrorlake run`` of this very Python; its log is ``mirrorlake.log`` in ``folder``."""
    file = folder / "mirrorlake.yaml"
    file.write_text(configuration, encoding="utf-8")
    command: Sequence[str] = (sys.executable, "-m", "mirrorlake", "run", "-c", str(file), *options)
    environ = {**os.environ, "PYTHONPATH": str(package_folder)} if package_folder else None
    return GuardedProcess(command, log_path=folder / "mirrorlake.log", environ=environ)


def kafka_configuration(source: BenchKafka, destination: BenchKafka, topic: str, *, offsets: str = "preserve") -> str:
    """Returns the configuration that mirrors one topic under its own name."""
    return f"""\
clusters:
  source: {{bootstrap-servers: "{source.mirror_servers}"}}
  destination: {{bootstrap-servers: "{destination.mirror_servers}"}}
mirrors:
  - name: bench
    source: {{cluster: source, topics: [{topic}]}}
    destinations:
      - {{type: kafka, cluster: destination, offsets: {offsets}}}
"""


def tls_configuration(source: BenchKafka, destination: BenchKafka, topic: str) -> str:
    """Returns the configuration that mirrors one topic under its own name, over the brokers' listeners for TLS."""
    clusters = [
        f"""\
  {name}:
    bootstrap-servers: "{server.tls_servers}"
    properties: {{security.protocol: SSL, ssl.truststore.type: PEM, ssl.truststore.location: "{server.certificate}"}}
"""
        for name, server in (("source", source), ("destination", destination))
    ]
    return f"""\
clusters:
{"".join(clusters)}mirrors:
  - name: bench
    source: {{cluster: source, topics: [{topic}]}}
    destinations:
      - {{type: kafka, cluster: destination}}
"""


def archive_configuration(source: BenchKafka, topic: str, store: str, *, format_name: str) -> str:
    """Returns the configuration that archives one topic, the format aside with all defaults."""
    return f"""\
clusters:
  source: {{bootstrap-servers: "{source.bootstrap_servers}"}}
stores:
  lake: {store}
mirrors:
  - name: bench
    source: {{cluster: source, topics: [{topic}]}}
    destinations:
      - {{type: archive, store: lake, format: {format_name}}}
"""
