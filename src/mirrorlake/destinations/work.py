"""What a lease is told of one destination of one source partition, whatever kind of destination it is.

A kind of destination is a folder beside this module: its work says what the driver and the lease may ask of any kind,
and makes the sink. Nobody asks which kind a work is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from mirrorlake.clock import Clock
from mirrorlake.destinations.connections import LeaseConnections
from mirrorlake.destinations.interface import PartitionSink
from mirrorlake.destinations.orders import NO_ORDERS, Orders
from mirrorlake.destinations.source_log import SourceLog
from mirrorlake.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPartition:
    """A destination partition that only the owner of a mirror may fill gaps in, and the name of its cluster."""

    cluster: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """What a sink is made of besides its work: the source partition, and what the lease has.

    ``may_begin`` tells whether the lease has time for something long; ``changed`` is to be called whenever the sink's
    ``has_room`` or ``failure`` changed.
    """

    source_log: SourceLog
    connections: LeaseConnections
    clock: Clock
    may_begin: Callable[[], bool]
    changed: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationWork(ABC):
    """One destination of one source partition: a frozen value that a plan carries to the lease.

    ``destination`` is the destination's label, unique within its mirror. ``orders`` are one lease's; everything else
    stays as the configuration and the clusters' metadata say it.
    """

    destination: str
    orders: Orders = NO_ORDERS

    is_live: ClassVar[bool]
    """True where what the source gains is copied at once, by every lease; False where it is cut when it is due."""

    has_view: ClassVar[bool] = False
    """True where what is written is the latest record of every key, and not every record."""

    needs_whole_shard: ClassVar[bool] = False
    """True where all partitions of the shard that were in a lease are handed over to the next one together."""

    seconds_past_sends: ClassVar[float] = 0.0
    """How much longer than the last send of its lease this may take."""

    @property
    @abstractmethod
    def skips_truncated(self) -> bool:
        """Whether it may go on at the source's log start where that has moved past the position."""

    @property
    def may_go_on(self) -> bool:
        """True where a lease of it may go on once its sinks stand (`PartitionSink.stands`), and begins no new one."""
        return False

    @property
    def batch_bytes_max(self) -> int | None:
        """The largest record batch the destination takes; None where it takes any."""
        return None

    @property
    def max_age_seconds(self) -> float | None:
        """How old a record may be for a partition to begin with it; None where the configuration says no age."""
        return None

    @property
    def cluster_name(self) -> str:
        """The destination cluster's name; empty where it is none."""
        return ""

    @property
    def written_partition(self) -> WrittenPartition | None:
        """Where only the owner of the mirror may fill gaps; None where there are none to fill."""
        return None

    def with_orders(self, orders: Orders) -> Self:
        """Returns the work for one lease. Pure."""
        return replace(self, orders=orders)

    @abstractmethod
    def make_sink(self, context: SinkContext) -> PartitionSink:
        """Returns the sink of the work, not yet opened."""
