"""A topic archived, and restored into an empty topic at its own offsets: beside the same topic mirrored.

``mirrorlake run --once`` with the archive as its source, as `restore` does it. The archive is a folder on the same
storage as the brokers' logs.
"""

from dataclasses import dataclass
from pathlib import Path

from bench.brokers import BenchKafka
from bench.contender import Kind, Measured, measure
from bench.inputs import Filled, Input
from bench.mirrorlake_contender import MirrorlakeArchive, start_mirrorlake
from bench.watches import TopicWatch, Watch
from mirrorlake import __version__
from mirrorlake.embedded.guarded_process import GuardedProcess

FORMATS = {Kind.RESTORED_LOG: Kind.LOG, Kind.RESTORED_PARQUET: Kind.PARQUET}
"""Kinds of restores, and of the archive each is from."""

_STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """An archive made of a topic, and the topic made of the archive."""

    archived: Measured
    restored: Measured


class MirrorlakeRestore:
    """From an archive to Kafka with equal offsets; ends by itself when all is restored.

    Args:
        kind: of restore.
        lake: the archive's folder.
    """

    def __init__(self, kind: Kind, lake: Path) -> None:
        self.name = f"mirrorlake {__version__}, {kind}"
        self.kind = kind
        self._lake = lake
        self._process: GuardedProcess | None = None

    def start(self, source: BenchKafka, destination: BenchKafka, wanted: Input, folder: Path) -> int:
        """See `bench.contender.Contender`; the source's broker only stands by."""
        del source
        text = f"""\
clusters:
  destination: {{bootstrap-servers: "{destination.mirror_servers}"}}
stores:
  lake: {{type: filesystem, root: {self._lake}}}
mirrors:
  - name: bench-back
    source: {{store: lake, topics: [{wanted.name}]}}
    destinations:
      - {{type: kafka, cluster: destination, offsets: preserve}}
"""
        self._process = start_mirrorlake(text, folder, "--once")
        return self._process.pid

    def watch(self, destination: BenchKafka, wanted: Input, folder: Path) -> Watch:
        """See `bench.contender.Contender`."""
        del folder
        return TopicWatch(destination, wanted)

    def stop(self) -> None:
        """See `bench.contender.Contender`."""
        if self._process is not None:
            self._process.stop(timeout_seconds=_STOP_SECONDS)
            self._process = None


async def measure_restore(
    kind: Kind, *, source: BenchKafka, destination: BenchKafka, wanted: Input, filled: Filled, folder: Path
) -> Restore:
    """Archives the topic, which is filled at the source and empty at the destination, and restores it there.

    Raises:
        TimeoutError: one of the two was not through after ten minutes.
        RuntimeError: its process ended before.
    """
    own = {name: folder / name for name in ("archive", "restore")}
    for each in own.values():
        each.mkdir()
    archived = await measure(
        MirrorlakeArchive(FORMATS[kind]),
        source=source,
        destination=destination,
        wanted=wanted,
        filled=filled,
        folder=own["archive"],
    )
    restored = await measure(
        MirrorlakeRestore(kind, own["archive"] / "lake"),
        source=source,
        destination=destination,
        wanted=wanted,
        filled=filled,
        folder=own["restore"],
    )
    return Restore(archived=archived, restored=restored)
