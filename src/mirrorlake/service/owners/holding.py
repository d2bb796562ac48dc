"""What a process holds of one shard at a Kafka destination, as the supervisor tells it to leases."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from mirrorlake.errors import MirrorlakeError
from mirrorlake.offsets import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """One shard of one mirror at one destination cluster.

    ``own_producer_ids`` are those its transactional id ever stood for, as far as the state record knows, and at the
    partition asked for also those of mirrors whose copy there went on under this one.
    ``fills_from_seconds`` is the reading of the driver's clock from which no lease of an owner before can append any
    more, infinite where this process does not own the mirror (yet); ``refusal`` is then why, None before the first try.
    """

    own_producer_ids: frozenset[int] = frozenset()
    fills_from_seconds: float = inf
    refusal: MirrorlakeError | None = None


HoldingOf = Callable[[str, str, int, TopicPartition], Holding]
"""Mirror, destination cluster, shard, destination partition → what this process holds of it."""


def owned_for_ever(mirror: str, cluster: str, shard: int, destination: TopicPartition) -> Holding:
    """The holding of somebody who never had a rival; for tests and for destinations without ownership."""
    del mirror, cluster, shard, destination
    return Holding(fills_from_seconds=-inf)
