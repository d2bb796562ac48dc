"""One run of the soak: clusters, loads, faults, and the verdict."""

import asyncio
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirrorlake.errors import DestinationForeignError, MirrorlakeError
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.offsets import GapFill, TopicPartition
from soak import judge
from soak.arenas import Services, Swarm
from soak.faults import Faults
from soak.loads import Loads
from soak.samples import SLACK, Sampler
from soak.sites import Site
from support.cleanliness import assert_clean
from support.compaction import EAGER
from support.copies import create_topic, log_end, source_end
from support.leases import kafka_work, lease_plan, run_lease
from support.records import settings_of

DENSE, TRANSACTIONAL, FILLED, COMPACTED, MAPPED = "dense", "transactional", "filled", "compacted", "mapped"
SWARM_DENSE, SWARM_GAPS = "swarm-dense", "swarm-gaps"
SERVED = {DENSE: 3, TRANSACTIONAL: 2, FILLED: 1, COMPACTED: 1, MAPPED: 2}
SWARMED = {SWARM_DENSE: 1, SWARM_GAPS: 1}

ROLLING = {**EAGER, "segment_ms": "3000", "delete_retention_ms": "3600000"}
"""Cleaned all the time, without thousands of segments. A tombstone stays longer than any outage here: one that is gone
before the copy comes to it has deleted something at the source only, as it would for any consumer that lags."""

BREATH_EVERY = 40
"""Faults between two moments at which everything is healed, a broker is broken, and the copies must catch up."""

CATCH_UP_SECONDS = 45.0
CATCH_UP_SECONDS_LAST = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What is asked of a run. ``minutes`` is how long the faults take if nothing holds them up."""

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
        for topic, partitions in {**SERVED, **SWARMED}.items():
            create_topic(source.inside, topic, partitions, **(ROLLING if topic == COMPACTED else {}))
        for topic, partitions in SWARMED.items():
            create_topic(destination.inside, topic, partitions)
        self._loads = Loads(source.inside, orders.seed)
        self._services = Services(
            source, destination, list(SERVED), folder, filled=frozenset({FILLED}), mapped=frozenset({MAPPED})
        )
        self._swarm = Swarm(source, destination, [TopicPartition(topic, 0) for topic in SWARMED])
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
            if code != 0:
                self.outcome.surprises.append(f"the last service ended with {code}")
        finally:
            self._loads.stop()
            self._swarm.end()
            self._services.current.__exit__(None, None, None)
        return self._figures(fault_minutes, sampler)

    def _load(self) -> None:
        self._loads.dense(DENSE, SERVED[DENSE])
        self._loads.transactional(TRANSACTIONAL, SERVED[TRANSACTIONAL])
        self._loads.transactional(FILLED, SERVED[FILLED])
        self._loads.transactional(MAPPED, SERVED[MAPPED])
        self._loads.compacted(COMPACTED)
        self._loads.dense(SWARM_DENSE, 1)
        self._loads.transactional(SWARM_GAPS, 1)

    # --- breaking -----------------------------------------------------------------------------------------

    def _break_things(self) -> None:
        orders = self._orders
        events = ["kill"] * orders.kills + ["network"] * orders.network_faults + ["freeze"] * (orders.kills // 2)
        self._chance.shuffle(events)
        pause = orders.minutes * 60 / len(events)
        for number, event in enumerate(events, start=1):
            due = self._began + number * pause
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
        self._settle(CATCH_UP_SECONDS)
        print(
            f"{time.monotonic() - self._began:6.0f} s  fault {number}/{of}  kills {sum(self._faults.kills.values())}  "
            f"network {sum(self._faults.network.values())}  caught up in {self.outcome.catch_up_seconds[-1]:.0f} s  "
            f"stops {len(self.outcome.stops)}  surprises {len(self.outcome.surprises)}",
            flush=True,
        )

    # --- settling -----------------------------------------------------------------------------------------

    def _settle(self, seconds: float) -> list[TopicPartition]:
        """Heals everything, and waits until what the sources hold now is at the destination; returns what is not."""
        self._faults.heal_all()
        began = time.monotonic()
        ends = {
            where: source_end(self._source.inside, where.topic, where.partition)
            for where in _partitions({**SERVED, **SWARMED})
        }
        while behind := [where for where, end in ends.items() if self._position(where) < end]:
            self._services.ensure()
            self._swarm.refill()
            if parked := self._services.newly_parked():
                self._remedy_served(parked)
            if time.monotonic() - began > seconds:
                self._finish_swarm([where for where in behind if where.topic in SWARMED])
                break
            time.sleep(0.3)
        if parked := self._services.newly_parked():
            self._remedy_served(parked)
        self.outcome.catch_up_seconds.append(round(time.monotonic() - began, 1))
        return [where for where in behind if where.topic in SERVED]

    def _position(self, where: TopicPartition) -> int:
        if where.topic == MAPPED:
            return judge.mapped_position(self._destination.inside, where)
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
        unequal = judge.verify(self._services.config)
        partitions = _partitions({**SERVED, **SWARMED})
        found = judge.compare(
            self._source.inside,
            self._destination.inside,
            partitions,
            compacted=frozenset({COMPACTED}),
            filled=frozenset({FILLED}),
            mapped=frozenset({MAPPED}),
        )
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
            "partitions": len(partitions),
            "records": found.records,
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
    *("lost", "duplicated", "fillers_seen", "ends_differ", "unread", "verify_unequal", "open_transactions"),
    "surprises",
)


def is_good(figures: dict[str, Any]) -> bool:
    """Whether nothing was lost, doubled, seen that should not be, or left behind."""
    return not any(figures[name] for name in BAD) and all(
        each["is_flat"] for role in figures["trends"].values() for each in role.values()
    )


def _partitions(topics: dict[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]


def _left_open(servers: str) -> str:
    try:
        progress = judge.progress_topics(servers, MAPPED)
        assert_clean(servers, [*SERVED, *SWARMED, progress.progress, progress.pages])
    except AssertionError as found:
        return str(found)
    return ""


async def _delete(servers: str, topic: str) -> None:
    async with ClusterClient(settings_of(servers)) as client:
        await client.delete_topic(topic)
        while topic in (await client.metadata(refresh=True)).topics:
            await asyncio.sleep(0.1)
