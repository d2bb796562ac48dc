"""What the state record of a mirror says once its targets were taken. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from mirrorlake.config.resolved import Mirror
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.handover import States, holdings_after, known_of, with_holdings
from mirrorlake.topics.mapped_sources import mapped_sources_after
from mirrorlake.topics.provenance import generations_after
from mirrorlake.topics.targets import SHARDS_PER_MIRROR, Target


def record_after(
    mirror: Mirror,
    states: States,
    *,
    source_cluster_id: str,
    accepted: Sequence[Target],
    of_others: Sequence[Target],
    producer_ids: Mapping[int, tuple[int, ...]],
    map_producer_ids: Mapping[int, tuple[int, ...]],
    former_ids: Mapping[TopicPartition, set[int]],
    hold_seconds: float,
) -> OwnerState:
    """Returns what to remember of a mirror at a destination cluster; what stands refused there stays as it was.

    Args:
        mirror: as configured.
        states: the records so far, of all mirrors.
        source_cluster_id: of the mirror's source.
        accepted: the targets it fills from now on.
        of_others: those that another mirror fills.
        producer_ids: all that its shards ever wrote under.
        map_producer_ids: the same of its mapped shards.
        former_ids: those of mirrors whose copies go on under this one.
        hold_seconds: how long after a successor came leases may still append.
    """
    before = states.get(mirror.name)
    generations = dict(before.generations if before else {})
    for target in accepted:
        if not target.is_mapped and (known := _known(target, states)) is not None:
            generations[target.base_topic] = known.generations.get(target.base_topic, {})
    mapped = {target.destination_topic for target in accepted if target.is_mapped}
    state = OwnerState(
        mirror=mirror.name,
        source_cluster_id=source_cluster_id,
        shards=SHARDS_PER_MIRROR,
        topic_ids={
            **(before.topic_ids if before else {}),
            **{t.source.topic: t.topic_id for t in accepted if t.topic_id},
        },
        producer_ids=producer_ids,
        generations=generations_after(accepted, {base: places for base, places in generations.items() if places}),
        hold_seconds=hold_seconds,
        mapped_topics=tuple(sorted({*(before.mapped_topics if before else ()), *mapped})),
        origins={**(before.origins if before else {}), **_origins(accepted)},
        found_filled=_found_filled(accepted, before.found_filled if before else {}),
        former_ids=_merged(before.former_ids if before else {}, former_ids),
        progress_topic_id=_first(
            (t.progress_topic_id for t in accepted if not t.error), before.progress_topic_id if before else ""
        ),
        pages_topic_id=_first(
            (t.pages_topic_id for t in accepted if not t.error), before.pages_topic_id if before else ""
        ),
        map_producer_ids=map_producer_ids,
        mapped_sources=mapped_sources_after(accepted, before),
    )
    return with_holdings(state, holdings_after(accepted, of_others, before, mirror))


def _first(found: Iterable[str], known: str) -> str:
    """Returns what was found first, and what was known where nothing was: a refused mirror's stays remembered."""
    return next((each for each in found if each), known)


def _known(target: Target, states: States) -> OwnerState | None:
    return known_of(
        states,
        mirror=target.mirror.name,
        base=target.base_topic,
        topic=target.source.topic,
        source_cluster_id=target.source_cluster_id,
    )


def _origins(accepted: Sequence[Target]) -> dict[str, tuple[tuple[str, str], ...]]:
    found: dict[str, dict[tuple[str, str], None]] = {}
    for target in accepted:  # several source topics may go to one
        if target.origins:
            places = dict.fromkeys((each.cluster_id, each.topic) for each in target.origins)
            found.setdefault(target.destination_topic, {}).update(places)
    return {topic: tuple(places) for topic, places in found.items()}


def _found_filled(accepted: Sequence[Target], known: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Returns what held something that is nobody's copy for all that is known, as the targets were just seen."""
    found = {topic: set(numbers) for topic, numbers in known.items()}
    for target in accepted:
        if target.is_found_filled is not None:
            held, number = found.setdefault(target.destination_topic, set()), target.source.partition
            held.add(number) if target.is_found_filled else held.discard(number)
    return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(found.items()) if numbers}


def _merged(
    known: Mapping[str, Mapping[int, tuple[int, ...]]], more: Mapping[TopicPartition, set[int]]
) -> dict[str, dict[int, tuple[int, ...]]]:
    merged = {topic: dict(held) for topic, held in known.items()}
    for where, ids in more.items():
        held = merged.setdefault(where.topic, {})
        held[where.partition] = tuple(sorted({*held.get(where.partition, ()), *ids}))
    return merged
