"""Brings back what groups had committed, to a cluster where the records are: read, shown, committed, read back.

Kafka has no commit on a condition. Members that come meanwhile are the broker's to see: it refuses then. A group
without members that commits between what is read here and the commit is overwritten.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from mirrorlake.archive.groups.content import ArchivedOffset
from mirrorlake.archive.groups.objects import ArchivedGroups, read_groups
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.map.offset_map import MappedRun
from mirrorlake.destinations.map.progress import ProgressKey
from mirrorlake.destinations.map.progress_store import read_offset_map
from mirrorlake.errors import ChainBrokenError, MirrorlakeError
from mirrorlake.groups.others import may_hold_others
from mirrorlake.groups.placing import GroupAction, GroupRow, Standing, after_commit, commits_of, decide
from mirrorlake.groups.translation import Placed, Translation, Unknown, together, translate_equal, translate_mapped
from mirrorlake.kafka.control.cluster import EARLIEST, LATEST, ClusterClient
from mirrorlake.kafka.control.descriptions import CommittedOffset
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.sources.archive.archive import OpenArchive
from mirrorlake.sources.archive.work import ArchiveSourceWork
from mirrorlake.topics.targets import Target

_OFFSETS_TOPIC = "__consumer_offsets"

Places = Mapping[TopicPartition, Mapping[str, Translation | None]]
"""Where each group continues in each destination partition; None where it is known only later."""

Standings = Mapping[str, Mapping[TopicPartition, Standing]]
"""How each group stands in each destination partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPartition:
    """A partition of an archive at its destination.

    ``planned`` are the source offsets that will be there, before anything was restored; None afterwards. ``missing``
    says why its records are not all there, empty where they are.
    """

    target: Target
    planned: OffsetRange | None = None
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What is, or would be, done.

    ``warnings`` ask for a second look; ``absent`` say of which topics nothing about groups is archived, which was asked
    for; ``failures`` say of which groups nothing is known.
    """

    rows: Sequence[GroupRow] = ()
    warnings: Sequence[str] = ()
    absent: Sequence[str] = ()
    failures: Sequence[str] = ()

    @property
    def is_whole(self) -> bool:
        """True where every archived group stands, or will stand, where it should."""
        return not self.failures and not self.absent and all(row.is_placed for row in self.rows)

    @property
    def remarks(self) -> list[str]:
        """Everything that is to be said beside the rows."""
        return [*self.warnings, *self.absent, *self.failures]


@dataclass(slots=True)
class FoundGroups:
    """What was read of groups: those of each source partition, and what is to be said of them.

    ``of_others`` says of partitions why their groups are none of the copy's.
    """

    groups: dict[TopicPartition, Mapping[str, ArchivedOffset]] = field(default_factory=dict)
    of_others: dict[TopicPartition, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


async def plan_groups(partitions: Sequence[RestoredPartition], clients: WorkerCache, *, is_forced: bool) -> GroupPlan:
    """Returns what would be done about every archived group; changes nothing.

    Args:
        partitions: of one archive, all those that are restored to one cluster.
        clients: of all clusters.
        is_forced: see `decide`.

    Raises:
        MirrorlakeError: the cluster could not be asked at all.
    """
    found = await _archived(partitions, clients)
    client = clients.client(partitions[0].target.destination_cluster)
    return await plan_found(partitions, found, client, is_forced=is_forced, option="--force-groups")


async def plan_found(
    partitions: Sequence[RestoredPartition],
    found: FoundGroups,
    client: ClusterClient,
    *,
    is_forced: bool,
    option: str,
) -> GroupPlan:
    """Returns what would be done about groups that were read; changes nothing.

    Args:
        partitions: all that go to one cluster.
        found: the groups of their sources.
        client: of the cluster.
        is_forced: see `decide`.
        option: of the command line by which a group is moved all the same, for what is said.

    Raises:
        MirrorlakeError: the cluster could not be asked at all.
    """
    read_by = _read_by(partitions, found)
    if not read_by:
        return GroupPlan(warnings=found.warnings, absent=found.absent, failures=found.failures)
    places, runs = await _places(partitions, found, client)
    # Last of all, so that as little time as may be lies between this and a commit.
    standings = await _standings(client, {group: [each.place for each in theirs] for group, theirs in read_by.items()})
    others = await _others(_mapped(places, partitions), runs, standings, client)
    rows = [
        decide(
            group=group,
            source=each.source,
            destination=each.place,
            archived=each.groups[group],
            place=places[each.place][group],
            standing=there[each.place],
            has_others=each.is_mapped and (group, each.place) in others,
            is_forced=is_forced,
            option=option,
        )
        for group, theirs, there in ((group, theirs, standings[group]) for group, theirs in read_by.items())
        for each in theirs
    ]
    return GroupPlan(rows=rows, warnings=found.warnings, absent=found.absent, failures=found.failures)


async def place_groups(plan: GroupPlan, client: ClusterClient) -> GroupPlan:
    """Commits what a plan says and reads it back; returns the plan with what became of it. Idempotent."""
    commits = commits_of(plan.rows)
    errors = await client.groups.commit_all(commits) if commits else {}
    asked = {group: [*offsets] for group, offsets in commits.items()}
    found = await client.groups.offsets(asked, is_stable=True) if asked else {}

    # Nearly always all of a group is there as it was committed: one comparison tells, and not one for each offset.
    settled = {group for group, offsets in commits.items() if found[group] == offsets}

    def done(row: GroupRow) -> GroupRow:
        if row.action is not GroupAction.COMMIT:
            return row
        if row.group in settled:
            return GroupRow(*row[:6], GroupAction.DONE, row.reason)
        held = found[row.group]
        there = held if isinstance(held, MirrorlakeError) else held.get(row.destination)
        return after_commit(row, there, errors[row.group][row.destination])

    return replace(plan, rows=sorted(map(done, plan.rows), key=_ORDER))


_ORDER = itemgetter(0, 1)
"""Rows by their group and source partition."""


# -- what is archived -----------------------------------------------------------------------------------


def _of(found: FoundGroups, each: RestoredPartition) -> Mapping[str, ArchivedOffset]:
    return found.groups.get(each.target.source, {})


class _Read(NamedTuple):
    """A source partition that groups have offsets of, and where it is copied to."""

    source: TopicPartition
    place: TopicPartition
    is_mapped: bool
    groups: Mapping[str, ArchivedOffset]


def _read_by(partitions: Sequence[RestoredPartition], found: FoundGroups) -> dict[str, list[_Read]]:
    """Returns by group, sorted, the partitions it has an offset of."""
    read_by: dict[str, list[_Read]] = defaultdict(list)
    for each in partitions:
        target, groups = each.target, _of(found, each)
        if groups:
            read = _Read(target.source, target.destination_partition, target.is_mapped, groups)
            for group in groups:
                read_by[group].append(read)
    return dict(sorted(read_by.items()))


async def _archived(partitions: Sequence[RestoredPartition], clients: WorkerCache) -> FoundGroups:
    found = FoundGroups()
    for topic in sorted({each.target.source.topic for each in partitions}):
        theirs = [each.target for each in partitions if each.target.source.topic == topic]
        work = theirs[0].source_work
        if not isinstance(work, ArchiveSourceWork):
            raise TypeError(f"{topic} does not come from an archive")
        try:
            groups = await clients.store_threads.look(partial(_read, OpenArchive(work, clients), topic))
        except MirrorlakeError as error:
            found.failures.append(f"the groups of topic {topic} could not be read: {error}")
            continue
        found.warnings += [f"{key} is damaged: an older object was read in its place" for key in groups.damaged]
        for target in theirs:
            _take(target, groups, found)
        if not groups.key:
            found.absent.append(
                f"nothing is archived of consumer groups of topic {topic}: none of its groups could be placed"
            )
        elif not any(target.source in found.groups for target in theirs):
            found.warnings.append(f"no consumer group had committed an offset of topic {topic} when it was archived")
    return found


def _read(archive: OpenArchive, topic: str) -> ArchivedGroups:
    """Returns what is archived of a topic's groups.

    Raises:
        ChainBrokenError: all of it is damaged; that there were no groups does not follow.
        MirrorlakeError: it could not be read.
    """
    groups = read_groups(archive.store, archive.topic(topic).folder)
    if groups.is_unknown:
        are = "is damaged, and no other object is there" if len(groups.damaged) == 1 else "are damaged, all there are"
        raise ChainBrokenError(
            f"{' and '.join(groups.damaged)} {are}",
            hint="put one back from a copy and give the command again; without --groups records alone are restored",
            key=groups.damaged[0],
        )
    return groups


def _take(target: Target, groups: ArchivedGroups, found: FoundGroups) -> None:
    known = groups.partitions.get(target.source.partition)
    if known is None or not known.groups:
        return
    found.groups[target.source] = known.groups
    if known.origin.topic_id and target.topic_id and known.origin.topic_id != target.topic_id:
        found.of_others[target.source] = (
            f"it was committed in a topic of id {known.origin.topic_id}, and the records are of {target.topic_id}"
        )


# -- where groups go on ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Translated:
    """Where the groups of one source partition go on, if it were alone in its destination partition.

    ``is_later``: known only once it is restored. ``has_records``: whether any of its records lie there. ``runs`` are
    where, if its offsets are mapped.
    """

    places: Mapping[str, Translation] = field(default_factory=dict)
    is_later: bool = False
    has_records: bool = True
    runs: Sequence[MappedRun] = ()


async def _places(
    partitions: Sequence[RestoredPartition], found: FoundGroups, client: ClusterClient
) -> tuple[Places, dict[TopicPartition, list[MappedRun]]]:
    """Returns where each group continues, and by destination partition where mapped records lie, of all its sources."""
    sharing: dict[TopicPartition, list[RestoredPartition]] = defaultdict(list)
    for each in partitions:
        sharing[each.target.destination_partition].append(each)
    # Of two thousand partitions groups mostly read a few: the others are not asked about.
    sharing = {place: theirs for place, theirs in sharing.items() if any(_of(found, each) for each in theirs)}
    there = [place for place, theirs in sharing.items() if all(each.planned is None for each in theirs)]
    held = await _held(there, client)
    places: dict[TopicPartition, Mapping[str, Translation | None]] = {}
    runs: dict[TopicPartition, list[MappedRun]] = {}
    for place, theirs in sharing.items():
        translated = {each.target.source: await _translated(each, found, held.get(place), client) for each in theirs}
        runs[place] = [run for each in translated.values() for run in each.runs]
        is_later = any(each.is_later for each in translated.values())
        if len(theirs) == 1 and not is_later:
            (alone,) = translated.values()
            places[place] = alone.places
            continue
        places[place] = {
            group: None if is_later else together(_of_sources(group, translated))
            for group in {group for each in theirs for group in _of(found, each)}
        }
    return places, runs


def _mapped(places: Places, partitions: Sequence[RestoredPartition]) -> Places:
    """Returns the places in partitions whose offsets are mapped: nobody else writes to the others."""
    mapped = {each.target.destination_partition for each in partitions if each.target.is_mapped}
    return {place: groups for place, groups in places.items() if place in mapped}


async def _others(
    places: Places,
    runs: Mapping[TopicPartition, Sequence[MappedRun]],
    standings: Standings,
    client: ClusterClient,
) -> set[tuple[str, TopicPartition]]:
    """Returns the groups that would be moved forward over what may be another writer's records, by partition."""
    looks: dict[tuple[TopicPartition, OffsetRange], bool] = {}
    found: set[tuple[str, TopicPartition]] = set()
    for group, place, translation in (
        (group, place, found) for place, by in places.items() for group, found in by.items()
    ):
        committed = standings[group][place].committed
        if committed is None or not isinstance(translation, Placed) or committed.offset >= translation.offset:
            continue
        key = place, OffsetRange(start_offset=committed.offset, end_offset=translation.offset)
        if runs.get(place) and key not in looks:
            looks[key] = await may_hold_others(client, *key, runs[place])
        if looks.get(key, True):
            found.add((group, place))
    return found


