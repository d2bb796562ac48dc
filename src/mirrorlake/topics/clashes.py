"""What the targets of one look mean for one another, and for copies that others made: collisions and circles. Pure.

The file is judged when it is read, as far as topics are named in it. What expressions select is known only when the
clusters were asked; then the same rules hold, target by target. Circles also close through other processes: a state
record at the source cluster says which of its topics are copies, and of what.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mirrorlake.config.assignments import Assignment, find_collisions, name_flaw
from mirrorlake.config.resolved import Mirror
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.errors import CollisionError, LoopError, MirrorlakeError, TransientError, UnsupportedError
from mirrorlake.topics.handover import States
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Origin, Target

Way = tuple[str, str, str]
"""A mirror, the label of one of its destinations, and a source topic."""


BACK_SUFFIX = "-back"
"""Behind a mirror's name: the mirror that brings its copies back (``failback``), a writer of its own."""


def origins_of(topic: str, states: States) -> tuple[Origin, ...]:
    """Returns where the records of a topic were before, nearest first; empty where nobody has copied into it.

    Args:
        topic: of a cluster.
        states: the state records of that very cluster.
    """
    found: list[Origin] = []
    for state in states.values():
        if topic in state.destinations:
            is_held = not state.is_released and state.partitions.get(topic) != ()
            places = [(state.source_cluster_id, source) for source in state.sources_of(topic)]
            places += state.origins.get(topic, ())
            found += [Origin(cluster_id=c, topic=t, mirror=state.mirror, is_held=is_held) for c, t in places]
    return tuple(found)


def judged_together(targets: Sequence[Target], mirrors: Iterable[Mirror], served: Iterable[Way] = ()) -> list[Target]:
    """Returns the targets, refused where they clash with others or close a circle; in the order given.

    Args:
        targets: of one look.
        mirrors: all that are configured.
        served: what is being copied already; of two that clash it is the other one that is refused.
    """
    by_name = {mirror.name: mirror for mirror in mirrors}
    going_on = set(served)
    ways = _ways(targets) | {way: found for way in going_on if (found := _assignment(way, by_name)) is not None}
    begun = going_on | {_way(target) for target in targets if target.is_begun}
    errors = {**_flaws(ways), **_collisions(ways, begun)}
    targets = [_with_error(target, errors.get(_way(target))) for target in targets]
    met = _met(targets, begun)
    targets = _with_origins([_with_error(target, met.get(_way(target))) for target in targets])
    return [_with_error(target, loop_error(target)) for target in targets]


def loop_error(target: Target) -> MirrorlakeError | None:
    """Returns why a topic must not go where it is configured to: its records came from there.

    What an expression selects never goes back to a cluster it came from, or copies of copies would be made without
    end. Topics given by name may, as somebody wants that; but not into the very topic they come from.
    """
    source, to = target.source.topic, target.destination_cluster_id
    if target.error is not None or not to:
        return None
    is_named = source in target.mirror.source.topics.names
    for origin in target.origins:
        if origin.cluster_id != to:
            continue
        is_way_back = origin.mirror == f"{target.mirror.name}{BACK_SUFFIX}" and not origin.is_held
        if is_way_back and origin.topic == target.destination_topic and not target.is_mapped:
            continue  # what this mirror has copied was brought back, at its own offsets
        if is_named and (origin.topic != target.destination_topic or not origin.is_held):
            continue
        return _loop(target, origin, is_named=is_named)
    if not is_named and isinstance(target.origins_unread, TransientError):
        return target.origins_unread
    return None


def _loop(target: Target, origin: Origin, *, is_named: bool) -> LoopError:
    source, written = target.source.topic, target.destination_topic
    is_one = target.source_cluster_id == target.destination_cluster_id
    if is_one and origin.topic == source and isinstance(target.mirror.source, KafkaSource):
        return LoopError(
            f"records would go round: {target.mirror.source.name} and {target.destination.label} are one cluster, and "
            f"mirror {target.mirror.name} would copy topic {source} of it to {written}",
            hint="give one of the two the address of another cluster",
            topic=source,
            origin=origin.topic,
        )
    hint = f"exclude it: `exclude: [{source}]`, or an expression for all of its kind; named in `topics` it is copied"
    if is_named:
        hint = f"mirror to another topic than {written}; or, if mirror {origin.mirror} is not to copy any more, end it "
        hint += "gracefully (where it died: start it once more first)"
    return LoopError(
        f"records would go round: topic {source} of {target.source_work.label} is a copy of topic "
        f"{origin.topic} of cluster {target.destination.label} (made by mirror {origin.mirror}), and mirror "
        f"{target.mirror.name} would copy it to {written} there",
        hint=hint,
        topic=source,
        origin=origin.topic,
    )


