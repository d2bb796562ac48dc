"""Reads the sources' ends again and again: what is due, what lags, what a bounded run stops at."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence

import structlog

from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.kafka.wire.fetch import READ_COMMITTED
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.state_table import StateTable

_log = structlog.get_logger("mirrorlake")

OBSERVE_SECONDS = 0.5
"""How often the ends are read; one request per source broker and kind, whatever the number of partitions."""

NO_OFFSET = -1
"""What a broker says where no record is at or after the time asked for."""

Ends = dict[TopicPartition, tuple[int, int]]


async def read_ends(
    client: ClusterClient, partitions: Sequence[TopicPartition]
) -> tuple[Ends, dict[TopicPartition, MirrorlakeError]]:
    """Returns log start and last stable offset of each partition, and the errors of those not read."""
    starts, ends = await asyncio.gather(
        client.list_offsets(partitions, timestamp=EARLIEST, isolation_level=READ_COMMITTED),
        client.list_offsets(partitions, timestamp=LATEST, isolation_level=READ_COMMITTED),
    )
    found: Ends = {}
    errors: dict[TopicPartition, MirrorlakeError] = {}
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        if isinstance(start, MirrorlakeError):
            errors[partition] = start
        elif isinstance(end, MirrorlakeError):
            errors[partition] = end
        else:
            found[partition] = (start, end)
    return found, errors


def _nobody_waits() -> None:
    """Tells nobody."""


async def observe(
    table: StateTable,
    clients: WorkerCache,
    *,
    changed: Callable[[], None],
    turned: Callable[[], None] = _nobody_waits,
) -> None:
    """Tells the table the ends of every source, until cancelled; a source that does not answer delays no other.

    Args:
        table: is told.
        clients: of the source clusters.
        changed: called when ends were told.
        turned: called at every turn, whether a source answers or not.
    """
    failing: set[str] = set()
    looking: dict[str, asyncio.Task[None]] = {}
    try:
        while True:
            turned()
            for cluster, partitions in _by_cluster(table).values():
                if cluster.name not in looking or looking[cluster.name].done():
                    look = _observe_cluster(table, clients, cluster, partitions, failing, changed)
                    looking[cluster.name] = asyncio.create_task(look)
            await asyncio.sleep(OBSERVE_SECONDS)
    finally:
        for task in looking.values():
            task.cancel()


async def observe_once(table: StateTable, clients: WorkerCache, *, timeout_seconds: float) -> None:
    """Tells the table the ends of every source as they are now; those that do not answer in time are left out."""
    looks = [
        asyncio.create_task(_observe_cluster(table, clients, cluster, partitions, set(), _nobody_waits))
        for cluster, partitions in _by_cluster(table).values()
    ]
    if looks:
        _, late = await asyncio.wait(looks, timeout=timeout_seconds)
        for task in late:
            task.cancel()


async def _observe_cluster(
    table: StateTable,
    clients: WorkerCache,
    cluster: ClusterSettings,
    partitions: Sequence[TopicPartition],
    failing: set[str],
    changed: Callable[[], None],
) -> None:
    try:
        ends, errors = await read_ends(clients.client(cluster), partitions)
    except MirrorlakeError as error:
        ends, errors = {}, dict.fromkeys(partitions, error)
    table.observed(cluster.name, ends)
    errors |= await _answer_times(table, clients.client(cluster), ends)
    await _answer_ends(table, clients.client(cluster))
    changed()
    if errors and cluster.name not in failing:
        failing.add(cluster.name)
        _log.warning("source cannot be read", cluster=cluster.name, error=str(next(iter(errors.values()))))
    elif not errors and cluster.name in failing:
        failing.discard(cluster.name)
        _log.info("source can be read again", cluster=cluster.name)


async def _answer_ends(table: StateTable, client: ClusterClient) -> None:
    """Asks the leaders where logs end that may have lost what was to be copied; what fails is asked again."""
    cluster = client.settings.name
    if asked := table.ends_to_ask(cluster):
        with contextlib.suppress(MirrorlakeError):
            found = await client.log_ends(asked)
            known = {where: end.end_offset for where, end in found.items() if isinstance(end, LogEnd)}
            table.log_ends(cluster, known)


async def _answer_times(table: StateTable, client: ClusterClient, ends: Ends) -> dict[TopicPartition, MirrorlakeError]:
    """Asks the source what archives want to know of it; returns what could not be answered."""
    cluster = client.settings.name
    errors: dict[TopicPartition, MirrorlakeError] = {}
    for time_ms, partitions in table.times_to_ask(cluster).items():
        known = [partition for partition in partitions if partition in ends]
        try:
            answers = await client.list_offsets(known, timestamp=time_ms, isolation_level=READ_COMMITTED)
        except MirrorlakeError as error:
            answers = dict.fromkeys(known, error)
        offsets: dict[TopicPartition, int] = {}
        for partition, offset in answers.items():
            if isinstance(offset, MirrorlakeError):
                errors[partition] = offset
            else:
                # No record is that late: all that was there a moment ago is older.
                offsets[partition] = ends[partition][1] if offset == NO_OFFSET else offset
        table.answered(cluster, time_ms, offsets)
    return errors


def _by_cluster(table: StateTable) -> dict[str, tuple[ClusterSettings, Sequence[TopicPartition]]]:
    """Returns each source cluster with the partitions to ask it for; several mirrors of one source ask once."""
    groups: dict[str, set[TopicPartition]] = defaultdict(set)
    settings: dict[str, ClusterSettings] = {}
    for state in table.states:
        if not state.is_parked:
            cluster = table.source_clusters[state.mirror]
            settings[cluster.name] = cluster
            groups[cluster.name].add(state.source)
    return {name: (settings[name], sorted(partitions)) for name, partitions in groups.items()}
