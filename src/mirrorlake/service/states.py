"""Turns targets into the states a supervisor serves: what a lease needs to know, and what is known at the start."""

import contextlib
import os
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import structlog

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.folder import PartitionFolder, partition_folder
from mirrorlake.archive.formats.registry import extension_of, open_segment
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, sidecar_folder, sidecar_key
from mirrorlake.archive.snapshots.tombstones import SnapshotRule, snapshot_rule
from mirrorlake.config.resolved import (
    ArchiveDestination,
    Compaction,
    KafkaDestination,
    OffsetMode,
    RecreationPolicy,
    TimestampMode,
    TruncationPolicy,
)
from mirrorlake.destinations.archive import ArchiveSettings
from mirrorlake.destinations.map_settings import MapSettings, map_transactional_id
from mirrorlake.destinations.preserve_settings import PreserveSettings
from mirrorlake.errors import ChainBrokenError, MirrorlakeError, OtherSourceError, TopicRecreatedError
from mirrorlake.mirror.due import FlushRule
from mirrorlake.mirror.flush_clock import FlushClock
from mirrorlake.mirror.lineage import SourceMark
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.mirror.work import ArchiveWork, DestinationWork, KafkaWork, MapWork
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.archive_stores import store_settings
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.targets import Target, cluster_settings
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings, StoreSettings

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


def _map_work(target: Target, destination: KafkaDestination) -> MapWork:
    shard = target.map_shard
    return MapWork(
        destination=destination.label,
        cluster=cluster_settings(destination.cluster),
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
            keeps_log_append_time=destination.timestamp_mode is TimestampMode.SOURCE,
        ),
    )


def _work(target: Target, writer: str) -> DestinationWork:
    destination = target.destination
    if isinstance(destination, KafkaDestination) and destination.offsets is OffsetMode.MAP:
        return _map_work(target, destination)
    if isinstance(destination, KafkaDestination):
        return KafkaWork(
            destination=destination.label,
            cluster=cluster_settings(destination.cluster),
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
            ),
        )
    return ArchiveWork(
        destination=destination.label,
        store=store_settings(destination),
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
        open_store(store_settings(target.destination)),
        destination_name=target.destination_topic,
        partition=target.source.partition,
        extension=extension_of(target.destination.format.value),
        are_snapshots=target.destination.compaction is Compaction.LOG,
    )


def read_archive_positions(states: Sequence[tuple[Target, PartitionState]], *, writes: bool) -> None:
    """Checks every archived partition's chain and sets its state's position; errors become the state's.

    Args:
        states: archive targets with their states.
        writes: whether stores are probed and leftovers swept; False touches nothing.
    """
    stores = {store_settings(t.destination) for t, _ in states if isinstance(t.destination, ArchiveDestination)}
    refused = {store: error for store in stores if writes and (error := _probe(store)) is not None}
    with ThreadPoolExecutor(LISTINGS_AT_ONCE, thread_name_prefix="chain-check") as pool:
        list(pool.map(lambda pair: _read_position(*pair, refused=refused, writes=writes), states))


def check_source_of(
    archived: PartitionFolder, tail: Segment, *, source: TopicPartition, cluster_id: str, topic_id: str
) -> SegmentFooter | None:
    """Checks that the newest segment was written from the topic that is configured now, and returns its footer.

    Segments of mirror-v3 have none and do not say.

    Raises:
        OtherSourceError: it was written from another cluster.
        TopicRecreatedError: it was written from another topic of the same name.
        ChainBrokenError: the segment cannot be read.
    """
    key = f"{archived.prefix}/{tail.name}"
    with open_segment(archived.store, key) as segment:
        footer = segment.footer
    if footer is None:
        return None
    written = footer.envelope
    if _differ(written.cluster_id, cluster_id):
        raise OtherSourceError(
            f"{key} was written from cluster id {written.cluster_id}, source {source.topic} is configured of "
            f"cluster id {cluster_id}",
            hint="archive another cluster's topic under another `name`; the files stay readable where they are",
            expected=written.cluster_id,
            found=cluster_id,
        )
    if written.topic_id and _differ(written.topic_id, topic_id):
        raise TopicRecreatedError(
            f"source topic {source.topic} was deleted and made again (topic id {written.topic_id}, now "
            f"{topic_id}); {key} holds records of the one before",
            hint="`on-recreate: new-topic` archives the new one in a folder of its own; the old files stay readable "
            "where they are",
            expected=written.topic_id,
            found=topic_id,
        )
    return footer


def check_target(target: Target, archived: PartitionFolder, tail: Segment) -> SegmentFooter | None:
    """Checks a newest segment as `check_source_of` does, against the source of a target.

    Raises:
        ChainBrokenError: it is a snapshot where none should be, or none where one should; or see `check_source_of`.
    """
    footer = check_source_of(
        archived, tail, source=target.source, cluster_id=target.source_cluster_id, topic_id=target.topic_id
    )
    if footer is not None:
        _check_kind(target, footer, f"{archived.prefix}/{tail.name}")
    return footer


def _check_kind(target: Target, footer: SegmentFooter, key: str) -> None:
    assert isinstance(target.destination, ArchiveDestination)
    if (footer.snapshot is not None) == (target.destination.compaction is Compaction.LOG):
        return
    held, hint = "every record", "leave `compaction` out"
    if footer.snapshot is not None:
        held, hint = "snapshots of the latest record per key", "set `compaction: log`"
    raise ChainBrokenError(
        f"{key} belongs to {held}, and mirror {target.mirror.name} is configured to write the other kind there",
        hint=f"{hint} to continue what is there, or choose another destination name",
        key=key,
    )


def _differ(written: str, now: str) -> bool:
    return bool(written and now) and written != now


def make_roots(targets: Sequence[Target]) -> None:
    """Makes the root folders of archives that are missing, as mirror-v3 does for its users.

    In the native form a missing root is refused: it is more often a disk that is not mounted than a wish. A root that
    cannot be made is left to the probe, which says why.
    """
    for target in targets:
        if not isinstance(target.destination, ArchiveDestination):
            continue
        store = store_settings(target.destination)
        if isinstance(store, FilesystemSettings):
            with contextlib.suppress(OSError):
                store.root.mkdir(parents=True, exist_ok=True)


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
        if error := refused.get(store_settings(target.destination)):
            raise error
        archived = archived_partition(target)
        chain = archived.find_end()
        if writes:
            archived.sweep(chain)
        footer = check_target(target, archived, chain.tail) if chain.tail is not None else None
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
