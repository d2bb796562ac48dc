"""Archives what consumer groups have committed at the source, beside the records, while the service runs.

In a thread of its own with connections of its own: no lease waits for it, and what fails is a warning, counted, and
tried again at the next look. A partition is never parked for it.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import structlog

from mirrorlake.archive.groups.content import ArchivedOffset, PartitionLook, after_look, says_as_much
from mirrorlake.archive.groups.objects import ArchivedGroups, read_groups, record_groups
from mirrorlake.archive.origin import Origin
from mirrorlake.clock import Clock
from mirrorlake.config.resolved import GroupArchiving, KafkaSource
from mirrorlake.errors import MirrorlakeError, PositionMovedError, StoreUnavailableError
from mirrorlake.groups.reading import NO_GROUPS, GroupsRead
from mirrorlake.groups.reading import read_groups as read_committed
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import CommittedOffset
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.repeated import RepeatedInThread
from mirrorlake.service.archive_markers import RECORDS_AT_ONCE, ArchiveMarkers
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")

LOOK_SECONDS = 1.0
"""How often it is asked whether a look is due; the shortest interval there is."""

CLOCKS_APART_MS_MAX = 60_000
"""Two processes of one mirror may be so far apart and race; more is a clock that is wrong."""

LAST_LOOK_SECONDS_MAX = 10.0
"""A source or store that does not answer for so long at a stop leaves the archive with the look before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """The folder of a topic in a store."""

    store: StoreSettings
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One question to a cluster: for one destination of one mirror."""

    mirror: str
    destination: str
    cluster: ClusterSettings
    settings: GroupArchiving


class GroupArchive:
    """The groups of everything a run archives. Several threads may call it.

    Args:
        markers: knows whether a root is still the archive it was.
        metrics: told what was archived, and what failed.
        writer: names this process in the objects.
        clock: dates what is seen.
    """

    def __init__(self, markers: ArchiveMarkers, metrics: Metrics, *, writer: str, clock: Clock) -> None:
        self._markers = markers
        self._metrics = metrics
        self._writer = writer
        self._clock = clock
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._followed: dict[_Asked, dict[TopicPartition, Target]] = defaultdict(dict)
        self._looked_at: dict[_Asked, float] = {}
        self._recorded: dict[_Folder, ArchivedGroups] = {}
        self._said: dict[_Asked, frozenset[str]] = {}

    @property
    def is_asked_for(self) -> bool:
        """True where groups of something that was followed are to be archived."""
        with self._lock:
            return bool(self._followed)

    def follow(self, pairs: Sequence[tuple[Target, PartitionState]]) -> None:
        """Takes archived partitions; those whose groups are not asked for, or that cannot begin, are passed over."""
        with self._lock:
            for target, state in pairs:
                source, groups = target.mirror.source, target.archive.groups
                if state.error is not None or groups is None or not isinstance(source, KafkaSource):
                    continue
                asked = _Asked(
                    mirror=target.mirror.name,
                    destination=target.destination.label,
                    cluster=source.cluster.settings,
                    settings=groups,
                )
                self._followed[asked][target.source] = target

    def look(self, *, is_last: bool = False) -> None:
        """Looks at the groups that are due, all of them where it is the last look, and records what is new."""
        with self._looking:
            now = self._clock.elapsed_seconds()
            with self._lock:
                due = {
                    asked: dict(targets)
                    for asked, targets in self._followed.items()
                    if is_last or now - self._looked_at.get(asked, float("-inf")) >= asked.settings.interval_seconds
                }
            for asked, targets in due.items():
                self._looked_at[asked] = now
                self._look(asked, targets)

    def look_once_more(self) -> None:
        """Takes the last look of a run, for `LAST_LOOK_SECONDS_MAX` at most."""
        if not self.is_asked_for:
            return
        last = threading.Thread(target=partial(self.look, is_last=True), name="group-archive", daemon=True)
        last.start()
        last.join(LAST_LOOK_SECONDS_MAX)
        if last.is_alive():
            _log.warning(
                "consumer groups were not archived at the end",
                hint="the archive has what they had committed at the look before",
            )

    def _look(self, asked: _Asked, targets: Mapping[TopicPartition, Target]) -> None:
        read_at_ms = int(self._clock.now_seconds() * 1000)
        failures: dict[str, MirrorlakeError] = {}
        folders = self._folders(targets, failures)
        known = {
            each: {*groups.groups}
            for folder, theirs in folders.items()
            for each in theirs
            if (groups := self._recorded[folder].partitions.get(each.partition)) is not None
        }
        if folders:
            try:
                partitions = [each for theirs in folders.values() for each in theirs]
                found, is_there = asyncio.run(_ask(asked, partitions, known, targets))
            except MirrorlakeError as error:
                failures[f"cluster {asked.cluster.name}"] = error
            else:
                failures.update(found.errors)
                failures.update(self._from_later(folders, read_at_ms))
                looks = {
                    folder: {
                        each.partition: _look_of(target, found, each, read_at_ms)
                        for each, target in theirs.items()
                        if each in is_there
                    }
                    for folder, theirs in folders.items()
                }
                self._record(looks, failures)
        self._say(asked, failures)

    def _folders(
        self, targets: Mapping[TopicPartition, Target], failures: dict[str, MirrorlakeError]
    ) -> dict[_Folder, dict[TopicPartition, Target]]:
        """Returns the partitions by folder, those of roots that are there and of which is known what is recorded."""
        if not all(self._markers.archive_id(target.archive.store.settings) for target in targets.values()):
            self._markers.update()
        gone = self._markers.gone_roots()
        folders: dict[_Folder, dict[TopicPartition, Target]] = defaultdict(dict)
        for partition, target in targets.items():
            folder = _Folder(store=target.archive.store.settings, name=target.destination_topic)
            folders[folder][partition] = target
        usable = {}
        for folder, theirs in folders.items():
            try:
                if error := gone.get(folder.store):
                    raise error
                if not self._markers.archive_id(folder.store):
                    raise StoreUnavailableError(
                        f"{folder.store.where('')} has no marker yet that says which archive it is"
                    )
                if folder not in self._recorded:
                    self._recorded[folder] = read_groups(open_store(folder.store), folder.name)
            except MirrorlakeError as error:
                failures[f"store {folder.store.where(folder.name)}"] = error
            else:
                usable[folder] = theirs
        return usable

    def _from_later(
        self, folders: Mapping[_Folder, Mapping[TopicPartition, Target]], read_at_ms: int
    ) -> dict[str, MirrorlakeError]:
        """Returns an error for each folder that was written at a time yet to come: this look is older, and lost."""
        errors: dict[str, MirrorlakeError] = {}
        for folder in folders:
            latest_ms = max((each.read_at_ms for each in self._recorded[folder].partitions.values()), default=0)
            if latest_ms - read_at_ms > CLOCKS_APART_MS_MAX:
                errors[f"clock, {folder.store.where(folder.name)}"] = PositionMovedError(
                    f"the groups of {folder.name} were archived {(latest_ms - read_at_ms) / 1000:.0f} s after now, by "
                    "this clock",
                    hint="set the clocks of all hosts that archive there; until then these groups are not archived",
                )
        return errors

    def _record(
        self, looks: Mapping[_Folder, Mapping[int, PartitionLook]], failures: dict[str, MirrorlakeError]
    ) -> None:
        new = {folder: theirs for folder, theirs in looks.items() if self._says_more(folder, theirs)}
        gone = self._markers.gone_roots() if new else {}

        def record(folder: _Folder) -> ArchivedGroups | MirrorlakeError:
            try:
                if error := gone.get(folder.store):
                    raise error
                return record_groups(open_store(folder.store), folder.name, new[folder], writer=self._writer)
            except MirrorlakeError as error:
                return error

        with ThreadPoolExecutor(RECORDS_AT_ONCE, thread_name_prefix="group-archive") as pool:
            for folder, done in zip(new, pool.map(record, new), strict=True):
                if isinstance(done, MirrorlakeError):
                    self._recorded.pop(folder, None)
                    failures[f"store {folder.store.where(folder.name)}"] = done
                else:
                    self._recorded[folder] = done

    def _says_more(self, folder: _Folder, looks: Mapping[int, PartitionLook]) -> bool:
        known = self._recorded[folder].partitions
        now = {number: after_look(known.get(number), look) for number, look in looks.items()}
        return not says_as_much(
            {number: each for number, each in now.items() if each.groups or number in known},
            {number: each for number, each in known.items() if number in now},
        )

    def _say(self, asked: _Asked, failures: Mapping[str, MirrorlakeError]) -> None:
        """Counts what failed, and says it once until it changes."""
        if failed := len(failures.keys() - {NO_GROUPS}):
            self._metrics.groups_not_archived(asked.mirror, asked.destination, failed)
        else:
            self._metrics.groups_archived(asked.mirror, asked.destination, now_seconds=self._clock.now_seconds())
        said = self._said.get(asked, frozenset())
        for what, error in failures.items():
            if what not in said:
                _log.warning(
                    "consumer groups could not be archived, and are tried again",
                    name=asked.mirror,
                    destination=asked.destination,
                    what=what,
                    error=str(error),
                )
        if said and not failures:
            _log.info("consumer groups are archived again", name=asked.mirror, destination=asked.destination)
        self._said[asked] = frozenset(failures)


async def _ask(
    asked: _Asked,
    partitions: Sequence[TopicPartition],
    known: Mapping[TopicPartition, set[str]],
    targets: Mapping[TopicPartition, Target],
) -> tuple[GroupsRead, set[TopicPartition]]:
    """Returns what was found, and of which partitions it holds: those whose topic is the one that is archived."""
    async with ClusterClient(asked.cluster) as client:
        found = await read_committed(client, asked.settings.selection, partitions, known)
        # After the offsets: what was read of a topic that is another one now is of neither.
        topics = (await client.metadata(sorted({each.topic for each in partitions}), refresh=True)).topics
    ids = {name: topic.topic_id for name, topic in topics.items()}
    return found, {each for each in partitions if _is_same(ids.get(each.topic), targets[each].topic_id)}


def _is_same(topic_id: str | None, archived_id: str) -> bool:
    """Tells whether a topic is the one that is archived; None is one that is not there, empty an id not known."""
    return topic_id is not None and (not topic_id or not archived_id or topic_id == archived_id)


def _look_of(target: Target, found: GroupsRead, partition: TopicPartition, read_at_ms: int) -> PartitionLook:
    return PartitionLook(
        origin=Origin(
            cluster_id=target.source_cluster_id,
            topic=partition.topic,
            topic_id=target.topic_id or None,
            partition=partition.partition,
        ),
        read_at_ms=read_at_ms,
        committed={group: _archived(committed, read_at_ms) for group, committed in found.committed[partition].items()},
        none=found.none[partition],
    )


def _archived(committed: CommittedOffset, seen_at_ms: int) -> ArchivedOffset:
    return ArchivedOffset(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        seen_at_ms=seen_at_ms,
    )


class GroupWatch(RepeatedInThread):
    """Looks at groups as often as their destinations say, in a thread. Use as a context manager.

    Args:
        archive: of the run.
    """

    def __init__(self, archive: GroupArchive) -> None:
        super().__init__("group-archive", seconds=LOOK_SECONDS)
        self._archive = archive

    def __exit__(self, *_: object) -> None:
        """Ends; a round that is under way is left alone, as leases wait for the end of this block."""
        self._is_over.set()
        self._is_woken.set()

    def _round(self) -> None:
        if self._archive.is_asked_for:
            self._archive.look()
