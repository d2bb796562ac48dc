"""Map mode: the destination's log is cut below what the progress says, or the progress below what was copied.

One broker loses the tails of all topics at once, and each test looks at its own.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.map.moves import ProgressMove, moved, write_moves
from mirrorlake.destinations.map.offset_map import RUNS_PER_PAGE_MAX, OffsetMap
from mirrorlake.destinations.map.progress import ProgressKey
from mirrorlake.destinations.map.progress_store import ProgressTopics, read_offset_map
from mirrorlake.destinations.map.settings import map_transactional_id
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import LostProgressError, LostTailError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import TransactionState
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import Action, read_plan
from mirrorlake.service.sight.park_names import park_name
from mirrorlake.service.status import read_status
from support.copies import create_topic, log_end, source_end
from support.leases import lease_plan, map_work, run_lease
from support.lost_tails import restart_without_tails
from support.map_copies import assert_equal_through_map, assert_nothing_open, held_through_map, progress_of
from support.records import consume, settings_of, simple_records
from support.topics import append

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 200
CUT = 100
BATCH = 10
MANY_RUNS = 2 * RUNS_PER_PAGE_MAX + 60
PLAIN, AGAIN, OVERWRITTEN, SHARED, PAGED, OLD_PROGRESS, MOVED, TWICE, LATER, WITHIN, APART = (
    f"lost-tail-{name}"
    for name in (
        "plain",
        "again",
        "overwritten",
        "shared",
        "paged",
        "old-progress",
        "moved",
        "twice",
        "later",
        "within",
        "apart",
    )
)
BACK = 30


class Cut:
    """A source, and a destination whose logs end at ``CUT`` although more was copied there."""

    def __init__(self, source: EmbeddedKafka, destination: EmbeddedKafka) -> None:
        self.source, self.destination = source.bootstrap_servers, destination.bootstrap_servers

    def create(self, topic: str, partitions: int = 1) -> None:
        create_topic(self.source, topic, partitions)
        create_topic(self.destination, topic)

    def write(self, topic: str, first: int, count: int, partition: int = 0) -> None:
        """So large that no batch is coalesced with others."""
        append(self.source, topic, partition, simple_records(count, start=first, size=2000), batch_records=BATCH)

    def work(self, topic: str, partition: int = 0, *, copies_lost_again: bool = False) -> MapWork:
        work = map_work(self.destination, TopicPartition(topic, partition), partition=0)
        return replace(work, settings=replace(work.settings, copies_lost_again=copies_lost_again))

    def work_apart(self, partition: int, *, copies_lost_again: bool = False) -> MapWork:
        """Of a mirror of two shards, one for each source partition; all goes to one destination partition."""
        work = self.work(APART, partition, copies_lost_again=copies_lost_again)
        names = [map_transactional_id(APART, shard) for shard in range(2)]

        async def ask() -> list[int]:
            async with ClusterClient(settings_of(self.destination)) as client:
                found = await client.describe_transactions(names)
                return [each.producer_id if isinstance(each, TransactionState) else -1 for each in found.values()]

        other = asyncio.run(ask())[1 - partition]
        return replace(
            work,
            settings=replace(
                work.settings,
                topics=ProgressTopics(mirror=APART, shards=2),
                shard=partition,
                transactional_id=names[partition],
                other_shards_ids=frozenset({other} - {-1}),
            ),
        )

    def copy(self, *works: MapWork) -> list[LeaseRow]:
        plan = lease_plan(self.source, [(work.settings.source, [work]) for work in works], end=None)
        partitions = [
            replace(each, end_offset=source_end(self.source, each.source.topic, each.source.partition))
            for each in plan.partitions
        ]
        return list(run_lease(replace(plan, partitions=tuple(partitions))).values())

    def copied(self, *works: MapWork) -> None:
        for row in self.copy(*works):
            assert row.error is None, row.error

    def move(self, topic: str, offset: int) -> None:
        """Moves a position by hand."""
        key = ProgressKey(destination_topic=topic, source=TopicPartition(topic, 0))
        before = progress_of(self.destination, key.source)
        assert before is not None
        move = ProgressMove(key=key, before=before, after=moved(before, offset))

        async def write() -> None:
            topics = ProgressTopics(mirror=topic, shards=1)
            async with ClusterClient(settings_of(self.destination)) as client:
                await write_moves(client, topics, 0, [move], clock=SystemClock(), before_write=_at_once)

        asyncio.run(write())

    def configuration(self, topic: str, policy: str = "park") -> Configuration:
        text = f"""
