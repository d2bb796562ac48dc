"""Schedules that break a naive exactly-once copy, driven on real brokers: right offsets, or a named stop.

Each test makes the broker, the network or another writer do the worst thing at the worst moment, and says in its
assertions that this moment was really hit. The attacks are listed in ``docs/faults.md``.
"""

import asyncio
import struct
import time
from collections.abc import Iterator

import crc32c
import pytest
from aiokafka import AIOKafkaProducer

from conftest import RunAsync
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import BrokerNotReadyError, DestinationForeignError, OutcomeUnknownError, PositionMovedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.mirror.work import LeasePlan, LeaseRow
from mirrorlake.offsets import TopicPartition
from support.cleanliness import assert_clean
from support.copies import assert_equal_in_kafka, create_topic, log_end, source_end, wait_until
from support.kafka_nodes import TRANSACTION_STATE, KafkaNodes
from support.lease_processes import LeaseProcesses, run_leases_until
from support.leases import kafka_work, lease_plan, map_work, run_lease
from support.lossy import Lossy, leases_aside
from support.proxy import DESCRIBE_PRODUCERS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH, PRODUCE, Proxy
from support.records import build_batch, consume, in_batches, produce, settings_of, simple_records

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TWO_DAYS_MS = 2 * 86_400_000


def forgets_producers(servers: str, where: TopicPartition) -> None:
    """Waits until the broker remembers no producer of the partition."""

    async def known() -> object:
        async with ClusterClient(settings_of(servers)) as client:
            return (await client.describe_producers([where]))[where]

    wait_until(lambda: asyncio.run(known()) == (), "the producer to be forgotten")


@pytest.fixture
def old(proxy: Proxy, source_kafka: EmbeddedKafka, topic_name: str, run_async: RunAsync) -> Iterator[Lossy]:
    """A copy of records so old that the destination forgets their producer a moment after each append."""
    made = Lossy(source_kafka, proxy, topic_name, run_async, old_by_ms=TWO_DAYS_MS)
    yield made
    made.worker.close()
    proxy.forgive()
    assert_clean(proxy.address, [topic_name])


# --- A1: the log end is not the high watermark ----------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.parametrize("is_new_owner", [True, False], ids=["new-owner", "same-owner"])
def test_a_batch_that_is_appended_but_not_replicated_yet_is_not_copied_a_second_time(
    is_new_owner: bool,
    kafka_nodes: KafkaNodes,
    source_kafka: EmbeddedKafka,
    topic_name: str,
    lease_processes: LeaseProcesses,
) -> None:
    # One server: who asks the frozen one first waits until its time is over.
    source, destination = source_kafka.bootstrap_servers, f"127.0.0.1:{kafka_nodes.nodes[1].port}"
    create_topic(source, topic_name)
    kafka_nodes.move(TRANSACTION_STATE, [1])  # or the frozen one may be the coordinator
    kafka_nodes.create_topic(topic_name, {0: [1, 2]})
    where = TopicPartition(topic_name, 0)

    def plan(end: int | None) -> LeasePlan:
        work = kafka_work(destination, where, needs_tail_check=is_new_owner)
        return lease_plan(source, [(where, [work])], end=end, seconds=60.0)

    def append(start: int) -> None:
        asyncio.run(produce(source, topic_name, 0, list(in_batches(simple_records(10, start=start), 10))))

    append(0)
    first = lease_processes.start(run_leases_until, plan(None), float("inf"))
    wait_until(lambda: source_end(destination, topic_name) == 10, "the first batch")
    kafka_nodes.nodes[2].pause()
    try:
        append(10)
        # The leader has it, nobody else, and the writer that waits for its answer dies.
        wait_until(lambda: log_end(destination, topic_name) == 20, "the unreplicated batch")
        first.kill()
        first.join()
        append(20)
        with leases_aside(plan(30)) as rows:
            if is_new_owner:
                wait_until(lambda: rows, "an attempt")
            else:
                wait_until(lambda: log_end(destination, topic_name) >= 30, "the next batch", log=lambda: str(rows))
            assert source_end(destination, topic_name) == 10, "the follower was out of the way too soon"
            kafka_nodes.nodes[2].resume()
    finally:
        kafka_nodes.nodes[2].resume()
        kafka_nodes.await_all()
    if is_new_owner:
        # What nobody can read yet cannot be compared either, and is no reason to park.
        assert isinstance(rows[0].error, BrokerNotReadyError)
    assert (rows[-1].error, rows[-1].start_offset, rows[-1].position) == (None, 20, 30)
    assert assert_equal_in_kafka(source, destination, topic_name) == 30
    assert_clean(destination, [topic_name])


