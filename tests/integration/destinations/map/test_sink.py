"""Map mode on real brokers: every kind of source, other writers, several sources; the map exact, nothing left open."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from mirrorlake.destinations.map.offset_map import RUNS_PER_PAGE_MAX
from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.map.settings import MapStart, map_transactional_id
from mirrorlake.destinations.map.work import MapWork
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import (
    DestinationForeignError,
    MirrorlakeError,
    RecordRefusedError,
    RecordTooLargeError,
    SourceTruncatedError,
    TopicRecreatedError,
    UnsupportedError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ProducerIdentity, TransactionState
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import StartKind, TopicPartition
from support.compaction import append_and_compact, create_compacted, keyed_records
from support.copies import create_topic, log_end, source_end, wait_until
from support.leases import lease_plan, map_work, run_lease
from support.map_copies import (
    assert_equal_through_map,
    assert_nothing_open,
    held_through_map,
    offset_map_of,
    progress_of,
)
from support.records import CODECS, Record, build_batch, consume, every_kind, produce, settings_of, simple_records
from support.topics import append
from support.transactions import append_in_transaction

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

FOREIGN = Record(7, b"somebody", b"else's")


class Mapping:
    """A topic on two clusters, and leases that map from one to the other."""

    def __init__(self, source: str, destination: str, topic: str) -> None:
        self.source, self.destination, self.topic = source, destination, topic

    def at(self, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def create(self, partitions: int = 1, **configs: str) -> None:
        for servers in (self.source, self.destination):
            create_topic(servers, self.topic, partitions, **configs)

    def write(self, first: int, count: int, *, partition: int = 0, batch: int = 10) -> None:
        append(self.source, self.topic, partition, simple_records(count, start=first), batch_records=batch)

    def copy(self, *works: MapWork, seconds: float = 20.0, ends: dict[int, int] | None = None) -> dict[int, LeaseRow]:
        """One lease up to the source's ends; of partition 0 unless works say otherwise."""
        chosen = works or (map_work(self.destination, self.at()),)
        plan = lease_plan(self.source, [(work.settings.source, [work]) for work in chosen], end=None, seconds=seconds)
        known = ends or {}
        ended = [
            replace(each, end_offset=known.get(each.source.partition, source_end(self.source, *_names(each.source))))
            for each in plan.partitions
        ]
        return {number: row for (number, _), row in run_lease(replace(plan, partitions=tuple(ended))).items()}

    def copied(self, *works: MapWork) -> LeaseRow:
        (row,) = self.copy(*works).values()
        assert row.error is None, row.error
        return row

    def client(self, act: Callable[[ClusterClient], Coroutine[Any, Any, Any]], *, at_source: bool = False) -> Any:
        async def run() -> Any:
            async with ClusterClient(settings_of(self.source if at_source else self.destination)) as client:
                return await act(client)

        return asyncio.run(run())


def _names(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


@pytest.fixture
def mapping(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str) -> Iterator[Mapping]:
    """Whatever the test does: no transaction of ours is open when it ends."""
    made = Mapping(source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers, topic_name)
    yield made
    topics = made.client(lambda client: client.metadata(refresh=True)).topics
    if ProgressTopics(mirror=topic_name, shards=1).progress in topics:
        parts = [TopicPartition(topic_name, number) for number in topics[topic_name].partitions]
        assert_nothing_open(made.destination, topic_name, *parts)


# --- sources ------------------------------------------------------------------------------------------------


@pytest.mark.quick
def test_every_codec_and_every_kind_of_record_arrives_unchanged(mapping: Mapping) -> None:
    mapping.create()
    for seed, codec in enumerate(CODECS.values()):
        asyncio.run(produce(mapping.source, mapping.topic, 0, [build_batch(every_kind(seed), codec)]))
    row = mapping.copied()
    assert row.batches == {"raw:dense": 5}
    assert row.records == assert_equal_through_map(mapping.source, mapping.destination, mapping.at()) == 180


def test_markers_aborted_data_and_interleaved_producers_only_move_the_position(mapping: Mapping) -> None:
    mapping.create()
    asyncio.run(_interleaved(mapping.source, mapping.topic))
    mapping.write(100, 5)
    append_in_transaction(mapping.source, mapping.topic, simple_records(4, start=200), committed=False)
    end = source_end(mapping.source, mapping.topic)
    row = mapping.copied()
    assert row.position == end
    # 6 committed, 6 aborted, two markers; 5 plain; 4 aborted and their marker
    assert (row.records, row.gap_offsets) == (11, {"absent": 13})
    assert assert_equal_through_map(mapping.source, mapping.destination, mapping.at()) == 11


async def _interleaved(servers: str, topic: str) -> None:
    """Two transactions, record by record in turn; the first is committed, the second aborted."""
    producers = [AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"{topic}-{n}") for n in range(2)]
    for producer in producers:
        await producer.start()
        await producer.begin_transaction()
    for number in range(6):
        for producer in producers:
            await producer.send_and_wait(topic, b"v%d" % number, b"k", 0)
    await producers[0].commit_transaction()
    await producers[1].abort_transaction()
    for producer in producers:
        await producer.stop()


