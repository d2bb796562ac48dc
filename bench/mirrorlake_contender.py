"""mirrorlake itself, as a user runs it: ``mirrorlake run`` with a configuration and nothing else set."""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.contender import Kind
from bench.inputs import Input
from bench.watches import ArchiveWatch, TopicWatch, Watch
from mirrorlake import __version__
from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.embedded.kafka_server import EmbeddedKafka

_STOP_SECONDS = 30.0


class Mirrorlake:
    """Kafka to Kafka with equal offsets, exactly once, until stopped."""

    def __init__(self) -> None:
        self.name = f"mirrorlake {__version__}"
        self.kind = Kind.KAFKA
        self._process: GuardedProcess | None = None

    def start(self, source: EmbeddedKafka, destination: EmbeddedKafka, wanted: Input, folder: Path) -> int:
        """See `bench.contender.Contender`."""
        self._process = start_mirrorlake(kafka_configuration(source, destination, wanted.name), folder)
        return self._process.pid

    def stop(self) -> None:
        """See `bench.contender.Contender`."""
        if self._process is not None:
            self._process.stop(timeout_seconds=_STOP_SECONDS)
            self._process = None

    def watch(self, destination: EmbeddedKafka, wanted: Input, folder: Path) -> Watch:
        """See `bench.contender.Contender`."""
        del folder
        return TopicWatch(destination, wanted)


class MirrorlakeArchive:
    """Kafka to Parquet with the default compression and segment size; ends by itself when all is archived."""

    def __init__(self) -> None:
        self.name = f"mirrorlake {__version__} to Parquet"
        self.kind = Kind.PARQUET
        self._process: GuardedProcess | None = None

    def start(self, source: EmbeddedKafka, destination: EmbeddedKafka, wanted: Input, folder: Path) -> int:
        """Starts archiving the input's topic below ``folder / "lake"``; the other broker only stands by."""
        del destination
        (folder / "lake").mkdir()
        self._process = start_mirrorlake(archive_configuration(source, wanted.name, folder / "lake"), folder, "--once")
        return self._process.pid

    def stop(self) -> None:
        """See `bench.contender.Contender`."""
        if self._process is not None:
            self._process.stop(timeout_seconds=_STOP_SECONDS)
            self._process = None

    def watch(self, destination: EmbeddedKafka, wanted: Input, folder: Path) -> Watch:
        """See `bench.contender.Contender`."""
        del destination
        return ArchiveWatch(folder / "lake" / wanted.name)


def start_mirrorlake(configuration: str, folder: Path, *options: str) -> GuardedProcess:
    """Starts ``mirrorlake run`` of this very Python; its log is ``mirrorlake.log`` in ``folder``."""
    file = folder / "mirrorlake.yaml"
    file.write_text(configuration, encoding="utf-8")
    command: Sequence[str] = (sys.executable, "-m", "mirrorlake", "run", "-c", str(file), *options)
    return GuardedProcess(command, log_path=folder / "mirrorlake.log")


def kafka_configuration(source: EmbeddedKafka, destination: EmbeddedKafka, topic: str) -> str:
    """Returns the configuration that mirrors one topic under its own name."""
    return f"""\
clusters:
  source: {{bootstrap-servers: "{source.bootstrap_servers}"}}
  destination: {{bootstrap-servers: "{destination.bootstrap_servers}"}}
mirrors:
  - name: bench
    source: {{cluster: source, topics: [{topic}]}}
    destinations:
      - {{type: kafka, cluster: destination}}
"""


def archive_configuration(source: EmbeddedKafka, topic: str, root: Path) -> str:
    """Returns the configuration that archives one topic with all defaults."""
    return f"""\
clusters:
  source: {{bootstrap-servers: "{source.bootstrap_servers}"}}
stores:
  lake: {{type: filesystem, root: {root}}}
mirrors:
  - name: bench
    source: {{cluster: source, topics: [{topic}]}}
    destinations:
      - {{type: archive, store: lake}}
"""
