"""``verify`` of snapshots: the newest one holds the latest record of every key of a real source, or is told from it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mirrorlake.archive.maintenance.snapshot_erasing import SnapshotErase
from mirrorlake.archive.snapshots.partition import SnapshotPartition
from mirrorlake.archive.snapshots.tombstones import snapshot_rule
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import TopicPartition
from mirrorlake.pipeline.batch_jobs import BatchTask
from mirrorlake.pipeline.lease_job import LeaseRow
from mirrorlake.service.status import StatusRow, read_rows
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.topics.discovery import find_targets
from mirrorlake.verify import view_worker, worker
from mirrorlake.verify.positions import verify_checksums
from mirrorlake.verify.verdict import Result, Verdict
from mirrorlake.verify.verification import RecordVerification
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import create_topic, source_end
from support.leases import archive_work, as_snapshots, lease_plan, run_lease
from support.records import Record
from support.snapshots import names
from support.topics import append

pytestmark = pytest.mark.kafka

WORKS = {
    "mirrorlake.verify.worker:work": worker.work,
    "mirrorlake.verify.view_worker:work": view_worker.work,
}


class Snapshots:
    """A topic, its snapshots, and what ``verify`` says of them."""

    def __init__(self, servers: str, topic: str, root: Path) -> None:
        self.servers, self.topic, self.root = servers, topic, root

    def make(self) -> None:
        where = TopicPartition(self.topic, 0)
        work = archive_work(self.root, where, end=source_end(self.servers, self.topic))
        nameless = replace(work, settings=replace(work.settings, cluster_id="", topic_id=""))
        snapshots = as_snapshots(nameless, snapshot_rule("compact", None))
        row = run_lease(lease_plan(self.servers, [(where, [snapshots])], end=None))[0, "lake"]
        assert row.error is None, row.error

    def status(self) -> list[StatusRow]:
        config = parse_configuration(
            f"""
clusters: {{east: {{bootstrap-servers: "{self.servers}"}}}}
stores: {{lake: {{type: filesystem, root: {self.root}}}}}
mirrors:
  - name: {self.topic}
    source: {{cluster: east, topics: [{self.topic}]}}
    destinations: [{{type: archive, store: lake, compaction: log}}]
""".encode(),
            file="test.yaml",
            environ={},
        )

        async def ask() -> list[StatusRow]:
            clients = WorkerCache()
            try:
                return await read_rows(await find_targets(config, clients), clients)
            finally:
                await clients.close()

        return asyncio.run(ask())

    def verdict(self, status: list[StatusRow] | None = None) -> Verdict:
        def run_task(task: BatchTask) -> list[LeaseRow]:
            return WORKS[task.work](task.plan)

        (verdict,) = RecordVerification(status or self.status(), run_task=run_task, tasks_at_once=1).run()
        return verdict

    def erase(self, key: bytes) -> None:
        """Takes a key out of the newest snapshot, as `archive erase` does."""
        folder = SnapshotPartition(
            FilesystemStore(self.root), destination_name=self.topic, partition=0, extension="parquet"
        )
        SnapshotErase(
            folder=folder,
            snapshot=folder.snapshots()[-1],
            keys=[key],
            compression="zstd-1",
            writer="eraser",
            token="a",
            salt=b"salt",
            clock=SystemClock(),
        ).run()

    def alter(self, *, without_key: bytes) -> None:
        """Takes a key out of the newest snapshot, footer and all left as they were."""
        path = self.root / self.topic / "0" / names(self.root, self.topic)[-1]
        table = pq.read_table(path)
        footer = pq.ParquetFile(path).metadata.metadata
        metadata = {key: value for key, value in footer.items() if key != b"ARROW:schema"}
        kept = table.filter(pc.not_equal(table["key"], without_key)).replace_schema_metadata(metadata)
        path.unlink()
        pq.write_table(kept, path)


@pytest.fixture
def made(source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path) -> Snapshots:
    return Snapshots(source_kafka.bootstrap_servers, topic_name, tmp_path)


def test_a_view_equals_its_source_and_one_that_lacks_a_key_does_not(made: Snapshots) -> None:
    create_topic(made.servers, made.topic, cleanup_policy="compact")
    append(made.servers, made.topic, 0, [*keyed_records(40, 7), Record(1_700_000_000_000, b"key-2", None)])
    assert made.verdict().result is Result.EMPTY
    made.make()
    verdict = made.verdict()
    assert (verdict.result, verdict.records) == (Result.EQUAL, 6), verdict
    assert [each.result for each in verify_checksums(made.status(), progressed=lambda _: None)] == [Result.EQUAL]
    made.alter(without_key=b"key-5")
    verdict = made.verdict()
    assert (verdict.result, verdict.first_difference, verdict.difference) == (Result.DIFFERS, 33, "missing")
    (checked,) = verify_checksums(made.status(), progressed=lambda _: None)
    assert checked.result is Result.DIFFERS
    assert "its footer says" in str(checked.error)


def test_a_key_that_was_erased_is_counted_and_is_no_difference(made: Snapshots) -> None:
    create_topic(made.servers, made.topic, cleanup_policy="compact")
    append(made.servers, made.topic, 0, keyed_records(40, 7))
    made.make()
    made.erase(b"key-5")
    verdict = made.verdict()
    assert (verdict.result, verdict.first_difference) == (Result.EQUAL, None), verdict
    assert (verdict.records, verdict.erased) == (7, 1)
    made.alter(without_key=b"key-4")
    verdict = made.verdict()
    assert (verdict.result, verdict.first_difference, verdict.difference) == (Result.DIFFERS, 39, "missing")
    assert verdict.erased is None


def test_a_snapshot_that_a_newer_one_follows_meanwhile_is_still_the_one_that_is_compared(
    made: Snapshots,
) -> None:
    create_topic(made.servers, made.topic, cleanup_policy="compact")
    append(made.servers, made.topic, 0, keyed_records(40, 7))
    made.make()
    before = made.status()
    append(made.servers, made.topic, 0, keyed_records(40, 7, start=40))
    made.make()

    verdict = made.verdict(before)

    assert (verdict.result, verdict.records) == (Result.EQUAL, 7), verdict
    assert verdict.offsets is not None
    assert verdict.offsets.end_offset == 40
    assert made.verdict().result is Result.EQUAL


def test_what_the_cleaner_has_taken_since_is_no_difference(made: Snapshots) -> None:
    create_compacted(made.servers, made.topic)
    append(made.servers, made.topic, 0, keyed_records(20, 5))
    made.make()
    # Keys 0 to 4 come again, past the snapshot: of what it holds the source has nothing left.
    append_and_compact(made.servers, made.topic, keyed_records(10, 5, start=20), left=set(range(25, 31)))
    verdict = made.verdict()
    assert (verdict.result, verdict.records) == (Result.EQUAL, 0), verdict
