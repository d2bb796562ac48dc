"""The configuration of the way back, from what the clusters hold; and who serves the mirrors themselves. Reads only."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.transactions.owner_states import find_states
from mirrorlake.errors import MirrorlakeError
from mirrorlake.service.failover.copies import with_mirrors
from mirrorlake.service.failover.way_back import check_turnable, misnamed, served, turned
from mirrorlake.together import all_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """The configuration in the other direction, and what of it does not go back.

    ``refusals`` say why nothing does, by the names of its mirrors; ``topic_refusals`` why a topic does not, by mirror
    and topic of the cluster that was copied to.
    """

    config: Configuration
    refusals: Mapping[str, MirrorlakeError]
    topic_refusals: Mapping[tuple[str, str], MirrorlakeError] = field(default_factory=dict)

    def refusal_of(self, mirror: str, topic: str) -> MirrorlakeError | None:
        """Returns why a topic does not go back by a mirror; None where it may."""
        return self.refusals.get(mirror) or self.topic_refusals.get((mirror, topic))

    @property
    def to_serve(self) -> Configuration:
        """The configuration without what does not go back; it may have no mirrors."""
        return with_mirrors(self.config, [each for mirror in self.config.mirrors if (each := self._served(mirror))])

    def _served(self, mirror: Mirror) -> Mirror | None:
        topics = mirror.source.topics
        names = tuple(name for name in topics.names if self.refusal_of(mirror.name, name) is None)
        return replace(mirror, source=replace(mirror.source, topics=replace(topics, names=names))) if names else None


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
        config=with_mirrors(config, [mirror for mirror, _, _ in found]),
        refusals={mirror.name: error for mirror, error, _ in found if error is not None},
        topic_refusals={(mirror.name, topic): e for mirror, _, errors in found for topic, e in errors.items()},
    )


async def _turn(
    mirror: Mirror, clients: WorkerCache
) -> tuple[Mirror, MirrorlakeError | None, Mapping[str, MirrorlakeError]]:
    destination = mirror.destinations[0]
    assert isinstance(destination, KafkaDestination)
    client = clients.client(destination.cluster.settings)
    there = await client.metadata(refresh=True)
    selection = mirror.source.topics
    names = {name for name, topic in there.topics.items() if selection.selects(name) and not topic.is_internal}
    state = (await find_states(client)).get(mirror.name)
    # A topic that is named stays, so that it is missed where it is not there.
    back = turned(mirror, sorted(names | {*selection.names}))
    return back, served(mirror.name, state), misnamed(mirror, state)
