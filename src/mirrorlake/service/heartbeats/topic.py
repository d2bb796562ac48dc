"""Looks at the topic that heartbeats of a mirror are to go to; changes nothing."""

from mirrorlake.config.resolved import Heartbeats
from mirrorlake.destinations.transactions.owner_states import find_states
from mirrorlake.errors import PermanentError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.topics.heartbeat_topics import copied_into


async def has_topic(mirror: str, heartbeats: Heartbeats, client: ClusterClient) -> bool:
    """Tells whether the topic is there; it is one that may be written to, or made.

    Args:
        mirror: its name.
        heartbeats: that it has.
        client: of its source.

    Raises:
        CollisionError: it is a copy, where a record more would be one that its source does not have.
        MirrorlakeError: it could not be looked at.
    """
    found = await client.metadata([heartbeats.topic], refresh=True)
    if (error := found.errors.get(heartbeats.topic)) is not None:
        raise error
    try:
        states = await find_states(client)
    except PermanentError:
        states = {}  # who may not read them is told of no copies, which is no reason to write nothing
    if (collision := copied_into(mirror, heartbeats.topic, states)) is not None:
        raise collision
    return heartbeats.topic in found.topics
