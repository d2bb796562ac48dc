"""Whose records a Kafka destination topic holds, by the state records that lie beside them. Pure.

A state record says which source cluster and which topic ids a mirror has copied, into which topics, and where the
records of a source topic that was recreated go. What it says holds whatever the configuration says now.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.config.resolved import RecreationPolicy
from mirrorlake.destinations.map.progress_origin import RECREATED
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.errors import MirrorlakeError, OtherMirrorError, OtherSourceError, TopicRecreatedError
from mirrorlake.offsets import StartKind
from mirrorlake.topics.handover import States, copied_by_others, holds, known_of
from mirrorlake.topics.targets import Target

Generations = Mapping[str, Mapping[str, str]]
"""Destination topic by source topic id, by destination topic as configured."""

GENERATION_FIRST = 2
"""The number of the first topic that is made for a recreated source topic; the one before has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the records of a source topic go: the destination topic, and what becomes of what it may hold.

    ``replaces`` is the id of the source topic whose records are deleted first, empty where nothing is.
    """

    topic: str
    replaces: str = ""


def generation_name(base: str, number: int) -> str:
    """Returns the name of a destination topic or folder for a source topic that was recreated."""
    return f"{base}.{number}"


def place(base: str, *, topic: str, topic_id: str, policy: RecreationPolicy, state: OwnerState | None) -> Placement:
    """Returns where the records of ``topic`` go.

    Args:
        base: the destination topic as configured.
        topic: the source topic.
        topic_id: its id now.
        policy: what the mirror does about topics that were recreated.
        state: the mirror's state record at the destination cluster, None where there is none.
    """
    if state is None:
        return Placement(topic=base)
    generations = state.generations.get(base, {})
    if topic_id in generations:
        return Placement(topic=generations[topic_id])
    known = state.topic_ids.get(topic) or topic_id
    if known == topic_id or not topic_id:  # a source before Kafka 2.8 gives no ids, and nothing follows from that
        return Placement(topic=base)
    newest = max((int(name.rpartition(".")[2]) for name in generations.values()), default=GENERATION_FIRST - 1)
    if policy is RecreationPolicy.NEW_TOPIC:
        number = newest + 1
        while state.destinations.get(generation_name(base, number), topic) != topic:
            number += 1  # another source topic has that very name
        return Placement(topic=generation_name(base, number))
    # Restarted or refused, it is the newest topic that is meant.
    name = generation_name(base, newest) if generations else base
    return Placement(topic=name, replaces=known if policy is RecreationPolicy.RESTART else "")


def refusal(target: Target, states: States) -> MirrorlakeError | None:
    """Returns why a destination topic that is not empty is not this mirror's to fill from the configured source.

    With ``offsets: map`` other writers are welcome, also this mirror's own of another source topic; but not a second
    copy of what another mirror has copied there.
    """
    if target.is_mapped:
        if not _begins_elsewhere(target) and (others := copied_by_others(target, states)):
            return _copied_by(target, others[0])
    else:
        for state in states.values():
            if state.mirror != target.mirror.name and holds(state, target.destination_topic, target.source.partition):
                return _of_other_mirror(target, state)
    before = _before(target, states)
    if before is None:
        return None
    if before.source_cluster_id != target.source_cluster_id:
        return _of_other_cluster(target, before)
    if target.is_mapped and target.mirror.on_recreate is RecreationPolicy.RESTART:
        return None
    places = before.generations.get(target.base_topic, {})
    known = before.topic_ids.get(target.source.topic) or target.topic_id
    if known == target.topic_id or not target.topic_id or target.topic_id in places:
        return None
    is_used = target.destination_topic in (target.base_topic, *places.values())
    return recreated(target, known) if is_used else None


def _begins_elsewhere(target: Target) -> bool:
    """Tells whether the configuration itself says from where on a mapped partition is copied, if not from all of it."""
    return target.map_start.kind is StartKind.LATEST or target.map_start.offset is not None


def _before(target: Target, states: States) -> OwnerState | None:
    """Returns what is known of the copy so far; what other mirrors mapped says nothing of this one's."""
    if target.is_mapped:
        return states.get(target.mirror.name)
    return known_of(
        states,
        mirror=target.mirror.name,
        base=target.base_topic,
        topic=target.source.topic,
        source_cluster_id=target.source_cluster_id,
    )


