"""Writes what an archive's markers say, as far as a run has seen it, and asks them what should be there.

At the start, whenever the drift watch has gone round, and at the end: a partition that got its first segment since is
recorded then. How far partitions have come is recorded at the start and at the end, once an hour where they have got
on, and at once where one was parked: what is lost at an archive's end shows by that alone. A marker that cannot be
written is a warning; nothing waits for it.

A root whose marker was seen keeps it: should it be gone, or another one be there, the file system is not the one that
was mounted at the start, and nothing more may be written there.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.archive.root_marker import ROOT_MARKER, check_root, ensure_root_marker
from mirrorlake.archive.topic_record import TopicRecord, record_topic, renew_positions
from mirrorlake.clock import Clock
from mirrorlake.config.destinations.archive import Compaction
from mirrorlake.errors import MirrorlakeError, PermanentError
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")

RECORDS_AT_ONCE = 8
"""Topics looked at side by side: enough to hide an object store's latency."""

RENEWED_SECONDS = 3600.0
"""How old what is recorded of positions may get while partitions get on: a small object each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """The folder of a topic in a store."""

    store: StoreSettings
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorded:
    """What this process has seen to be recorded of a folder: positions by partition, and the clock's reading then."""

    reached: Mapping[int, int]
    at_seconds: float


class ArchiveMarkers:
    """The markers of all archives a run writes to. Several threads may call it.

    Args:
        writer: names this process in them.
        clock: dates them.
    """

    def __init__(self, *, writer: str, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._followed: dict[_Folder, dict[int, tuple[Target, PartitionState]]] = {}
        self._recorded: dict[_Folder, _Recorded] = {}
        self._archive_ids: dict[StoreSettings, str] = {}

    def gone_roots(self) -> dict[StoreSettings, MirrorlakeError]:
        """Returns the stores whose root is not the archive any more that was there before, each with its error.

        A store that does not answer is not among them.
        """
        with self._lock:
            known = list(self._archive_ids.items())
        gone: dict[StoreSettings, MirrorlakeError] = {}
        for store, archive_id in known:
            try:
                check_root(open_store(store), archive_id, where=store.where(ROOT_MARKER))
            except PermanentError as error:
                gone[store] = error
            except MirrorlakeError:
                continue
        return gone

    def archive_id(self, store: StoreSettings) -> str:
        """Returns the id of the archive that was seen in a root; empty where none was yet."""
        with self._lock:
            return self._archive_ids.get(store, "")

    def follow(self, pairs: Sequence[tuple[Target, PartitionState]]) -> None:
        """Takes archived partitions: what was found of them, and what they get from now on, is for `update`."""
        with self._lock:
            for target, state in pairs:
                if state.error is not None:
                    continue
                folder = _Folder(store=target.archive.store.settings, name=target.destination_topic)
                self._followed.setdefault(folder, {})[target.source.partition] = (target, state)
                self._recorded.pop(folder, None)

    def update(self) -> None:
        """Records what is new, and partitions that have got their first segment since they were last looked at."""
        self._update(renewed_seconds=RENEWED_SECONDS)

    def leave(self) -> None:
        """Does as `update`, and records how far all partitions have come: nobody may look before something is lost."""
        self._update(renewed_seconds=0.0)

    def _update(self, *, renewed_seconds: float) -> None:
        with self._writing:
            due = self._due(renewed_seconds)
            usable = {store for store in {folder.store for folder, _, _ in due} if self._has_its_root(store)}
            with ThreadPoolExecutor(RECORDS_AT_ONCE, thread_name_prefix="archive-markers") as pool:
                list(pool.map(lambda each: self._record(*each), [each for each in due if each[0].store in usable]))

    def _due(self, renewed_seconds: float) -> list[tuple[_Folder, Target, dict[int, int]]]:
        with self._lock:
            due = []
            for folder, partitions in self._followed.items():
                reached = {number: state.position for number, (_, state) in partitions.items() if state.position}
                parked = {number for number, (_, state) in partitions.items() if state.is_parked}
                if self._is_due(folder, reached, parked, renewed_seconds):
                    target, _ = next(iter(partitions.values()))
                    due.append((folder, target, reached))
            return due

    def _is_due(
        self, folder: _Folder, reached: Mapping[int, int], parked: Collection[int], renewed_seconds: float
    ) -> bool:
        recorded = self._recorded.get(folder)
        if recorded is None or recorded.reached.keys() != reached.keys():
            return True
        further = {number for number, position in reached.items() if position > recorded.reached[number]}
        # What has parked it may be the loss of what is not recorded yet, and the next process sees less than this one.
        is_old = self._clock.elapsed_seconds() - recorded.at_seconds >= renewed_seconds
        return bool(further) and (is_old or not further.isdisjoint(parked))

    def _has_its_root(self, store: StoreSettings) -> bool:
        """Tells whether a root may be written to: it is marked as it was before, or marked now."""
        try:
            if archive_id := self._archive_ids.get(store):
                check_root(open_store(store), archive_id, where=store.where(ROOT_MARKER))
            else:
                now_seconds = self._clock.now_seconds()
                marker = ensure_root_marker(open_store(store), writer=self._writer, now_seconds=now_seconds)
                with self._lock:
                    self._archive_ids[store] = marker.archive_id
        except MirrorlakeError as error:
            _log.warning("the archive could not be marked", path=store.where(""), error=str(error))
            return False
        return True

    def _record(self, folder: _Folder, target: Target, reached: Mapping[int, int]) -> None:
        seen = TopicRecord(
            cluster_id=target.source_cluster_id,
            topic=target.source.topic,
            topic_id=target.topic_id or None,
            partitions=target.source_partitions,
            format=extension_of(target.archive.format.value),
            holds_snapshots=target.archive.compaction is Compaction.LOG,
            configs=dict(sorted(target.source_configs.items())),
            reached=reached,
            writer=self._writer,
        )
        store, now_seconds = open_store(folder.store), self._clock.now_seconds()
        with self._lock:
            recorded = self._recorded.get(folder)
        try:
            # Only where it is new to this process: somebody may have deleted it, or the folder be gone, since.
            is_new = recorded is None or recorded.reached.keys() != reached.keys()
            known = record_topic(store, folder.name, seen, now_seconds=now_seconds) if is_new else None
            if known is None or not known.covers(reached):
                renew_positions(store, folder.name, seen, now_seconds=now_seconds)
        except MirrorlakeError as error:
            where = folder.store.where(folder.name)
            _log.warning("the archive's topic record could not be written", path=where, error=str(error))
            return
        with self._lock:
            self._recorded[folder] = _Recorded(reached=reached, at_seconds=self._clock.elapsed_seconds())
