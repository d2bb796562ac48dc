"""The latency histogram adds up what leases bring; snapshots have two series of mirror-v3."""

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from mirrorlake.archive.snapshots.tombstones import snapshot_rule
from mirrorlake.destinations.archive.sink import ArchiveSettings
from mirrorlake.destinations.interface import Progress, PublishedSegment
from mirrorlake.destinations.snapshots.work import SnapshotWork
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.service.sight.metrics import LatencyHistogram, Metrics
from mirrorlake.stores.settings import FilesystemSettings


def row(*seconds: float) -> LeaseRow:
    progress = Progress()
    for each in seconds:
        progress.saw_latency(1000, 1.0 + each)
    progress.saw_latency(-1, 1.0)  # a record without a time has no age
    return LeaseRow(
        mirror="m",
        source=TopicPartition("t", 0),
        destination="west",
        start_offset=0,
        position=1,
        source_start=0,
        source_end=1,
        latencies=dict(progress.latencies),
        latency_seconds_sum=progress.latency_seconds_sum,
    )


def test_latencies_of_several_leases_add_up_in_cumulative_buckets() -> None:
    registry = CollectorRegistry()
    histogram = LatencyHistogram()
    registry.register(histogram)
    histogram.add(row(0.004, 0.005, 0.3))
    histogram.add(replace(row(3600.0, -0.001), source=TopicPartition("t", 7)))
    histogram.add(replace(row(), destination="lake"))
    labels = {'destination="west"', 'mirror="m"', 'topic="t"'}
    series = dict(
        line.rsplit(" ", 1)
        for line in generate_latest(registry).decode().splitlines()
        if line.startswith("mirrorlake_latency_seconds")
    )

    def bucket(bound: str) -> float:
        (value,) = (v for name, v in series.items() if f'le="{bound}"' in name and "_bucket" in name)
        return float(value)

    assert [bucket(b) for b in ("0.001", "0.005", "0.5", "300.0", "3600.0", "+Inf")] == [1, 3, 4, 4, 5, 5]
    total = [float(v) for name, v in series.items() if "_sum" in name]
    assert total == pytest.approx([0.004 + 0.005 + 0.3 + 3600.0])
    told = [set(name.partition("{")[2].rstrip("}").split(",")) for name in series]
    assert all({each for each in found if not each.startswith("le=")} == labels for found in told)


def test_dead_letters_are_counted_by_side_and_reason() -> None:
    metrics = Metrics()
    state = snapshots(view_records=None)
    for letters in ({"value:short": 2, "key:absent": 1}, {"value:short": 3}):
        metrics.lease_ended(state, replace(row(), dead_letters=letters), is_first=False, now_seconds=1.0)

    def shown(side: str, reason: str) -> float | None:
        labels = {"mirror": "m", "topic": "t", "partition": "0", "destination": "west", "side": side, "reason": reason}
        return metrics.registry.get_sample_value("mirrorlake_dead_letters_total", labels)

    assert (shown("value", "short"), shown("key", "absent"), shown("value", "absent")) == (5, 1, None)


def snapshots(view_records: int | None) -> PartitionState:
    settings = ArchiveSettings(
        source=TopicPartition("t", 0),
        destination_name="t",
        compression="zstd-1",
        records_max=10,
        bytes_max=10,
        cluster_id="c",
        topic_id="i",
        writer="test",
        snapshots=snapshot_rule("compact", "1000"),
    )
    work = SnapshotWork(destination="west", store=FilesystemSettings(root=Path("/lake")), settings=settings)
    return PartitionState(
        mirror="m",
        source=TopicPartition("t", 0),
        shard="m.0",
        work=work,
        topic_id="i",
        rule=None,
        view_records=view_records,
    )


def snapshot(view_records: int, gap_records: int) -> PublishedSegment:
    return PublishedSegment(
        key=f"{0:020}-{9:020}.parquet",
        offsets=OffsetRange(start_offset=0, end_offset=10),
        records=10,
        raw_bytes=1,
        file_bytes=1,
        trigger="max-time",
        elapsed_ms=1,
        view_records=view_records,
        gap_records=gap_records,
    )


def test_keys_of_the_view_are_known_from_the_start_and_after_each_snapshot() -> None:
    metrics = Metrics()
    state = snapshots(view_records=7)

    def shown(name: str) -> float | None:
        return metrics.registry.get_sample_value(f"mirror_v3_{name}", {"topic": "t", "partition": "0"})

    metrics.began(state, is_first=True)
    assert (shown("destination_compaction_keys"), shown("source_offset_gap_records_total")) == (7, 0)
    for view_records, gap_records in ((9, 4), (8, 2)):
        flushed = replace(row(), flushes=(snapshot(view_records, gap_records),))
        metrics.lease_ended(state, flushed, is_first=True, now_seconds=1.0)
    assert (shown("destination_compaction_keys"), shown("source_offset_gap_records_total")) == (8, 6)


def test_a_view_of_unknown_size_has_no_number() -> None:
    metrics = Metrics()
    metrics.began(snapshots(view_records=None), is_first=True)
    labels = {"topic": "t", "partition": "0"}
    assert metrics.registry.get_sample_value("mirror_v3_destination_compaction_keys", labels) is None