clusters:
  east: {{bootstrap-servers: "{self.source}"}}
  west: {{bootstrap-servers: "{self.destination}"}}
mirrors:
  - name: {topic}
    source: {{cluster: east, topics: [{topic}]}}
    on-lost-tail: {policy}
    destinations: [{{type: kafka, cluster: west, offsets: map}}]
"""
        return parse_configuration(text.encode(), file="test.yaml", environ={})


async def _at_once() -> None:
    """Has nothing to ask."""


@pytest.fixture(scope="module")
def cut(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory, source_kafka: EmbeddedKafka) -> Iterator[Cut]:
    with EmbeddedKafka(tmp_path_factory.mktemp("lossy-kafka"), libs=kafka_libs) as server:
        made = Cut(source_kafka, server)
        for topic in (PLAIN, AGAIN, OVERWRITTEN, OLD_PROGRESS, MOVED, TWICE):
            made.create(topic)
            made.write(topic, 0, RECORDS)
            made.copied(made.work(topic))
        for topic in (MOVED, TWICE):
            made.move(topic, BACK)
        made.copied(made.work(TWICE))
        for topic, before in ((LATER, 40), (WITHIN, 80)):  # what is copied twice ends before the cut, and behind it
            made.create(topic)
            made.write(topic, 0, before)
            made.copied(made.work(topic))
            made.move(topic, BACK)
            made.write(topic, before, RECORDS - before)
            made.copied(made.work(topic))
        made.create(SHARED, partitions=2)
        made.write(SHARED, 0, 60, partition=1)
        made.copied(made.work(SHARED, 1))
        made.write(SHARED, 0, RECORDS)
        made.copied(made.work(SHARED))
        made.create(APART, partitions=2)
        made.write(APART, 0, RECORDS)
        made.copied(made.work_apart(0))
        made.create(PAGED)
        asyncio.run(_one_transaction_each(made.source, PAGED, MANY_RUNS))
        made.copied(made.work(PAGED))
        progress = ProgressTopics(mirror=OLD_PROGRESS, shards=1).progress
        older = log_end(made.destination, progress)
        made.write(OLD_PROGRESS, RECORDS, 50)
        made.copied(made.work(OLD_PROGRESS))
        data = dict.fromkeys((PLAIN, AGAIN, OVERWRITTEN, SHARED, PAGED, MOVED, TWICE, LATER, WITHIN, APART), CUT)
        restart_without_tails(server, data | {progress: older})
        for topic in data:
            assert CUT - BATCH < log_end(made.destination, topic) <= CUT
        yield made


async def _one_transaction_each(servers: str, topic: str, count: int) -> None:
    """Each record ends a run: the transaction's marker takes the offset behind it."""
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic)
    await producer.start()
    for number in range(count):
        async with producer.transaction():
            await producer.send_and_wait(topic, (b"%d" % number).ljust(2000), partition=0)
    await producer.stop()


def test_a_destination_that_ends_below_its_progress_parks_and_nothing_is_appended(cut: Cut) -> None:
    cut.write(PLAIN, RECORDS, 30)
    left = consume(cut.source, PLAIN, 0, end=CUT)
    for look in range(3):
        (row,) = cut.copy(cut.work(PLAIN))
        assert isinstance(row.error, LostTailError)
        assert park_name(row.error) == "lost-tail"
        facts = row.error.facts
        assert (facts["destination_end"], facts["position"]) == (RECORDS, RECORDS)
        # What was cut off was a part of a transaction too: the rest of it is closed, by a marker, once.
        assert facts["end_offset"] == (CUT if look == 0 else CUT + 1)
        assert "copy-again" in row.error.hint
        assert log_end(cut.destination, PLAIN) == CUT + 1
        assert consume(cut.destination, PLAIN, 0) == left
    (status,) = asyncio.run(read_status(cut.configuration(PLAIN)))
    assert isinstance(status.error, LostTailError)
    (plan,) = asyncio.run(read_plan(cut.configuration(PLAIN)))
    assert plan.action is Action.REFUSE


