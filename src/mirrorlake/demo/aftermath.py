"""The demo's last act: the source is lost for good, and comes back from the archive with equal offsets.

1. what readers find at the source is noted; 2. it is killed, its disk deleted; 3. a new cluster, and ``restore``;
4. what readers find there is compared with what was noted.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mirrorlake.demo.clusters import Clusters
from mirrorlake.demo.commands import RunningCommand, command_line
from mirrorlake.demo.proof import COLUMNS, Fingerprint, compared, fingerprints
from mirrorlake.demo.report import EQUAL
from mirrorlake.demo.screen import Screen
from mirrorlake.demo.topics import CUSTOMERS, LEDGER, ORDERS, TOPICS
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition

AFTER = "after.yaml"

Found = dict[TopicPartition, Fingerprint]


class Aftermath:
    """Tells what happens after the source is lost.

    Args:
        screen: where it is told.
        folder: of the demo; the archive lies in it.
        lake: the archive's folder.
        clusters: two that serve.
        expected: records that readers find in each topic of the source.
        has_ended_well: says what a command's exit code and log mean, and returns whether it did.
    """

    def __init__(
        self,
        screen: Screen,
        folder: Path,
        lake: Path,
        clusters: Clusters,
        *,
        expected: Mapping[str, int],
        has_ended_well: Callable[[int, Path], bool],
    ) -> None:
        self._screen = screen
        self._folder = folder
        self._lake = lake
        self._clusters = clusters
        self._expected = expected
        self._has_ended_well = has_ended_well

    def tell(self) -> bool:
        """Goes through all steps; returns whether everything is there again, equal.

        Raises:
            MirrorlakeError: a cluster does not start, or does not do what is asked.
        """
        lost = self._lose()
        return self._restore() and self._prove(lost)

    def _lose(self) -> Found:
        self._screen.step("East is lost, for good")
        started = time.monotonic()
        found = _read("east", self._clusters.east.bootstrap_servers)
        self._clusters.lose_east()
        self._screen.say(
            f"A reader has noted what it finds in all {len(TOPICS)} topics of east, in "
            f"{time.monotonic() - started:.1f} s: log starts, log ends, and a hash of every record with its offset. "
            "Then east was killed and its disk deleted. Of its topics there are copies left."
        )
        return found

    def _restore(self) -> bool:
        self._screen.step("Restore the archive into a new, empty cluster")
        started = time.monotonic()
        self._clusters.start_north()
        north, west = self._clusters.north.bootstrap_servers, self._clusters.west.bootstrap_servers
        self._screen.say(f"north, at {north}; up after {time.monotonic() - started:.1f} s.")
        (self._folder / AFTER).write_text(configuration(north=north, west=west, lake=self._lake), encoding="utf-8")
        topics = ",".join(shape.name for shape in TOPICS)
        chosen = ("--store", self._lake.name, "--topics", topics, "--to", "north", "--gap-fill", "filler")
        arguments = ("restore", "-c", AFTER, *chosen, "--yes", "--format", "json")
        result, log = self._folder / "restored.json", self._folder / "restore.log"
        self._screen.show(f"$ {command_line(arguments, stdout=result, stderr=log)}")
        started = time.monotonic()
        with RunningCommand(arguments, folder=self._folder, stdout=result, stderr=log) as command:
            is_restored = self._has_ended_well(command.wait(), log)
        self._screen.say(
            f"It took {time.monotonic() - started:.1f} s: the plan, the restore, and every record compared with the "
            "archive. Offsets without a record were filled by what consumers of committed records are not shown."
        )
        return is_restored

    def _prove(self, lost: Found) -> bool:
        self._screen.step("What readers find in north, and what they had found in east")
        started = time.monotonic()
        rows = compared(lost, _read("north", self._clusters.north.bootstrap_servers), self._expected)
        self._screen.table(rows, COLUMNS)
        self._screen.say(
            f"Read in {time.monotonic() - started:.1f} s by the reader that had noted what was in east. Equal are log "
            "starts and log ends, and of every record offset, timestamp, key, value and headers: consumers continue "
            f"at the offsets they had committed. {CUSTOMERS.name} keeps the holes of its compaction, {LEDGER.name} "
            "those of its transactions."
        )
        return all(row["compared"] == EQUAL for row in rows)


def configuration(*, north: str, west: str, lake: Path) -> str:
    """Returns the configuration for the day after: what is left, and the new cluster."""
    return f"""\
clusters:
  north: {{bootstrap-servers: "{north}"}}
  west: {{bootstrap-servers: "{west}"}}
stores:
  {lake.name}: {{type: filesystem, root: "{lake}"}}
mirrors:
  # North takes east's part from now on; west gets its {ORDERS.name} beside those that were copied from east.
  - name: onwards
    source: {{cluster: north, topics: [{ORDERS.name}]}}
    destinations:
      - {{type: kafka, cluster: west, topic: "{{topic}}.onwards", offsets: preserve}}
"""


def _read(name: str, bootstrap_servers: str) -> Found:
    async def found() -> Found:
        settings = ClusterSettings(name=name, bootstrap_servers=(bootstrap_servers,))
        async with ClusterClient(settings) as client:
            return await fingerprints(
                client, [TopicPartition(shape.name, number) for shape in TOPICS for number in range(shape.partitions)]
            )

    return asyncio.run(found())
