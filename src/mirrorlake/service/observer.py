"""Reads the sources' ends again and again: what is due, what lags, what a bounded run stops at."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.fetch import READ_COMMITTED
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.supervisor import Supervisor

_log = structlog.get_logger("mirrorlake")

OBSERVE_SECONDS = 0.5
"""How often the ends are read; one request per source broker and kind, whatever the number of partitions."""

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


async def observe(supervisor: Supervisor, clients: WorkerCache, *, changed: Callable[[], None]) -> None:
    """Tells the supervisor the ends of every source, until cancelled; a source that does not answer delays no other."""
    failing: set[str] = set()
    looking: dict[str, asyncio.Task[None]] = {}
    try:
        while True:
            for mirror, partitions in _by_mirror(supervisor.states).items():
                if mirror not in looking or looking[mirror].done():
                    look = _observe_mirror(supervisor, clients, mirror, partitions, failing, changed)
                    looking[mirror] = asyncio.create_task(look)
            await asyncio.sleep(OBSERVE_SECONDS)
    finally:
        for task in looking.values():
            task.cancel()


async def observe_once(supervisor: Supervisor, clients: WorkerCache, *, timeout_seconds: float) -> None:
    """Tells the supervisor the ends of every source as they are now; those that do not answer in time are left out."""
    groups = _by_mirror(supervisor.states)
    looks = [
        asyncio.create_task(_observe_mirror(supervisor, clients, mirror, partitions, set(), _nobody_waits))
        for mirror, partitions in groups.items()
    ]
    if looks:
        _, late = await asyncio.wait(looks, timeout=timeout_seconds)
        for task in late:
            task.cancel()


def _nobody_waits() -> None:
    """Tells nobody."""


async def _observe_mirror(
    supervisor: Supervisor,
    clients: WorkerCache,
    mirror: str,
    partitions: Sequence[TopicPartition],
    failing: set[str],
    changed: Callable[[], None],
) -> None:
    try:
        ends, errors = await read_ends(clients.client(supervisor.source_cluster(mirror)), partitions)
    except MirrorlakeError as error:
        ends, errors = {}, dict.fromkeys(partitions, error)
    supervisor.observed(mirror, ends)
    changed()
    if errors and mirror not in failing:
        failing.add(mirror)
        _log.warning("source cannot be read", mirror=mirror, error=str(next(iter(errors.values()))))
    elif not errors and mirror in failing:
        failing.discard(mirror)
        _log.info("source can be read again", mirror=mirror)


def _by_mirror(states: Iterable[PartitionState]) -> Mapping[str, Sequence[TopicPartition]]:
    groups: dict[str, set[TopicPartition]] = defaultdict(set)
    for state in states:
        if not state.is_parked:
            groups[state.mirror].add(state.source)
    return {mirror: sorted(partitions) for mirror, partitions in groups.items()}
