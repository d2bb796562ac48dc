"""Builds the sink for each kind of destination."""

from collections.abc import Awaitable, Callable

from mirrorlake.archive.chain import Chain
from mirrorlake.archive.folder import partition_folder
from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.clock import Clock
from mirrorlake.destinations.archive.archived_tail import ArchivedTailCheck
from mirrorlake.destinations.archive.sink import ArchiveSink
from mirrorlake.destinations.interface import PartitionSink
from mirrorlake.destinations.map.mapped_tail import MappedTailCheck
from mirrorlake.destinations.map.sink import MapSink
from mirrorlake.destinations.map.start import find_start
from mirrorlake.destinations.preserve.log_start import LogStart
from mirrorlake.destinations.preserve.look import tail_check_of
from mirrorlake.destinations.preserve.sink import PreserveSink
from mirrorlake.destinations.snapshots.sink import SnapshotSink
from mirrorlake.kafka.control.cluster import LATEST, ClusterClient
from mirrorlake.mirror.connections import LeaseConnections
from mirrorlake.mirror.work import ArchiveWork, DestinationWork, MapWork, PartitionWork
from mirrorlake.stores.opening import open_store


def make_sink(
    work: PartitionWork,
    destination: DestinationWork,
    *,
    connections: LeaseConnections,
    clock: Clock,
    may_begin: Callable[[], bool],
    changed: Callable[[], None],
) -> PartitionSink:
    """Returns the sink of ``destination`` for ``work``'s source partition, not yet opened."""
    if isinstance(destination, ArchiveWork):
        return _archive_sink(
            destination,
            source_client=connections.client(work.cluster),
            read_source_end=lambda: connections.client(work.cluster).offset_at(work.source, LATEST),
            connections=connections,
            clock=clock,
            may_begin=may_begin,
            changed=changed,
        )
    if isinstance(destination, MapWork):
        return MapSink(
            destination.settings,
            shard=connections.shard(destination.cluster, destination.settings),
            client=connections.client(destination.cluster),
            find_start=lambda: find_start(connections.client(work.cluster), work.source, destination.settings.start),
            check_tail=MappedTailCheck(
                connections.client(work.cluster),
                connections.client(destination.cluster),
                source_is_compacted=destination.settings.source_is_compacted,
            ).check,
            clock=clock,
            changed=changed,
        )
    settings = destination.settings
    return PreserveSink(
        settings,
        claims=connections.claims(destination.cluster),
        channel_to=lambda broker: connections.channel(destination.cluster, broker),
        check_tail=tail_check_of(
            settings,
            source_client=connections.client(work.cluster),
            destination_client=connections.client(destination.cluster),
        ).check,
        filler=connections.filler(
            destination.cluster,
            settings.transactional_id,
            handed_on=settings.handed_on.identity if settings.handed_on else None,
        ),
        log_start=LogStart(connections.client(destination.cluster), settings.destination),
        clock=clock,
        fill_from_seconds=connections.started_seconds + settings.fill_wait_seconds,
        changed=changed,
        crash_point=connections.crash_point,
    )


def _archive_sink(
    work: ArchiveWork,
    *,
    source_client: ClusterClient,
    read_source_end: Callable[[], Awaitable[int]],
    connections: LeaseConnections,
    clock: Clock,
    may_begin: Callable[[], bool],
    changed: Callable[[], None],
) -> ArchiveSink | SnapshotSink:
    settings = work.settings
    folder = partition_folder(
        open_store(work.store),
        destination_name=settings.destination_name,
        partition=settings.source.partition,
        extension=extension_of(settings.format),
        are_snapshots=settings.snapshots is not None,
    )

    key = (work.store, folder.prefix)

    def read_end() -> Chain:
        if settings.known_tail is not None:
            return folder.read_end(settings.known_tail)
        return connections.archive_tails.read(folder, key=key)

    if isinstance(folder, SnapshotPartition):
        return SnapshotSink(
            settings,
            folder=folder,
            read_end=read_end,
            read_source_end=read_source_end,
            executor=connections.encoder_thread,
            clock=clock,
            may_begin=may_begin,
            changed=changed,
            crash_point=connections.crash_point,
        )
    return ArchiveSink(
        settings,
        archived=folder,
        read_end=read_end,
        read_newest=lambda tail: connections.archive_tails.newest(folder, tail, key=key),
        read_source_end=read_source_end,
        check_tail=ArchivedTailCheck(
            source_client,
            settings.source,
            folder,
            source_is_compacted=settings.source_is_compacted,
            in_thread=connections.store_threads.look,
        ).check,
        executor=connections.encoder_thread,
        store_threads=connections.store_threads,
        clock=clock,
        may_begin=may_begin,
        changed=changed,
        crash_point=connections.crash_point,
    )
