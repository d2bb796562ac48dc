"""What a plan says of heartbeats: that a source would be written to, and what stands against it. Changes nothing."""

from collections.abc import Mapping, Sequence

from mirrorlake.config.resolved import Heartbeats, Mirror
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError, TransientError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.service.heartbeats.topic import has_topic
from mirrorlake.service.plan.rights import denied
from mirrorlake.together import all_of
from mirrorlake.topics.heartbeat_topics import MADE_LIKE, remark_of


async def heartbeat_warnings(mirrors: Sequence[Mirror], clients: WorkerCache) -> Mapping[str, tuple[str, ...]]:
    """Returns by mirror what is to be said of its heartbeats; none of mirrors without them.

    A source that does not answer is said with the partitions of the mirror.
    """
    found = await all_of(_warnings(mirror, clients) for mirror in mirrors)
    return {mirror.name: told for mirror, told in zip(mirrors, found, strict=True) if told}


async def _warnings(mirror: Mirror, clients: WorkerCache) -> tuple[str, ...]:
    source, heartbeats = mirror.source, mirror.heartbeats
    if heartbeats is None or not isinstance(source, KafkaSource):
        return ()
    remark = remark_of(mirror)
    try:
        await _try_writing(mirror.name, heartbeats, clients.client(source.cluster.settings))
    except TransientError:
        return (remark,)
    except MirrorlakeError as error:
        return (remark, f"mirror {mirror.name}: no heartbeat can be written: {error}")
    return (remark,)


async def _try_writing(mirror: str, heartbeats: Heartbeats, client: ClusterClient) -> None:
    """Looks whether heartbeats could be written, and their topic made.

    Raises:
        MirrorlakeError: they could not, or that could not be found out.
    """
    topic = heartbeats.topic
    if not await has_topic(mirror, heartbeats, client):
        replicas = heartbeats.replication_factor or -1
        await client.topics.configs_if_created(topic, partitions=1, replication_factor=replicas, configs=MADE_LIKE)
        return
    # Brokers that do not tell rights name none.
    rights = await client.topics.rights([topic])
    if topic in rights and "WRITE" not in rights[topic]:
        raise denied(client.settings.name, topic, "WRITE")
