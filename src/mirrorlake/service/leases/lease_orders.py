"""What a lease is told of each of its partitions beside what is to be done: who owns it, what its schema ids become."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from mirrorlake.clock import Clock
from mirrorlake.destinations.orders import Orders
from mirrorlake.destinations.work import WrittenPartition
from mirrorlake.kafka.schema_ids.id_map import SchemaIdMap, SchemaName, unknown_ids
from mirrorlake.mirror.due import Due
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.service.lease_plans import orders_of, with_owner
from mirrorlake.service.leases.running import Standing
from mirrorlake.service.owners.holding import Holding, HoldingOf
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.topics.targets import shard_of


class SchemaIds(Protocol):
    """Knows what schema ids of records become at destinations."""

    def map_of(self, mirror: str, destination: str) -> SchemaIdMap | None:
        """Returns what is known by now of the ids on a way; None where records keep theirs."""

    def ask(self, mirror: str, destination: str, ids: tuple[SchemaName, ...]) -> None:
        """Takes ids that a lease has met and the map does not hold."""


class _NoSchemaIds:
    def map_of(self, mirror: str, destination: str) -> None:
        del mirror, destination

    def ask(self, mirror: str, destination: str, ids: tuple[SchemaName, ...]) -> None:
        raise AssertionError((mirror, destination, ids))


NO_SCHEMA_IDS: SchemaIds = _NoSchemaIds()
"""Of a run without registries: every record keeps its ids."""


class LeaseOrders:
    """Makes the orders of leases. Whoever calls it holds the table of states.

    Args:
        clock: the driver's.
        holding: what this process holds of a shard at a Kafka destination.
        archive_id_of: the id of the archive that was seen in a root, empty where none was.
        schemas: knows what schema ids become, and is told those that leases have met and nobody knows.
    """

    def __init__(
        self, clock: Clock, *, holding: HoldingOf, archive_id_of: Callable[[StoreSettings], str], schemas: SchemaIds
    ) -> None:
        self._clock = clock
        self._holding = holding
        self._archive_id_of = archive_id_of
        self._schemas = schemas

    def of(self, state: PartitionState, due: Due | None) -> Orders:
        """Returns what a lease that begins now is told of a partition; ``due`` where a segment of it is to be cut."""
        orders, written = orders_of(state, due), state.work.written_partition
        if (schema_ids := self._schemas.map_of(state.mirror, state.destination)) is not None:
            orders = replace(orders, schema_ids=schema_ids)
        if (archive := state.archive_work) is not None:
            orders = replace(orders, archive_id=self._archive_id_of(archive.store))
        if written is None:
            return orders
        return with_owner(orders, state, self._holding_of(state, written), now_seconds=self._clock.elapsed_seconds())

    def standing(self, state: PartitionState) -> Standing | None:
        """Returns what a lease that begins now would be told of a partition; None where one never goes on."""
        written = state.work.written_partition
        if written is None or self._schemas.map_of(state.mirror, state.destination) is not None:
            return None
        return Standing(state.work, state.size_limit, self._holding_of(state, written))

    def ask_for_ids(self, rows: Iterable[LeaseRow]) -> None:
        """Asks for the schema ids that a lease has met and could not translate."""
        asked: dict[tuple[str, str], dict[SchemaName, None]] = defaultdict(dict)
        for row in rows:
            if ids := unknown_ids(row.error):
                asked[row.mirror, row.destination] |= dict.fromkeys(ids)
        # All of a lease at once: who is asked says for what it waits each time that this is more than before.
        for (mirror, destination), ids_of_all in asked.items():
            self._schemas.ask(mirror, destination, tuple(ids_of_all))

    def _holding_of(self, state: PartitionState, written: WrittenPartition) -> Holding:
        return self._holding(state.mirror, written.cluster, shard_of(state.source), written.partition)
