"""One destination of one source partition that holds snapshots, and is due."""

from dataclasses import dataclass
from typing import ClassVar

from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.snapshots.sink import SnapshotSink
from mirrorlake.destinations.work import SinkContext
from mirrorlake.stores.opening import open_store


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWork(ArchiveWork):
    """An archive whose segments are snapshots: the latest record of every key up to an offset."""

    has_view: ClassVar[bool] = True

    seconds_past_sends: ClassVar[float] = 1800.0
    """Its view is written whole, and the log may be read from its start."""

    def make_sink(self, context: SinkContext) -> SnapshotSink:
        """Returns the sink."""
        settings, connections = self.settings, context.connections
        folder = SnapshotPartition(
            open_store(self.store),
            destination_name=settings.destination_name,
            partition=settings.source.partition,
            extension=extension_of(settings.format),
        )
        return SnapshotSink(
            settings,
            self.orders,
            folder=folder,
            read_end=self.end_reader(folder, context),
            read_source_end=context.source_log.end,
            executor=connections.encoder_thread,
            clock=context.clock,
            may_begin=context.may_begin,
            changed=context.changed,
            crash_point=connections.crash_point,
        )
