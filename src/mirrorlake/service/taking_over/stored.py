"""Reads what Kafka Connect keeps at a cluster: positions of connectors, and which of its workers are alive."""

from mirrorlake.config.imports.draft import Former
from mirrorlake.errors import CommandRefusedError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.control.descriptions import EMPTY_GROUP_STATES
from mirrorlake.kafka.control.range_reader import read_range
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.service.taking_over.comparing import decided_end
from mirrorlake.service.taking_over.connect_offsets import Convention, Stored, stored_positions

CONNECT = "connect"
"""The protocol type of the groups of Connect's workers."""


async def read_stored(client: ClusterClient, former: Former) -> dict[TopicPartition, Stored]:
    """Returns where a program stood, by source partition, as committed in its offsets topic.

    Raises:
        CommandRefusedError: the topic is not known, or not there.
        BrokerNotReadyError: a transaction is open in it.
        MirrorlakeError: it could not be read.
    """
    name, cluster = former.offsets_topic, client.settings.name
    if not name:
        raise CommandRefusedError(
            "the file does not say in which topic the positions are stored",
            hint="name it by --offsets-topic: it is `offset.storage.topic` of Kafka Connect's workers",
        )
    topics = (await client.metadata([name], refresh=True)).topics
    if name not in topics:
        raise CommandRefusedError(
            f"cluster {cluster} has no topic {name}, or this user may not describe it: where {former.program} stood is "
            "not known",
            hint="name the topic by --offsets-topic: it is `offset.storage.topic` of Kafka Connect's workers",
        )
    records: list[tuple[bytes | None, bytes | None]] = []
    for number in sorted(topics[name].partitions):
        partition = TopicPartition(name, number)
        end = await decided_end(client, partition)
        start = await client.offset_at(partition, EARLIEST)
        whole = OffsetRange(start_offset=start, end_offset=max(start, end))
        async for columns in read_range(client, partition, whole, whose="destination"):
            records += zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True)
    convention = Convention(
        connector=former.connector, cluster=former.cluster, next_minus_stored=former.next_minus_stored
    )
    return stored_positions(records, convention)


async def check_ended(client: ClusterClient, former: Former) -> list[str]:
    """Checks that no worker of the program is alive; returns the other groups of Connect's workers that have members.

    A process that was killed stays a member until its session is over, some seconds.

    Raises:
        CommandRefusedError: one is alive.
        MirrorlakeError: that could not be found out; nothing follows from that.
    """
    listed = (await client.groups.list()).groups.values()
    workers = {each.group for each in listed if each.protocol_type == CONNECT}
    asked = sorted(workers | ({former.group} if former.group else set()))
    alive = []
    for group, state in (await client.groups.states(asked)).items() if asked else ():
        if not isinstance(state, str):
            raise state
        if state not in EMPTY_GROUP_STATES:
            alive.append(group)
    if former.group in alive:
        raise CommandRefusedError(
            f"{former.program} runs: its group {former.group} at cluster {client.settings.name} has members",
            hint="end it, and wait some seconds where it was killed; nothing was written",
        )
    return alive
