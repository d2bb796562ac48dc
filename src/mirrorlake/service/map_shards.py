"""Settles how many shards mirrors with mapped offsets have, before anything is copied."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from mirrorlake.clock import Clock
from mirrorlake.config.resolved import Cluster, KafkaDestination
from mirrorlake.destinations.shard_count import settle_shards
from mirrorlake.errors import MirrorlakeError
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.service.targets import Target, cluster_settings

Place = tuple[str, str]
"""A destination cluster, and a mirror."""


async def with_settled_shards(
    targets: Sequence[Target], clients: WorkerCache, *, lanes: int, clock: Clock
) -> list[Target]:
    """Returns the targets with the number of shards each mirror has, decided now where it begins only now.

    Where it can be neither read nor decided the mirror's mapped targets get that error.

    Args:
        targets: all that were found.
        clients: of the clusters.
        lanes: as many shards a new mirror gets, so that each lane writes as one.
        clock: dates what is written.
    """
    wanted: dict[Place, Cluster] = {}
    for target in targets:
        if (place := _place(target)) is not None:
            assert isinstance(target.destination, KafkaDestination)
            wanted[place] = target.destination.cluster
    answers = await asyncio.gather(
        *(
            settle_shards(clients.client(cluster_settings(cluster)), mirror, wanted=lanes, clock=clock)
            for (_, mirror), cluster in wanted.items()
        ),
        return_exceptions=True,
    )
    settled = dict(zip(wanted, answers, strict=True))
    return [_with(target, settled) for target in targets]


def _place(target: Target) -> Place | None:
    if not target.is_mapped or target.error is not None or not isinstance(target.destination, KafkaDestination):
        return None
    return target.destination.cluster.name, target.mirror.name


def _with(target: Target, settled: dict[Place, int | BaseException]) -> Target:
    place = _place(target)
    if place is None:
        return target
    found = settled[place]
    if isinstance(found, int):
        return replace(target, map_shards=found)
    if isinstance(found, MirrorlakeError):
        return replace(target, error=found)
    raise found