def _of_sources(
    group: str, translated: Mapping[TopicPartition, _Translated]
) -> dict[TopicPartition, Translation | None]:
    """Returns a group's places by source partition: of those that have records there, else of those it has read."""
    with_records = {source: each.places.get(group) for source, each in translated.items() if each.has_records}
    return with_records or {source: each.places[group] for source, each in translated.items() if group in each.places}


async def _translated(
    each: RestoredPartition, found: FoundGroups, held: OffsetRange | MirrorlakeError | None, client: ClusterClient
) -> _Translated:
    target, groups = each.target, _of(found, each)
    if why := each.missing or found.of_others.get(target.source):
        return _Translated(places={group: Unknown(why=why) for group in groups})
    if each.planned is not None:
        if target.is_mapped:
            return _Translated(is_later=True)
        return _Translated(places={group: translate_equal(at.offset, each.planned) for group, at in groups.items()})
    if held is None or isinstance(held, MirrorlakeError):
        unasked = Unknown(why=str(held or "the destination was not asked"))
        return _Translated(places=dict.fromkeys(groups, unasked))
    if not target.is_mapped:
        return _Translated(places={group: translate_equal(at.offset, held) for group, at in groups.items()})
    key = ProgressKey(destination_topic=target.destination_topic, source=target.source)
    try:
        mapping = await read_offset_map(client, target.progress_topics, target.map_shard, key)
    except MirrorlakeError as error:
        return _Translated(places=dict.fromkeys(groups, Unknown(why=str(error))))
    return _Translated(
        places={group: translate_mapped(at.offset, mapping, held) for group, at in groups.items()},
        has_records=mapping is None or bool(mapping.runs),
        runs=mapping.runs if mapping is not None else (),
    )


