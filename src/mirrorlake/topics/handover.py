"""Which mirror fills which destination partitions, and how a copy goes from one mirror to another. Pure.

A state record says what its mirror fills, partition by partition, and what it has let go of: all of it after a
graceful end, parts of it where the configuration gave them to another mirror. What was let go of another mirror of the
same source may go on with; what was not stays its mirror's, also where its process died.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode
from mirrorlake.config.resolved import Mirror
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.topics.targets import Target, shard_of, transactional_id_of

States = Mapping[str, OwnerState]
"""State records of one destination cluster, by mirror."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What a state record says of destinations: source partitions filled, and let go of, by destination topic.

    ``topics`` are the source topics of both; one without an entry in ``partitions`` is filled whole.
    """

    topics: Mapping[str, str]
    partitions: Mapping[str, tuple[int, ...]]
    let_go: Mapping[str, tuple[int, ...]]


def holds(state: OwnerState, topic: str, partition: int) -> bool:
    """Tells whether a mirror fills a partition of a destination topic, and has not let go of it."""
    return not state.is_released and _fills(state, topic, partition)


def others_holding(topic: str, mirror: str, states: States) -> list[str]:
    """Returns the mirrors other than ``mirror`` that fill some partition of a destination topic, by name."""
    return sorted(
        state.mirror
        for state in states.values()
        if state.mirror != mirror
        and not state.is_released
        and topic in state.destinations
        and state.partitions.get(topic) != ()
    )


def has_let_go(state: OwnerState, topic: str, partition: int) -> bool:
    """Tells whether a mirror filled a partition of a destination topic once, and nothing of it is under way there."""
    if partition in state.let_go.get(topic, ()):
        return True
    return state.is_released and _fills(state, topic, partition)


def _fills(state: OwnerState, topic: str, partition: int) -> bool:
    if topic not in state.destinations:
        return False
    return topic not in state.partitions or partition in state.partitions[topic]


def is_known_copy(target: Target, states: States) -> bool:
    """Tells whether a record says that what the target's destination partition holds, or held, was copied to it.

    That is so where a mirror of the same source began to fill it with equal offsets while it was empty.
    """
    topic, partition = target.destination_topic, target.source.partition
    return any(
        state.source_cluster_id == target.source_cluster_id
        and topic not in state.mapped_topics
        and state.destinations.get(topic) == target.source.topic
        and (_fills(state, topic, partition) or partition in state.let_go.get(topic, ()))
        and partition not in state.found_filled.get(topic, ())
        for state in states.values()
    )


def predecessors(target: Target, states: States) -> list[OwnerState]:
    """Returns the mirrors whose copy of the same source partition a target with equal offsets may go on with."""
    return [
        state
        for state in _others_of_source(target.mirror.name, target.source_cluster_id, states)
        if not target.is_mapped
        and target.destination_topic not in state.mapped_topics
        and state.destinations.get(target.destination_topic) == target.source.topic
        and has_let_go(state, target.destination_topic, target.source.partition)
    ]


def known_writers(target: Target, states: States) -> tuple[frozenset[int], tuple[str, ...]]:
    """Returns who wrote to a target's destination before, as the state records say it. Pure.

    Returns:
        The producer ids of the mirror's shard, and of mirrors whose copy goes on under it; and the transactional ids of
        the latter, which may stand for further ones by now.
    """
    shard, where = shard_of(target.source), target.destination_partition
    own = states.get(target.mirror.name)
    before = predecessors(target, states)
    ids: set[int] = set()
    for state in [*([own] if own else []), *before]:
        ids.update(state.producer_ids.get(shard, ()), state.former_ids.get(where.topic, {}).get(where.partition, ()))
    return frozenset(ids), tuple(transactional_id_of(state.mirror, shard) for state in before)


def copied_by_others(target: Target, states: States) -> list[OwnerState]:
    """Returns the mirrors that have copied a mapped target's source partition to its topic before this mirror began.

    Their progress is their own, so this one would copy everything a second time. None where this mirror has begun
    itself, where another topic of that name was copied, or nobody did.
    """
    own = states.get(target.mirror.name)
    if own is not None and _has_mapped(own, target, is_own=True):
        return []
    return [
        state
        for state in _others_of_source(target.mirror.name, target.source_cluster_id, states)
        if (state.topic_ids.get(target.source.topic) or target.topic_id) == target.topic_id
        and _has_mapped(state, target, is_own=False)
    ]


def _has_mapped(state: OwnerState, target: Target, *, is_own: bool) -> bool:
    """Tells whether a record says that the target's source partition was copied to its topic with mapped offsets.

    A record of before names one source topic of each destination topic. Others that it copied somewhere at the cluster,
    and names nowhere, went to such a topic; a mirror's own progress tells which ones it has begun, another's is to be
    asked for.
    """
    topic, source = target.destination_topic, target.source
    if topic in state.mapped_sources:
        return source.partition in state.mapped_sources[topic].get(source.topic, ())
    if not _fills(state, topic, source.partition) and source.partition not in state.let_go.get(topic, ()):
        return False
    if is_own or state.destinations.get(topic) == source.topic:
        return True
    is_named_nowhere = source.topic in state.topic_ids and source.topic not in state.destinations.values()
    return topic in state.mapped_topics and is_named_nowhere


def known_of(states: States, *, mirror: str, base: str, topic: str, source_cluster_id: str) -> OwnerState | None:
    """Returns what is known of a mirror's copy of a source topic with equal offsets, None where nothing is.

    That is its own state record; where it says nothing of ``base``, the destination topic as configured, what another
    mirror of the same source says of that copy is added: the source topic's id, and where records of recreated topics
    went.
    """
    own = states.get(mirror)
    if own is not None and (topic in own.topic_ids or base in own.generations):
        return own
    others = [
        state
        for state in _others_of_source(mirror, source_cluster_id, states)
        if topic in state.topic_ids
        and any(state.destinations.get(name) == topic for name in (base, *state.generations.get(base, {}).values()))
        and base not in state.mapped_topics
    ]
    if not others:
        return own
    newest = max(others, key=lambda state: state.taken_at_ms)
    mine = own or OwnerState(mirror=mirror, source_cluster_id=source_cluster_id, shards=newest.shards)
    generations = {**mine.generations, **({base: newest.generations[base]} if base in newest.generations else {})}
    topic_ids = {**mine.topic_ids, topic: newest.topic_ids[topic]}
    return replace(mine, topic_ids=topic_ids, generations=generations)


def _others_of_source(mirror: str, source_cluster_id: str, states: States) -> list[OwnerState]:
    return [s for s in states.values() if s.mirror != mirror and s.source_cluster_id == source_cluster_id]


def with_configured_partitions(states: States, mirrors: Iterable[Mirror]) -> dict[str, OwnerState]:
    """Returns the records with the partitions their mirrors are configured for, where a record does not say.

    Records of before said nothing of partitions. Of mirrors this process serves itself the configuration does: without
    that, mirrors that share a topic would each find it filled whole by the other.
    """
    by_name = {mirror.name: mirror for mirror in mirrors}
    return {name: _configured(state, by_name.get(name)) for name, state in states.items()}


def _configured(state: OwnerState, mirror: Mirror | None) -> OwnerState:
    if mirror is None or mirror.source.partitions is None:
        return state
    selected = tuple(sorted(mirror.source.partitions))
    missing = {
        name: selected
        for name, topic in state.destinations.items()
        if name not in state.partitions and any(_goes_to(each, topic, name) for each in mirror.destinations)
    }
    return replace(state, partitions={**state.partitions, **missing}) if missing else state


def _goes_to(destination: Destination, topic: str, name: str) -> bool:
    is_preserving = isinstance(destination, KafkaDestination) and destination.offsets is OffsetMode.PRESERVE
    return is_preserving and destination.name_for(topic) == name


def holdings_after(
    accepted: Collection[Target], refused: Collection[Target], before: OwnerState | None, mirror: Mirror
) -> Holdings:
    """Returns what to remember once ``accepted`` are taken.

    What ``before`` says is kept, as leases may be under way there; but after a graceful end what the mirror is not
    configured for any more is let go of.

    Args:
        accepted: what the mirror fills from now on.
        refused: what another mirror fills; never held by this one from now on.
        before: the mirror's state record so far.
        mirror: as configured.
    """
    held, once, topics = _held_before(before, mirror)
    for target in refused:
        name, number = target.destination_topic, target.source.partition
        if name in topics and (held.get(name) is None or number in (held[name] or ())):
            held[name] = (held.get(name) or set()) - {number}
            once.setdefault(name, set()).add(number)
    taken: dict[str, set[int]] = {}
    for target in accepted:
        taken.setdefault(target.destination_topic, set()).add(target.source.partition)
        topics[target.destination_topic] = target.source.topic
    for name, numbers in taken.items():
        held[name] = (held.get(name) or set()) | numbers
        once[name] = once.get(name, set()) - numbers
    return Holdings(
        topics=topics,
        partitions={name: tuple(sorted(held_now)) for name, held_now in sorted(held.items()) if held_now is not None},
        let_go={name: tuple(sorted(numbers)) for name, numbers in sorted(once.items()) if numbers},
    )


def _held_before(
    before: OwnerState | None, mirror: Mirror
) -> tuple[dict[str, set[int] | None], dict[str, set[int]], dict[str, str]]:
    """Returns what is held still, None for a topic held whole, what was let go of, and both's source topics."""
    if before is None:
        return {}, {}, {}
    held: dict[str, set[int] | None] = {}
    once = {name: set(numbers) for name, numbers in before.let_go.items()}
    for name, topic in before.destinations.items():
        if name not in before.partitions:
            held[name] = None
            continue
        numbers = set(before.partitions[name])
        held[name] = {n for n in numbers if not before.is_released or _is_configured(mirror, topic, n)}
        once[name] = once.get(name, set()) | (numbers - (held[name] or set()))
    return held, once, dict(before.destinations)


def _is_configured(mirror: Mirror, topic: str, partition: int) -> bool:
    selected = mirror.source.partitions
    return mirror.source.topics.selects(topic) and (selected is None or partition in selected)


def with_holdings(state: OwnerState, holdings: Holdings) -> OwnerState:
    """Returns a state record that says what ``holdings`` do."""
    return replace(state, destinations=holdings.topics, partitions=holdings.partitions, let_go=holdings.let_go)
