"""One run of the soak: clusters, loads, faults, and the verdict."""

import asyncio
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirrorlake.errors import DestinationForeignError, MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.offsets import GapFill, TopicPartition
from mirrorlake.service.lifecycle.endings import EXIT_PARKED
from soak import judge
from soak.arenas import Services, Swarm
from soak.faults import Faults
from soak.loads import Loads
from soak.mirrors import SERVED, Mode, Served
from soak.samples import SLACK, Sampler
from soak.sites import Site
from soak.unknown_producers import UnknownProducers
from support.cleanliness import assert_clean
from support.compaction import EAGER
from support.copies import create_topic, log_end, source_end
from support.leases import kafka_work, lease_plan, run_lease
from support.records import settings_of
from support.tiered_kafka import TIERED

SWARM_DENSE, SWARM_GAPS = "swarm-dense", "swarm-gaps"
SWARMED = (Served(topic=SWARM_DENSE, is_dense=True), Served(topic=SWARM_GAPS))

ROLLING = {**EAGER, "segment_ms": "3000", "delete_retention_ms": "3600000"}
"""Cleaned all the time, without thousands of segments. A tombstone stays longer than any outage here: one that is gone
before the copy comes to it has deleted something at the source only, as it would for any consumer that lags."""

BREATH_EVERY = 100
"""Faults between two moments at which everything is healed, a broker is broken, and the copies must catch up."""

CATCH_UP_SECONDS = 120.0
"""A service that was just killed needs a start, and the time its leases may still append, before it fills a gap: that
is half a minute of this on two cores. With less, no gap would be filled before the next kill."""

CATCH_UP_SECONDS_LAST = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What is asked of a run.

    ``minutes`` is how long all pauses between faults are together; breaths and starts of services come on top.
    """

    seed: int
    minutes: float
    kills: int
    network_faults: int


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What is known of the run so far."""

    stops: list[str] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)
    remedies: int = 0
    catch_up_seconds: list[float] = field(default_factory=list)
    behind_after_breath: list[str] = field(default_factory=list)


