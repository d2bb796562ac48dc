"""What groups have committed at a mirror's source, for its copy in another cluster: read and translated.

A group is committed for only by what it has at the source at this moment. One that is not there any more has nothing
here, and nothing is done about it: so an expired or deleted group never comes back.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from mirrorlake.archive.groups.content import ArchivedOffset
from mirrorlake.config.resolved import KafkaSource, NameSelection
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.groups.reading import GroupsRead, read_groups
from mirrorlake.groups.restoring import FoundGroups, GroupPlan, RestoredPartition, plan_found
from mirrorlake.offsets import TopicPartition
from mirrorlake.topics.targets import Target

OPTION = "--force"
"""By which a group is moved all the same that stands elsewhere at the destination."""

Place = tuple[str, TopicPartition]
"""A destination partition, with the id of its cluster."""


async def plan_sync(
    partitions: Sequence[RestoredPartition],
    selection: NameSelection,
    clients: WorkerCache,
    *,
    now_ms: int,
    is_forced: bool,
) -> GroupPlan:
    """Returns what would be done about every selected group; changes nothing.

    The source is asked before the destination, which by then may hold more: a group is taken back by that, never past a
    record that it has not read.

    Args:
        partitions: those of one mirror that are copied from one cluster to another one; at least one.
        selection: which groups.
        clients: of all clusters.
        now_ms: the wall clock, in Unix milliseconds.
        is_forced: see `mirrorlake.groups.placing.decide`.

    Raises:
        MirrorlakeError: a cluster could not be asked at all.
    """
    target = partitions[0].target
    source = target.mirror.source
    if not isinstance(source, KafkaSource):
        raise TypeError(f"mirror {target.mirror.name} does not read a cluster")
    sources = list(dict.fromkeys(each.target.source for each in partitions))
    read = await read_groups(clients.client(source.cluster.settings), selection, sources, known={})
    found = _found(read, selection, source=source.name, now_ms=now_ms)
    client = clients.client(target.destination_cluster)
    return await plan_found(partitions, found, client, is_forced=is_forced, option=OPTION)


def writers_of(targets: Iterable[Target]) -> dict[Place, set[str]]:
    """Returns the names of the mirrors that copy to each destination partition.

    A group's place is told by one mirror's offset map. Where records of another mirror lie between, it would be taken
    past those that it has not read, and no look at one mirror tells.

    Args:
        targets: of all mirrors, those included about which nothing is asked.
    """
    writers: dict[Place, set[str]] = defaultdict(set)
    for each in targets:
        if not each.is_archive:
            writers[place_of(each)].add(each.mirror.name)
    return dict(writers)


def place_of(target: Target) -> Place:
    """Returns the partition that a target is copied to."""
    return target.destination_cluster_id, target.destination_partition


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
    there = {group for theirs in read.committed.values() for group in theirs}
    unread = " ".join(read.errors)
    warnings = [
        f"group {group} has no offset of the mirrored topics at cluster {source}, and nothing is committed for it"
        for group in selection.names
        if group not in there and f"group {group}" not in unread
    ]
    return FoundGroups(groups=groups, warnings=warnings, failures=failures)