async def _held(
    places: Sequence[TopicPartition], client: ClusterClient
) -> dict[TopicPartition, OffsetRange | MirrorlakeError]:
    starts = await client.list_offsets(places, timestamp=EARLIEST)
    ends = await client.list_offsets(places, timestamp=LATEST)
    held: dict[TopicPartition, OffsetRange | MirrorlakeError] = {}
    for place in places:
        start, end = starts[place], ends[place]
        if isinstance(start, MirrorlakeError):
            held[place] = start
        elif isinstance(end, MirrorlakeError):
            held[place] = end
        else:
            held[place] = OffsetRange(start_offset=start, end_offset=max(start, end))
    return held


# -- how groups stand there -----------------------------------------------------------------------------


async def _standings(client: ClusterClient, wanted: Mapping[str, Sequence[TopicPartition]]) -> Standings:
    """Returns how groups stand at a cluster, by group and partition.

    A cluster that never had a group has no topic for them, and would make it when asked for a coordinator. One that
    does not tell whether it has it, as this user may not describe it, is asked about the groups.
    """
    cluster = await client.metadata([_OFFSETS_TOPIC], refresh=True)
    if _OFFSETS_TOPIC not in cluster.topics and _OFFSETS_TOPIC not in cluster.errors:
        return {group: dict.fromkeys(places, Standing()) for group, places in wanted.items()}
    listed = (await client.groups.list(cluster.brokers)).groups
    told = await client.groups.states([group for group in wanted if not (group in listed and listed[group].state)])
    committed = await client.groups.offsets(
        {group: list(dict.fromkeys(places)) for group, places in wanted.items()}, is_stable=True
    )
    standings: dict[str, Mapping[TopicPartition, Standing]] = {}
    for group, places in wanted.items():
        state = listed[group].state if group in listed and listed[group].state else told.get(group, "")
        offsets = committed[group]
        if isinstance(state, MirrorlakeError):
            standings[group] = dict.fromkeys(places, Standing(error=state))
        elif isinstance(offsets, MirrorlakeError):
            standings[group] = dict.fromkeys(places, Standing(state=state, error=offsets))
        else:
            nowhere = Standing(state=state)
            standings[group] = {
                place: nowhere if (held := offsets.get(place)) is None else _standing(state, held) for place in places
            }
    return standings


def _standing(state: str, held: CommittedOffset | MirrorlakeError) -> Standing:
    if isinstance(held, MirrorlakeError):
        return Standing(state=state, error=held)
    return Standing(state=state, committed=held)
