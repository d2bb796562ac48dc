"""Turns targets into the states a supervisor serves: what a lease needs to know, and what is known at the start."""

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType

import structlog

from mirrorlake.archive.chain import Chain, Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.folder import PartitionFolder, partition_folder
from mirrorlake.archive.formats.registry import extension_of, open_segment
from mirrorlake.archive.newest import check_kind
from mirrorlake.archive.origin import Origin, check_origin
from mirrorlake.archive.root_marker import read_root_marker
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, check_described, sidecar_folder, sidecar_key
from mirrorlake.archive.snapshots.tombstones import SnapshotRule, snapshot_rule
from mirrorlake.archive.topic_record import check_is_new
from mirrorlake.config.resolved import (
    ArchiveDestination,
    Compaction,
    KafkaDestination,
    LostTailPolicy,
    OffsetMode,
    RecreationPolicy,
    TimestampMode,
    TruncationPolicy,
)
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.map.settings import MapSettings, map_transactional_id
from mirrorlake.destinations.preserve.settings import PreserveSettings
from mirrorlake.destinations.record_clock import CREATE_TIME, TIMESTAMP_TYPE
from mirrorlake.errors import MirrorlakeError, UnsupportedError
from mirrorlake.mirror.due import FlushRule
from mirrorlake.mirror.flush_clock import FlushClock
from mirrorlake.mirror.lineage import SourceMark
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.mirror.work import ArchiveWork, DestinationWork, KafkaWork, MapWork
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings, StoreSettings
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")

LISTINGS_AT_ONCE = 8


def writer_name() -> str:
    """Returns what this process calls itself in claims and files: host and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


def state_of(target: Target, *, writer: str) -> PartitionState:
    """Returns the state of a target as far as the configuration and the clusters' metadata say it."""
    state = PartitionState(
        mirror=target.mirror.name,
        source=target.source,
        shard=target.shard,
        work=_work(target, writer),
        topic_id=target.topic_id,
        rule=_rule(target),
        flush_clock=_flush_clock(target),
    )
    if target.error is not None:
        state.error = target.error
        state.was_refused = True
        state.is_parked = between_leases(target.error) is Decision.PARK
    return state


def _stamps_times(target: Target, destination: KafkaDestination) -> bool:
    """True where records get the time of their copying from us, because their topic keeps what it is given."""
    is_asked = destination.timestamp_mode is TimestampMode.DESTINATION
    return is_asked and (target.destination_configs.get(TIMESTAMP_TYPE) or CREATE_TIME) == CREATE_TIME


def _map_work(target: Target, destination: KafkaDestination) -> MapWork:
    shard = target.map_shard
    return MapWork(
        destination=destination.label,
        cluster=destination.cluster.settings,
        settings=MapSettings(
            source=target.source,
            destination=target.destination_partition,
            topics=target.progress_topics,
            shard=shard,
            transactional_id=map_transactional_id(target.mirror.name, shard),
            source_cluster_id=target.source_cluster_id,
            source_topic_id=target.topic_id,
            batch_bytes_max=target.batch_bytes_max,
            start=target.map_start,
            skips_truncated=target.mirror.on_truncation is TruncationPolicy.SKIP,
            restarts_recreated=target.mirror.on_recreate is RecreationPolicy.RESTART,
            own_producer_ids=target.own_producer_ids,
            copies_lost_again=target.mirror.on_lost_tail is LostTailPolicy.COPY_AGAIN,
            keeps_log_append_time=destination.timestamp_mode is TimestampMode.SOURCE,
            stamps_times=_stamps_times(target, destination),
            source_is_compacted=target.source_is_compacted,
        ),
    )


