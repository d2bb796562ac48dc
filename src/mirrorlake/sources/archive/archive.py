"""An archive, open in one process: what it is, where its topics lie, and what its partitions' folders hold."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from mirrorlake.archive.layouts.registry import seen_as
from mirrorlake.archive.looks import LOOKS_MAX, moved
from mirrorlake.archive.names import partition_prefix
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.connections import Clients
from mirrorlake.errors import MirrorlakeError, RangeUnknownError
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.archive.folder import FolderView, SourceFolder
from mirrorlake.sources.archive.identity import TopicFolder, check_archive, check_partition, topic_folder
from mirrorlake.stores.object_store import ObjectMissingError, ObjectStore
from mirrorlake.stores.opening import open_store

if TYPE_CHECKING:
    from mirrorlake.sources.archive.work import ArchiveSourceWork

T = TypeVar("T")

TOPIC_SECONDS = 15.0
"""How long a question about bounds believes what was read of where a topic lies; readers of a lease read it anew."""


@dataclass
class Folders:
    """What this worker saw of a store; a cache only.

    ``by_prefix`` has the folders by their names and whether holes in them are crossed, as mirrors may differ in it.
    ``topics`` are where topics lie, by what was asked, with the reading of the clock when it was.
    """

    by_prefix: dict[tuple[str, bool], SourceFolder] = field(default_factory=dict)
    topics: dict[Hashable, tuple[float, TopicFolder]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One partition as it was found: its topic's folder, its own, and what that holds, within what is selected."""

    archive_id: str
    topic: TopicFolder
    folder: SourceFolder
    view: FolderView
    start: int
    end: int

    @property
    def is_cut_short(self) -> bool:
        """True where it ends before something that is missing, or that does not follow."""
        return self.end >= self.view.end and (self.view.hole is not None or self.view.overlap is not None)

    def missing_below(self, position: int, now_seconds: float) -> MirrorlakeError | None:
        """Returns what keeps all below a position from being shown that was there once; None where nothing does.

        A copy that stands behind a hole is not past the archive's end: what it holds was archived.

        Args:
            position: of the copy.
            now_seconds: the wall clock, in Unix seconds.
        """
        if position <= self.end or not self.is_cut_short:
            return None
        hole = self.view.hole
        return hole.error(now_seconds) if hole is not None else self.view.overlap


class OpenArchive:
    """An archive, as one lease or one question of the driver sees it: identity and topics are asked once.

    Blocking, but for `find`; called in threads.

    Args:
        work: which, and what of it.
        clients: of the worker, which has the threads and keeps what was seen.
        topic_seconds: how old what is known of where a topic lies may be.
    """

    def __init__(self, work: "ArchiveSourceWork", clients: Clients, *, topic_seconds: float = 0.0) -> None:
        self.work = work
        self.store: ObjectStore = seen_as(work.layout, open_store(work.store))
        self._threads = clients.store_threads
        self._folders = clients.kept(("archive source", work.store, work.layout), Folders)
        self._topics: dict[str, TopicFolder] = {}
        self._topic_seconds = topic_seconds
        self._clock = SystemClock()
        self._archive_id: str | None = None

    def archive_id(self) -> str:
        """Returns the archive's id; see `check_archive`."""
        if self._archive_id is None:
            self._archive_id = check_archive(self.store, archive_id=self.work.archive_id, place=self.work.place)
        return self._archive_id

    def topic(self, name: str) -> TopicFolder:
        """Returns where a topic lies, read once; see `topic_folder`."""
        self.archive_id()
        if name not in self._topics:
            work, now = self.work, self._clock.elapsed_seconds()
            key = (work.folder, work.folders.get(name), work.generation, name)
            read, found = self._folders.topics.get(key, (now, None))
            if found is None or now - read >= self._topic_seconds:
                found = topic_folder(
                    self.store, name, folder=work.folder, given=work.folders, generation=work.generation
                )
                self._folders.topics[key] = now, found
            self._topics[name] = found
        return self._topics[name]

    def look(self, partition: TopicPartition, *, topic_id: str = "", is_whole: bool = False) -> Found:
        """Looks at a partition.

        Raises:
            TopicMissingError, TopicRecreatedError, ChainBrokenError: see `check_partition` and `SourceFolder.look`.
            SourceAbsentError: see `check_archive`.
            OtherSourceError: the snapshot that is meant is gone.
            RangeUnknownError: what may be read of it is not known yet.
            MirrorlakeError: the store could not be read.
        """
        topic = self.topic(partition.topic)
        number = partition.partition
        check_partition(topic, partition, topic_id=topic_id, store=self.store, label=self.work.label, is_empty=False)
        chosen = self.work.range_of(partition)
        folder = self._folder(partition_prefix(topic.folder, number))
        view = folder.look(
            holds_snapshots=topic.holds_snapshots,
            reached=topic.reached(number),
            is_whole=is_whole,
            snapshot=chosen.snapshot,
        )
        is_empty = view.snapshot is None and view.chain.is_bare and not view.chain.floor
        check_partition(topic, partition, topic_id=topic_id, store=self.store, label=self.work.label, is_empty=is_empty)
        if view.snapshot is not None and chosen.snapshot is None and self.work.pins_snapshots:
            raise RangeUnknownError(
                f"which snapshot of {partition} of {self.work.label} is copied is not known yet: nothing of it is read",
                hint="the archive is looked at again",
                topic=partition.topic,
                partition=partition.partition,
            )
        start = chosen.start(view.start)
        return Found(
            archive_id=self.archive_id(),
            topic=topic,
            folder=folder,
            view=view,
            start=start,
            end=max(start, chosen.end(view.end)),
        )

    async def find(self, partition: TopicPartition, *, topic_id: str = "", is_whole: bool = False) -> Found:
        """Looks at a partition in a thread; see `look`."""
        return await self._threads.look(lambda: self.look(partition, topic_id=topic_id, is_whole=is_whole))

    def ask(self, partition: TopicPartition, question: Callable[[Found], T], *, topic_id: str = "") -> T:
        """Returns what ``question`` finds in the segments of a partition.

        What this worker knows of a folder is brought up to date from its last segment on, so it may name segments that
        were merged or retired since: where one is gone that the question opens, all of the folder is listed anew, and
        it is asked once more.

        Raises:
            PositionMovedError: segments go faster than they can be looked at; try again.
            MirrorlakeError: see `look`; or what the question raises.
        """
        is_whole = False
        for _ in range(LOOKS_MAX):
            found = self.look(partition, topic_id=topic_id, is_whole=is_whole)
            try:
                return question(found)
            except ObjectMissingError:
                is_whole = True
        raise moved(str(partition))

    def _folder(self, prefix: str) -> SourceFolder:
        crosses = self.work.skip_after_seconds is not None
        known = self._folders.by_prefix.get((prefix, crosses))
        if known is None:
            made = SourceFolder(self.store, prefix, clock=self._clock, crosses_holes=crosses)
            known = self._folders.by_prefix.setdefault((prefix, crosses), made)
        return known
