"""A cluster of the soak: every broker behind toxiproxy and behind our own proxy."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from support.kafka_nodes import KafkaNodes
from support.proxy import Proxy
from support.tiered_kafka import FolderTier
from support.toxiproxy import Toxiproxy


class Site:
    """One cluster. What is under test goes client → toxiproxy → our proxy → broker; judges and loads go past both.

    Args:
        name: of the cluster.
        folder: for its nodes.
        libs: Kafka's jars.
        toxiproxy: runs already.
        count: of nodes.
        properties: of every broker.
        has_tier: whether topics may have a remote tier (KIP-405).

    Raises:
        NoCompilerError: it should have one, which cannot be compiled here.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        libs: Path,
        toxiproxy: Toxiproxy,
        count: int,
        properties: Mapping[str, str] = MappingProxyType({}),
        has_tier: bool = False,
    ) -> None:
        self.name = name
        self.toxiproxy = toxiproxy
        self.proxies: dict[int, Proxy] = {}
        self._fronts: list[int] = []
        self.tier = FolderTier(folder / "tier", libs=libs) if has_tier else None
        if self.tier is not None:
            properties = {**properties, **self.tier.properties(listener="INSIDE")}
        self.nodes = KafkaNodes(folder, libs=libs, count=count, front=self._front, properties=properties)

    @property
    def front(self) -> str:
        """Bootstrap servers that lead through the faults."""
        return ",".join(f"127.0.0.1:{port}" for port in self._fronts)

    @property
    def inside(self) -> str:
        """Bootstrap servers that lead past them."""
        return self.nodes.inside_servers

    def toxic_name(self, number: int) -> str:
        """A node's listener in toxiproxy."""
        return f"{self.name}-{number}"

    def heal(self) -> None:
        """Ends every fault of the network, and makes the tier fast."""
        if self.tier is not None:
            self.tier.answers_after(0.0)
        for number, proxy in self.proxies.items():
            proxy.forgive()
            self.toxiproxy.join(self.toxic_name(number))
            self.toxiproxy.heal(self.toxic_name(number))

    def close(self) -> None:
        self.nodes.stop()
        for proxy in self.proxies.values():
            proxy.__exit__(None, None, None)

    def _front(self, number: int, port: int) -> int:
        self.proxies[number] = Proxy(port)
        self._fronts.append(self.toxiproxy.add(self.toxic_name(number), target_port=self.proxies[number].port))
        return self._fronts[-1]
