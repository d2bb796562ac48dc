"""Records of other producers in a topic that is to be deleted, as its source was recreated: nobody deletes those."""

from collections.abc import Sequence
from dataclasses import replace

from mirrorlake.destinations.tail import TAIL_OFFSETS, read_tail
from mirrorlake.errors import DestinationForeignError, MirrorlakeError, PermissionDeniedError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.control.descriptions import TransactionState
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.topics.handover import States, known_writers
from mirrorlake.topics.targets import Target, shard_of, transactional_id_of


async def written_by_others(target: Target, states: States, client: ClusterClient) -> MirrorlakeError | None:
    """Returns why the destination topic of a target is not deleted: another producer has written to it.

    Whom the leaders remember is asked, and who wrote the newest records of each partition: a producer is forgotten
    after a day, and one without an id never known. What lies further down was there when the mirror copied on.

    Args:
        target: any of the topic's.
        states: state records of the destination cluster.
        client: of it.

    Returns:
        None where all is ours; the error where it could not be asked, as nothing is deleted unseen.
    """
    source, topic = target.source.topic, target.destination_topic
    partitions = [replace(target, source=TopicPartition(source, n)) for n in range(target.destination_partitions)]
    places = [TopicPartition(topic, each.source.partition) for each in partitions]
    writers = [known_writers(each, states) for each in partitions]
    names = [
        (transactional_id_of(target.mirror.name, shard_of(each.source)), *before)
        for each, (_, before) in zip(partitions, writers, strict=True)
    ]
    try:
        described = await client.describe_transactions(sorted({name for each in names for name in each}))
        appended = await client.append_states(places)
        starts = await client.list_offsets(places, timestamp=EARLIEST)
        for place, (ids, _), asked in zip(places, writers, names, strict=True):
            own = _with_ids_of_now(ids, [described.get(name) for name in asked])
            state, start = appended[place], starts[place]
            if isinstance(state, MirrorlakeError):
                return state
            if isinstance(start, MirrorlakeError):
                return start
            if own is not None and any(each.producer_id not in own for each in state.producers):
                return _error(target, str(place))
            if (offset := await _first_of_others(client, place, start, state.log_end.end_offset, own)) is not None:
                return _error(target, f"{place}, at offset {offset}")
    except MirrorlakeError as error:
        return error
    return None


async def _first_of_others(
    client: ClusterClient, place: TopicPartition, start: int, end: int, own: frozenset[int] | None
) -> int | None:
    offsets = OffsetRange(start_offset=max(start, end - TAIL_OFFSETS), end_offset=end)
    if len(offsets) == 0:
        return None
    tail = await read_tail(client, place, offsets, whose="destination")
    return next((each.offset for each in tail.written if not each.may_be_ours(own)), None)


def _with_ids_of_now(
    ids: frozenset[int], described: Sequence[TransactionState | MirrorlakeError | None]
) -> frozenset[int] | None:
    """Returns producer ids with those that transactional ids have now; None where this user may not ask for one."""
    if any(isinstance(each, PermissionDeniedError) for each in described):
        return None
    for each in described:
        if isinstance(each, MirrorlakeError):
            raise each
    return ids | {each.producer_id for each in described if isinstance(each, TransactionState)}


def _error(target: Target, where: str) -> MirrorlakeError:
    topic = target.destination_topic
    return DestinationForeignError(
        f"source topic {target.source.topic} was deleted and recreated; `on-recreate: restart` would delete {topic}, "
        f"but another producer has written to {where}",
        hint="to keep its records use `on-recreate: new-topic`, or mirror to another topic; where nobody needs them: "
        f"kafka-topics.sh --delete --topic {topic}",
    )