def _of_other_mirror(target: Target, other: OwnerState) -> MirrorlakeError:
    return OtherMirrorError(
        f"partition {target.source.partition} of destination topic {target.destination_topic} is filled by mirror "
        f"{other.mirror} (owner {other.owner}), so mirror {target.mirror.name} cannot fill it",
        hint=f"end that process gracefully (SIGTERM), which releases what it fills: {target.mirror.name} then "
        f"continues the copy, if it has the same source; where it died, start {other.mirror} once more under that name "
        "first; or mirror to another topic",
        expected=target.mirror.name,
        found=other.mirror,
    )


def _copied_by(target: Target, other: OwnerState) -> MirrorlakeError:
    where = f"{target.source.topic}: {{{target.source.partition}: …}}"
    return OtherMirrorError(
        f"mirror {other.mirror} (owner {other.owner}) has copied source {target.source} to {target.destination_topic}; "
        f"mirror {target.mirror.name} has no progress there (`offsets: map`) and would copy it a second time",
        hint=f"call the mirror {other.mirror} again, it continues where it stopped; or say where {target.mirror.name} "
        f"begins: `start: {{offsets: {{{where}}}}}` (`mirrorlake status` under the old name shows dest_next), or "
        "`start: latest`; or copy to another topic",
        expected=target.mirror.name,
        found=other.mirror,
    )


def _of_other_cluster(target: Target, before: OwnerState) -> MirrorlakeError:
    return OtherSourceError(
        f"mirror {target.mirror.name} has filled {target.destination_topic} from cluster id "
        f"{before.source_cluster_id}, the configured source is cluster id {target.source_cluster_id}",
        hint="give the mirror of another source another name and other topics, or delete its topics: "
        f"kafka-topics.sh --delete --topic {target.destination_topic}",
        expected=before.source_cluster_id,
        found=target.source_cluster_id,
    )


def of_another_source(target: Target, before: OwnerState) -> OtherSourceError:
    """Returns why a mirror cannot be taken whose state record names another source than the configured one."""
    return OtherSourceError(
        f"mirror {target.mirror.name} is known at cluster {target.kafka.cluster.name} as one of source id "
        f"{before.source_cluster_id} (owner {before.owner}), the configured source is {target.source_cluster_id}",
        hint="give the mirror of another source another name (of a restore: `--name`)",
        expected=before.source_cluster_id,
        found=target.source_cluster_id,
    )


def recreated(target: Target, known: str) -> TopicRecreatedError:
    """Returns the error for a destination that holds records of a topic of the same name, with id ``known``."""
    afresh = (
        f"`on-recreate: new-topic` keeps {target.destination_topic} and copies to another topic; `on-recreate: "
        f"restart` deletes its records and copies afresh, as does kafka-topics.sh --delete --topic "
        f"{target.destination_topic} by hand"
    )
    return TopicRecreatedError(
        f"source topic {target.source.topic} was deleted and recreated (topic id {known}, now {target.topic_id}); "
        f"{target.destination_topic} holds records of the one before",
        hint=RECREATED if target.is_mapped else afresh,
        expected=known,
        found=target.topic_id,
    )


def shared_and_recreated(target: Target, others: Sequence[str]) -> TopicRecreatedError:
    """Returns the error for a topic that has to be replaced, and cannot be for one mirror alone."""
    return TopicRecreatedError(
        f"source topic {target.source.topic} was deleted and recreated (topic id {target.replaces}, now "
        f"{target.topic_id}); {target.destination_topic} holds records of the one before, and mirror "
        f"{', '.join(others)} fills a part of it",
        hint="stop all of these mirrors, then delete the topic: kafka-topics.sh --delete --topic "
        f"{target.destination_topic}",
        expected=target.replaces,
        found=target.topic_id,
    )


def generations_after(targets: Iterable[Target], known: Generations) -> Generations:
    """Returns what to remember of where records of recreated source topics go, once ``targets`` are accepted."""
    generations = {base: dict(places) for base, places in known.items()}
    for target in targets:
        if target.destination_topic != target.base_topic:
            generations.setdefault(target.base_topic, {})[target.topic_id] = target.destination_topic
    return generations
