"""Whether heartbeats of a mirror are to be written now. Pure."""

from collections.abc import Callable, Iterable

from mirrorlake.config.resolved import Mirror
from mirrorlake.config.topics.heartbeats import HEARTBEATS_PARTITION
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.selection import Pauses

Lacks = Callable[[str, str], bool]
"""Mirror, destination cluster → whether this process does not own the mirror there, or could not ask for it yet."""


def heartbeats_wanted(mirror: Mirror, states: Iterable[PartitionState], pauses: Pauses, *, lacks: Lacks) -> bool:
    """Tells whether this process is to write heartbeats of a mirror: it copies it, and nothing there has ended.

    A mirror to several clusters has them while one of them is this process's. One that is paused has none, nor has one
    whose copy of them has reached its end (``until``): a heartbeat says that records go through.

    Args:
        mirror: one with heartbeats.
        states: of all partitions that are served.
        pauses: that are in force.
        lacks: tells whose the mirror is.
    """
    assert mirror.heartbeats is not None, "who has no heartbeats wants none"
    where = TopicPartition(mirror.heartbeats.topic, HEARTBEATS_PARTITION)
    if pauses.is_paused(mirror.name, where):
        return False
    clusters = [each.cluster.name for each in mirror.kafka_destinations]
    if clusters and all(lacks(mirror.name, cluster) for cluster in clusters):
        return False
    own = [state for state in states if state.mirror == mirror.name and state.source == where]
    return not own or not all(state.has_ended for state in own)
