"""States of partitions as the driver's table holds them, for tests that need no cluster."""

from mirrorlake.clock import Clock
from mirrorlake.destinations.preserve.settings import PreserveSettings
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.events import Events
from mirrorlake.service.state_table import StateTable
from mirrorlake.sources.kafka.work import KafkaSourceWork

EAST = ClusterSettings(name="east", bootstrap_servers=("east:9092",))
WEST = ClusterSettings(name="west", bootstrap_servers=("west:9092",))


def kafka_state(partition: int, *, mirror: str = "m") -> PartitionState:
    """A partition of ``orders`` at a Kafka destination, nothing known of it yet."""
    source = TopicPartition("orders", partition)
    settings = PreserveSettings(
        source=source,
        destination=source,
        transactional_id=f"mirrorlake.{mirror}.{partition}",
        batch_bytes_max=1 << 20,
    )
    return PartitionState(
        mirror=mirror,
        source=source,
        shard=f"{mirror}.{partition}",
        work=PreserveWork(destination="west", cluster=WEST, settings=settings),
        topic_id="t",
        rule=None,
    )


def table_of(*states: PartitionState, clock: Clock, events: Events, once: bool = False) -> StateTable:
    """A table of these, all from cluster ``east``."""
    table = StateTable(once=once, clock=clock, events=events)
    table.add(states, {state.mirror: KafkaSourceWork(cluster=EAST) for state in states})
    return table
