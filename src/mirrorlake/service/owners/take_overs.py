"""One mirror at one destination cluster that a process takes over, and what is said of it in the log."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import structlog

from mirrorlake.clock import utc_text
from mirrorlake.destinations.transactions.owner_states import OwnerState
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.service.owners.owner_refusals import Place, place_of
from mirrorlake.topics.handover import States, holds, predecessors
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")


@dataclass(slots=True)
class TakeOver:
    """One mirror at one destination cluster.

    ``fills_from`` reads the clock, infinite until it is ours for the first time; ``refusal`` says why it is not ours,
    ``heard`` is the knock that was answered last. ``owner_before`` is the newest record that another process wrote: one
    of ours whose answer was lost has taken its place at the cluster.
    """

    settings: ClusterSettings
    ownership: Ownership
    targets: list[Target]
    refused: dict[Place, MirrorlakeError] = field(default_factory=dict)
    fills_from: float = inf
    owner_before: OwnerState | None = None
    refusal: MirrorlakeError | None = None
    heard: tuple[int, int] | None = None


def by_cluster(take_overs: Mapping[tuple[str, str], TakeOver]) -> dict[str, list[TakeOver]]:
    """Returns them by the name of their cluster."""
    groups: dict[str, list[TakeOver]] = defaultdict(list)
    for each in take_overs.values():
        groups[each.settings.name].append(each)
    return groups


def targets_after(held: Sequence[Target], found: Sequence[Target]) -> list[Target]:
    """Returns the targets of a mirror at a cluster, once more of them were found; those stand behind the others.

    A source topic that was recreated with fewer partitions leaves targets that nothing takes the place of. They are of
    a topic that is gone: what they say of it, such as its id, must not get into the state record again, nor may a
    partition be asked for that its copy lacks by now.

    Args:
        held: as found before.
        found: just now; at most one of each place.
    """
    ids = {(each.source.topic, each.destination.label): each.topic_id for each in found if each.topic_id}
    places = {place_of(each) for each in found}
    kept = [each for each in held if place_of(each) not in places and not _is_of_topic_before(each, ids)]
    return [*kept, *found]


def _is_of_topic_before(target: Target, ids: Mapping[tuple[str, str], str]) -> bool:
    return "" != target.topic_id != ids.get((target.source.topic, target.destination.label), target.topic_id)


def map_shards(take_over: TakeOver) -> int:
    """Returns how many shards the mapped copies of a mirror have; 0 where it has none."""
    return max((target.map_shards for target in take_over.targets if target.is_mapped), default=0)


def wait_seconds(before: OwnerState | None, *, or_else: float) -> float:
    """Returns how long leases of the owner before, or of owners before that one, may still be under way.

    Nothing of a released one is; but it may have ended while it waited for the one before it.

    Args:
        before: the state record that was found; None for none.
        or_else: for a record of an older version, which does not say: its leases are most likely as long as ours.
    """
    if before is None:
        return 0.0
    if before.is_released:
        return before.hold_before_seconds
    return max(or_else if before.hold_seconds is None else before.hold_seconds, before.hold_before_seconds)


def inherited_seconds(accepted: Sequence[Target], own: OwnerState | None, states: States) -> float:
    """Returns how long leases may still append of owners whom the mirrors waited for whose copies are continued.

    What those mirrors say stays in their records when it has passed, where none of their processes was there to say
    so. By whose clock it has is not known, so who begins to hold a copy waits for all of it.

    Args:
        accepted: what a mirror is to fill.
        own: its own state record before that; what it holds there it has waited for already, or says so itself.
        states: the state records of the cluster.
    """
    return max(
        (
            state.hold_before_seconds
            for target in accepted
            if own is None or not holds(own, target.destination_topic, target.source.partition)
            for state in predecessors(target, states)
        ),
        default=0.0,
    )


def left_seconds(take_over: TakeOver, *, now: float) -> float:
    """Returns how long leases of owners before this process may still append, by its clock's reading ``now``."""
    return max(0.0, take_over.fills_from - now)


def with_hold(state: OwnerState, *, own_seconds: float, before_seconds: float) -> OwnerState:
    """Returns a state record that tells the next owner to wait for whoever may append longest.

    Args:
        state: the record.
        own_seconds: how long leases of this process may append.
        before_seconds: how long those of owners before it may: they are not over because this process is.
    """
    return replace(state, hold_seconds=max(own_seconds, before_seconds), hold_before_seconds=before_seconds)


def refuse(take_over: TakeOver, error: MirrorlakeError) -> None:
    """Takes why the mirror cannot be taken over, and logs it, once until it changes.

    What only an owner does would be missing without a word else: gaps are not filled, and consumer groups, subjects
    and settings of topics not taken along.
    """
    if str(take_over.refusal or "") != str(error):
        _log.warning(
            "ownership not taken, trying again",
            mirror=take_over.ownership.mirror,
            cluster=take_over.settings.name,
            error=error.message,
            hint=error.hint,
        )
    take_over.refusal = error


def say_taken(take_over: TakeOver, owner: str) -> None:
    """Logs that ``owner`` has the mirror now, with the owner before where that one has not let go."""
    before = take_over.owner_before
    facts = {"mirror": take_over.ownership.mirror, "cluster": take_over.settings.name, "owner": owner}
    if before is None or before.is_released:
        _log.info("mirror taken over", **facts)
    else:
        _log.warning(
            "mirror taken over from an owner that has not let go: it died, or ends within seconds",
            **facts,
            owner_before=before.owner,
            owner_since=utc_text(before.taken_at_ms),
        )


def say_continued(accepted: Sequence[Target], before: OwnerState | None, states: States) -> None:
    """Logs which copies of another mirror the accepted targets continue, each once."""
    for target in accepted:
        for state in predecessors(target, states):
            if before is not None and before.taken_at_ms > state.taken_at_ms:
                continue  # it was said when that happened
            _log.info(
                "continues the copy of another mirror, which has released it",
                mirror=target.mirror.name,
                topic=target.destination_topic,
                partition=target.source.partition,
                mirror_before=state.mirror,
                owner_before=state.owner,
            )
