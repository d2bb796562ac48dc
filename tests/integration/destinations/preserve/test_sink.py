"""Preserve mode on real brokers: every field equal, at the same offset; anything foreign refused."""

import asyncio
import threading
from dataclasses import replace

import pytest

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import (
    DestinationAheadError,
    DestinationForeignError,
    RecordTooLargeError,
    SizeRefusedError,
    SourceGapError,
    SourceTruncatedError,
    TopicMissingError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.lease_worker import Worker
from mirrorlake.mirror.work import LeaseRow
from mirrorlake.offsets import TopicPartition
from support.leases import kafka_work, lease_plan, run_lease
from support.records import (
    CODECS,
    Record,
    build_batch,
    consume,
    every_kind,
    in_batches,
    produce,
    settings_of,
    simple_records,
)

pytestmark = pytest.mark.kafka


class Pair:
    """A topic on two clusters."""

    def __init__(self, source: EmbeddedKafka, destination: EmbeddedKafka, topic: str, run_async: RunAsync) -> None:
        self.source, self.destination, self.topic, self._run = source, destination, topic, run_async

    def create(self, partitions: int = 1, *, source: dict[str, str] | None = None, **configs: str) -> "Pair":
        async def create(servers: str, topic_configs: dict[str, str]) -> None:
            async with ClusterClient(settings_of(servers)) as client:
                await client.topics.create(
                    self.topic, partitions=partitions, replication_factor=1, configs=topic_configs
                )

        self._run(create(self.source.bootstrap_servers, source or {}))
        self._run(create(self.destination.bootstrap_servers, {k.replace("_", "."): v for k, v in configs.items()}))
        return self

    def write(self, records: list[Record], *, batch: int = 50, partition: int = 0, codec: int = 0) -> None:
        self._run(
            produce(self.source.bootstrap_servers, self.topic, partition, list(in_batches(records, batch, codec)))
        )

    def write_foreign(self, records: list[Record], partition: int = 0) -> None:
        self._run(produce(self.destination.bootstrap_servers, self.topic, partition, [build_batch(records)]))

    def delete_records(self, before: int, *, at_destination: bool = False) -> None:
        async def delete() -> None:
            servers = (self.destination if at_destination else self.source).bootstrap_servers
            async with ClusterClient(settings_of(servers)) as client:
                where = TopicPartition(self.topic, 0)
                assert (await client.delete_records({where: before}))[where] == before

        self._run(delete())

    def copy(
        self, *, end: int | None, partitions: int = 1, seconds: float = 20.0, batch_bytes_max: int = 1_048_588
    ) -> list[LeaseRow]:
        works = []
        for partition in range(partitions):
            where = TopicPartition(self.topic, partition)
            work = kafka_work(self.destination.bootstrap_servers, where, batch_bytes_max=batch_bytes_max)
            works.append((where, [work]))
        rows = run_lease(lease_plan(self.source.bootstrap_servers, works, end=end, seconds=seconds))
        return [rows[partition, "west"] for partition in range(partitions)]

    def held(self, partition: int = 0) -> dict[int, Record]:
        return consume(self.destination.bootstrap_servers, self.topic, partition)


@pytest.fixture
def pair(source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> Pair:
    return Pair(source_kafka, destination_kafka, topic_name, run_async)


@pytest.mark.parametrize("codec", CODECS)
def test_every_field_of_every_kind_of_record_is_equal_at_the_same_offset(pair: Pair, codec: str) -> None:
    pair.create()
    records = [record for seed in range(5) for record in every_kind(seed)]
    pair.write(records, batch=40, codec=CODECS[codec])
    (row,) = pair.copy(end=len(records))
    assert row.error is None
    assert row.position == len(records)
    assert row.batches == {"raw:dense": 5}
    assert pair.held() == dict(enumerate(records))


def test_a_second_lease_goes_on_where_the_first_ended(pair: Pair) -> None:
    pair.create()
    records = simple_records(300)
    pair.write(records[:100], batch=10)
    assert pair.copy(end=100)[0].position == 100
    pair.write(records[100:], batch=10)
    (row,) = pair.copy(end=300)
    assert (row.start_offset, row.position, row.error) == (100, 300, None)
    assert pair.held() == dict(enumerate(records))


def test_four_partitions_are_copied_side_by_side_and_one_that_fails_stops_none_of_the_others(pair: Pair) -> None:
    pair.create(4)
    records = simple_records(500)
    for partition in range(4):
        pair.write(records, batch=20, partition=partition)
    pair.write_foreign(simple_records(1, start=999), partition=2)
    rows = pair.copy(end=500, partitions=4)
    assert [row.position for row in rows if row.error is None] == [500, 500, 500]
    assert isinstance(rows[2].error, DestinationForeignError)
    assert len(pair.held(2)) == 1, "nothing was appended to the refused partition"
    for partition in (0, 1, 3):
        assert pair.held(partition) == dict(enumerate(records))


@pytest.mark.slow
def test_live_records_arrive_while_the_lease_runs(pair: Pair) -> None:
    pair.create()
    records = simple_records(60)
    pair.write(records[:20], batch=5)
    copied: list[LeaseRow] = []
    lease = threading.Thread(target=lambda: copied.extend(pair.copy(end=None, seconds=4.0)))
    lease.start()
    pair.write(records[20:40], batch=5)
    pair.write(records[40:], batch=5)
    lease.join()
    (row,) = copied
    assert row.error is None
    assert pair.held() == dict(enumerate(records))


def test_a_foreign_record_is_refused_also_when_the_source_has_grown_past_it(pair: Pair) -> None:
    pair.create()
    pair.write(simple_records(10))
    assert pair.copy(end=10)[0].error is None
    pair.write_foreign([Record(1, b"not", b"ours")])
    pair.write(simple_records(10, start=10))
    (row,) = pair.copy(end=20)
    assert isinstance(row.error, DestinationForeignError)
    assert "offset 10" in row.error.message
    assert "position 11" in row.error.message
    assert row.error.hint
    assert len(pair.held()) == 11


def test_a_destination_ahead_of_its_source_is_refused_with_both_offsets(pair: Pair) -> None:
    pair.create()
    pair.write(simple_records(3))
    pair.write_foreign(simple_records(5))
    (row,) = pair.copy(end=100, seconds=3.0)
    assert isinstance(row.error, DestinationAheadError | DestinationForeignError)
    assert "5" in row.error.message


@pytest.mark.slow
def test_a_source_that_no_longer_has_offset_zero_is_refused_before_anything_is_appended(pair: Pair) -> None:
    pair.create()
    pair.write(simple_records(30), batch=10)
    pair.delete_records(10)
    (row,) = pair.copy(end=30)
    assert isinstance(row.error, SourceTruncatedError)
    assert row.error.facts["log_start"] == 10
    assert row.error.facts["position"] == 0
    assert pair.held() == {}


def test_a_destination_whose_old_records_were_deleted_is_resumed(pair: Pair) -> None:
    pair.create()
    pair.write(simple_records(100), batch=10)
    assert pair.copy(end=100)[0].error is None
    pair.delete_records(100, at_destination=True)
    pair.write(simple_records(20, start=100), batch=10)
    (row,) = pair.copy(end=120)
    assert row.error is None
    assert pair.held() == {n: record for n, record in enumerate(simple_records(120)) if n >= 100}


def test_transaction_markers_are_a_gap_and_refused_where_they_stand(pair: Pair, run_async: RunAsync) -> None:
    pair.create()
    pair.write(simple_records(10))

    async def marker() -> None:
        async with ClusterClient(settings_of(pair.source.bootstrap_servers)) as client:
            name = f"tx-{pair.topic}"
            identity = await client.init_producer_id(name, transaction_timeout_ms=10_000)
            await client.add_partitions_to_transaction(name, identity, [TopicPartition(pair.topic, 0)])
            await client.end_transaction(name, identity, committed=True)
            where = TopicPartition(pair.topic, 0)
            # The answer comes before the marker is in the log.
            while (await client.list_offsets([where], timestamp=-1))[where] != 11:
                await asyncio.sleep(0.01)

    run_async(marker())
    pair.write(simple_records(10, start=11))
    (row,) = pair.copy(end=21)
    assert isinstance(row.error, SourceGapError)
    assert (row.error.facts["position"], row.error.facts["gap_end"]) == (10, 11)
    assert row.position == 10
    assert pair.held() == dict(enumerate(simple_records(10)))


def test_a_position_inside_a_source_batch_is_filled_up_from_its_records(pair: Pair) -> None:
    pair.create()
    records = simple_records(40)
    pair.write(records, batch=40)
    pair.write_foreign(records[:25])
    (row,) = pair.copy(end=40)
    assert row.error is None, "the records that are there are the source's own"
    assert row.batches == {"records:overlap": 1}
    assert pair.held() == dict(enumerate(records))


def test_log_append_times_at_the_source_stay_what_readers_saw(pair: Pair) -> None:
    pair.create(source={"message.timestamp.type": "LogAppendTime"})
    pair.write(simple_records(30), batch=10)
    expected = consume(pair.source.bootstrap_servers, pair.topic, 0)
    (row,) = pair.copy(end=30)
    assert row.error is None
    assert row.batches == {"records:log-append-time": 3}
    assert pair.held() == expected


def test_a_batch_larger_than_the_destination_takes_is_split(pair: Pair) -> None:
    pair.create(max_message_bytes="2000")
    records = [*simple_records(5), *simple_records(9, start=5, size=900)]
    pair.write(records[:5], batch=5)
    pair.write(records[5:], batch=9)
    (row,) = pair.copy(end=14, batch_bytes_max=2000)
    assert (row.error, row.position, row.records) == (None, 14, 14)
    assert pair.held() == dict(enumerate(records))


def test_a_record_larger_than_the_destination_takes_is_refused_with_both_sizes(pair: Pair) -> None:
    pair.create(max_message_bytes="2000")
    records = [*simple_records(7), *simple_records(1, start=7, size=2100)]
    pair.write(records, batch=8)
    (row,) = pair.copy(end=8, batch_bytes_max=2000)
    assert isinstance(row.error, RecordTooLargeError)
    assert row.error.facts["offset"] == 7
    assert "takes 2000 bytes" in row.error.message
    assert "max.message.bytes" in row.error.hint
    assert row.position == 7, "what comes before it is copied"
    assert pair.held() == dict(enumerate(records[:7]))


@pytest.mark.slow
def test_a_limit_lowered_behind_our_back_is_the_brokers_refusal_and_loses_nothing(pair: Pair) -> None:
    pair.create(max_message_bytes="2000")
    pair.write(simple_records(5, size=900), batch=5)
    (row,) = pair.copy(end=5)
    assert isinstance(row.error, SizeRefusedError), "the next lease reads the limit again, and splits by it"
    assert row.error.facts["records"] == 5
    assert pair.held() == {}


def test_a_missing_destination_topic_is_named(pair: Pair, run_async: RunAsync) -> None:
    async def create_source() -> None:
        async with ClusterClient(settings_of(pair.source.bootstrap_servers)) as client:
            await client.topics.create(pair.topic, partitions=1, replication_factor=1)

    run_async(create_source())
    (row,) = pair.copy(end=1, seconds=3.0)
    assert isinstance(row.error, TopicMissingError)
    assert pair.topic in row.error.message


@pytest.mark.slow
def test_two_writers_at_once_give_one_equal_copy(pair: Pair) -> None:
    pair.create(2)
    records = simple_records(6000)
    for partition in range(2):
        pair.write(records, batch=7, partition=partition)
    writers = [threading.Thread(target=lambda: pair.copy(end=6000, partitions=2, seconds=30.0)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    rows = pair.copy(end=6000, partitions=2)
    assert [row.error for row in rows] == [None, None]
    for partition in range(2):
        assert pair.held(partition) == dict(enumerate(records))


def test_two_kafka_destinations_and_two_mirrors_of_one_partition_are_each_copied_right(
    pair: Pair, run_async: RunAsync
) -> None:
    pair.create()
    topics = [pair.topic, f"{pair.topic}-second", f"{pair.topic}-other-mirror"]

    async def create() -> None:
        async with ClusterClient(settings_of(pair.destination.bootstrap_servers)) as client:
            for topic in topics[1:]:
                await client.topics.create(topic, partitions=1, replication_factor=1)

    run_async(create())
    where = TopicPartition(pair.topic, 0)
    servers = pair.destination.bootstrap_servers
    first = [kafka_work(servers, where, topic=topics[0], mirror="one"), kafka_work(servers, where, topic=topics[1])]
    first[1] = replace(first[1], destination="second")
    other = [kafka_work(servers, where, topic=topics[2], mirror="other")]
    for end in (200, 400):
        pair.write(simple_records(200, start=end - 200), batch=20)
        plan = lease_plan(pair.source.bootstrap_servers, [(where, first), (where, other)], end=end)
        worker = Worker()
        rows = worker.run(plan)
        worker.close()
        assert [row.error for row in rows] == [None, None, None]
    for topic in topics:
        assert consume(servers, topic, 0) == dict(enumerate(simple_records(400)))
