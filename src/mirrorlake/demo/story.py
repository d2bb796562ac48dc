"""The steps of the demo, in order; each prints what a user would do and what came of it.

1. two clusters; 2. believable data on one of them; 3. a configuration; 4. ``plan``; 5. ``run --once``; 6. more
records, and another run that goes on where the first one ended; 7. ``verify``, and a table of what was copied; then
what `aftermath` tells.
"""

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mirrorlake.demo.aftermath import AFTER, Aftermath
from mirrorlake.demo.clusters import Clusters
from mirrorlake.demo.commands import RunningCommand, command_line, program
from mirrorlake.demo.data import FULL, MORE, Shop, scaled
from mirrorlake.demo.loading import Content, Prepared, create_topics, end_offsets, load, prepare
from mirrorlake.demo.report import (
    COLUMNS,
    EQUAL,
    NOT_COMPARED,
    CopiedLeg,
    archive_size,
    closing_rows,
    explanation,
    verdicts,
)
from mirrorlake.demo.screen import Row, Screen
from mirrorlake.demo.topics import CUSTOMERS, LEDGER, ORDERS, PAYMENTS, TOPICS
from mirrorlake.demo.watch import Leg, Watch, seconds_under_way
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition

CONFIG = "demo.yaml"
LAKE = "lake"
_REFRESH_SECONDS = 0.1
_LOG_LINES = 15

Ends = Mapping[TopicPartition, int]