def test_an_open_transaction_at_the_source_is_waited_for_and_then_copied(mapping: Mapping) -> None:
    mapping.create()
    mapping.write(0, 10)

    async def leave_open() -> tuple[int | None, int, MirrorlakeError | None]:
        producer = AIOKafkaProducer(bootstrap_servers=mapping.source, transactional_id=mapping.topic)
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait(mapping.topic, b"open", b"k", 0)
        await asyncio.to_thread(mapping.write, 10, 10)
        before = (await asyncio.to_thread(mapping.copy, seconds=4.0, ends={0: 100}))[0]
        await producer.commit_transaction()
        await producer.stop()
        return before.position, before.records, before.error

    position, records, error = asyncio.run(leave_open())
    assert (position, records, error) == (10, 10, None)
    wait_until(lambda: source_end(mapping.source, mapping.topic) == 22, "the marker")
    assert mapping.copied().position == 22
    assert assert_equal_through_map(mapping.source, mapping.destination, mapping.at()) == 21


def test_a_compacted_source_is_copied_as_what_is_left_of_it_packed_into_dense_batches(mapping: Mapping) -> None:
    create_compacted(mapping.source, mapping.topic)
    create_topic(mapping.destination, mapping.topic)
    clean = append_and_compact(mapping.source, mapping.topic, keyed_records(60, 7), left={*range(53, 60), 60})
    row = mapping.copied()
    assert (row.position, row.records, row.gap_offsets) == (61, 8, {"absent": 53})
    assert held_through_map(mapping.destination, mapping.at()) == clean
    assert list(consume(mapping.destination, mapping.topic, 0).values()) == list(clean.values())


