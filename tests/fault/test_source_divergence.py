"""A source whose log was cut below the position and written anew: nothing of the new log is put behind the old."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.archive.formats.registry import open_segment
from mirrorlake.archive.names import SegmentName
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.destinations.work import DestinationWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import DestinationAheadError, SourceDivergedError
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.sources.mark import SourceMark
from mirrorlake.stores.filesystem import FilesystemStore
from support.copies import archive_position, create_topic, log_end, wait_until
from support.kafka_nodes import KafkaNodes
from support.leases import archive_work, kafka_work, lease_plan, run_lease
from support.records import build_batch, produce, simple_records
from support.topics import make_topic

pytestmark = pytest.mark.kafka


def copy(
    servers: str,
    where: TopicPartition,
    works: Sequence[DestinationWork],
    marks: Sequence[SourceMark | None],
    *,
    end: int,
) -> list[LeaseRow]:
    """One lease to several destinations, each with what the lease before left it."""
    plan = lease_plan(servers, [(where, works)], end=end)
    (work,) = plan.partitions
    rows = run_lease(replace(plan, partitions=(replace(work, marks=tuple(marks)),)))
    return [rows[where.partition, each.destination] for each in works]


def without_tail_check(work: PreserveWork) -> PreserveWork:
    """As the same process goes on with: epochs alone can tell then."""
    return replace(work, orders=replace(work.orders, needs_tail_check=False))


def test_a_lease_hands_on_how_far_it_read_in_which_epoch(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    servers, where = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(20))
    create_topic(destination_kafka.bootstrap_servers, topic_name)
    works: list[DestinationWork] = [
        kafka_work(destination_kafka.bootstrap_servers, where),
        archive_work(tmp_path, where, end=20),
    ]

    rows = copy(servers, where, works, [None, None], end=20)

    assert [row.mark for row in rows] == [SourceMark(epoch=0, offset=20, leader_epoch=0)] * 2
    name = SegmentName(from_offset=0, to_offset=19, extension="parquet")
    with open_segment(FilesystemStore(tmp_path), f"{topic_name}/0/{name}") as segment:
        assert segment.footer is not None
        assert segment.footer.leader_epoch == 0


def test_a_mark_that_the_sources_log_does_not_hold_is_told_from_a_copy_that_is_ahead(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    servers, where = source_kafka.bootstrap_servers, TopicPartition(topic_name, 0)
    make_topic(servers, topic_name, simple_records(20))
    make_topic(destination_kafka.bootstrap_servers, topic_name, simple_records(30))
    work = without_tail_check(kafka_work(destination_kafka.bootstrap_servers, where))

    (diverged,) = copy(servers, where, [work], [SourceMark(epoch=0, offset=30)], end=40)
    assert isinstance(diverged.error, SourceDivergedError)
    assert (diverged.error.facts["position"], diverged.error.facts["source_end"]) == (30, 20)

    (ahead,) = copy(servers, where, [work], [SourceMark(epoch=0, offset=30, leader_epoch=0)], end=40)
    assert isinstance(ahead.error, DestinationAheadError), "while the same leader leads, nobody is asked"


@pytest.mark.soak
def test_a_copy_of_a_log_that_an_unclean_election_lost_is_parked_and_nothing_is_appended(
    kafka_nodes: KafkaNodes, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    nodes, where = kafka_nodes, TopicPartition(topic_name, 0)
    west = destination_kafka.bootstrap_servers
    nodes.create_topic(topic_name, {0: [1, 2]}, unclean_leader_election_enable="true")
    create_topic(west, topic_name)
    works: list[DestinationWork] = [kafka_work(west, where), archive_work(tmp_path, where, end=15)]
    try:
        write(nodes, topic_name, 0, 10)
        nodes.nodes[2].stop()
        wait_until(lambda: nodes.isr(topic_name) == (1,), "the follower to be out of sync")
        write(nodes, topic_name, 10, 5)
        rows = copy(nodes.bootstrap_servers, where, works, [None, None], end=15)
        assert [(row.error, row.position) for row in rows] == [(None, 15)] * 2
        nodes.nodes[1].stop()
        nodes.nodes[2].begin()
        wait_until(lambda: nodes.leader(topic_name) == 2, "the unclean leader")
        write(nodes, topic_name, 100, 20)  # 10 records were lost with their offsets, these are others
        assert log_end(nodes.bootstrap_servers, topic_name) == 30
    finally:
        nodes.revive()

    marks = [row.mark for row in rows]
    later: list[DestinationWork] = [without_tail_check(kafka_work(west, where)), archive_work(tmp_path, where, end=30)]
    rows = copy(nodes.bootstrap_servers, where, later, marks, end=30)

    for row in rows:
        assert isinstance(row.error, SourceDivergedError), row.error
        assert (row.error.facts["position"], row.error.facts["source_end"]) == (15, 10)
    assert log_end(west, topic_name) == 15
    assert archive_position(tmp_path, topic_name) == 15


def write(nodes: KafkaNodes, topic: str, start: int, count: int) -> None:
    leader = nodes.nodes[nodes.leader(topic)]
    batch = build_batch(simple_records(count, start=start))
    asyncio.run(produce(f"127.0.0.1:{leader.port}", topic, 0, [batch]))
