"""Archives what consumer groups have committed at the source, beside the records, while the service runs."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mirrorlake.archive.groups.content import ArchivedOffset, PartitionLook, after_look, says_as_much
from mirrorlake.archive.groups.objects import ArchivedGroups, read_groups, record_groups
from mirrorlake.archive.origin import Origin
from mirrorlake.clock import Clock
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.errors import MirrorlakeError, PositionMovedError, StoreUnavailableError
from mirrorlake.groups.reading import NO_GROUPS, GroupsRead, read_groups_of_topics
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import CommittedOffset
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.archive_markers import RECORDS_AT_ONCE, ArchiveMarkers
from mirrorlake.service.groups.looks import Failures, GroupLooks, Way
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.metrics import Metrics
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.topics.targets import Target

CLOCKS_APART_MS_MAX = 60_000
"""Two processes of one mirror may be so far apart and race; more is a clock that is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """The folder of a topic in a store."""

    store: StoreSettings
    name: str


class GroupArchive(GroupLooks[Target]):
    """The groups of everything a run archives. Several threads may call it.

    Args:
        markers: knows whether a root is still the archive it was.
        metrics: told what was archived, and what failed.
        writer: names this process in the objects.
        clock: dates what is seen.
    """

    def __init__(self, markers: ArchiveMarkers, metrics: Metrics, *, writer: str, clock: Clock) -> None:
        super().__init__("group-archive", done="archived", clock=clock)
        self._markers = markers
        self._metrics = metrics
        self._writer = writer
        self._recorded: dict[_Folder, ArchivedGroups] = {}

    def follow(self, pairs: Sequence[tuple[Target, PartitionState]]) -> None:
        """Takes archived partitions; those whose groups are not asked for, or that cannot begin, are passed over."""
        for target, state in pairs:
            source, groups = target.mirror.source, target.archive.groups
            if state.error is not None or groups is None or not isinstance(source, KafkaSource):
                continue
            way = Way(
                mirror=target.mirror.name,
                destination=target.destination.label,
                cluster=source.cluster.settings,
                settings=groups,
            )
            self._follow(way, target.source, target)

    def _look(self, way: Way, followed: Mapping[TopicPartition, Target]) -> Failures:
        read_at_ms = int(self._clock.now_seconds() * 1000)
        failures: dict[str, MirrorlakeError] = {}
        folders = self._folders(followed, failures)
        known = {
            each: {*groups.groups}
            for folder, theirs in folders.items()
            for each in theirs
            if (groups := self._recorded[folder].partitions.get(each.partition)) is not None
        }
        if folders:
            try:
                ids = {each: target.topic_id for theirs in folders.values() for each, target in theirs.items()}
                found, is_there = asyncio.run(_ask(way, ids, known))
            except MirrorlakeError as error:
                failures[f"cluster {way.cluster.name}"] = error
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
        if failed := len(failures.keys() - {NO_GROUPS}):
            self._metrics.groups_not_archived(way.mirror, way.destination, failed)
        else:
            self._metrics.groups_archived(way.mirror, way.destination, now_seconds=self._clock.now_seconds())
        return failures

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


async def _ask(
    way: Way, topic_ids: Mapping[TopicPartition, str], known: Mapping[TopicPartition, set[str]]
) -> tuple[GroupsRead, set[TopicPartition]]:
    async with ClusterClient(way.cluster) as client:
        return await read_groups_of_topics(client, way.settings.selection, topic_ids, known)


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
