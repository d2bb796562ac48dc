"""How all copies of a configuration stand now, each compared with its source where that can be asked.

Changes nothing. Owners are asked for a sign of life, which supersedes nobody.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from mirrorlake.clock import Clock
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import find_states
from mirrorlake.errors import MirrorlakeError, TopicMissingError, TransientError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.service.failover.copies import CopyRow, Life, copy_row, is_source_gone
from mirrorlake.service.failover.without_source import read_without_source
from mirrorlake.service.owners.owner_life import find_living, mirrors_by_cluster
from mirrorlake.service.status import StatusRow, read_compared_status
from mirrorlake.together import all_of


async def read_copies(config: Configuration) -> list[CopyRow]:
    """Returns one row for each source partition and destination, mirrors in the configuration's order.

    Args:
        config: its mirrors copy from cluster to cluster (`copies.between_clusters`).
    """
    gone: dict[str, list[StatusRow]] = defaultdict(list)
    known: dict[str, list[CopyRow]] = defaultdict(list)
    for row in await read_compared_status(config):
        if is_source_gone(row):
            gone[row.target.mirror.name].append(row)
        else:
            known[row.target.mirror.name].append(copy_row(row))
    clients = WorkerCache()
    try:
        for mirror in config.enabled_mirrors:
            known[mirror.name] += await _without_source(mirror, gone[mirror.name], known[mirror.name], clients)
    finally:
        await clients.close()
    return [row for mirror in config.enabled_mirrors for row in known[mirror.name]]


async def with_lives(rows: Sequence[CopyRow], *, clock: Clock) -> list[CopyRow]:
    """Returns the rows with whether the owners of those that were not given back are alive.

    Waits some seconds for the answer of one that is not.

    Args:
        rows: as read.
        clock: bounds the waiting.
    """
    asked = mirrors_by_cluster(row.row.target for row in rows if row.owner)
    clients = WorkerCache()
    try:
        answers = await all_of(_lives(clients, *each, clock=clock) for each in asked.values())
    finally:
        await clients.close()
    lives = dict(zip(asked, answers, strict=True))
    return [
        replace(row, life=lives[row.row.target.destination_cluster.name][row.row.target.mirror.name])
        if row.owner
        else row
        for row in rows
    ]


async def _lives(
    clients: WorkerCache, settings: ClusterSettings, mirrors: set[str], *, clock: Clock
) -> dict[str, Life]:
    try:
        living = {state.mirror for state in await find_living(clients.client(settings), mirrors, clock=clock)}
    except MirrorlakeError:
        return dict.fromkeys(mirrors, Life.UNKNOWN)
    return {mirror: Life.ANSWERS if mirror in living else Life.SILENT for mirror in mirrors}


async def _without_source(
    mirror: Mirror, rows: Sequence[StatusRow], known: Sequence[CopyRow], clients: WorkerCache
) -> list[CopyRow]:
    """Returns what is known of copies whose source is gone: of all topics, or of those that are gone there alone.

    What an expression does not find any more is among these: the state record knows that it was copied.

    Args:
        mirror: which copies them.
        rows: of what could not be asked for, or is missing by name.
        known: the rows of all else.
        clients: of the clusters.
    """
    unreachable = next((row.error for row in rows if isinstance(row.error, TransientError)), None)
    if unreachable is not None:
        return await read_without_source(mirror, unreachable, clients)
    found: list[CopyRow] = []
    missing: dict[str, MirrorlakeError] = {row.target.source.topic: row.error for row in rows if row.error is not None}
    for topic, error in missing.items():
        found += await read_without_source(_of_topic(mirror, topic), error, clients)
    seen = {each.row.target.source.topic for each in known} | missing.keys()
    for destination in mirror.kafka_destinations:
        found += await _vanished(replace(mirror, destinations=(destination,)), destination, seen, clients)
    if not found and not known:
        nothing = TopicMissingError(f"mirror {mirror.name} selects no topic of cluster {mirror.source.name}")
        return await read_without_source(mirror, nothing, clients)
    return found


async def _vanished(
    mirror: Mirror, destination: KafkaDestination, seen: Collection[str], clients: WorkerCache
) -> list[CopyRow]:
    """Returns the copies of topics that the source does not list, and that the state record says were copied."""
    try:
        state = (await find_states(clients.client(destination.cluster.settings))).get(mirror.name)
    except MirrorlakeError:
        return []  # the rows of all else say so
    found: list[CopyRow] = []
    copied = {source for to in state.destinations for source in state.sources_of(to)} if state is not None else set()
    for topic in sorted(copied - {*seen}):
        if mirror.source.topics.selects(topic):
            gone = TopicMissingError(
                f"topic {topic} was copied, and is not in cluster {mirror.source.name} any more",
                hint="records beyond its copy cannot be had; `exclude` the topic where it is not wanted any more",
                topic=topic,
            )
            found += await read_without_source(_of_topic(mirror, topic), gone, clients)
    return found


def _of_topic(mirror: Mirror, topic: str) -> Mirror:
    topics = replace(mirror.source.topics, names=(topic,), patterns=(), heartbeats="")
    return replace(mirror, source=replace(mirror.source, topics=topics))
