"""Topics of a mirror's own, which keep the newest record of each key for ever: with one partition per shard.

So the open transaction of one shard never hides the records of another: a ``read_committed`` reader stops at the first
that is open.
"""

from collections.abc import Mapping, Sequence

from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, TopicMissingError, UnsupportedError
from mirrorlake.kafka.control.cluster import ClusterClient

TOPIC_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    # The cleaner leaves the active segment alone, and all of it is read at every take-over: the smallest one allowed.
    "segment.bytes": str(1 << 20),
}


async def make_compacted_topic(client: ClusterClient, name: str, partitions: int) -> None:
    """Makes such a topic; one that is there is left as it is.

    Raises:
        MirrorlakeError: it cannot be made.
    """
    await client.topics.create(name, partitions=partitions, replication_factor=-1, configs=dict(TOPIC_CONFIGS))


async def check_compacted_topics(client: ClusterClient, names: Sequence[str], *, partitions: int, mirror: str) -> None:
    """Checks that topics keep what they are given, and have a partition for each shard.

    Raises:
        UnsupportedError: one has fewer partitions than the mirror has shards, or would delete records.
        MirrorlakeError: one cannot be described.
    """
    there = (await client.metadata(names)).topics
    await check_compacted(client, names)
    for name in names:
        if name in there and len(there[name].partitions) < partitions:
            raise UnsupportedError(
                f"topic {name} has {len(there[name].partitions)} partition(s), mirror {mirror} needs {partitions}",
                hint=f"kafka-topics.sh --alter --topic {name} --partitions {partitions}",
                topic=name,
            )


async def check_compacted(client: ClusterClient, names: Sequence[str]) -> None:
    """Checks that topics keep what they are given.

    Raises:
        UnsupportedError: one would delete records.
        MirrorlakeError: one cannot be described.
    """
    configs = await client.topics.configs(names)
    for name in names:
        found = configs[name]
        if isinstance(found, TopicMissingError):
            raise BrokerNotReadyError(f"topic {name} was made just now, and not every broker knows of it yet")
        if isinstance(found, MirrorlakeError):
            raise found
        policy = found["cleanup.policy"].value
        if policy != "compact":
            raise UnsupportedError(
                f"topic {name} has cleanup.policy={policy}, so the mirror's progress would be deleted",
                hint=f"kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config "
                "cleanup.policy=compact",
                topic=name,
            )
