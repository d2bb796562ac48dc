"""One archive destination of one source partition that is due."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from mirrorlake.archive.chain import Chain
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.archive.root_marker import ROOT_MARKER, check_root
from mirrorlake.destinations.archive.archived_tail import ArchivedTailCheck
from mirrorlake.destinations.archive.sink import ArchiveSettings, ArchiveSink
from mirrorlake.destinations.interface import PartitionSink
from mirrorlake.destinations.work import DestinationWork, SinkContext
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import StoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveWork(DestinationWork):
    """One archive destination of one source partition that is due."""

    is_live: ClassVar[bool] = False

    store: StoreSettings
    settings: ArchiveSettings

    @property
    def skips_truncated(self) -> bool:
        """Whether the archive may go on at the source's log start where that has moved past the position."""
        return self.settings.skips_truncated

    def make_sink(self, context: SinkContext) -> PartitionSink:
        """Returns the sink."""
        settings, connections = self.settings, context.connections
        folder = ArchivedPartition(
            open_store(self.store),
            destination_name=settings.destination_name,
            partition=settings.source.partition,
            extension=extension_of(settings.format),
        )
        return ArchiveSink(
            settings,
            self.orders,
            archived=folder,
            read_end=self.end_reader(folder, context),
            read_newest=lambda tail: connections.archive_tails.newest(folder, tail, key=(self.store, folder.prefix)),
            read_source_end=context.source_log.end,
            check_tail=ArchivedTailCheck(
                context.source_log,
                folder,
                source_is_compacted=settings.source_is_compacted,
                projects=settings.projects,
                in_thread=connections.store_threads.look,
            ).check,
            executor=connections.encoder_thread,
            store_threads=connections.store_threads,
            clock=context.clock,
            may_begin=context.may_begin,
            changed=context.changed,
            crash_point=connections.crash_point,
        )

    def end_reader(self, folder: PartitionFolder, context: SinkContext) -> Callable[[], Chain]:
        """Returns what lists the end of the folder: from the segment known on, or from where this worker saw it end.

        A folder without any segment may be one below a mount point: then the root's marker is looked at.
        """

        def read_end() -> Chain:
            if self.orders.known_tail is not None:
                return folder.read_end(self.orders.known_tail)
            chain = context.connections.archive_tails.read(folder, key=(self.store, folder.prefix))
            if chain.tail is None and self.orders.archive_id:
                check_root(folder.store, self.orders.archive_id, where=self.store.where(ROOT_MARKER))
            return chain

        return read_end
