"""Which targets of a mirror belong to another source or mirror, by the state records of their destination cluster."""

from collections.abc import Sequence

from mirrorlake.errors import DestinationForeignError, MirrorlakeError, TopicRecreatedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.topics.handover import States, holds
from mirrorlake.topics.mapped_sources import OtherProgress
from mirrorlake.topics.provenance import refusal
from mirrorlake.topics.targets import Target
from mirrorlake.topics.verdicts import refusal_now

Place = tuple[str, str, int]
"""Source topic, label of the destination, partition: one target of a mirror."""


def place_of(target: Target) -> Place:
    """Returns where a target is among those of its mirror."""
    return target.source.topic, target.destination.label, target.source.partition


async def find_refused(
    targets: Sequence[Target], states: States, client: ClusterClient
) -> dict[Place, MirrorlakeError]:
    """Returns why destinations belong to another source or mirror than the one configured, those that do.

    A topic that is still empty, or was made anew, is nobody's.

    Args:
        targets: of one mirror at one destination cluster.
        states: its state records.
        client: of it.

    Raises:
        MirrorlakeError: whether a topic is empty could not be asked.
    """
    refused: dict[Place, MirrorlakeError] = {}
    is_empty: dict[str, bool] = {}
    progress = OtherProgress(client)
    for target in targets:
        topic = target.source.topic
        if (seen := refusal(target, states)) is None:
            continue
        if topic not in is_empty:
            is_empty[topic] = await _is_empty([t for t in targets if t.source.topic == topic], client)
        if not is_empty[topic] and (error := await refusal_now(target, seen, states, progress)) is not None:
            refused[place_of(target)] = _said_better(target.error, error)
    return refused


def _said_better(found: MirrorlakeError | None, error: MirrorlakeError) -> MirrorlakeError:
    """Returns what discovery has said where that has a better remedy, or says why a recreated topic is not deleted."""
    is_kept = isinstance(found, DestinationForeignError) and isinstance(error, TopicRecreatedError)
    return found if found is not None and (is_kept or type(found) is type(error)) else error


async def _is_empty(targets: Sequence[Target], client: ClusterClient) -> bool:
    ends = (await client.log_ends([target.destination_partition for target in targets])).values()
    return all(isinstance(end, LogEnd) and end.end_offset == 0 for end in ends)


def newly_held(target: Target, before: States, after: States) -> MirrorlakeError | None:
    """Returns why a target is another mirror's, which had not taken it when ``before`` was read. Pure."""
    if target.is_mapped:
        return None
    where = target.destination_topic, target.source.partition
    new = {
        name: state
        for name, state in after.items()
        if holds(state, *where) and not ((was := before.get(name)) and holds(was, *where))
    }
    return refusal(target, new)
