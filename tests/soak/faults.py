"""The faults of the soak, each by the name it is counted under."""

import random
import time
from collections.abc import Callable

from soak.arenas import Services, Swarm
from soak.sites import Site
from support.proxy import ADD_PARTITIONS_TO_TXN, END_TXN, FETCH, INIT_PRODUCER_ID, PRODUCE

CUTS = {
    "Produce": PRODUCE,
    "Fetch": FETCH,
    "InitProducerId": INIT_PRODUCER_ID,
    "AddPartitionsToTxn": ADD_PARTITIONS_TO_TXN,
    "EndTxn": END_TXN,
}

Heal = Callable[[], None]


class Faults:
    """Does faults one by one, and ends those that last when their time has come.

    Args:
        chance: every choice comes from here.
        sites: source and destination.
        services: what `kill_*` hit.
        swarm: likewise.
    """

    def __init__(self, chance: random.Random, sites: tuple[Site, Site], services: Services, swarm: Swarm) -> None:
        self._chance = chance
        self._sites = sites
        self._services = services
        self._swarm = swarm
        self._heals: list[tuple[float, Heal]] = []
        self.kills: dict[str, int] = {}
        self.network: dict[str, int] = {}
        self.brokers: dict[str, int] = {}
        self.freezes = 0

    def heal_due(self) -> None:
        """Ends what has lasted long enough."""
        now = time.monotonic()
        due = [heal for at, heal in self._heals if at <= now]
        self._heals = [(at, heal) for at, heal in self._heals if at > now]
        for heal in due:
            heal()

    def heal_all(self) -> None:
        """Ends everything that lasts."""
        self._heals.clear()
        for site in self._sites:
            site.heal()

    def _until(self, seconds: float, heal: Heal) -> None:
        self._heals.append((time.monotonic() + seconds, heal))

    # --- kills --------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """A process of ours dies: most often one that is soon replaced."""
        kind = self._chance.choices(
            ("lease process", "Python worker", "JVM", "driver", "zombie"), weights=(66, 26, 2, 4, 2)
        )[0]
        if kind == "zombie":
            self.heal_all()  # or the second would have to wait
        if not (
            (kind == "driver" and self._services.kill_driver())
            or (kind == "zombie" and self._services.supersede())
            or (kind == "Python worker" and self._services.kill_worker(self._chance))
            or (kind == "JVM" and self._services.kill_jvm())
        ):
            kind = "lease process"
            self._swarm.kill(self._chance)
        self.kills[kind] = self.kills.get(kind, 0) + 1

    def freeze(self) -> None:
        """A lease process stops for a while."""
        self._swarm.freeze(self._chance)
        self.freezes += 1

    # --- network ------------------------------------------------------------------------------------------

    def spoil_network(self) -> None:
        """Something between us and one broker of one cluster breaks."""
        site = self._chance.choice(self._sites)
        number = self._chance.choice(sorted(site.proxies))
        kinds = {
            "reset": self._reset,
            "half-open": self._half_open,
            "black hole": self._silence,
            "refused": self._refuse,
            "cut before the answer": self._cut_answer,
            "cut before the request": self._cut_request,
            "late request": self._hold,
            "latency and jitter": self._latency,
            "bandwidth": self._bandwidth,
            "toxiproxy latency and jitter": self._toxic_latency,
            "toxiproxy bandwidth": self._toxic_bandwidth,
            "toxiproxy reset": self._toxic_reset,
            "toxiproxy black hole": self._toxic_timeout,
            "toxiproxy slices": self._toxic_slices,
            "toxiproxy data limit": self._toxic_limit,
            "toxiproxy down": self._toxic_down,
        }
        if site.tier is not None:
            kinds["slow remote tier"] = self._slow_tier
        kind = self._chance.choices(
            sorted(kinds), weights=[4 if name.startswith("cut") else 1 for name in sorted(kinds)]
        )[0]
        detail = kinds[kind](site, number)
        name = f"{site.name}: {kind}{detail or ''}"
        self.network[name] = self.network.get(name, 0) + 1

    def _reset(self, site: Site, number: int) -> None:
        site.proxies[number].reset_connections()

    def _half_open(self, site: Site, number: int) -> None:
        site.proxies[number].half_open()

    def _silence(self, site: Site, number: int) -> None:
        proxy, loses = site.proxies[number], self._chance.random() < 0.5
        proxy.fall_silent()
        self._until(self._chance.choice((0.5, 2.0, 7.0)), lambda: proxy.wake(lose_connections=loses))

    def _refuse(self, site: Site, number: int) -> None:
        proxy = site.proxies[number]
        proxy.refuses = True
        proxy.reset_connections()
        self._until(self._chance.uniform(0.2, 3.0), lambda: setattr(proxy, "refuses", False))

    def _cut_answer(self, site: Site, number: int) -> str:
        api = self._chance.choice(sorted(CUTS))
        site.proxies[number].cut_before_answer(CUTS[api], after_requests=self._chance.randint(1, 6))
        return f" to {api}"

    def _cut_request(self, site: Site, number: int) -> str:
        api = self._chance.choice(sorted(CUTS))
        site.proxies[number].cut_before_request(CUTS[api], after_requests=self._chance.randint(1, 6))
        return f" {api}"

    def _hold(self, site: Site, number: int) -> str:
        api = self._chance.choice(sorted(CUTS))
        held = site.proxies[number].hold(CUTS[api], after_requests=self._chance.randint(1, 6))
        # Once it is let go, one that has not come yet will not be stopped any more.
        self._until(self._chance.choice((0.3, 1.5, 5.0)), held.release)
        return f" {api}"

    def _latency(self, site: Site, number: int) -> None:
        proxy = site.proxies[number]
        proxy.answer_delay_seconds, proxy.answer_jitter_seconds = self._chance.choice(((0.02, 0.05), (0.2, 0.4)))

        def heal() -> None:
            proxy.answer_delay_seconds = proxy.answer_jitter_seconds = 0.0

        self._until(self._chance.uniform(1.0, 4.0), heal)

    def _bandwidth(self, site: Site, number: int) -> None:
        proxy = site.proxies[number]
        proxy.bytes_per_second = self._chance.choice((20_000, 200_000))
        self._until(self._chance.uniform(1.0, 4.0), lambda: setattr(proxy, "bytes_per_second", 0))

    def _toxic(self, site: Site, number: int, seconds: float, kind: str, **attributes: int) -> None:
        name = site.toxic_name(number)
        site.toxiproxy.heal(name)  # one at a time: a second of the same kind would be refused
        site.toxiproxy.spoil(name, kind, stream=self._chance.choice(("downstream", "upstream")), **attributes)
        self._until(seconds, lambda: site.toxiproxy.heal(name))

    def _toxic_latency(self, site: Site, number: int) -> None:
        self._toxic(site, number, self._chance.uniform(1.0, 4.0), "latency", latency=100, jitter=90)

    def _toxic_bandwidth(self, site: Site, number: int) -> None:
        self._toxic(site, number, self._chance.uniform(1.0, 4.0), "bandwidth", rate=self._chance.choice((20, 200)))

    def _toxic_reset(self, site: Site, number: int) -> None:
        self._toxic(site, number, 0.5, "reset_peer", timeout=self._chance.choice((0, 200)))

    def _toxic_timeout(self, site: Site, number: int) -> None:
        self._toxic(site, number, self._chance.choice((1.0, 6.0)), "timeout", timeout=0)

    def _toxic_slices(self, site: Site, number: int) -> None:
        self._toxic(site, number, 3.0, "slicer", average_size=200, size_variation=150, delay=100)

    def _toxic_limit(self, site: Site, number: int) -> None:
        self._toxic(site, number, 2.0, "limit_data", bytes=self._chance.choice((1_000, 50_000)))

    def _toxic_down(self, site: Site, number: int) -> None:
        name = site.toxic_name(number)
        site.toxiproxy.cut(name)
        self._until(self._chance.uniform(0.2, 3.0), lambda: site.toxiproxy.join(name))

    def _slow_tier(self, site: Site, number: int) -> None:
        tier = site.tier
        assert tier is not None
        tier.answers_after(self._chance.choice((0.3, 0.8, 2.0)))  # brokers wait half a second for it
        self._until(self._chance.uniform(2.0, 8.0), lambda: tier.answers_after(0.0))

    # --- brokers ------------------------------------------------------------------------------------------

    def break_broker(self) -> None:
        """A broker restarts, crashes or freezes; the cluster is whole again when this returns."""
        site = self._chance.choice(self._sites)
        node = site.nodes.nodes[self._chance.choice(sorted(site.nodes.nodes))]
        kind = self._chance.choice(("restart", "kill -9", "freeze", "controller change"))
        if kind == "freeze":
            node.pause()
            time.sleep(self._chance.choice((0.5, 3.0)))
            node.resume()
        else:
            if kind == "controller change":
                node = site.nodes.controller()
            node.stop() if kind == "restart" else node.kill()
        site.nodes.revive()
        name = f"{site.name}: {kind}"
        self.brokers[name] = self.brokers.get(name, 0) + 1