def test_a_map_of_more_runs_than_a_page_takes_is_exact_over_several_leases(mapping: Mapping) -> None:
    mapping.create()
    for _ in range(3):
        asyncio.run(_many_transactions(mapping.source, mapping.topic, RUNS_PER_PAGE_MAX * 2 // 3))
        assert mapping.copied().error is None
    offset_map = offset_map_of(mapping.destination, mapping.at())
    assert len(offset_map.runs) > RUNS_PER_PAGE_MAX
    progress = progress_of(mapping.destination, mapping.at())
    assert progress is not None
    assert progress.page.start_offset > 0, "no page became full"
    assert assert_equal_through_map(mapping.source, mapping.destination, mapping.at()) == 2 * 3 * (
        RUNS_PER_PAGE_MAX * 2 // 3
    )


async def _many_transactions(servers: str, topic: str, count: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic)
    await producer.start()
    for number in range(count):
        async with producer.transaction():
            await producer.send_and_wait(topic, b"%d" % number, b"k", 0)
            await producer.send_and_wait(topic, b"%d" % number, None, 0)
    await producer.stop()


def test_batches_above_the_destinations_limit_are_split_and_a_record_above_it_parks_with_both_sizes(
    mapping: Mapping,
) -> None:
    create_topic(mapping.source, mapping.topic)
    create_topic(mapping.destination, mapping.topic, max_message_bytes="3000")
    records = simple_records(50, size=200)
    append(mapping.source, mapping.topic, 0, records, batch_records=50)
    work = map_work(mapping.destination, mapping.at(), batch_bytes_max=3000)
    row = mapping.copied(work)
    assert row.batches["records:too-large"] >= 4
    assert assert_equal_through_map(mapping.source, mapping.destination, mapping.at()) == 50
    append(mapping.source, mapping.topic, 0, [*simple_records(3, start=50), Record(1, b"k", bytes(5000))])
    (row,) = mapping.copy(work).values()
    assert isinstance(row.error, RecordTooLargeError)
    assert (row.error.facts["offset"], row.error.facts["limit"]) == (53, 3000)
    assert row.position == 53, "what comes before it is copied"


def test_a_refused_record_parks_its_partition_and_the_others_of_the_shard_go_on(mapping: Mapping) -> None:
    create_topic(mapping.source, mapping.topic, 3)
    create_topic(mapping.destination, mapping.topic, 3, cleanup_policy="compact")
    for partition in range(3):
        mapping.write(0, 100, partition=partition)
    append(mapping.source, mapping.topic, 1, [Record(1, None, b"no key for a compacted topic")])
    works = [map_work(mapping.destination, mapping.at(n)) for n in range(3)]
    # A lease that goes on: where it ended with the refusal, the others would go on in the next.
    rows = mapping.copy(*works, ends=dict.fromkeys(range(3), 1000), seconds=2.0)
    assert isinstance(rows[1].error, RecordRefusedError)
    assert [rows[0].error, rows[2].error] == [None, None]
    assert [rows[0].position, rows[2].position] == [100, 100]
    for partition in (0, 2):
        held = held_through_map(mapping.destination, mapping.at(partition))
        assert held == dict(enumerate(simple_records(100)))


# --- several sources, other writers -------------------------------------------------------------------------


def test_several_partitions_of_a_shard_share_its_transactions(mapping: Mapping) -> None:
    mapping.create(5)
    for partition in range(5):
        mapping.write(0, 40 * (partition + 1), partition=partition)
    rows = mapping.copy(*(map_work(mapping.destination, mapping.at(n)) for n in range(5)))
    assert [rows[n].error for n in range(5)] == [None] * 5
    assert [rows[n].position for n in range(5)] == [40, 80, 120, 160, 200]
    for partition in range(5):
        assert_equal_through_map(mapping.source, mapping.destination, mapping.at(partition))
    handed = [row.hand_off for row in rows.values()]
    assert handed[0] is not None
    assert handed == [handed[0]] * 5


def test_two_partitions_may_go_to_one_and_each_keeps_its_order(mapping: Mapping) -> None:
    create_topic(mapping.source, mapping.topic, 2)
    create_topic(mapping.destination, mapping.topic, 1)
    for partition in range(2):
        mapping.write(1000 * partition, 300, partition=partition, batch=3)
    rows = mapping.copy(*(map_work(mapping.destination, mapping.at(n), partition=0) for n in range(2)))
    assert [row.error for row in rows.values()] == [None, None]
    for partition in range(2):
        held = held_through_map(mapping.destination, mapping.at(partition), partition=0)
        assert held == dict(enumerate(simple_records(300, start=1000 * partition)))
    assert len(consume(mapping.destination, mapping.topic, 0)) == 600


def test_two_mirrors_and_another_writer_share_a_topic_and_every_record_is_there_once(mapping: Mapping) -> None:
    other = TopicPartition(f"{mapping.topic}-other", 0)
    create_topic(mapping.source, other.topic)
    mapping.create()
    mapping.write(0, 2000, batch=4)
    append(mapping.source, other.topic, 0, simple_records(2000, start=5000), batch_records=4)
    works = [
        (mapping.at(), map_work(mapping.destination, mapping.at())),
        (other, map_work(mapping.destination, other, topic=mapping.topic)),
    ]
    stop = threading.Event()

    def interfere() -> None:
        while not stop.is_set():
            asyncio.run(produce(mapping.destination, mapping.topic, 0, [build_batch([FOREIGN])]))

    writer = threading.Thread(target=interfere)
    writer.start()
    rows: dict[str, LeaseRow] = {}

    def lease(source: TopicPartition, work: MapWork) -> None:
        (rows[source.topic],) = run_lease(lease_plan(mapping.source, [(source, [work])], end=2000)).values()

    leases = [threading.Thread(target=lease, args=each) for each in works]
    for each in leases:
        each.start()
    for each in leases:
        each.join()
    stop.set()
    writer.join()
    assert [row.error for row in rows.values()] == [None, None]
    ours = held_through_map(mapping.destination, mapping.at())
    theirs = held_through_map(mapping.destination, other, topic=mapping.topic, mirror=other.topic)
    assert ours == dict(enumerate(simple_records(2000)))
    assert theirs == dict(enumerate(simple_records(2000, start=5000)))
    everything = list(consume(mapping.destination, mapping.topic, 0).values())
    assert len(everything) == 4000 + everything.count(FOREIGN)
    assert everything.count(FOREIGN) > 0
    assert_nothing_open(mapping.destination, other.topic, mapping.at())


# --- start, and what must be noticed ------------------------------------------------------------------------


def test_latest_begins_at_the_end_that_was_seen_first_whatever_comes_before_the_first_record(mapping: Mapping) -> None:
    mapping.create()
    mapping.write(0, 30)
    work = map_work(mapping.destination, mapping.at(), start=MapStart(kind=StartKind.LATEST))
    row = mapping.copied(work)
    assert (row.start_offset, row.position, row.records) == (30, 30, 0)
    mapping.write(30, 20)
    # Another process, another life: the start was decided once.
    row = mapping.copied(work)
    assert (row.start_offset, row.position, row.records) == (30, 50, 20)
    assert assert_equal_through_map(mapping.source, mapping.destination, mapping.at(), start=30) == 20
    assert offset_map_of(mapping.destination, mapping.at()).covered.start_offset == 30


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (MapStart(kind=StartKind.TIMESTAMP, timestamp_ms=1_700_000_000_025), 25),
        (MapStart(kind=StartKind.TIMESTAMP, timestamp_ms=1_800_000_000_000), 60),
        (MapStart(kind=StartKind.OFFSETS, offset=17), 17),
        (MapStart(kind=StartKind.OFFSETS), 5),
        (MapStart(), 5),
    ],
    ids=["time", "time past the end", "offset", "no offset given", "earliest"],
)
def test_a_partition_begins_where_it_is_told(mapping: Mapping, start: MapStart, expected: int) -> None:
    mapping.create()
    mapping.write(0, 60)
    mapping.client(lambda client: client.delete_records({mapping.at(): 5}), at_source=True)
    row = mapping.copied(map_work(mapping.destination, mapping.at(), start=start))
    assert (row.start_offset, row.position, row.records) == (expected, 60, 60 - expected)
    assert_equal_through_map(mapping.source, mapping.destination, mapping.at(), start=expected)


