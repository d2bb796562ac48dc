"""``verify`` of archives whose beginning was retired, whose segments were merged, and from which keys were erased."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.archive.maintenance.erasing import GroupErase
from mirrorlake.archive.maintenance.look import look_at
from mirrorlake.archive.maintenance.merging import GroupMerge
from mirrorlake.archive.maintenance.retiring import retire
from mirrorlake.archive.partition import ArchivedPartition
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.offsets import OffsetRange, TopicPartition
from mirrorlake.service.status import StatusRow, read_rows
from mirrorlake.stores.filesystem import FilesystemStore
from mirrorlake.topics.discovery import find_targets
from mirrorlake.verify.verdict import Result, Verdict
from mirrorlake.verify.verification import RecordVerification
from mirrorlake.verify.worker import work
from support.copies import create_topic, source_end
from support.leases import archive_work, lease_plan, run_lease
from support.records import simple_records
from support.topics import append

pytestmark = pytest.mark.kafka


def archived_in_pieces(servers: str, topic: str, root: Path, pieces: int) -> ArchivedPartition:
    """A topic of which each two records became a segment of their own."""
    create_topic(servers, topic)
    where = TopicPartition(topic, 0)
    for piece in range(pieces):
        append(servers, topic, 0, simple_records(2, start=2 * piece))
        plan = archive_work(root, where, end=source_end(servers, topic))
        nameless = replace(plan, settings=replace(plan.settings, cluster_id="", topic_id=""))
        row = run_lease(lease_plan(servers, [(where, [nameless])], end=None))[0, "lake"]
        assert row.error is None, row.error
    return ArchivedPartition(FilesystemStore(root), destination_name=topic, partition=0, extension="parquet")


def verdict_of_archive(servers: str, topic: str, root: Path) -> Verdict:
    config = parse_configuration(
        f"""
clusters: {{east: {{bootstrap-servers: "{servers}"}}}}
stores: {{lake: {{type: filesystem, root: {root}}}}}
mirrors:
  - name: {topic}
    source: {{cluster: east, topics: [{topic}]}}
    destinations: [{{type: archive, store: lake}}]
""".encode(),
        file="test.yaml",
        environ={},
    )

    async def rows() -> list[StatusRow]:
        clients = WorkerCache()
        try:
            return await read_rows(await find_targets(config, clients), clients)
        finally:
            await clients.close()

    run = RecordVerification(asyncio.run(rows()), run_task=lambda task: work(task.plan), tasks_at_once=1).run
    (verdict,) = run()
    return verdict


def test_a_merged_archive_is_equal_and_a_retired_one_is_compared_from_its_floor(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    servers = source_kafka.bootstrap_servers
    archived = archived_in_pieces(servers, topic_name, tmp_path, 4)
    look = look_at(archived)
    assert [str(each.name.offsets) for each in look.chain] == ["[0, 2)", "[2, 4)", "[4, 6)", "[6, 8)"]
    inputs = look.chain[1:3]
    GroupMerge(archived, inputs, compression="zstd-1", writer="merger", token="a", clock=SystemClock()).run(
        deletes_inputs=True
    )
    verdict = verdict_of_archive(servers, topic_name, tmp_path)
    assert (verdict.result, verdict.records, verdict.erased, verdict.error) == (Result.EQUAL, 8, 0, None)

    assert retire(archived, 2, now_seconds=0).floor == 2
    verdict = verdict_of_archive(servers, topic_name, tmp_path)
    assert (verdict.result, verdict.records, verdict.error) == (Result.EQUAL, 6, None)
    assert verdict.offsets == OffsetRange(start_offset=2, end_offset=8)


def test_what_was_erased_is_counted_and_is_no_difference(
    source_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    servers = source_kafka.bootstrap_servers
    archived = archived_in_pieces(servers, topic_name, tmp_path, 4)
    look = look_at(archived)
    GroupErase(
        archived,
        look.chain[:2],
        [b"k0", b"k3"],
        compression="uncompressed",
        writer="eraser",
        token="a",
        salt=b"",
        clock=SystemClock(),
    ).run()
    verdict = verdict_of_archive(servers, topic_name, tmp_path)
    assert (verdict.result, verdict.first_difference, verdict.error) == (Result.EQUAL, None, None)
    assert (verdict.records, verdict.erased) == (8, 2)
