"""Builds the sink for each kind of destination."""

from collections.abc import Callable

from mirrorlake.archive.formats.registry import extension_of
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import Clock
from mirrorlake.destinations.archive import ArchiveSink
from mirrorlake.destinations.interface import PartitionSink
from mirrorlake.destinations.kafka_map import MapSink
from mirrorlake.destinations.kafka_preserve import PreserveSink
from mirrorlake.destinations.log_start import LogStart
from mirrorlake.destinations.map_start import find_start
from mirrorlake.destinations.tail_check import TailCheck
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
        archived = ArchivedPartition(
            open_store(destination.store),
            destination_name=destination.settings.destination_name,
            partition=destination.settings.source.partition,
            extension=extension_of(destination.settings.format),
        )
        key = (destination.store, archived.prefix)
        tail = destination.settings.known_tail
        return ArchiveSink(
            destination.settings,
            archived=archived,
            read_end=lambda: (
                connections.archive_tails.read(archived, key=key) if tail is None else archived.read_end(tail)
            ),
            executor=connections.encoder_thread,
            clock=clock,
            may_begin=may_begin,
            changed=changed,
            crash_point=connections.crash_point,
        )
    if isinstance(destination, MapWork):
        return MapSink(
            destination.settings,
            shard=connections.shard(destination.cluster, destination.settings),
            client=connections.client(destination.cluster),
            find_start=lambda: find_start(connections.client(work.cluster), work.source, destination.settings.start),
            clock=clock,
            changed=changed,
        )
    settings = destination.settings
    return PreserveSink(
        settings,
        claims=connections.claims(destination.cluster),
        channel_to=lambda broker: connections.channel(destination.cluster, broker),
        check_tail=TailCheck(
            connections.client(work.cluster),
            settings.source,
            connections.client(destination.cluster),
            settings.destination,
            source_is_compacted=settings.source_is_compacted,
            destination_is_compacted=settings.destination_is_compacted,
            compares_timestamps=settings.keeps_log_append_time,
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