def test_a_partition_that_begins_by_age_leaves_out_what_is_older_then_and_nothing_later(mapping: Mapping) -> None:
    mapping.create()
    mapping.write(0, 60)  # of 2023
    hour_ago_ms = int((time.time() - 3600) * 1000)
    append(mapping.source, mapping.topic, 0, simple_records(10, start=60, timestamp=hour_ago_ms))
    work = map_work(mapping.destination, mapping.at(), start=MapStart(kind=StartKind.MAX_AGE, max_age_seconds=7200.0))
    row = mapping.copied(work)
    assert (row.start_offset, row.position, row.records) == (60, 70, 10)
    mapping.write(70, 5)
    # Of 2023 too: its age counts where the partition begins, and not where it stands already.
    younger = MapStart(kind=StartKind.MAX_AGE, max_age_seconds=60.0)
    row = mapping.copied(map_work(mapping.destination, mapping.at(), start=younger))
    assert (row.position, row.records) == (75, 5)
    assert assert_equal_through_map(mapping.source, mapping.destination, mapping.at(), start=60) == 15


def test_a_source_truncated_past_the_position_parks_or_is_gone_on_with_as_told(mapping: Mapping) -> None:
    mapping.create()
    mapping.write(0, 20)
    assert mapping.copied().position == 20
    mapping.write(20, 30)
    mapping.client(lambda client: client.delete_records({mapping.at(): 35}), at_source=True)
    (row,) = mapping.copy().values()
    assert isinstance(row.error, SourceTruncatedError)
    assert (row.position, row.error.facts["position"], row.error.facts["log_start"]) == (20, 20, 35)
    row = mapping.copied(map_work(mapping.destination, mapping.at(), skips_truncated=True))
    assert (row.position, row.records, row.gap_offsets) == (50, 15, {"truncated": 15})
    offset_map = offset_map_of(mapping.destination, mapping.at())
    assert [offset_map.destination_of(offset) is None for offset in (19, 20, 34, 35)] == [False, True, True, False]