def test_what_is_lost_is_copied_again_where_the_policy_says_so_and_everything_is_there_once(cut: Cut) -> None:
    cut.write(AGAIN, RECORDS, 30)
    (row,) = cut.copy(cut.work(AGAIN))
    assert isinstance(row.error, LostTailError)
    (row,) = cut.copy(cut.work(AGAIN, copies_lost_again=True))
    assert (row.error, row.position, row.records) == (None, RECORDS + 30, RECORDS - CUT + 30)
    assert assert_equal_through_map(cut.source, cut.destination, TopicPartition(AGAIN, 0)) == RECORDS + 30
    cut.write(AGAIN, RECORDS + 30, 10)
    cut.copied(cut.work(AGAIN))
    assert assert_equal_through_map(cut.source, cut.destination, TopicPartition(AGAIN, 0)) == RECORDS + 40
    assert_nothing_open(cut.destination, AGAIN, TopicPartition(AGAIN, 0))


def test_a_log_that_others_have_filled_again_is_no_log_that_is_whole(cut: Cut) -> None:
    where = TopicPartition(OVERWRITTEN, 0)
    foreign = simple_records(RECORDS, start=10_000)
    append(cut.destination, OVERWRITTEN, 0, foreign)
    assert log_end(cut.destination, OVERWRITTEN) > RECORDS
    (row,) = cut.copy(cut.work(OVERWRITTEN))
    assert isinstance(row.error, LostTailError)
    assert len(consume(cut.destination, OVERWRITTEN, 0)) == CUT + len(foreign)
    (row,) = cut.copy(cut.work(OVERWRITTEN, copies_lost_again=True))
    assert (row.error, row.records) == (None, RECORDS - CUT)
    assert held_through_map(cut.destination, where) == consume(cut.source, OVERWRITTEN, 0)
    assert len(consume(cut.destination, OVERWRITTEN, 0)) == RECORDS + len(foreign)


def test_of_two_sources_in_one_partition_the_whole_one_waits_and_does_not_hide_the_others_loss(cut: Cut) -> None:
    cut.write(SHARED, 60, 300, partition=1)
    lost, whole = cut.work(SHARED), cut.work(SHARED, 1)
    (row,) = cut.copy(whole)
    assert isinstance(row.error, LostTailError)
    assert f"source {SHARED}-0" in row.error.message
    assert len(consume(cut.destination, SHARED, 0)) <= CUT
    # The one that is served first takes both back.
    cut.copied(cut.work(SHARED, 1, copies_lost_again=True))
    cut.copied(lost, whole)
    for partition, count in ((0, RECORDS), (1, 360)):
        source = TopicPartition(SHARED, partition)
        held = held_through_map(cut.destination, source, partition=0)
        assert held == consume(cut.source, SHARED, partition)
        assert len(held) == count
    assert len(consume(cut.destination, SHARED, 0)) == RECORDS + 360


def test_a_log_that_another_shard_of_the_mirror_has_filled_again_is_no_log_that_is_whole(cut: Cut) -> None:
    cut.write(APART, 5000, 150, partition=1)
    cut.copied(cut.work_apart(1))
    assert log_end(cut.destination, APART) > RECORDS
    (row,) = cut.copy(cut.work_apart(0))
    assert isinstance(row.error, LostTailError)
    cut.copied(cut.work_apart(0, copies_lost_again=True))
    cut.copied(cut.work_apart(1), cut.work_apart(0))
    for partition, count in ((0, RECORDS), (1, 150)):
        source = TopicPartition(APART, partition)
        key = ProgressKey(destination_topic=APART, source=source)
        topics = ProgressTopics(mirror=APART, shards=2)

        async def ask(shard: int, key: ProgressKey = key, topics: ProgressTopics = topics) -> OffsetMap | None:
            async with ClusterClient(settings_of(cut.destination)) as client:
                return await read_offset_map(client, topics, shard, key)

        mapping, there = asyncio.run(ask(partition)), consume(cut.destination, APART, 0)
        assert mapping is not None
        records = consume(cut.source, APART, partition)
        assert {o: there[at] for o in records if (at := mapping.destination_of(o)) is not None} == records
        assert len(records) == count
    assert len(consume(cut.destination, APART, 0)) == RECORDS + 150


