"""A view whose source is led by one replica after the other, of which only one is cleaned; three brokers."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import RunAsync
from mirrorlake.archive.snapshots.tombstones import SnapshotRule
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.copies import source_end, wait_until
from support.kafka_nodes import KafkaNodes
from support.leases import archive_work, as_snapshots, lease_plan, run_lease
from support.records import Record, build_batch, produce
from support.snapshots import view

pytestmark = pytest.mark.kafka

TOMBSTONES_KEPT_SECONDS = 40.0
RULE = SnapshotRule(tombstones_kept_seconds=TOMBSTONES_KEPT_SECONDS, keeps_what_retention_took=False)


@pytest.fixture
def nodes(kafka_libs: Path, tmp_path: Path) -> Iterator[KafkaNodes]:
    """Three brokers; the cleaner of the first one is dead, as one is after an error of its disk."""
    cluster = KafkaNodes(tmp_path / "nodes", libs=kafka_libs, properties={"log.cleaner.backoff.ms": "500"})
    with (cluster.nodes[1].folder / "server.properties").open("a") as properties:
        properties.write("log.cleaner.enable=false\n")
    with cluster:
        yield cluster


@pytest.mark.soak
def test_a_key_deleted_at_a_replica_that_leads_later_is_not_kept(
    nodes: KafkaNodes, topic_name: str, tmp_path: Path, run_async: RunAsync
) -> None:
    where, servers = TopicPartition(topic_name, 0), nodes.bootstrap_servers
    first_node = f"127.0.0.1:{nodes.nodes[1].port}"
    nodes.create_topic(
        topic_name,
        {0: [1, 2, 3]},
        cleanup_policy="compact",
        segment_ms="500",
        min_cleanable_dirty_ratio="0.001",
        delete_retention_ms=str(int(TOMBSTONES_KEPT_SECONDS * 1000)),
    )

    def write(*pairs: tuple[bytes, bytes | None]) -> None:
        now_ms = int(time.time() * 1000)
        run_async(produce(first_node, topic_name, 0, [build_batch([Record(now_ms, *pair)]) for pair in pairs]))

    def holds(node: int, key: bytes) -> bool:
        logs = (nodes.nodes[node].folder / "data" / str(where)).glob("*.log")
        return any(key in path.read_bytes() for path in logs)

    def is_purged() -> bool:
        write((b"filler", b"1"))  # each pass of a cleaner wants something new
        return not holds(2, b"gone") and not holds(3, b"gone")

    def lease(end: int) -> LeaseRow:
        work = as_snapshots(archive_work(tmp_path / "lake", where, end=end), RULE)
        return run_lease(lease_plan(servers, [(where, [work])], end=end))[0, "lake"]

    (tmp_path / "lake").mkdir()
    write((b"gone", b"1"), (b"kept", b"1"), (b"gone", None), (b"last", b"1"))
    wait_until(is_purged, "two cleaners that have purged the tombstone", patience_seconds=300.0)
    assert holds(1, b"gone")
    assert nodes.leader(topic_name) == 1
    first = lease(end=2)
    assert (first.error, first.position) == (None, 2)
    assert [record.key for record in view(tmp_path / "lake", topic_name).values()] == [b"gone", b"kept"]
    nodes.nodes[1].stop()
    wait_until(lambda: nodes.leader(topic_name) in (2, 3), "another leader")
    end = source_end(servers, topic_name)
    second = lease(end=end)
    assert (second.error, second.position) == (None, end)
    assert [record.key for record in view(tmp_path / "lake", topic_name).values()] == [b"filler", b"kept", b"last"]