def _work(target: Target, writer: str) -> DestinationWork:
    destination = target.destination
    if isinstance(destination, KafkaDestination) and destination.offsets is OffsetMode.MAP:
        return _map_work(target, destination)
    if isinstance(destination, KafkaDestination):
        return KafkaWork(
            destination=destination.label,
            cluster=destination.cluster.settings,
            settings=PreserveSettings(
                source=target.source,
                destination=target.destination_partition,
                transactional_id=target.transactional_id,
                batch_bytes_max=target.batch_bytes_max,
                needs_tail_check=True,
                gap_fill=destination.gap_fill,
                gap_fill_offsets_max=destination.gap_fill_offsets_max,
                skips_truncated=target.mirror.on_truncation is TruncationPolicy.SKIP,
                source_is_compacted=target.source_is_compacted,
                destination_is_compacted=target.destination_is_compacted,
                keeps_log_append_time=destination.timestamp_mode is TimestampMode.SOURCE,
                stamps_times=_stamps_times(target, destination),
            ),
        )
    return ArchiveWork(
        destination=destination.label,
        store=destination.store.settings,
        settings=ArchiveSettings(
            source=target.source,
            destination_name=target.destination_topic,
            compression=destination.compression.value,
            format=destination.format.value,
            records_max=destination.flush.records_max,
            bytes_max=destination.flush.bytes_max,
            cluster_id=target.source_cluster_id,
            topic_id=target.topic_id,
            writer=writer,
            skips_truncated=target.mirror.on_truncation is TruncationPolicy.SKIP,
            snapshots=_snapshot_rule(target, destination),
            snapshots_kept=destination.snapshots_kept,
            source_is_compacted=target.source_is_compacted,
        ),
    )


def _snapshot_rule(target: Target, destination: ArchiveDestination) -> SnapshotRule | None:
    if destination.compaction is not Compaction.LOG:
        return None
    return snapshot_rule(target.source_configs.get("cleanup.policy"), target.source_configs.get("delete.retention.ms"))


def _rule(target: Target) -> FlushRule | None:
    if not isinstance(target.destination, ArchiveDestination):
        return None
    flush = target.destination.flush
    return FlushRule(bytes_max=flush.bytes_max, records_max=flush.records_max, time_seconds_max=flush.time_seconds_max)


def _flush_clock(target: Target) -> FlushClock:
    if not isinstance(target.destination, ArchiveDestination):
        return FlushClock()
    return FlushClock(daily_at_utc=target.destination.flush.daily_at_utc, retention=target.source_retention)


def archived_partition(target: Target) -> PartitionFolder:
    """Returns the folder of a target, to be listed or checked."""
    assert isinstance(target.destination, ArchiveDestination)
    return partition_folder(
        open_store(target.destination.store.settings),
        destination_name=target.destination_topic,
        partition=target.source.partition,
        extension=extension_of(target.destination.format.value),
        are_snapshots=target.destination.compaction is Compaction.LOG,
    )


def read_archive_positions(
    states: Sequence[tuple[Target, PartitionState]],
    *,
    writes: bool,
    gone: Mapping[StoreSettings, MirrorlakeError] = MappingProxyType({}),
) -> None:
    """Checks every archived partition's chain and sets its state's position; errors become the state's.

    Args:
        states: archive targets with their states.
        writes: whether stores are probed and leftovers swept; False touches nothing.
        gone: stores that must not be written to, each with the reason.
    """
    stores = {t.destination.store.settings for t, _ in states if isinstance(t.destination, ArchiveDestination)}
    refused = {**gone, **{store: error for store in stores if (error := _of_later_version(store)) is not None}}
    probed = {store: _probe(store) for store in stores if writes and store not in refused}
    refused |= {store: error for store, error in probed.items() if error is not None}
    with ThreadPoolExecutor(LISTINGS_AT_ONCE, thread_name_prefix="chain-check") as pool:
        list(pool.map(lambda pair: _read_position(*pair, refused=refused, writes=writes), states))


def check_target(target: Target, archived: PartitionFolder, tail: Segment) -> SegmentFooter | None:
    """Checks that the newest segment was written from the topic that is configured now, and returns its footer.

    Segments of mirror-v3 have none and do not say.

    Raises:
        OtherSourceError: it was written from another cluster, topic or partition.
        TopicRecreatedError: it was written from another topic of the same name.
        ChainBrokenError: it cannot be read; it is a snapshot where none should be, or none where one should.
    """
    assert isinstance(target.destination, ArchiveDestination)
    key = f"{archived.prefix}/{tail.name}"
    with open_segment(archived.store, key) as segment:
        footer = segment.footer
    if footer is None:
        check_described(key)
    else:
        check_origin(Origin.of(footer), origin_of(target), what=f"{key} was written")
        expects_snapshot = target.destination.compaction is Compaction.LOG
        check_kind(key, is_snapshot=footer.snapshot is not None, expects_snapshot=expects_snapshot)
    return footer


