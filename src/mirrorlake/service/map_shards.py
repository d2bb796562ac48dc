"""Settles how many shards mirrors with mapped offsets have, and makes their topics, before anything is copied."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from mirrorlake.clock import Clock
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.map.progress_store import ProgressTopics, check_same_topics, make_pages_topic
from mirrorlake.destinations.map.shard_count import settle_shards
from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.topics.targets import Target

Place = tuple[str, str]
"""A destination cluster, and a mirror."""


async def with_settled_shards(
    targets: Sequence[Target], clients: WorkerCache, *, lanes: int, clock: Clock
) -> list[Target]:
    """Returns the targets with the number of shards each mirror has, decided now where it begins only now.

    They get the ids of the mirror's own topics too, which are made where they are missing: discovery has refused a
    mirror that had them before. One whose topics are no longer those that discovery found is refused here.

    Where it can be neither read nor decided the mirror's mapped targets get that error.

    Args:
        targets: all that were found.
        clients: of the clusters.
        lanes: as many shards a new mirror gets, so that each lane writes as one.
        clock: dates what is written.
    """
    wanted: dict[Place, Target] = {}
    for target in targets:
        if (place := _place(target)) is not None:
            wanted[place] = target
    answers = await asyncio.gather(
        *(
            _settle(clients.client(each.destination_cluster), each, lanes=lanes, clock=clock)
            for each in wanted.values()
        ),
        return_exceptions=True,
    )
    settled = dict(zip(wanted, answers, strict=True))
    return [_with(target, settled) for target in targets]


def _place(target: Target) -> Place | None:
    if not target.is_mapped or target.error is not None:
        return None
    return target.kafka.cluster.name, target.mirror.name


async def _settle(client: ClusterClient, target: Target, *, lanes: int, clock: Clock) -> ProgressTopics:
    """Returns the mirror's topics as they are from now on, both of them made.

    Raises:
        LostProgressError: one that discovery found is gone, and is not made again, or is another one.
        MirrorlakeError: they could be neither read nor made.
    """
    mirror, found = target.mirror.name, target.progress_topics
    shards = await settle_shards(
        client, mirror, wanted=lanes, clock=clock, known_id=found.progress_id if target.has_progress_topic else None
    )
    topics = ProgressTopics(mirror=mirror, shards=shards)
    names = (topics.progress, topics.pages)
    there = await check_same_topics(client, found)
    if topics.pages not in there:
        await make_pages_topic(client, topics)
        there = (await client.metadata(names, refresh=True)).topics
    if not all(name in there for name in names):
        raise BrokerNotReadyError(f"the topics of mirror {mirror} were made just now, and are not seen yet")
    return replace(topics, progress_id=there[topics.progress].topic_id, pages_id=there[topics.pages].topic_id)


def _with(target: Target, settled: dict[Place, ProgressTopics | BaseException]) -> Target:
    place = _place(target)
    if place is None:
        return target
    found = settled[place]
    if isinstance(found, ProgressTopics):
        return replace(
            target,
            map_shards=found.shards,
            has_progress_topic=True,
            progress_topic_id=found.progress_id,
            pages_topic_id=found.pages_id,
        )
    if isinstance(found, MirrorlakeError):
        return replace(target, error=found)
    raise found