# --- A2: sequence before end; the first batch alone -----------------------------------------------------------


@pytest.mark.parametrize("held", [DESCRIBE_PRODUCERS, OFFSET_FOR_LEADER_EPOCH], ids=["sequence", "end"])
def test_a_writer_that_is_overtaken_in_the_middle_of_its_claim_displaces_nothing(held: int, lossy: Lossy) -> None:
    lossy.write(20)
    lossy.copy()
    lossy.write(100)
    request = lossy.proxy.hold(held)
    with leases_aside(lossy.plan(20.0)) as rows:
        request.await_arrival()
        # The other writer appends one batch, of the very size and sequence the first one will send next.
        (other,) = lossy.worker.run(lossy.plan(10.0, end=30))
        assert (other.error, other.position) == (None, 30)
        request.release()
    assert (rows[-1].error, rows[-1].position) == (None, 120)
    if held == OFFSET_FOR_LEADER_EPOCH:
        # The pair contradicted itself: the broker called the first batch a duplicate, and the claim was read again.
        assert isinstance(rows[0].error, PositionMovedError)
    lossy.assert_equal()


def test_a_batch_that_stays_on_its_way_while_others_write_is_refused_when_it_arrives(lossy: Lossy) -> None:
    lossy.write(20)
    lossy.copy()
    lossy.write(100)
    late = lossy.proxy.hold(PRODUCE)
    with leases_aside(lossy.plan(2.0), count=1):
        late.await_arrival()
        lossy.copy()
    late.release()
    lossy.write(50)
    lossy.copy()
    lossy.assert_equal()


# --- A5: the destination has forgotten the producer -----------------------------------------------------------


@pytest.mark.parametrize("copied", [0, 20], ids=["first-batch", "later-batch"])
def test_an_answer_lost_before_the_producer_was_forgotten_doubles_nothing(copied: int, old: Lossy) -> None:
    old.write(copied)
    old.copy()
    old.write(60 - copied)
    old.proxy.cut_before_answer(PRODUCE)
    claim_after = old.proxy.hold(DESCRIBE_PRODUCERS, after_requests=2)
    with leases_aside(old.plan(30.0)) as rows:
        claim_after.await_arrival()
        forgets_producers(old.proxy.address, old.where)
        claim_after.release()
    assert isinstance(rows[0].error, OutcomeUnknownError)
    assert (rows[-1].error, rows[-1].position) == (None, 60)
    old.assert_equal()


def test_a_late_batch_that_a_forgetful_destination_accepts_stops_the_partition_before_a_record_is_skipped(
    old: Lossy,
) -> None:
    old.write(60)
    late = old.proxy.hold(PRODUCE)
    with leases_aside(old.plan(1.0), count=1):
        late.await_arrival()
    (row,) = old.worker.run(old.plan(10.0))
    assert (row.error, row.position) == (None, 60)
    forgets_producers(old.proxy.address, old.where)
    late.release()  # no broker can tell that these records were there before
    wait_until(lambda: log_end(old.proxy.address, old.topic) > 60, "the late batch")
    end = log_end(old.proxy.address, old.topic)
    old.write(100)
    (row,) = old.worker.run(old.plan(10.0))
    assert isinstance(row.error, DestinationForeignError)
    assert row.error.facts["differing_offset"] == 60
    assert row.records == 0
    assert log_end(old.proxy.address, old.topic) == end


# --- A7: progress above an open transaction -------------------------------------------------------------------