def check_end(target: Target, archived: PartitionFolder, chain: Chain) -> SegmentFooter | None:
    """Checks that a target may go on where an archive ends: whose the newest segment is, and who claimed the next.

    An archive without any segment must be one that never had one.

    Returns:
        What the newest segment says of itself; None where there is none, or it is mirror-v3's.

    Raises:
        MirrorlakeError: see `check_target`, `check_is_new` and `ArchivedPartition.pending_claim`.
    """
    footer = None
    if chain.tail is not None:
        footer = check_target(target, archived, chain.tail)
    else:
        check_is_new(archived.store, target.destination_topic, origin_of(target))
    archived.pending_claim(chain, origin=origin_of(target))
    return footer


def origin_of(target: Target) -> Origin:
    """Returns whose records a target's archive holds."""
    return Origin(
        cluster_id=target.source_cluster_id,
        topic=target.source.topic,
        topic_id=target.topic_id or None,
        partition=target.source.partition,
    )


def make_roots(targets: Sequence[Target]) -> None:
    """Makes the root folders of archives that are missing, as mirror-v3 does for its users.

    In the native form a missing root is refused: it is more often a disk that is not mounted than a wish. A root that
    cannot be made is left to the probe, which says why.
    """
    for target in targets:
        if not isinstance(target.destination, ArchiveDestination):
            continue
        store = target.destination.store.settings
        if isinstance(store, FilesystemSettings):
            with contextlib.suppress(OSError):
                store.root.mkdir(parents=True, exist_ok=True)


def _of_later_version(store: StoreSettings) -> MirrorlakeError | None:
    """Returns why an archive is not ours to go on with; a damaged marker is no reason, and said when it is due."""
    try:
        read_root_marker(open_store(store))
    except UnsupportedError as error:
        return error
    except MirrorlakeError:
        return None
    return None


def _probe(store: StoreSettings) -> MirrorlakeError | None:
    try:
        open_store(store).probe()
    except MirrorlakeError as error:
        return error
    return None


def _read_position(
    target: Target, state: PartitionState, *, refused: dict[StoreSettings, MirrorlakeError], writes: bool
) -> None:
    if state.error is not None:
        return
    try:
        assert isinstance(target.destination, ArchiveDestination)
        if error := refused.get(target.destination.store.settings):
            raise error
        archived = archived_partition(target)
        chain = archived.find_end()
        footer = check_end(target, archived, chain)
        if writes:
            archived.sweep(chain)
        if footer is not None:
            _take_newest(state, footer, chain.position)
        elif chain.tail is not None and isinstance(state.work, ArchiveWork):
            settings = replace(state.work.settings, mirror_v3_end=chain.position)
            state.work = replace(state.work, settings=settings)
            if writes:
                _warn_of_lost_description(archived, chain.tail)
        elif state.has_view:
            state.view_records = 0
        state.position = state.first_position = chain.position
        state.archived, state.tail = archived, chain.tail
    except MirrorlakeError as error:
        state.error = error
        state.is_parked = between_leases(error) is Decision.PARK


def _take_newest(state: PartitionState, footer: SegmentFooter, position: int) -> None:
    """Takes what the newest file says."""
    if footer.leader_epoch is not None:
        state.source_mark = SourceMark(epoch=footer.leader_epoch, offset=position)
    if footer.snapshot is not None:
        state.view_records = footer.records


def _warn_of_lost_description(archived: PartitionFolder, tail: Segment) -> None:
    """Says so where a newest segment looks like mirror-v3's, and others of its folder are described."""
    if archived.extension not in FORMATS_WITH_SIDECAR:
        return
    if next(iter(archived.store.list(sidecar_folder(archived.prefix))), None) is not None:
        key = f"{archived.prefix}/{tail.name}"
        _log.warning(
            "the newest file has no description, and is taken for one of mirror-v3",
            path=key,
            hint=f"if mirrorlake wrote it, stop, and put {sidecar_key(key)} back from a copy",
        )
