"""What a look at the clusters changes in a running service. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from mirrorlake.errors import (
    LoopError,
    MirrorlakeError,
    PartitionCountError,
    PermanentError,
    RecordTooLargeError,
    TopicMissingError,
    TransientError,
    UnsupportedError,
    WrongTimestampsError,
)
from mirrorlake.own_topics import is_own_topic
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target

Group = tuple[str, str]
"""A mirror, and the label of one of its destinations."""


_STOPPING = (LoopError, PartitionCountError)
"""What no lease can see: records that go round in a circle, and topics that differ in their number of partitions."""

_OF_SETTINGS = (UnsupportedError, PartitionCountError)
"""What a look finds wrong with how a destination topic is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Targets to begin with, the states that end before they do, and what is said better of those that stay parked.

    ``stopped`` are served, and must not be any more.
    """

    fresh: Sequence[Target]
    retired: Sequence[PartitionState]
    explained: Sequence[tuple[PartitionState, MirrorlakeError]] = ()
    stopped: Sequence[tuple[PartitionState, MirrorlakeError]] = ()


def find_changes(
    targets: Iterable[Target],
    states: Iterable[PartitionState],
    *,
    waiting: Collection[Group] = (),
    restarting: Iterable[PartitionState] = (),
) -> Changes:
    """Returns what is new: topics and partitions, recreated source topics, and parked ones whose trouble is over.

    What is served goes on whatever this look found wrong: its leases find out, and say so of what it concerns. But for
    what no lease can see: records that go round in a circle, and another number of partitions at the destination.
    A partition that is to begin is not passed by because others of its topic are served, while it is waited for. Nor is
    one that is refused for good: no lease of it finds that out, so it would be nowhere, neither copied nor parked.

    Args:
        targets: as just found.
        states: those served, parked ones included.
        waiting: which could not be looked at before and are still to begin.
        restarting: of ``states``, those that somebody wants to begin anew, whether their trouble is over or not.
    """
    is_restarting = {id(state) for state in restarting}
    known = {(s.mirror, s.destination, s.source): s for s in states}
    by_topic: dict[tuple[str, str, str], list[PartitionState]] = {}
    for state in known.values():
        by_topic.setdefault((state.mirror, state.destination, state.source.topic), []).append(state)
    fresh: list[Target] = []
    retired: dict[int, PartitionState] = {}
    explained = []
    stopped = []
    for target in targets:
        if target.error is None and not target.is_due:
            continue  # what is served of it keeps the bounds it has, and what is not has nothing to begin with
        group = (target.mirror.name, target.destination.label)
        of_topic = by_topic.get((*group, target.source.topic), [])
        before = known.get((*group, target.source))
        if (
            before is not None
            and target.error is not None
            and _says_more(before, target.error, is_restarting=id(before) in is_restarting)
        ):
            explained.append((before, target.error))
        if before is not None and not before.is_parked and isinstance(target.error, _STOPPING):
            stopped.append((before, target.error))
        is_new = before is None and (_is_waited_for(target, group, waiting) or _is_refused(target))
        is_passed_by = of_topic and not is_new
        if target.error is not None and (is_passed_by or _is_to_be_asked_again(target, group, waiting)):
            continue
        if before is None:
            fresh.append(target)
            ended = [s for s in of_topic if s.source.partition == UNKNOWN_PARTITION]
        elif _is_recreated(before, target):
            fresh.append(target)
            ended = of_topic
        elif id(before) in is_restarting or (before.is_parked and _is_cured(before, target)):
            fresh.append(target)
            ended = [before]
        else:
            continue
        retired |= {id(state): state for state in ended}
    return Changes(fresh=fresh, retired=list(retired.values()), explained=explained, stopped=stopped)


def _says_more(state: PartitionState, error: MirrorlakeError, *, is_restarting: bool) -> bool:
    """Tells whether ``error`` is another reason to stand parked, such as that a topic not only went, but came again.

    What is wrong with a topic's settings is none, unless somebody asks to begin anew: it may be mended, and what a
    lease has found is there all the same. Records that got the wrong times are what such a setting has done already.
    Nor is it one that a topic of mirrorlake's own is gone from the cluster, which keeps a look from all of its copies.
    """
    if not state.is_parked or not isinstance(error, PermanentError) or type(error) is type(state.error):
        return False
    if isinstance(error, TopicMissingError) and is_own_topic(str(error.facts.get("partition", "")).rpartition("-")[0]):
        return state.was_refused
    if not isinstance(error, _OF_SETTINGS):
        return True
    return state.was_refused or (is_restarting and not isinstance(state.error, WrongTimestampsError))


def _is_cured(state: PartitionState, target: Target) -> bool:
    """Tells whether what parked a partition is gone, as far as a look can tell; nothing is wrong with its target."""
    if state.was_refused or target.creation is not None:
        return True  # a destination topic that is gone was deleted to be made anew
    before = state.batch_bytes_max
    if isinstance(state.error, RecordTooLargeError) and state.error.facts.get("topic") == target.letters_topic != "":
        return target.letters_bytes_max > int(str(state.error.facts.get("limit", 0)))
    if isinstance(state.error, RecordTooLargeError) and before is not None:
        return target.batch_bytes_max > before
    return isinstance(state.error, TopicMissingError)


def _is_to_be_asked_again(target: Target, group: Group, waiting: Collection[Group]) -> bool:
    return isinstance(target.error, TransientError) and group not in waiting


def _is_waited_for(target: Target, group: Group, waiting: Collection[Group]) -> bool:
    """Tells whether a partition is still to begin, beside others of its topic: who waits for it must not forget it."""
    return target.source.partition != UNKNOWN_PARTITION and group in waiting


def _is_refused(target: Target) -> bool:
    """Tells whether a partition that is there cannot be copied: as a partition was added that a route's topic lacks."""
    return target.source.partition != UNKNOWN_PARTITION and isinstance(target.error, PermanentError)


def _is_recreated(state: PartitionState, target: Target) -> bool:
    return bool(state.topic_id and target.topic_id) and state.topic_id != target.topic_id