def _way(target: Target) -> Way:
    return target.mirror.name, target.destination.label, target.source.topic


def _ways(targets: Sequence[Target]) -> dict[Way, Assignment]:
    """Returns the ways of targets that are copied, or may be once what ails them is over."""
    return {
        _way(t): Assignment(mirror=t.mirror, destination=t.destination, topic=t.source.topic)
        for t in targets
        if t.source.partition != UNKNOWN_PARTITION and (t.error is None or isinstance(t.error, TransientError))
    }


def _assignment(way: Way, mirrors: Mapping[str, Mirror]) -> Assignment | None:
    mirror, label, topic = way
    if mirror not in mirrors:
        return None
    found = next((each for each in mirrors[mirror].destinations if each.label == label), None)
    return None if found is None else Assignment(mirror=mirrors[mirror], destination=found, topic=topic)


def _of(assignment: Assignment) -> Way:
    return assignment.mirror.name, assignment.destination.label, assignment.topic


def _flaws(ways: Mapping[Way, Assignment]) -> dict[Way, MirrorlakeError]:
    """Returns what a destination would not take as a name; that of topics given by name was looked at before."""
    return {
        way: UnsupportedError(f"topic {each.topic} would become `{each.destination_name}`", hint=flaw, topic=each.topic)
        for way, each in ways.items()
        if each.topic not in each.mirror.source.topics.names and (flaw := name_flaw(each))
    }


def _collisions(ways: Mapping[Way, Assignment], begun: set[Way]) -> dict[Way, MirrorlakeError]:
    """Returns what is refused because another one writes there: both, unless one of them alone has begun."""
    errors: dict[Way, MirrorlakeError] = {}
    for collision in find_collisions([ways[way] for way in sorted(ways)]):
        pair = {_of(collision.first), _of(collision.second)}
        for way in pair - begun if len(pair & begun) == 1 else pair:
            errors.setdefault(
                way,
                CollisionError(
                    collision.message,
                    hint="give one of them another destination, or exclude the topic from one of them",
                    topic=way[2],
                ),
            )
    return errors


def _met(targets: Sequence[Target], begun: set[Way]) -> dict[Way, MirrorlakeError]:
    """Returns what is refused because another target goes to the same partition, under whatever names.

    A file cannot tell that two bootstrap servers are one cluster, nor that what a recreated topic goes to, such as
    ``orders.2``, is what another one goes to by its name.
    """
    places: dict[tuple[str, str, int], dict[Way, Target]] = {}
    for target in targets:
        if target.error is None and target.destination_cluster_id:
            to = target.destination_partition
            places.setdefault((target.destination_cluster_id, to.topic, to.partition), {})[_way(target)] = target
    errors: dict[Way, MirrorlakeError] = {}
    for (_, topic, partition), met in places.items():
        if len(met) < 2 or all(target.is_mapped for target in met.values()):
            continue
        going_on = met.keys() & begun
        for way in met if len(going_on) != 1 else met.keys() - going_on:
            others = ", ".join(f"mirror {m} (topic {t})" for m, _, t in sorted(met.keys() - {way}))
            errors.setdefault(
                way,
                CollisionError(
                    f"mirror {way[0]} (topic {way[2]}) writes partition {partition} of {topic}, as does {others}",
                    hint="give one of them another destination, or exclude the topic from one of them",
                    topic=way[2],
                ),
            )
    return errors


def _with_error(target: Target, error: MirrorlakeError | None) -> Target:
    return target if target.error is not None or error is None else replace(target, error=error)


def _with_origins(targets: Sequence[Target]) -> list[Target]:
    """Returns the targets with what the others among them say of where their topics' records come from."""
    into: dict[tuple[str, str], dict[Way, Target]] = {}
    for target in targets:
        if target.error is None and target.destination_cluster_id:
            place = target.destination_cluster_id, target.destination_topic
            into.setdefault(place, {})[_way(target)] = target
    return [_having(t, _all_origins(t, into)) if t.destination_cluster_id else t for t in targets]


def _having(target: Target, origins: tuple[Origin, ...]) -> Target:
    return target if origins == target.origins else replace(target, origins=origins)


def _all_origins(target: Target, into: Mapping[tuple[str, str], Mapping[Way, Target]]) -> tuple[Origin, ...]:
    found = list(target.origins)
    seen = {(target.source_cluster_id, target.source.topic)}
    waiting = [(target.source_cluster_id, target.source.topic)]
    while waiting:
        for other in into.get(waiting.pop(), {}).values():
            place = other.source_cluster_id, other.source.topic
            found.append(Origin(cluster_id=place[0], topic=place[1], mirror=other.mirror.name, is_held=True))
            found += other.origins
            if place not in seen:
                seen.add(place)
                waiting.append(place)
    return tuple(dict.fromkeys(found))
