"""The configuration of the way back, from what the clusters hold; and who serves the mirrors themselves. Reads only."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import find_states
from mirrorlake.errors import MirrorlakeError
from mirrorlake.service.failover.copies import with_mirrors
from mirrorlake.service.failover.way_back import check_turnable, served, turned
from mirrorlake.together import all_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """The configuration in the other direction, and by the names of its mirrors why nothing goes back at all."""

    config: Configuration
    refusals: Mapping[str, MirrorlakeError]


async def turn(config: Configuration, *, names: Collection[str]) -> Turned:
    """Returns the configuration whose mirrors copy back what the given ones have copied.

    Args:
        config: its mirrors copy from cluster to cluster, each to one.
        names: of all mirrors of the file.

    Raises:
        ConfigurationError: a mirror cannot be turned round by itself; it says what to write instead.
        MirrorlakeError: a cluster that was copied to cannot be asked.
    """
    for mirror in config.enabled_mirrors:
        check_turnable(mirror, names)
    clients = WorkerCache()
    try:
        found = await all_of(_turn(mirror, clients) for mirror in config.enabled_mirrors)
    finally:
        await clients.close()
    return Turned(
        config=with_mirrors(config, [mirror for mirror, _ in found]),
        refusals={mirror.name: error for mirror, error in found if error is not None},
    )


async def _turn(mirror: Mirror, clients: WorkerCache) -> tuple[Mirror, MirrorlakeError | None]:
    destination = mirror.destinations[0]
    assert isinstance(destination, KafkaDestination)
    client = clients.client(destination.cluster.settings)
    there = await client.metadata(refresh=True)
    selection = mirror.source.topics
    names = {name for name, topic in there.topics.items() if selection.selects(name) and not topic.is_internal}
    state = (await find_states(client)).get(mirror.name)
    # A topic that is named stays, so that it is missed where it is not there.
    return turned(mirror, sorted(names | {*selection.names})), served(mirror.name, state)