def test_progress_that_an_unknown_producers_open_transaction_hides_is_waited_for_and_not_taken_for_old(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    for servers in (source, destination):
        create_topic(servers, topic_name)
    where = TopicPartition(topic_name, 0)
    work = map_work(destination, where)
    progress = work.settings.topics.progress

    def copy(end: int) -> LeaseRow:
        return run_lease(lease_plan(source, [(where, [work])], end=end, seconds=3.0))[0, "west"]

    async def copy_under_an_open_transaction() -> LeaseRow:
        producer = AIOKafkaProducer(bootstrap_servers=destination, transactional_id=f"unknown-producer-{topic_name}")
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait(progress, b"not ours", b"not ours", 0)
            row = await asyncio.to_thread(copy, 40)
            await producer.abort_transaction()
        finally:
            await producer.stop()
        return row

    asyncio.run(produce(source, topic_name, 0, list(in_batches(simple_records(40), 10))))
    assert copy(20).error is None
    held = log_end(destination, topic_name)
    # What is above the last stable offset might be progress: read as if it ended there, 20 … 39 could come twice.
    assert isinstance(asyncio.run(copy_under_an_open_transaction()).error, BrokerNotReadyError)
    assert log_end(destination, topic_name) == held
    assert_clean(destination, [topic_name, progress])
    row = copy(40)
    assert (row.error, row.position) == (None, 40)
    values = [record.value for record in consume(destination, topic_name, 0).values()]
    assert values == [record.value for record in simple_records(40)]


# --- sequences and identities ---------------------------------------------------------------------------------


def with_producer(batch: bytes, identity: ProducerIdentity, sequence: int) -> bytes:
    """The batch as a producer of that identity would have sent it."""
    changed = bytearray(batch)
    struct.pack_into(">qhi", changed, 43, identity.producer_id, identity.producer_epoch, sequence)
    struct.pack_into(">I", changed, 17, crc32c.crc32c(bytes(changed[21:])))
    return bytes(changed)


def test_sequences_go_on_from_zero_after_the_highest_one(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    for servers in (source, destination):
        create_topic(servers, topic_name)
    where = TopicPartition(topic_name, 0)
    work = kafka_work(destination, where)
    # Of today, so that the destination remembers the sequence.
    records = simple_records(100, timestamp=int(time.time() * 1000))
    asyncio.run(produce(source, topic_name, 0, list(in_batches(records, 10))))

    async def last_sequence() -> int:
        async with ClusterClient(settings_of(destination)) as client:
            producers = (await client.describe_producers([where]))[where]
            assert isinstance(producers, tuple)
            (producer,) = producers
            return producer.last_sequence

    async def identity() -> ProducerIdentity:
        async with ClusterClient(settings_of(destination)) as client:
            return await client.init_producer_id(work.settings.transactional_id, transaction_timeout_ms=10_000)

    # The first batch stands there already, its last record 15 below the highest sequence.
    batch = with_producer(build_batch(records[:10]), asyncio.run(identity()), 2**31 - 1 - 15 - 9)
    asyncio.run(produce(destination, topic_name, 0, [batch]))
    assert asyncio.run(last_sequence()) == 2**31 - 1 - 15
    for end in (30, 100):  # the claim is read once right before and once right after the turn
        row = run_lease(lease_plan(source, [(where, [work])], end=end))[0, "west"]
        assert (row.error, row.position) == (None, end)
    # 90 records after 2^31 - 16: the fifteen up to 2^31 - 1, then 75 from zero on.
    assert asyncio.run(last_sequence()) == 74
    assert assert_equal_in_kafka(source, destination, topic_name) == 100
    assert_clean(destination, [topic_name])


def test_a_lost_answer_to_the_first_request_for_an_identity_is_survived(lossy: Lossy) -> None:
    lossy.write(50)
    cuts = lossy.proxy.cuts
    lossy.proxy.cut_before_answer(INIT_PRODUCER_ID)
    lossy.copy()
    assert lossy.proxy.cuts == cuts + 1
    lossy.assert_equal()
