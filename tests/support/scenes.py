"""A source topic, and processes that take its copies over, as a service does, lease by lease."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from mirrorlake.clock import SystemClock
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.destinations.transactions.owner_states import OwnerState, read_states
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.service.owners.owners import Owners
from mirrorlake.service.states import state_of
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import Target, shard_of
from mirrorlake.topics.topic_creation import create_topics
from support.leases import lease_plan, run_lease


@dataclass(frozen=True)
class Scene:
    """A source topic, and configurations that copy it: mirrors by name, each with what its source and itself says."""

    source: str
    destination: str
    topic: str

    def configured(self, *mirrors: tuple[str, str, str], on_recreate: str = "park") -> Configuration:
        lines = "".join(
            f"  - {{name: {self.topic}.{name}, source: {{cluster: east, topics: [{self.topic}]{of_source}}}, "
            f"destinations: [{{type: kafka, cluster: west{of_destination}}}], on-recreate: {on_recreate}}}\n"
            for name, of_source, of_destination in mirrors
        )
        text = (
            f"clusters: {{east: {{bootstrap-servers: '{self.source}'}}, "
            f"west: {{bootstrap-servers: '{self.destination}'}}}}\nmirrors:\n{lines}"
        )
        return parse_configuration(text.encode(), file="mirror.yaml", environ={})

    @asynccontextmanager
    async def process(self, *mirrors: tuple[str, str, str], on_recreate: str = "park") -> AsyncIterator["Process"]:
        """A process of these mirrors that has taken what it could; it dies at the end, unless it was released."""
        clients = WorkerCache()
        try:
            found = await find_targets(self.configured(*mirrors, on_recreate=on_recreate), clients)
            assert await create_topics(found, clients) == {}
            owners = Owners(clients, owner=" and ".join(name for name, _, _ in mirrors), clock=SystemClock())
            taken = await owners.take(found)
            errors = [taken.get(index) or target.error for index, target in enumerate(found)]
            yield Process(self.source, owners, found, errors, clients)
        finally:
            await clients.close()


@dataclass(frozen=True)
class Process:
    source: str
    owners: Owners
    targets: list[Target]
    errors: list[MirrorlakeError | None]
    clients: WorkerCache

    def ids(self, index: int = 0) -> frozenset[int]:
        target = self.targets[index]
        return self.owners.holding(
            target.mirror.name, "west", shard_of(target.source), target.destination_partition
        ).own_producer_ids

    async def copy(self, end: int) -> list[MirrorlakeError | None]:
        """Copies every partition up to ``end`` and looks at its ids; errors by partition."""
        rows = [await asyncio.to_thread(self._lease, index, end) for index in range(len(self.targets))]
        await self.owners.check()
        return [row.error for row in rows]

    def _lease(self, index: int, end: int) -> LeaseRow:
        target = self.targets[index]
        work = state_of(target, writer="test").work
        assert isinstance(work, PreserveWork)
        work = replace(work, orders=replace(work.orders, own_producer_ids=self.ids(index)))
        (row,) = run_lease(lease_plan(self.source, [(target.source, [work])], end=end)).values()
        return row

    async def record(self, name: str) -> OwnerState:
        client = self.clients.client(settings_of_destination(self.targets[0]))
        return (await read_states(client))[f"{self.targets[0].source.topic}.{name}"]


def settings_of_destination(target: Target) -> ClusterSettings:
    assert isinstance(target.destination, KafkaDestination)
    return target.destination.cluster.settings
