"""What the groups of a cluster have committed for some partitions. Reads only.

Nothing follows from a group that a listing leaves out: a coordinator moves, or a right is missing. That a group has no
offset any more is believed of its coordinator alone, asked by name.
"""

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass

from mirrorlake.config.topics.selection import NameSelection
from mirrorlake.errors import MirrorlakeError, PermissionDeniedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import CommittedOffset
from mirrorlake.offsets import TopicPartition

SHARE = "share"
"""The type of groups that commit no offsets (KIP-932)."""

NO_GROUPS = "consumer groups"
"""Among the errors: not a single group is listed, which is right where there is none."""

Known = Mapping[TopicPartition, Set[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsRead:
    """What was found, by partition and group.

    Attributes:
        committed: what groups have committed, with every partition that was asked for.
        none: groups that were known to have an offset and have none now, or are not selected.
        errors: by what could not be read, such as a group or a broker; nothing is known of the rest of it.
    """

    committed: Mapping[TopicPartition, Mapping[str, CommittedOffset]]
    none: Mapping[TopicPartition, Set[str]]
    errors: Mapping[str, MirrorlakeError]


async def read_groups(
    client: ClusterClient, selection: NameSelection, partitions: Collection[TopicPartition], known: Known
) -> GroupsRead:
    """Returns what the selected groups have committed for partitions.

    Args:
        client: of the cluster.
        selection: which groups.
        partitions: which partitions; what groups have committed for others is passed over.
        known: groups by partition that had an offset when they were read before.

    Raises:
        MirrorlakeError: the cluster could not be asked at all.
    """
    errors: dict[str, MirrorlakeError] = {}
    listing = await client.groups.list()
    errors |= {f"broker {broker_id}": error for broker_id, error in listing.unread.items()}
    listed = {name for name, each in listing.groups.items() if each.type.lower() != SHARE}
    before = {group for groups in known.values() for group in groups}
    asked = [name for name in sorted(listed | before | {*selection.names}) if selection.selects(name)]
    if not listing.groups and not listing.unread and not asked:
        errors[NO_GROUPS] = _nothing_listed(client)
    committed: dict[TopicPartition, dict[str, CommittedOffset]] = {each: {} for each in partitions}
    answered = await _take(client, dict.fromkeys(asked), committed, errors)
    gone = {
        each: {group for group in known.get(each, ()) if group in answered and group not in committed[each]}
        for each in partitions
    }
    unselected = {each: {group for group in known.get(each, ()) if not selection.selects(group)} for each in partitions}
    none = await _without_offset(client, gone, committed, errors)
    return GroupsRead(
        committed=committed, none={each: none[each] | unselected[each] for each in partitions}, errors=errors
    )


async def read_groups_of_topics(
    client: ClusterClient, selection: NameSelection, topic_ids: Mapping[TopicPartition, str], known: Known
) -> tuple[GroupsRead, set[TopicPartition]]:
    """Returns what groups have committed, and of which partitions it holds: those whose topic is the one that is meant.

    Args:
        client: of the cluster.
        selection: which groups.
        topic_ids: the partitions, each with its topic's id; empty where that is not known.
        known: see `read_groups`.

    Raises:
        MirrorlakeError: the cluster could not be asked at all.
    """
    found = await read_groups(client, selection, [*topic_ids], known)
    # After the offsets: what was read of a topic that is another one now is of neither.
    topics = (await client.metadata(sorted({each.topic for each in topic_ids}), refresh=True)).topics
    ids = {name: topic.topic_id for name, topic in topics.items()}
    return found, {each for each, topic_id in topic_ids.items() if _is_same(ids.get(each.topic), topic_id)}


def _is_same(found_id: str | None, meant_id: str) -> bool:
    """Tells whether a topic is the one that is meant; None is one that is not there, empty an id not known."""
    return found_id is not None and (not found_id or not meant_id or found_id == meant_id)


async def _take(
    client: ClusterClient,
    asked: Mapping[str, list[TopicPartition] | None],
    committed: Mapping[TopicPartition, dict[str, CommittedOffset]],
    errors: dict[str, MirrorlakeError],
) -> dict[str, set[TopicPartition]]:
    """Asks for offsets and adds them to ``committed``; returns by group that answered what it surely has none of."""
    answered: dict[str, set[TopicPartition]] = {}
    for group, answer in (await client.groups.offsets(asked) if asked else {}).items():
        if isinstance(answer, MirrorlakeError):
            errors[f"group {group}"] = answer
            continue
        none = answered[group] = set()
        for partition, found in answer.items():
            if found is None:
                none.add(partition)
            elif isinstance(found, MirrorlakeError):
                errors[f"group {group}, {partition}"] = found
            elif (theirs := committed.get(partition)) is not None:
                theirs[group] = found
    return answered


async def _without_offset(
    client: ClusterClient,
    gone: Mapping[TopicPartition, Set[str]],
    committed: Mapping[TopicPartition, dict[str, CommittedOffset]],
    errors: dict[str, MirrorlakeError],
) -> dict[TopicPartition, set[str]]:
    """Asks by name for what an answer about all partitions left out: without a right on a topic it says nothing."""
    asked: dict[str, list[TopicPartition] | None] = {}
    for partition, groups in gone.items():
        for group in groups:
            asked[group] = [*(asked.get(group) or ()), partition]
    answered = await _take(client, asked, committed, errors)
    return {
        partition: {group for group in groups if partition in answered.get(group, ())}
        for partition, groups in gone.items()
    }


def _nothing_listed(client: ClusterClient) -> PermissionDeniedError:
    return PermissionDeniedError(
        f"cluster {client.settings.name!r} lists no consumer group: there is none, or this user may describe none",
        hint="grant DESCRIBE on the groups to this user, or on the cluster",
        cluster=client.settings.name,
    )