def test_a_map_of_several_pages_loses_those_that_speak_of_lost_records(cut: Cut) -> None:
    cut.copied(cut.work(PAGED, copies_lost_again=True))
    assert assert_equal_through_map(cut.source, cut.destination, TopicPartition(PAGED, 0)) == MANY_RUNS


def test_a_position_that_was_moved_back_is_not_taken_forward_by_what_is_lost(cut: Cut) -> None:
    (row,) = cut.copy(cut.work(MOVED, copies_lost_again=True))
    assert (row.error, row.position, row.records) == (None, RECORDS, RECORDS - BACK)
    held = held_through_map(cut.destination, TopicPartition(MOVED, 0))
    assert held == consume(cut.source, MOVED, 0)
    assert len(consume(cut.destination, MOVED, 0)) == CUT + RECORDS - BACK


def test_lost_records_that_no_map_names_since_they_were_copied_twice_park_whatever_the_policy(cut: Cut) -> None:
    for again in (False, True, True):
        (row,) = cut.copy(cut.work(TWICE, copies_lost_again=again))
        assert isinstance(row.error, LostTailError)
        assert consume(cut.destination, TWICE, 0) == consume(cut.source, TWICE, 0, end=CUT)


def test_lost_records_behind_those_that_were_copied_twice_are_copied_again(cut: Cut) -> None:
    cut.copied(cut.work(LATER, copies_lost_again=True))
    assert held_through_map(cut.destination, TopicPartition(LATER, 0)) == consume(cut.source, LATER, 0)
    assert len(consume(cut.destination, LATER, 0)) == RECORDS + 40 - BACK


def test_a_cut_through_records_that_were_copied_twice_parks_whatever_the_policy(cut: Cut) -> None:
    (row,) = cut.copy(cut.work(WITHIN, copies_lost_again=True))
    assert isinstance(row.error, LostTailError)
    assert log_end(cut.destination, WITHIN) <= CUT


def test_progress_that_is_older_than_the_copy_parks_and_nothing_is_copied_twice(cut: Cut) -> None:
    end = log_end(cut.destination, OLD_PROGRESS)
    known = progress_of(cut.destination, TopicPartition(OLD_PROGRESS, 0))
    assert known is not None
    assert known.position == RECORDS
    (row,) = cut.copy(cut.work(OLD_PROGRESS))
    assert isinstance(row.error, LostProgressError)
    assert park_name(row.error) == "lost-progress"
    assert row.error.facts["destination_end"] == RECORDS
    assert log_end(cut.destination, OLD_PROGRESS) == end


def test_progress_behind_what_the_process_has_seen_committed_parks(
    cut: Cut, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    create_topic(cut.source, topic_name)
    create_topic(destination_kafka.bootstrap_servers, topic_name)
    cut.write(topic_name, 0, 20)
    work = map_work(destination_kafka.bootstrap_servers, TopicPartition(topic_name, 0))
    cut.copied(work)

    async def delete_progress() -> None:
        async with ClusterClient(settings_of(destination_kafka.bootstrap_servers)) as client:
            await client.topics.delete(ProgressTopics(mirror=topic_name, shards=1).progress)

    asyncio.run(delete_progress())
    (row,) = cut.copy(replace(work, orders=replace(work.orders, last_position=20)))
    assert isinstance(row.error, LostProgressError)
    assert len(consume(destination_kafka.bootstrap_servers, topic_name, 0)) == 20