class Story:
    """Tells the demo, from clusters that are starting to the closing table.

    Args:
        screen: where it is told.
        folder: everything of the demo lies here; exists and is empty.
        clusters: on their way up.
        scale: of the amounts of data; 1 for everybody but tests.
    """

    def __init__(self, screen: Screen, folder: Path, clusters: Clusters, *, scale: float) -> None:
        self._screen = screen
        self._folder = folder
        self._clusters = clusters
        self._scale = scale
        self._shop = Shop(now_ms=int(time.time() * 1000))
        self._first_legs: list[Leg] = []

    def tell(self) -> bool:
        """Goes through all steps; returns whether every record was found equal everywhere.

        Raises:
            MirrorlakeError: a cluster does not start, or does not do what is asked.
        """
        started = time.monotonic()
        first = self._prepare_while_clusters_start()
        ends = self._load(first)
        self._configure()
        if not (self._plan() and self._run(dict.fromkeys(ends, 0), ends, self._first_legs)):
            return False
        more, more_ends = self._add()
        if not self._run(ends, more_ends, []):
            return False
        is_equal = self._verify_and_report(first.contents, more.contents)
        is_equal = is_equal and self._aftermath(first.contents, more.contents).tell()
        self._screen.say(f"All of it took {time.monotonic() - started:.0f} s.")
        return is_equal

    # --- the steps ----------------------------------------------------------------------------------------

    def _prepare_while_clusters_start(self) -> Prepared:
        self._screen.step("Two Kafka clusters on this machine")
        self._screen.say(f"Everything is in {self._folder} and goes when the demo ends.")
        started = time.monotonic()
        amounts = scaled(FULL, self._scale)
        few = scaled(MORE, self._scale)
        made = prepare(
            self._shop, amounts, old_customers=amounts.customers - few.customers, recent_customers=few.customers
        )
        self._clusters.wait()
        self._screen.say(
            f"east, the source, at {self._clusters.east.bootstrap_servers}; west at "
            f"{self._clusters.west.bootstrap_servers}; up after {time.monotonic() - started:.1f} s."
        )
        return made

    def _load(self, prepared: Prepared) -> Ends:
        self._screen.step("A shop's data, into east")
        started = time.monotonic()
        ends = asyncio.run(self._loaded(prepared, creates=True))
        rows: list[Row] = []
        for shape in TOPICS:
            content = prepared.contents[shape.name]
            rows.append(
                {
                    "topic": shape.name,
                    "partitions": shape.partitions,
                    "offsets": sum(end for partition, end in ends.items() if partition.topic == shape.name),
                    "records": content.records,
                    "mb": round(content.record_bytes / 1e6, 1),
                    "example of": shape.special,
                }
            )
        self._screen.table(rows, ("topic", "partitions", "offsets", "records", "mb", "example of"))
        self._screen.say(
            f"Written in {time.monotonic() - started:.1f} s. Records are what readers see: in {CUSTOMERS.name} Kafka "
            f"has compacted the others away, in {LEDGER.name} they belong to aborted transactions."
        )
        return ends

    def _configure(self) -> None:
        self._screen.step("The configuration")
        lake = self._folder / LAKE
        lake.mkdir()
        text = configuration(
            east=self._clusters.east.bootstrap_servers, west=self._clusters.west.bootstrap_servers, lake=lake
        )
        (self._folder / CONFIG).write_text(text, encoding="utf-8")
        self._screen.show(f"$ cat {CONFIG}\n{text}")

    def _plan(self) -> bool:
        self._screen.step("The plan: nothing is changed yet")
        arguments = ("plan", "-c", CONFIG)
        self._screen.show(f"$ {command_line(arguments)}")
        with RunningCommand(arguments, folder=self._folder) as command:
            return self._has_ended_well(command.wait())

    def _run(self, starts: Ends, ends: Ends, legs: list[Leg]) -> bool:
        """Runs ``run --once`` under the eyes of a watch, which leaves its times in ``legs``."""
        if not self._first_legs:
            self._screen.step("Mirror, up to where east ends now; Spark takes a few seconds to start")
        arguments = ("run", "-c", CONFIG, "--once")
        log = self._folder / "run.log"
        self._screen.show(f"$ {command_line(arguments, stderr=log)}")
        started = time.monotonic()
        to_kafka, to_archive = self._legs(starts, ends, started)
        legs += [*to_kafka, *to_archive]
        own = [*to_kafka, *to_archive]
        watch = Watch(self._west(), self._folder / LAKE, to_kafka=to_kafka, to_archive=to_archive)
        with (
            watch,
            self._screen.bars({_label(leg): leg.offsets for leg in own}) as move,
            RunningCommand(arguments, folder=self._folder, stderr=log) as command,
        ):
            while command.exit_code is None:
                move({_label(leg): leg.offsets_done for leg in own})
                time.sleep(_REFRESH_SECONDS)
            code = command.wait()
            move({_label(leg): leg.offsets_done for leg in own})
        if self._has_ended_well(code, log=log):
            self._screen.say(
                f"Copied in {_seconds_together(own):.1f} s; the whole run took {time.monotonic() - started:.1f} s, "
                "start and end of Spark included."
            )
        return code == 0

    def _add(self) -> tuple[Prepared, Ends]:
        self._screen.step("More records, and a second run")
        few = scaled(MORE, self._scale)
        more = prepare(self._shop, few, recent_customers=few.customers)
        ends = asyncio.run(self._loaded(more, creates=False))
        count = sum(content.records for content in more.contents.values())
        self._screen.say(
            f"{count:,} records were added to east. The second run reads positions from the destinations, and "
            "continues there: nothing twice, nothing left out."
        )
        return more, ends

    def _verify_and_report(self, first: Mapping[str, Content], more: Mapping[str, Content]) -> bool:
        self._screen.step("Compare every record with its source")
        arguments = ("verify", "-c", CONFIG, "--format", "json")
        result = self._folder / "verified.json"
        self._screen.show(f"$ {command_line(arguments, stdout=result)}")
        started = time.monotonic()
        with RunningCommand(arguments, folder=self._folder, stdout=result) as command:
            code = command.wait()
        if not result.stat().st_size:
            self._screen.say(f"It said nothing and ended with exit code {code}.")
            return False
        compared = json.loads(result.read_text(encoding="utf-8"))
        found = verdicts(compared, {topic: first[topic].records + more[topic].records for topic in first})
        self._screen.say(
            f"{sum(row['records'] or 0 for row in compared):,} records of {len(compared)} copied partitions were read "
            f"on both sides and compared in {time.monotonic() - started:.1f} s: offset, timestamp, key, value, headers."
        )
        legs = [
            CopiedLeg(
                topic=leg.topic,
                destination=leg.destination,
                content=first[leg.topic],
                seconds=leg.seconds,
                added=more[leg.topic].records,
                verdict=found.get((leg.topic, leg.destination), NOT_COMPARED),
            )
            for leg in self._first_legs
        ]
        self._screen.step("The result")
        self._screen.table(closing_rows(legs, seconds=_seconds_together(self._first_legs)), COLUMNS)
        for line in explanation(legs, archive_size(self._folder / LAKE)):
            self._screen.say(line)
        is_equal = code == 0 and all(leg.verdict == EQUAL for leg in legs)
        if not is_equal:
            unequal = [row for row in compared if row["result"] != EQUAL]
            self._screen.show(json.dumps(unequal, indent=2, ensure_ascii=False))
        return is_equal

    def _aftermath(self, first: Mapping[str, Content], more: Mapping[str, Content]) -> Aftermath:
        return Aftermath(
            self._screen,
            self._folder,
            self._folder / LAKE,
            self._clusters,
            expected={topic: first[topic].records + more[topic].records for topic in first},
            has_ended_well=lambda code, log: self._has_ended_well(code, log=log),
        )

    # --- within -------------------------------------------------------------------------------------------

    def _legs(self, starts: Ends, ends: Ends, now: float) -> tuple[list[Leg], list[Leg]]:
        def leg(topic: str, destination: str) -> Leg:
            return Leg(
                topic,
                destination,
                starts={partition.partition: at for partition, at in starts.items() if partition.topic == topic},
                targets={partition.partition: end for partition, end in ends.items() if partition.topic == topic},
                now=now,
            )

        return [leg(shape.name, "west") for shape in (ORDERS, PAYMENTS)], [leg(s.name, LAKE) for s in TOPICS]

    async def _loaded(self, prepared: Prepared, *, creates: bool) -> Ends:
        settings = ClusterSettings(name="east", bootstrap_servers=(self._clusters.east.bootstrap_servers,))
        async with ClusterClient(settings) as client:
            if creates:
                await create_topics(client)
            await load(client, prepared)
            return await end_offsets(client)

    def _west(self) -> ClusterSettings:
        return ClusterSettings(name="west", bootstrap_servers=(self._clusters.west.bootstrap_servers,))

    def _has_ended_well(self, code: int, *, log: Path | None = None) -> bool:
        if code:
            self._screen.say(f"It ended with exit code {code}.")
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log else []
            self._screen.show("\n".join(lines[-_LOG_LINES:]))
        return code == 0