class Run:
    """Call `work` once.

    Args:
        orders: seed and amounts.
        source: a running cluster.
        destination: another one.
        folder: for the services' logs.
    """

    def __init__(self, orders: Orders, source: Site, destination: Site, folder: Path) -> None:
        self._orders = orders
        self._source = source
        self._destination = destination
        self.outcome = Outcome()
        self._chance = random.Random(orders.seed)
        for each in (*SERVED, *SWARMED):
            configs = ROLLING if each.is_compacted else TIERED if each.is_tiered else {}
            create_topic(source.inside, each.topic, each.partitions, **configs)
        for each in SWARMED:
            create_topic(destination.inside, each.topic, each.partitions)
        self._unknown_producers = UnknownProducers(destination.inside, [each for each in SERVED if each.is_taken])
        self._loads = Loads(source.inside, orders.seed)
        self._services = Services(source, destination, SERVED, folder)
        self._swarm = Swarm(source, destination, _partitions(SWARMED))
        self._faults = Faults(self._chance, (source, destination), self._services, self._swarm)
        self._began = time.monotonic()

    def work(self) -> dict[str, Any]:
        """Breaks things for the time ordered, then lets everything settle; returns the figures."""
        sampler = Sampler(lambda: self._services.current)
        self._load()
        try:
            self._break_things()
            fault_minutes = (time.monotonic() - self._began) / 60
            self._loads.stop()
            if behind := self._settle(CATCH_UP_SECONDS_LAST):
                said = self._services.current.said()[-1500:]
                self.outcome.surprises.append(f"did not catch up: {[str(where) for where in behind]}: {said}")
            self._swarm.end()
            self._finish_swarm()
            sampler.stop()
            code = self._services.stop()
            if code != EXIT_PARKED:  # what is taken stands parked, and waits
                self.outcome.surprises.append(f"the last service ended with {code}")
        finally:
            self._loads.stop()
            self._swarm.end()
            self._services.current.__exit__(None, None, None)
        return self._figures(fault_minutes, sampler)

    def _load(self) -> None:
        for each in (*SERVED, *SWARMED):
            if each.is_compacted:
                self._loads.compacted(each.topic)
            elif each.is_tiered:
                self._loads.dense(each.topic, each.partitions, sizes=(2000,))  # segments have a megabyte at least
            elif each.is_dense:
                self._loads.dense(each.topic, each.partitions)
            else:
                self._loads.transactional(each.topic, each.partitions)

    # --- breaking -----------------------------------------------------------------------------------------

    def _break_things(self) -> None:
        orders = self._orders
        events = ["kill"] * orders.kills + ["network"] * orders.network_faults + ["freeze"] * (orders.kills // 2)
        self._chance.shuffle(events)
        pause = orders.minutes * 60 / len(events)
        for number, event in enumerate(events, start=1):
            due = time.monotonic() + pause  # from the last one on: none follows at once because another took its time
            while True:
                self._services.ensure()
                self._swarm.refill()
                self._faults.heal_due()
                left = due - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(0.1, left))
            if event == "kill":
                self._faults.kill()
            elif event == "network":
                self._faults.spoil_network()
            else:
                self._faults.freeze()
            if number % BREATH_EVERY == 0:
                self._breathe(number, len(events))

    def _breathe(self, number: int, of: int) -> None:
        self._faults.heal_all()
        self._faults.break_broker()
        behind = [str(where) for where in self._settle(CATCH_UP_SECONDS)]
        if behind:
            self.outcome.behind_after_breath.append(f"fault {number}: {', '.join(behind)}")
        print(
            f"{time.monotonic() - self._began:6.0f} s  fault {number}/{of}  kills {sum(self._faults.kills.values())}  "
            f"network {sum(self._faults.network.values())}  caught up in {self.outcome.catch_up_seconds[-1]:.0f} s  "
            f"stops {len(self.outcome.stops)}  surprises {len(self.outcome.surprises)}  {'behind ' * bool(behind)}"
            f"{' '.join(behind)}",
            flush=True,
        )

    # --- settling -----------------------------------------------------------------------------------------

    def _settle(self, seconds: float) -> list[TopicPartition]:
        """Heals everything, and waits until what the sources hold now is at the destination; returns what is not."""
        self._faults.heal_all()
        began = time.monotonic()
        ends = {
            where: source_end(self._source.inside, where.topic, where.partition) for where in _partitions(_copied())
        }
        while behind := [where for where, end in ends.items() if self._position(where) < end]:
            self._services.ensure()
            self._swarm.refill()
            if parked := self._services.newly_parked():
                self._remedy_served(parked)
            if time.monotonic() - began > seconds:
                self._finish_swarm([where for where in behind if where in self._swarm.partitions])
                break
            time.sleep(0.3)
        if parked := self._services.newly_parked():
            self._remedy_served(parked)
        self.outcome.catch_up_seconds.append(round(time.monotonic() - began, 1))
        return [where for where in behind if where not in self._swarm.partitions]

    def _position(self, where: TopicPartition) -> int:
        served = next(each for each in (*SERVED, *SWARMED) if each.topic == where.topic)
        if served.mode is Mode.MAP:
            return judge.mapped_position(self._destination.inside, where, served.mirror_of(where.partition))
        return log_end(self._destination.inside, where.topic, where.partition)

    def _remedy_served(self, parked: dict[str, str]) -> None:
        """What the message of a misaligned partition says: stop, delete the destination topic, start again."""
        self._note_stops(parked.values())
        self._services.stop()
        for topic in parked:
            asyncio.run(_delete(self._destination.inside, topic))
        self._services.restart()
        self.outcome.remedies += 1

    def _finish_swarm(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Copies what is left with one writer; a partition that stopped by name is made anew."""
        for where in self._swarm.partitions if partitions is None else partitions:
            error: MirrorlakeError | None = None
            for _ in range(20):
                row = run_lease(self._swarm_plan(where))[0, "west"]
                error = row.error
                if error is None:
                    break
                if isinstance(error, DestinationForeignError):
                    self._note_stops([str(error)])
                    self._swarm.end()
                    asyncio.run(_delete(self._destination.inside, where.topic))
                    create_topic(self._destination.inside, where.topic)
                    self.outcome.remedies += 1
                time.sleep(0.5)
            else:
                self.outcome.surprises.append(f"{where}: {error}")

    def _swarm_plan(self, where: TopicPartition) -> Any:
        work = kafka_work(self._destination.inside, where, mirror="swarm", gap_fill=GapFill.MARKERS)
        end = source_end(self._source.inside, where.topic, where.partition)
        return lease_plan(self._source.inside, [(where, [work])], end=end, seconds=60.0)

    def _note_stops(self, lines: Iterable[str]) -> None:
        for line in lines:
            # A marker that a moved coordinator wrote twice cannot be prevented from outside, only noticed.
            (self.outcome.stops if "misaligned" in line else self.outcome.surprises).append(line[-1200:])

    # --- verdict ------------------------------------------------------------------------------------------

    def _figures(self, fault_minutes: float, sampler: Sampler) -> dict[str, Any]:
        unequal = judge.verify(self._services.config, SERVED)
        found = judge.compare(self._source.inside, self._destination.inside, _copied(), self._services.lake)
        trends = sampler.trends()
        return {
            "seed": self._orders.seed,
            "fault_minutes": round(fault_minutes, 1),
            "minutes": round((time.monotonic() - self._began) / 60, 1),
            "kills": self._faults.kills,
            "kills_total": sum(self._faults.kills.values()),
            "freezes": self._faults.freezes,
            "network_faults": dict(sorted(self._faults.network.items())),
            "network_faults_total": sum(self._faults.network.values()),
            "broker_faults": self._faults.brokers,
            "service_starts": self._services.starts,
            "catch_up_seconds": self.outcome.catch_up_seconds,
            "behind_after_breath": self.outcome.behind_after_breath,
            "partitions": len(_partitions(_copied())),
            "mirrors": sum(len(each.mirrors) for each in SERVED),
            "records": found.records,
            "archived": found.archived,
            "foreign_touched": self._unknown_producers.touched(),
            "lost": found.lost,
            "duplicated": found.duplicated,
            "fillers_seen": found.fillers_seen,
            "ends_differ": found.ends_differ,
            "unread": found.unread,
            "first_differences": found.first_differences,
            "verify_unequal": unequal,
            "open_transactions": _left_open(self._destination.inside),
            "stops_by_name": self.outcome.stops,
            "remedies_applied": self.outcome.remedies,
            "surprises": self.outcome.surprises + self._services.odd_ends,
            "trends": {
                role: {
                    name: {
                        "first_third": trend.first_third,
                        "last_third": trend.last_third,
                        "most": trend.most,
                        "is_flat": trend.is_flat(SLACK[name]),
                    }
                    for name, trend in each.items()
                }
                for role, each in trends.items()
            },
        }


BAD = (
    *(
        "lost",
        "duplicated",
        "foreign_touched",
        "fillers_seen",
        "ends_differ",
        "unread",
        "verify_unequal",
        "open_transactions",
    ),
    "surprises",
)


def is_good(figures: dict[str, Any]) -> bool:
    """Whether nothing was lost, doubled, seen that should not be, or left behind."""
    return not any(figures[name] for name in BAD) and all(
        each["is_flat"] for role in figures["trends"].values() for each in role.values()
    )


def _copied() -> list[Served]:
    """What must come to be equal."""
    return [each for each in (*SERVED, *SWARMED) if not each.is_taken]


def _partitions(served: Iterable[Served]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, number) for each in served for number in range(each.partitions)]


def _left_open(servers: str) -> str:
    try:
        mapped = [name for each in SERVED if each.mode is Mode.MAP for name in each.mirrors]
        progress = [judge.progress_topics(servers, name) for name in mapped]
        held = [topic for each in progress for topic in (each.progress, each.pages)]
        assert_clean(servers, [*(each.topic for each in (*SERVED, *SWARMED)), *held])
    except AssertionError as found:
        return str(found)
    return ""


async def _delete(servers: str, topic: str) -> None:
    async with ClusterClient(settings_of(servers)) as client:
        await client.topics.delete(topic)
        while topic in (await client.metadata(refresh=True)).topics:
            await asyncio.sleep(0.1)
