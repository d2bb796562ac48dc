"""Runs leases in this process, without Spark: the work is the same, only the scheduler is missing."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.clock import SystemClock
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.archive.work import ArchiveWork
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.map.settings import MapSettings, MapStart, map_transactional_id
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.destinations.orders import Orders
from mirrorlake.destinations.preserve.settings import PreserveSettings
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.destinations.snapshots.work import SnapshotWork
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.errors import OutcomeUnknownError
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeasePlan, LeaseRow, PartitionWork
from mirrorlake.moments import Moment
from mirrorlake.offsets import GapFill, TopicPartition
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.stores.settings import FilesystemSettings
from support.copies import Lake
from support.records import settings_of

NEVER = 1 << 40
_LEASES_MAX = 3


def kafka_work(
    destination: str,
    source: TopicPartition,
    *,
    topic: str | None = None,
    mirror: str = "test",
    batch_bytes_max: int = 1_048_588,
    gap_fill: GapFill = GapFill.REFUSE,
    **more: Any,
) -> PreserveWork:
    """A Kafka destination at the bootstrap servers ``destination``, topic like the source unless told.

    ``more`` are orders, and further settings of ``PreserveSettings``.
    """
    orders = {field.name: more.pop(field.name) for field in fields(Orders) if field.name in more}
    return PreserveWork(
        destination="west",
        cluster=settings_of(destination, "west"),
        settings=PreserveSettings(
            source=source,
            destination=TopicPartition(topic or source.topic, source.partition),
            transactional_id=f"mirrorlake.{mirror}.{source}",
            batch_bytes_max=batch_bytes_max,
            gap_fill=gap_fill,
            **more,
        ),
        orders=Orders(**orders),
    )


def map_work(
    destination: str,
    source: TopicPartition,
    *,
    topic: str | None = None,
    partition: int | None = None,
    mirror: str | None = None,
    batch_bytes_max: int = 1_048_588,
    start: MapStart | None = None,
    source_cluster_id: str = "",
    source_topic_id: str = "",
    skips_truncated: bool = False,
    restarts_recreated: bool = False,
    hand_off: ProducerHandOff | None = None,
    keeps_compression: bool = False,
) -> MapWork:
    """A Kafka destination with mapped offsets; every source topic is a mirror of one shard unless told."""
    name = mirror or source.topic
    return MapWork(
        destination="west",
        cluster=settings_of(destination, "west"),
        settings=MapSettings(
            source=source,
            destination=TopicPartition(topic or source.topic, source.partition if partition is None else partition),
            topics=ProgressTopics(mirror=name, shards=1),
            shard=0,
            transactional_id=map_transactional_id(name, 0),
            source_cluster_id=source_cluster_id,
            source_topic_id=source_topic_id,
            batch_bytes_max=batch_bytes_max,
            start=start or MapStart(),
            skips_truncated=skips_truncated,
            restarts_recreated=restarts_recreated,
            keeps_compression=keeps_compression,
        ),
        orders=Orders(hand_off=hand_off),
    )


def archive_work(
    lake: Lake,
    source: TopicPartition,
    *,
    end: int,
    flushes_rest: bool = True,
    records_max: int = NEVER,
    bytes_max: int = NEVER,
    writer: str = "test-writer",
    format_name: str = "parquet",
    cluster_id: str = "cluster",
    topic_id: str = "topic",
    folder: str | None = None,
) -> ArchiveWork:
    """An archive that reads up to ``end``; in a folder named like the source topic unless told."""
    return ArchiveWork(
        destination="lake",
        store=FilesystemSettings(root=lake) if isinstance(lake, Path) else lake,
        settings=ArchiveSettings(
            source=source,
            destination_name=folder or source.topic,
            compression="zstd-1",
            records_max=records_max,
            bytes_max=bytes_max,
            cluster_id=cluster_id,
            topic_id=topic_id,
            writer=writer,
            format=format_name,
        ),
        orders=Orders(needs_tail_check=False, read_end_offset=end, flushes_rest=flushes_rest, rest_trigger="explicit"),
    )


def as_snapshots(work: ArchiveWork, rule: SnapshotRule) -> SnapshotWork:
    """The same archive, of snapshots by ``rule``."""
    settings = replace(work.settings, snapshots=rule)
    return SnapshotWork(destination=work.destination, store=work.store, settings=settings, orders=work.orders)


def lease_plan(
    source_servers: str,
    works: Iterable[tuple[TopicPartition, Sequence[DestinationWork]]],
    *,
    end: int | None,
    seconds: float = 20.0,
    hard_seconds: float | None = None,
    topic_id: str = "",
) -> LeasePlan:
    """A plan that copies each partition to its destinations, up to ``end`` or for ``seconds``."""
    return LeasePlan(
        lease=1,
        lane=0,
        live_seconds=seconds,
        unbroken_seconds=seconds,
        send_seconds=seconds + 0.5 if hard_seconds is None else hard_seconds,
        hard_seconds=seconds + 0.5 if hard_seconds is None else hard_seconds,
        memory_bytes_max=64 << 20,
        begins_by=Moment.of(SystemClock(), in_seconds=3600.0),
        partitions=tuple(
            PartitionWork(
                mirror="test",
                source_work=KafkaSourceWork(cluster=settings_of(source_servers, "east")),
                source=source,
                topic_id=topic_id,
                end_offset=end,
                destinations=tuple(destinations),
            )
            for source, destinations in works
        ),
    )


def run_leases_after_a_death(plan: LeasePlan) -> dict[tuple[int, str], LeaseRow]:
    """Runs one plan as `run_lease` does, and as the driver does again where an outcome stayed unknown.

    What the dead worker had in flight may reach the broker after the next one has looked where the destination ends:
    that one sends the same batch, is told that the broker knows it already, and the lease after it looks again.
    """
    for _ in range(_LEASES_MAX - 1):
        rows = run_lease(plan)
        if not any(isinstance(row.error, OutcomeUnknownError) for row in rows.values()):
            return rows
    return run_lease(plan)


def run_lease(plan: LeasePlan) -> dict[tuple[int, str], LeaseRow]:
    """Runs one plan on a fresh worker; returns its rows by source partition and destination label."""
    worker = Worker()
    try:
        return {(row.source.partition, row.destination): row for row in worker.run(plan)}
    finally:
        worker.close()
