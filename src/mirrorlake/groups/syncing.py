"""What groups have committed at a mirror's source, for its copy in another cluster: read and translated.

A group is committed for only by what it has at the source at this moment. One that is not there any more has nothing
here, and nothing is done about it: so an expired or deleted group never comes back.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.archive.groups.content import ArchivedOffset
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.config.topics.selection import NameSelection
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.errors import MirrorlakeError
from mirrorlake.groups.reading import GroupsRead, read_groups_of_topics
from mirrorlake.groups.restoring import FoundGroups, GroupPlan, RestoredPartition, plan_found
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target

OPTION = "--force"
"""By which a group is moved all the same that stands elsewhere at the destination."""

ANOTHER_TOPIC = "its source topic is gone, or another one since it was looked at"

Place = tuple[str, TopicPartition]
"""A destination partition, with the id of its cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceGroups:
    """What groups have committed at a mirror's source.

    ``errors`` are by what could not be read; nothing is known of the rest of it.
    """

    found: FoundGroups
    errors: Mapping[str, MirrorlakeError]


async def read_source(
    partitions: Sequence[RestoredPartition], selection: NameSelection, clients: WorkerCache, *, now_ms: int
) -> SourceGroups:
    """Returns what the selected groups have committed at the source.

    A partition whose topic has become another one since it was looked at gives no group a place.

    Args:
        partitions: those of one mirror that are copied from one cluster to another one; at least one.
        selection: which groups.
        clients: of all clusters.
        now_ms: the wall clock, in Unix milliseconds.

    Raises:
        MirrorlakeError: the cluster could not be asked at all.
    """
    source = partitions[0].target.mirror.source
    if not isinstance(source, KafkaSource):
        raise TypeError(f"mirror {partitions[0].target.mirror.name} does not read a cluster")
    topic_ids = {each.target.source: each.target.topic_id for each in partitions}
    client = clients.client(source.cluster.settings)
    read, is_there = await read_groups_of_topics(client, selection, topic_ids, known={})
    found = _found(read, selection, source=source.name, now_ms=now_ms)
    found.of_others = {each: ANOTHER_TOPIC for each in topic_ids if each not in is_there}
    return SourceGroups(found=found, errors=read.errors)


async def plan_sync(
    partitions: Sequence[RestoredPartition], source: SourceGroups, clients: WorkerCache, *, is_forced: bool
) -> GroupPlan:
    """Returns what would be done about every group that was read; changes nothing.

    The source is asked before the destination, which by then may hold more: a group is taken back by that, never past a
    record that it has not read.

    Args:
        partitions: as in `read_source`.
        source: what that returned, just now.
        clients: of all clusters.
        is_forced: see `mirrorlake.groups.placing.decide`.

    Raises:
        MirrorlakeError: the destination could not be asked at all.
    """
    client = clients.client(partitions[0].target.destination_cluster)
    return await plan_found(partitions, source.found, client, is_forced=is_forced, option=OPTION)


def selection_of(target: Target) -> NameSelection:
    """Returns the groups that a destination asks for; all of them where it names none."""
    groups = target.kafka.groups
    return groups.selection if groups is not None else NameSelection(patterns=(".*",))


class Writers:
    """Which mirrors copy to which destination partition.

    A group's place is told by one mirror's offset map. Where records of another mirror lie between, it would be taken
    past those that it has not read, and no look at one mirror tells.

    Args:
        targets: of all mirrors, those included about which nothing is asked, and those that could not be looked at.
    """

    def __init__(self, targets: Iterable[Target]) -> None:
        self._known: dict[Place, set[str]] = defaultdict(set)
        self._unknown: list[Target] = []
        for each in targets:
            if not each.is_topic:
                continue
            if each.source.partition == UNKNOWN_PARTITION or not each.destination_cluster_id:
                self._unknown.append(each)
            else:
                self._known[_place_of(each)].add(each.mirror.name)

    def against(self, target: Target) -> str:
        """Returns why a mirror's map alone tells no place in a target's copy; empty where it does."""
        if others := sorted(self._known[_place_of(target)] - {target.mirror.name}):
            return f"mirror {' and '.join(others)} copies to the same partition"
        if not target.is_mapped:
            return ""  # with equal offsets nobody else writes there, or the copy is refused
        hidden = {each.mirror.name for each in self._unknown if _may_share(each, target)} - {target.mirror.name}
        if hidden:
            return f"mirror {' and '.join(sorted(hidden))} could not be looked at, and may copy to the same partition"
        return ""


def not_to_be_trusted(target: Target, writers: Writers, error: MirrorlakeError | None) -> str:
    """Returns why no group gets a place in a copy; empty where nothing stands against it.

    Args:
        target: the partition.
        writers: of all mirrors.
        error: what is known to be wrong with the copy: equal offsets mean equal records only in one that is a copy.
    """
    return f"its copy is not to be trusted: {error}" if error is not None else writers.against(target)


def _place_of(target: Target) -> Place:
    return target.destination_cluster_id, target.destination_partition


def _may_share(unknown: Target, target: Target) -> bool:
    cluster_id, topic = unknown.destination_cluster_id, unknown.destination_topic
    return cluster_id in ("", target.destination_cluster_id) and topic in ("", target.destination_topic)


def _found(read: GroupsRead, selection: NameSelection, *, source: str, now_ms: int) -> FoundGroups:
    groups: dict[TopicPartition, Mapping[str, ArchivedOffset]] = {
        partition: {
            group: ArchivedOffset(
                offset=committed.offset,
                leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                seen_at_ms=now_ms,
            )
            for group, committed in theirs.items()
        }
        for partition, theirs in read.committed.items()
    }
    failures = [f"{what}: {error}" for what, error in sorted(read.errors.items())]
    there = set[str]().union(*read.committed.values())
    unread = " ".join(read.errors)
    warnings = [
        f"group {group} has no offset of the mirrored topics at cluster {source}, and nothing is committed for it"
        for group in selection.names
        if group not in there and f"group {group}" not in unread
    ]
    return FoundGroups(groups=groups, warnings=warnings, failures=failures)