def configuration(*, east: str, west: str, lake: Path) -> str:
    """Returns the demo's configuration file."""
    return f"""\
clusters:
  east: {{bootstrap-servers: "{east}"}}
  west: {{bootstrap-servers: "{west}"}}
stores:
  lake: {{type: filesystem, root: "{lake}"}}
mirrors:
  # The same records at the same offsets at west, and in Parquet files.
  - name: shop
    source: {{cluster: east, topics: [orders, payments]}}
    destinations:
      - {{type: kafka, cluster: west, offsets: preserve}}
      - {{type: archive, store: lake, flush: {{max-bytes: 32MiB, max-time: 1m}}}}
  # Compacted, and transactional: offsets with holes, into Parquet files.
  - name: books
    source: {{cluster: east, topics: [customers, ledger]}}
    destinations:
      - {{type: archive, store: lake, flush: {{max-bytes: 32MiB, max-time: 1m}}}}
"""


def things_to_try(folder: Path) -> str:
    """Returns what a user can type while the clusters stay up."""
    call = program()
    read = f"print(pq.read_table('{LAKE}/{ORDERS.name}').slice(0, 1).to_pylist())"
    return "\n".join(
        (
            f"cd {folder}",
            f"{call} run -c {AFTER}      # mirrors from the restored cluster until Ctrl-C",
            f"{call} status -c {AFTER}",
            f"{call} verify -c {AFTER}",
            f"{call} restore -c {AFTER} --store {LAKE} --topics {PAYMENTS.name} --to west --rename '{{topic}}.again'",
            f"ls {LAKE}/{ORDERS.name}/0",
            f'{sys.executable} -c "import pyarrow.parquet as pq; {read}"',
        )
    )


def _label(leg: Leg) -> str:
    return f"{leg.topic} → {leg.destination}"


def _seconds_together(legs: Sequence[Leg]) -> float:
    """Returns how long one or more of the legs were under way."""
    return seconds_under_way([interval for leg in legs for interval in leg.intervals.values()])
