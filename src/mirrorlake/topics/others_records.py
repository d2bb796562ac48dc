"""Records of other producers in a topic that is to be deleted, as its source was recreated: nobody deletes those."""

from collections.abc import Mapping, Sequence

from mirrorlake.destinations.tail import TAIL_OFFSETS, read_tail
from mirrorlake.errors import DestinationForeignError, MirrorlakeError, PermissionDeniedError
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.kafka.control.descriptions import TransactionState
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.topics.handover import States, predecessors
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
    topic = target.destination_topic
    places = [TopicPartition(topic, number) for number in range(target.destination_partitions)]
    try:
        described = await client.describe_transactions(_names(target, states, places))
        appended = await client.append_states(places)
        starts = await client.list_offsets(places, timestamp=EARLIEST)
        for place in places:
            own = _own(target, states, place, described)
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


def _names(target: Target, states: States, places: Sequence[TopicPartition]) -> list[str]:
    mirrors = [target.mirror.name, *(state.mirror for state in predecessors(target, states))]
    shards = {_shard(target, place) for place in places}
    return sorted(transactional_id_of(mirror, shard) for mirror in mirrors for shard in shards)


def _shard(target: Target, place: TopicPartition) -> int:
    return shard_of(TopicPartition(target.source.topic, place.partition))


def _own(
    target: Target,
    states: States,
    place: TopicPartition,
    described: Mapping[str, TransactionState | MirrorlakeError | None],
) -> frozenset[int] | None:
    """Returns the producer ids under which the mirror, and those before it, wrote; None where they cannot be known."""
    shard, own = _shard(target, place), states.get(target.mirror.name)
    ids: set[int] = set()
    for state in [*([own] if own else []), *predecessors(target, states)]:
        ids.update(state.producer_ids.get(shard, ()), state.former_ids.get(place.topic, {}).get(place.partition, ()))
        found = described.get(transactional_id_of(state.mirror, shard))
        if isinstance(found, PermissionDeniedError):
            return None
        if isinstance(found, MirrorlakeError):
            raise found
        if found is not None:
            ids.add(found.producer_id)
    return frozenset(ids)


def _error(target: Target, where: str) -> MirrorlakeError:
    topic = target.destination_topic
    return DestinationForeignError(
        f"source topic {target.source.topic} was deleted and recreated; `on-recreate: restart` would delete {topic}, "
        f"but another producer has written to {where}",
        hint="to keep its records use `on-recreate: new-topic`, or mirror to another topic; where nobody needs them: "
        f"kafka-topics.sh --delete --topic {topic}",
    )