def test_progress_of_another_source_or_an_earlier_topic_is_refused_before_anything_is_written(
    mapping: Mapping,
) -> None:
    mapping.create()
    mapping.write(0, 20)
    work = map_work(mapping.destination, mapping.at(), source_cluster_id="east", source_topic_id="first")
    mapping.copied(work)
    end = log_end(mapping.destination, mapping.topic)
    mapping.write(20, 20)
    for settings, kind in (
        (replace(work.settings, source_cluster_id="north"), DestinationForeignError),
        (replace(work.settings, source_topic_id="second"), TopicRecreatedError),
    ):
        (row,) = mapping.copy(replace(work, settings=settings)).values()
        assert isinstance(row.error, kind)
        assert row.error.hint
    assert log_end(mapping.destination, mapping.topic) == end
    assert mapping.copied(work).position == 40


def test_a_recreated_source_topic_is_begun_anew_where_the_policy_says_so(mapping: Mapping) -> None:
    mapping.create()
    mapping.write(0, 20)
    first = map_work(mapping.destination, mapping.at(), source_cluster_id="east", source_topic_id="first")
    assert mapping.copied(first).position == 20
    mapping.write(20, 10)
    second = replace(first, settings=replace(first.settings, source_topic_id="second", restarts_recreated=True))
    row = mapping.copied(second)
    assert (row.start_offset, row.position, row.records) == (0, 30, 30)
    # Once only: the progress is that of the new topic now.
    assert mapping.copied(second).records == 0
    assert held_through_map(mapping.destination, mapping.at()) == dict(enumerate(simple_records(30)))
    values = [record.value for record in consume(mapping.destination, mapping.topic, 0).values()]
    assert values == [record.value for record in [*simple_records(20), *simple_records(30)]]


def test_a_recreated_destination_topic_is_noticed(mapping: Mapping) -> None:
    mapping.create()
    mapping.write(0, 20)
    mapping.copied()

    async def make_again(client: ClusterClient) -> None:
        await client.topics.delete(mapping.topic)

    mapping.client(make_again)
    wait_until(
        lambda: mapping.topic not in mapping.client(lambda c: c.metadata([mapping.topic], refresh=True)).topics, "gone"
    )
    create_topic(mapping.destination, mapping.topic)
    mapping.write(20, 20)
    (row,) = mapping.copy().values()
    assert isinstance(row.error, DestinationForeignError)
    assert "recreated" in row.error.message
    assert log_end(mapping.destination, mapping.topic) == 0


def test_a_progress_topic_that_would_forget_is_refused(mapping: Mapping) -> None:
    mapping.create()
    mapping.write(0, 20)
    create_topic(mapping.destination, ProgressTopics(mirror=mapping.topic, shards=1).progress, cleanup_policy="delete")
    (row,) = mapping.copy().values()
    assert isinstance(row.error, UnsupportedError)
    assert "cleanup.policy" in row.error.message
    assert log_end(mapping.destination, mapping.topic) == 0


# --- hand-offs ----------------------------------------------------------------------------------------------


def epoch_of(mapping: Mapping) -> ProducerIdentity:
    name = map_transactional_id(mapping.topic, 0)
    found = mapping.client(lambda client: client.describe_transactions([name]))[name]
    assert isinstance(found, TransactionState)
    return ProducerIdentity(producer_id=found.producer_id, producer_epoch=found.producer_epoch)


def test_a_lease_that_ended_cleanly_hands_its_identity_on_and_no_epoch_is_spent(mapping: Mapping) -> None:
    mapping.create()
    hand_off, epochs = None, []
    for lease in range(4):
        mapping.write(50 * lease, 50)
        row = mapping.copied(map_work(mapping.destination, mapping.at(), hand_off=hand_off))
        hand_off = row.hand_off
        epochs.append(epoch_of(mapping))
    assert epochs == [epochs[0]] * 4
    assert assert_equal_through_map(mapping.source, mapping.destination, mapping.at()) == 200


def test_a_hand_off_from_before_another_lease_is_not_trusted(mapping: Mapping) -> None:
    mapping.create()
    mapping.write(0, 50)
    old = mapping.copied().hand_off
    mapping.write(50, 50)
    newer = mapping.copied(map_work(mapping.destination, mapping.at(), hand_off=old))
    before = epoch_of(mapping)
    mapping.write(100, 50)
    # The same epoch still, but its sequences have moved on: appended with the old ones, these would count as known.
    mapping.copied(map_work(mapping.destination, mapping.at(), hand_off=old))
    assert newer.hand_off != old
    assert epoch_of(mapping).producer_epoch == before.producer_epoch + 1
    assert assert_equal_through_map(mapping.source, mapping.destination, mapping.at()) == 150
