"""Offsets of the consumer groups of one cluster, as the same files hold them: reading, judging and committing them.

Kafka has no commit on a condition. A group without members that commits between what is read here and the commit is
overwritten; members that come meanwhile make the broker refuse.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mirrorlake.errors import MirrorlakeError
from mirrorlake.groups.reading import SHARE
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import EMPTY_GROUP_STATES, CommittedOffset
from mirrorlake.kafka.control.groups import GroupOffsets
from mirrorlake.kafka.control.range_reader import first_at
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.positions.files import Fault, PositionLine
from mirrorlake.service.positions.starts import Goal


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedOffsets:
    """Which are asked for; an empty collection is all."""

    groups: Collection[str] = ()
    topics: Collection[str] = ()
    partitions: Collection[int] = ()

    def includes(self, group: str, partition: TopicPartition) -> bool:
        """Returns whether an offset is asked for."""
        return (
            (not self.groups or group in self.groups)
            and (not self.topics or partition.topic in self.topics)
            and (not self.partitions or partition.partition in self.partitions)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """An offset that is to be committed; ``before`` is what the group has committed, None for nothing."""

    group: str
    partition: TopicPartition
    before: int | None
    after: CommittedOffset

    def as_json(self) -> dict[str, str | int | None]:
        """Returns the row of a table, or of ``--format json``."""
        return {
            "group": self.group,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "before": self.before,
            "after": self.after.offset,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsFound:
    """What stands at a cluster.

    Attributes:
        committed: by group; None where it was asked for by name and has nothing, an error where it could not be read.
        states: Kafka's name, or why it is not known.
        starts: of the logs, where those could be asked.
        ends: likewise; the last stable offset.
        unread: what could not be read.
    """

    committed: Mapping[str, GroupOffsets | MirrorlakeError]
    states: Mapping[str, str | MirrorlakeError]
    starts: Mapping[TopicPartition, int | MirrorlakeError] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int | MirrorlakeError] = field(default_factory=dict)
    unread: Sequence[str] = ()


async def find_groups(client: ClusterClient, wanted: WantedOffsets) -> GroupsFound:
    """Returns all groups that are asked for, with every offset they have of topics this user may describe.

    Raises:
        MirrorlakeError: the cluster could not be asked at all.
    """
    listing = await client.groups.list()
    listed = {name for name, each in listing.groups.items() if each.type.lower() != SHARE}
    names = sorted(wanted.groups) if wanted.groups else sorted(listed)
    unread = [f"broker {broker}: {error}" for broker, error in listing.unread.items()]
    committed = await client.groups.offsets(dict.fromkeys(names)) if names else {}
    return GroupsFound(committed=committed, states={}, unread=unread)


def lines_of_groups(found: GroupsFound, wanted: WantedOffsets) -> tuple[list[PositionLine], list[str]]:
    """Returns the lines of all that was read and is asked for, ascending, and what could not be read. Pure."""
    lines, unread = [], [*found.unread]
    for group, offsets in sorted(found.committed.items()):
        if isinstance(offsets, MirrorlakeError):
            unread.append(f"group {group}: {offsets}")
            continue
        for partition, each in sorted(offsets.items()):
            if not wanted.includes(group, partition):
                continue
            if isinstance(each, MirrorlakeError):
                unread.append(f"group {group}, {partition}: {each}")
            elif each is not None:
                lines.append(
                    PositionLine(
                        name=group,
                        topic=partition.topic,
                        partition=partition.partition,
                        offset=each.offset,
                        metadata=each.metadata,
                    )
                )
    return lines, unread


async def look_at(client: ClusterClient, lines: Sequence[PositionLine]) -> GroupsFound:
    """Returns what stands against the lines of a file: each group and partition is asked for by name.

    Raises:
        MirrorlakeError: the cluster could not be asked at all.
    """
    asked: dict[str, list[TopicPartition]] = defaultdict(list)
    for each in lines:
        asked[each.name].append(TopicPartition(each.topic, each.partition))
    topics = (await client.metadata(sorted({each.topic for each in lines}), refresh=True)).topics
    there = {
        TopicPartition(each.topic, each.partition)
        for each in lines
        if each.topic in topics and each.partition in topics[each.topic].partitions
    }
    states = await client.groups.states([*asked])
    # DescribeGroups calls groups of KIP-848's protocol dead.
    for name, listed in (await client.groups.list()).groups.items():
        if states.get(name) == "Dead" and listed.state:
            states[name] = listed.state
    return GroupsFound(
        committed=await client.groups.offsets(asked, is_stable=True),
        states=states,
        starts=await client.list_offsets(there, timestamp=EARLIEST),
        ends=await client.list_offsets(there, timestamp=LATEST),
    )


def judged_lines(
    lines: Sequence[PositionLine], found: GroupsFound, *, is_forced: bool
) -> tuple[list[GroupMove], list[Fault]]:
    """Returns what is to be committed, and every fault that stands against it. Pure.

    Args:
        lines: that are asked for.
        found: what stands at the cluster, of each of them.
        is_forced: takes a group back too.
    """
    moves: list[GroupMove] = []
    faults: list[Fault] = []
    seen: dict[tuple[str, TopicPartition], int] = {}
    for each in lines:
        place = each.name, TopicPartition(each.topic, each.partition)
        if place in seen:
            faults.append(Fault(line=each.line, text=f"says again what line {seen[place]} is about"))
            continue
        seen[place] = each.line
        verdict = _judged(each, place[1], found, is_forced=is_forced)
        if isinstance(verdict, str):
            faults.append(Fault(line=each.line, text=f"group {each.name}, {place[1]}: {verdict}"))
        elif verdict is not None:
            moves.append(verdict)
    return moves, faults


def _judged(
    line: PositionLine, partition: TopicPartition, found: GroupsFound, *, is_forced: bool
) -> GroupMove | str | None:
    start, end = found.starts.get(partition), found.ends.get(partition)
    offsets, state = found.committed[line.name], found.states[line.name]
    committed = offsets if isinstance(offsets, MirrorlakeError) else offsets.get(partition)
    unread = next((each for each in (start, end, committed, state) if isinstance(each, MirrorlakeError)), None)
    if unread is not None:
        return str(unread)
    if not isinstance(start, int) or not isinstance(end, int):
        return "the cluster has no such partition"
    before = committed if isinstance(committed, CommittedOffset) else None
    if line.offset is None:
        said = "none is asked for: Kafka's own kafka-consumer-groups.sh --delete-offsets takes an offset back"
        return None if before is None else said
    # A line without metadata says nothing of it.
    if before is not None and before.offset == line.offset and line.metadata in ("", before.metadata):
        return None
    if not start <= line.offset <= end:
        return f"offset {line.offset} is outside of the log, which has {start}…{end}"
    if state not in EMPTY_GROUP_STATES:
        return f"it has members ({state}): stop its consumers"
    if before is not None and line.offset < before.offset and not is_forced:
        return f"it stands at {before.offset}; --force takes it back to {line.offset}"
    after = CommittedOffset(offset=line.offset, metadata=line.metadata)
    stands = None if before is None else before.offset
    return GroupMove(group=line.name, partition=partition, before=stands, after=after)


async def lines_for(
    client: ClusterClient, found: GroupsFound, wanted: WantedOffsets, goal: Goal
) -> tuple[list[PositionLine], list[Fault]]:
    """Returns the lines that set all offsets that groups have, and are asked for, to one goal.

    Raises:
        MirrorlakeError: the cluster could not be asked.
    """
    standing, unread = lines_of_groups(found, wanted)
    faults = [Fault(line=0, text=each) for each in unread]
    partitions = {TopicPartition(each.topic, each.partition) for each in standing}
    places: Mapping[TopicPartition, int | MirrorlakeError | None] = {}
    if goal.timestamp_ms is not None:
        places = await first_at(client, partitions, goal.timestamp_ms)
    elif goal.offset is None:
        places = await client.list_offsets(partitions, timestamp=EARLIEST if goal.is_earliest else LATEST)
    ends = await client.list_offsets(partitions, timestamp=LATEST)
    lines = []
    for each in standing:
        partition = TopicPartition(each.topic, each.partition)
        place, end = places.get(partition, goal.offset), ends[partition]
        # No record is that late: behind the last one, which is the next that comes.
        offset = end if place is None else place
        if isinstance(offset, int):
            lines.append(PositionLine(name=each.name, topic=each.topic, partition=each.partition, offset=offset))
        else:
            faults.append(Fault(line=0, text=f"group {each.name}, {partition}: {offset}"))
    return lines, faults


async def commit_moves(
    client: ClusterClient, moves: Sequence[GroupMove]
) -> tuple[list[GroupMove], list[tuple[GroupMove, str]]]:
    """Commits, group by group, and reads back; returns what stands there now, and what does not, with why. Idempotent.

    What is read back decides, whatever the answer to the commit was.
    """
    by_group: dict[str, list[GroupMove]] = defaultdict(list)
    for move in moves:
        by_group[move.group].append(move)
    done: list[GroupMove] = []
    left: list[tuple[GroupMove, str]] = []
    for group, theirs in by_group.items():
        why: dict[TopicPartition, MirrorlakeError | None] = {}
        try:
            why |= await client.groups.commit(group, {each.partition: each.after for each in theirs})
        except MirrorlakeError as error:
            why = {each.partition: error for each in theirs}
        found = (await client.groups.offsets({group: [each.partition for each in theirs]}))[group]
        for each in theirs:
            there = found if isinstance(found, MirrorlakeError) else found.get(each.partition)
            if isinstance(there, CommittedOffset) and _is_same(there, each.after):
                done.append(each)
            else:
                left.append((each, str(why.get(each.partition) or _said_of(there))))
    return done, left


def _is_same(found: CommittedOffset, meant: CommittedOffset) -> bool:
    return (found.offset, found.metadata) == (meant.offset, meant.metadata)


def _said_of(there: CommittedOffset | MirrorlakeError | None) -> str:
    if isinstance(there, MirrorlakeError):
        return f"whether it was committed is not known: {there}"
    return f"another client has committed {there.offset if there else 'nothing'}"
